"""Pictures of an arrow that points at one of three figures, for classification.

    python examples/data/shapes.py shapes
    heed train images shapes

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from arguments import arguments, sizes_of
from heed.data.embedded import Split, split_of
from heed.errors import DataError

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
    split: Split,
    count: int,
    seed: int,
    *,
    size: tuple[int, int] = (32, 32),
    distance: int = 16,
    colours: bool = False,
    noise: float = 0.05,
) -> tuple[NDArray[np.uint8], list[str]]:
    """The first `count` pictures of a split, `(count, height, width)` or `(..., 3)`, and their labels.

    The arrangement decides the split, so that no arrangement of the training pictures is in another split, whatever
    the noise and seed. All labels are equally likely.

    Args:
        split: Name of the split.
        count: Number of pictures.
        seed: Seed of the drawing.
        size: Height and width in pixels.
        distance: Pixels from the arrow to the nearest figures, between centres, before each is moved.
        colours: Give each figure a random, uninformative colour.
        noise: Standard deviation of the normal noise on each number, as a share of full brightness.

    Raises:
        DataError: Figures of this distance overlap or do not fit.
    """
    check_distance(size, distance)
    chosen = list(islice(arrangements(split, seed, size, distance, colours), count))
    plain = np.array([one.drawn(*size) for one in chosen])
    return _with_noise(plain, noise, Random(f"{seed}:{split}:noise").getrandbits(32)), [one.label for one in chosen]


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
        DataError: The distance is invalid.
    """
    least, largest = FIGURE_SIZE + 2 * MOVED, min(size) - FIGURE_SIZE - 2 * MOVED
    if not least <= distance <= largest:
        room = (
            f"expected {least} to {largest}: figures of {FIGURE_SIZE} pixels, moved by {MOVED}, must fit without "
            "overlapping"
            if largest >= least
            else f"which is too small for two figures of {FIGURE_SIZE} pixels; use a size of {2 * least} or more"
        )
        raise DataError(f"distance is {distance} in pictures of {size[0]} x {size[1]} pixels, {room}")


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


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__, 8_000, 500, 1_000)
    parser.add_argument("--size", type=int, default=32, help="pixels of each side (32)")
    parser.add_argument("--distance", type=int, default=16, help="pixels from the arrow to the nearest figures (16)")
    options = parser.parse_args(given)
    size = (options.size, options.size)
    for split, count in sizes_of(options).items():
        pictures, labels = draw_shapes(split, count, options.seed, size=size, distance=options.distance)
        for number, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
            path = options.folder / split / label / f"{number:05}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(path)


if __name__ == "__main__":
    main()
