"""Pictures that need no file: scikit-learn's handwritten digits, and an arrow that points at one of three figures.

Digits: 8 x 8 grey pixels. Source: Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine
Learning Repository (its test set: 1,797 digits by 13 people).

Shapes: an arrow and three figures are at the corners of a square; the label is the figure the arrow points at. The
arrow is at the upper left and points right, down, or across to the opposite corner; the figures are of different kinds:

    arrow right  plus        arrow down  plus         arrow across  plus
    cross        square      cross       square       cross         square
    plus                     cross                    square

The set of figures in a picture does not reveal which one is the label. A sum of scores of parts of the picture, each of
which touches one figure only, therefore has its best cross-entropy if it gives each of the three a third: to decide, a
model has to see arrow and figure together, which are about `distance` pixels apart. The square is anywhere in the
picture, and each figure is moved by at most a pixel, so that pictures are not memorised. A square window of fewer than
`distance - 5` pixels never touches two figures, and one of `distance + 7` can contain all four.

Source of the shapes: E18 and E19 of the lecture notes' claims ("CNN is local"); the pictures are ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from random import Random

import numpy as np
from numpy.typing import NDArray

from heed.data.embedded.generated import Split, split_of
from heed.data.examples import Picture
from heed.data.pictures.source import picture_digest
from heed.errors import DataError

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
    spread = [i for _, i in sorted(place, key=lambda one: one[0])]
    drawn: dict[Split, list[Picture]] = {}
    order_of_splits: tuple[Split, ...] = ("test", "valid", "train")
    for split in order_of_splits:
        taken, spread = spread[: sizes[split]], spread[sizes[split] :]
        drawn[split] = [examples[i] for i in taken]
    return {"train": drawn["train"], "valid": drawn["valid"], "test": drawn["test"]}, images


SHAPES = "shapes"
"""Prefix of the places of these pictures."""

FIGURES = {
    "plus": ("..#..", "..#..", "#####", "..#..", "..#.."),
    "cross": ("#...#", ".#.#.", "..#..", ".#.#.", "#...#"),
    "square": ("#####", "#...#", "#...#", "#...#", "#####"),
    "diamond": ("..#..", ".#.#.", "#...#", ".#.#.", "..#.."),
}
"""Figures by kind, row by row; the kinds are the labels."""

ARROWS = {
    "right": ("..#..", "...#.", "#####", "...#.", "..#.."),
    "down": ("..#..", "..#..", "#.#.#", ".###.", "..#.."),
    "across": ("#....", ".#..#", "..#.#", "...##", ".####"),
}
"""Arrows by the corner they point at: upper right, lower left, lower right."""

FIGURE_SIZE = 5
"""Width and height in pixels of a figure or an arrow."""

MOVED = 1
"""Most pixels by which each figure is moved, along rows and along columns."""

COLOURS = ((255, 64, 64), (64, 255, 64), (96, 96, 255), (255, 255, 64), (255, 64, 255), (64, 255, 255))
"""Colours of figures, as red, green and blue."""

_DARK, _BRIGHT = 64, 192
"""Brightness of background and figures before noise, with room for noise."""
_TOGETHER = 1_000
"""Pictures whose noise is drawn at a time."""


@dataclass(frozen=True)
class Arrangement:
    """The content of a picture without noise."""

    arrow: str  # direction of the arrow
    kinds: tuple[str, ...]  # figures at the upper right, the lower left and the lower right
    corners: tuple[tuple[int, int], ...]  # first row and column of the arrow and of each figure
    colours: tuple[int, ...] = ()  # index in `COLOURS` of each of the four; empty for a grey picture

    @property
    def label(self) -> str:
        """The figure that the arrow points at."""
        return self.kinds[list(ARROWS).index(self.arrow)]

    def drawn(self, height: int, width: int) -> NDArray[np.uint8]:
        """The picture without noise, `(height, width)`, or `(height, width, 3)` if figures have colours."""
        shape = (height, width, 3) if self.colours else (height, width)
        picture = np.full(shape, _DARK, dtype=np.uint8)
        shown = [ARROWS[self.arrow], *(FIGURES[kind] for kind in self.kinds)]
        for i, (lines, (row, column)) in enumerate(zip(shown, self.corners, strict=True)):
            inside = np.array([[mark == "#" for mark in line] for line in lines])
            window = picture[row : row + FIGURE_SIZE, column : column + FIGURE_SIZE]
            window[inside] = COLOURS[self.colours[i]] if self.colours else _BRIGHT
        return picture


def draw_shapes(
    sizes: dict[Split, int],
    seed: int,
    *,
    size: tuple[int, int] = (32, 32),
    distance: int = 16,
    colours: bool = False,
    noise: float = 0.05,
) -> tuple[dict[Split, list[Picture]], NDArray[np.uint8]]:
    """Pictures for splits of these sizes, and the pixels of all, `(number, height, width)` or `(..., 3)`.

    The arrangement decides the split, so that no arrangement of the training pictures is in another split, whatever
    the noise and seed. All labels are equally likely.

    Args:
        sizes: Number of pictures of each split.
        seed: Seed of the drawing; a smaller split is the beginning of a larger one.
        size: Height and width in pixels.
        distance: Pixels from the arrow to the nearest figures, between centres, before each is moved.
        colours: Give each figure a random, uninformative colour.
        noise: Standard deviation of the normal noise on each number, as a share of full brightness.

    Raises:
        DataError: Figures of this distance overlap or do not fit.
    """
    check_distance(size, distance)
    drawn: dict[Split, list[Picture]] = {}
    pixels: list[NDArray[np.uint8]] = []
    first = 0
    for split, count in sizes.items():
        chosen = list(islice(arrangements(split, seed, size, distance, colours), count))
        plain = np.array([one.drawn(*size) for one in chosen])
        noisy = _with_noise(plain, noise, Random(f"{seed}:{split}:noise").getrandbits(32))
        digests = [blake2b(repr(array.shape).encode() + array.tobytes(), digest_size=16).hexdigest() for array in noisy]
        places = [f"{SHAPES}#{first + i}" for i in range(count)]
        drawn[split] = [
            Picture(digest, one.label, place, place) for digest, one, place in zip(digests, chosen, places, strict=True)
        ]
        pixels.append(noisy)
        first += count
    return drawn, np.concatenate(pixels)


def arrangements(split: Split, seed: int, size: tuple[int, int], distance: int, colours: bool) -> Iterator[Arrangement]:
    """The arrangements of a split, endless and the same each time for a seed."""
    rng = Random(f"{seed}:{split}")
    rows, columns = (side - distance - FIGURE_SIZE - 2 * MOVED + 1 for side in size)
    while True:
        arrow, kinds = rng.choice(list(ARROWS)), rng.sample(list(FIGURES), 3)
        top, left = rng.randrange(rows), rng.randrange(columns)
        corners = tuple(
            (top + down + rng.randint(0, 2 * MOVED), left + right + rng.randint(0, 2 * MOVED))
            for down in (0, distance)
            for right in (0, distance)
        )
        hues = tuple(rng.randrange(len(COLOURS)) for _ in range(4)) if colours else ()
        drawn = Arrangement(arrow, tuple(kinds), corners, hues)
        if split_of(f"shapes:{drawn}") == split:  # there are at least 470,000 arrangements
            yield drawn


def check_distance(size: tuple[int, int], distance: int) -> None:
    """Refuse figures that overlap or do not fit into the picture.

    Raises:
        DataError: The distance is invalid; the message names the field.
    """
    least, largest = FIGURE_SIZE + 2 * MOVED, min(size) - FIGURE_SIZE - 2 * MOVED
    if not least <= distance <= largest:
        room = (
            f"expected {least} to {largest}: figures of {FIGURE_SIZE} pixels, moved by {MOVED}, must fit without "
            "overlapping"
            if largest >= least
            else f"which is too small for two figures of {FIGURE_SIZE} pixels; use data.size={2 * least} or more"
        )
        raise DataError(f"data.distance is {distance} in pictures of {size[0]} x {size[1]} pixels, {room}")


def _with_noise(plain: NDArray[np.uint8], noise: float, seed: int) -> NDArray[np.uint8]:
    """Pictures with normal noise on each number, clamped to 0 .. 255."""
    if not noise:
        return plain
    rng = np.random.RandomState(seed)  # NumPy guarantees that its numbers stay the same
    noisy = np.empty_like(plain)
    for begin in range(0, len(plain), _TOGETHER):
        part = plain[begin : begin + _TOGETHER]
        noisy[begin : begin + _TOGETHER] = np.clip(np.rint(part + rng.normal(0, 255 * noise, part.shape)), 0, 255)
    return noisy
