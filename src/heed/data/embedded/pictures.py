"""Pictures that need no file: scikit-learn's handwritten digits.

8 x 8 grey pixels. Source: Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning
Repository (its test set: 1,797 digits by 13 people).
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from heed.data.embedded import SPLITS, Split
from heed.data.examples import Picture
from heed.data.pictures.store import picture_digest

DIGITS = "digits"


def handwritten() -> tuple[NDArray[np.uint8], list[str]]:
    """The pictures `(1797, 8, 8)`, with their 17 levels scaled to 0 .. 255, and their labels."""
    from sklearn.datasets import load_digits  # takes a second

    digits = load_digits()
    return np.rint(digits.images * (255 / 16)).astype(np.uint8), [str(int(label)) for label in digits.target]


def draw_digits(sizes: dict[Split, int], seed: int) -> tuple[dict[Split, list[Picture]], NDArray[np.uint8]]:
    """Digits for splits of these sizes, stratified by class, and the pixels of all digits.

    The seed decides the order; test digits are taken first, so that they depend only on their number.
    """
    images, labels = handwritten()
    examples = [
        Picture(picture_digest(image), label, f"{DIGITS}#{i}", f"{DIGITS}#{i}")
        for i, (image, label) in enumerate(zip(images, labels, strict=True))
    ]
    order = sorted(range(len(examples)), key=lambda i: hashlib.blake2b(f"{seed}:{i}".encode(), digest_size=8).digest())
    rank = dict.fromkeys(labels, 0)
    total = {label: labels.count(label) for label in rank}
    place: list[tuple[float, int]] = []  # example j of the m of a class is at (j + 1/2) / m
    for i in order:
        place.append(((rank[labels[i]] + 0.5) / total[labels[i]], i))
        rank[labels[i]] += 1
    spread = [i for _, i in sorted(place, key=lambda item: item[0])]
    drawn: dict[Split, list[Picture]] = {}
    for split in reversed(SPLITS):
        drawn[split], spread = [examples[i] for i in spread[: sizes[split]]], spread[sizes[split] :]
    return {split: drawn[split] for split in SPLITS}, images
