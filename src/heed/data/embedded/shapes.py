"""Pictures of four figures on the corners of a square; the label says whether opposite corners show the same figure.

Two figures are of one kind and two of another, always, so that what is in a picture never tells its label; only what
stands where does. Alike are either opposite corners ("same"), or the corners of a row or of a column ("different"):

    plus  cross      plus  plus       plus  cross
    cross plus       cross cross      plus  cross
    same             different        different

The two kinds can change places without changing the label. A sum of scores of parts of the picture, each of which
touches one figure only, is therefore best (in cross-entropy) where it says nothing: to decide, a model has to see
figures together that are about `distance` pixels apart. The square stands anywhere in the picture, and each figure is
moved by a pixel at most, so that pictures are not learned by heart. A square window of fewer than `distance - 5` pixels
never touches two figures, and one of `distance + 7` can hold all four.

Source: E18 and E19 of the lecture notes' claims ("CNN is local"); the pictures are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from random import Random

import numpy as np
from numpy.typing import NDArray

from heed.data.embedded.generated import Split, split_of
from heed.data.examples import Picture
from heed.errors import DataError

NAME = "shapes"
"""What the places of these pictures begin with."""

FIGURES = {
    "plus": ("..#..", "..#..", "#####", "..#..", "..#.."),
    "cross": ("#...#", ".#.#.", "..#..", ".#.#.", "#...#"),
    "square": ("#####", "#...#", "#...#", "#...#", "#####"),
    "diamond": ("..#..", ".#.#.", "#...#", ".#.#.", "..#.."),
}
"""Figures by kind, row by row."""

FIGURE_SIZE = 5
"""Pixels of a figure from side to side."""

MOVED = 1
"""Pixels by which each figure is moved at most, along rows and along columns."""

LABELS = ("different", "same")

COLOURS = ((255, 64, 64), (64, 255, 64), (96, 96, 255), (255, 255, 64), (255, 64, 255), (64, 255, 255))
"""Red, green and blue of the colours of figures."""

_ALIKE = {"same": ("ABBA",), "different": ("AABB", "ABAB")}
"""Which corners are alike: top left, top right, bottom left, bottom right."""
_DARK, _BRIGHT = 64, 192
"""Background and figures before noise; both leave room for it."""
_TOGETHER = 1_000
"""Pictures whose noise is drawn at a time."""


@dataclass(frozen=True)
class Arrangement:
    """What a picture shows but for its noise.

    Attributes:
        kinds: Figures at top left, top right, bottom left and bottom right.
        corners: First row and column of each.
        colours: Number of the colour of each in `COLOURS`; none in a grey picture.
    """

    kinds: tuple[str, str, str, str]
    corners: tuple[tuple[int, int], ...]
    colours: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """Whether opposite corners show the same figure."""
        return "same" if self.kinds[0] == self.kinds[3] else "different"

    def drawn(self, height: int, width: int) -> NDArray[np.uint8]:
        """The picture without noise, `(height, width)`, or `(height, width, 3)` where figures have colours."""
        shape = (height, width, 3) if self.colours else (height, width)
        picture = np.full(shape, _DARK, dtype=np.uint8)
        for i, (kind, (row, column)) in enumerate(zip(self.kinds, self.corners, strict=True)):
            inside = np.array([[mark == "#" for mark in line] for line in FIGURES[kind]])
            window = picture[row : row + FIGURE_SIZE, column : column + FIGURE_SIZE]
            window[inside] = COLOURS[self.colours[i]] if self.colours else _BRIGHT
        return picture


def draw_shapes(
    sizes: dict[Split, int],
    seed: int,
    *,
    size: tuple[int, int] = (32, 32),
    distance: int = 16,
    kinds: int = 4,
    colours: bool = False,
    noise: float = 0.1,
) -> tuple[dict[Split, list[Picture]], NDArray[np.uint8]]:
    """So many pictures for each split, and the pixels of all, `(number, height, width)` or with 3 channels at the end.

    What a picture shows decides its split, so that no arrangement of the training pictures is in another split, under
    whatever noise and seed. Both labels are equally likely.

    Args:
        sizes: Number of pictures of each split.
        seed: Decides what is drawn; a smaller split is the beginning of a larger one.
        size: Height and width in pixels.
        distance: Pixels from a figure to the next, from middle to middle, before each is moved.
        kinds: Kinds of figures that are drawn from, 2 to 4.
        colours: Give each figure a colour of its own, which says nothing.
        noise: Standard deviation of the normal noise on each pixel, as a share of full brightness.

    Raises:
        DataError: Figures of this distance overlap or do not fit, or there are not that many kinds.
    """
    check_shapes(size, distance, kinds)
    drawn: dict[Split, list[Picture]] = {}
    pixels: list[NDArray[np.uint8]] = []
    first = 0
    for split, count in sizes.items():
        chosen = list(islice(arrangements(split, seed, size, distance, kinds, colours), count))
        plain = np.array([one.drawn(*size) for one in chosen])
        noisy = _with_noise(plain, noise, Random(f"{seed}:{split}:noise").getrandbits(32))
        digests = [blake2b(repr(array.shape).encode() + array.tobytes(), digest_size=16).hexdigest() for array in noisy]
        places = [f"{NAME}#{first + i}" for i in range(count)]
        drawn[split] = [
            Picture(digest, one.label, place, place) for digest, one, place in zip(digests, chosen, places, strict=True)
        ]
        pixels.append(noisy)
        first += count
    return drawn, np.concatenate(pixels)


def arrangements(
    split: Split, seed: int, size: tuple[int, int], distance: int, kinds: int, colours: bool
) -> Iterator[Arrangement]:
    """The arrangements of a split, without end: the same each time for a seed, each label in half of them."""
    rng = Random(f"{seed}:{split}")
    names = list(FIGURES)[:kinds]
    rows, columns = (side - distance - FIGURE_SIZE - 2 * MOVED + 1 for side in size)

    def draw(label: str) -> Arrangement:
        a, b = rng.sample(names, 2)
        one, two, three, four = (a if letter == "A" else b for letter in rng.choice(_ALIKE[label]))
        top, left = rng.randrange(rows), rng.randrange(columns)
        corners = tuple(
            (top + down + rng.randint(0, 2 * MOVED), left + right + rng.randint(0, 2 * MOVED))
            for down in (0, distance)
            for right in (0, distance)
        )
        hues = tuple(rng.randrange(len(COLOURS)) for _ in range(4)) if colours else ()
        return Arrangement((one, two, three, four), corners, hues)

    while True:
        label = rng.choice(LABELS)  # kept while others are drawn, or a split could have more of one
        drawn = draw(label)
        while split_of(f"shapes:{drawn}") != split:  # there are 13,000 arrangements and more of each label
            drawn = draw(label)
        yield drawn


def check_shapes(size: tuple[int, int], distance: int, kinds: int) -> None:
    """Refuse figures that overlap or do not fit into the picture.

    Raises:
        DataError: It names the field.
    """
    least, largest = FIGURE_SIZE + 2 * MOVED, min(size) - FIGURE_SIZE - 2 * MOVED
    if not least <= distance <= largest:
        room = (
            f"expected {least} to {largest}: figures of {FIGURE_SIZE} pixels, moved by {MOVED}, must not overlap and "
            "have to fit"
            if largest >= least
            else f"which is too small for two figures of {FIGURE_SIZE} pixels; use data.size={2 * least} or more"
        )
        raise DataError(f"data.distance is {distance} in pictures of {size[0]} x {size[1]} pixels, {room}")
    if not 2 <= kinds <= len(FIGURES):
        raise DataError(f"data.kinds is {kinds}, expected 2 to {len(FIGURES)} ({', '.join(FIGURES)})")


def _with_noise(plain: NDArray[np.uint8], noise: float, seed: int) -> NDArray[np.uint8]:
    """Pictures with normal noise on each number, kept within 0 to 255."""
    if not noise:
        return plain
    rng = np.random.RandomState(seed)  # NumPy promises that its numbers stay the same
    noisy = np.empty_like(plain)
    for begin in range(0, len(plain), _TOGETHER):
        part = plain[begin : begin + _TOGETHER]
        noisy[begin : begin + _TOGETHER] = np.clip(np.rint(part + rng.normal(0, 255 * noise, part.shape)), 0, 255)
    return noisy
