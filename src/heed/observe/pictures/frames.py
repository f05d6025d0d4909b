"""A look at one picture as data: the picture, maps over it, a gallery of all heads, distances, and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.errors import ShapeError
from heed.observe.pictures.distance import Distances

Place = tuple[int, int]
"""Row and column on a grid, from 0."""


@dataclass(frozen=True)
class PictureMap:
    """Numbers on a grid over a picture: attention weights, or how much a class's score depends on each place.

    Attributes:
        title: Title.
        weights: `(rows, columns)`, 0 and above.
        area: The part of the picture that the grid covers, in cells of equal size.
        unit: Name of the numbers: "weight", "gradient", "activation".
        query: The place of the attending patch, or None.
        outside: The weight on tokens without a place in the picture (the class token).
        caption: How to read the map.
        marked: A box of the picture to outline (the receptive field of a unit), or None.
        short: Label in a gallery.
        reach: The part of the picture over which the map is drawn, its outer cells extended to the edges; `area` by
            default.
    """

    title: str
    weights: Tensor
    area: Box
    unit: str = "weight"
    query: Place | None = None
    outside: float = 0.0
    caption: str = ""
    marked: Box | None = None
    short: str = ""
    reach: Box | None = None

    def __post_init__(self) -> None:
        if self.weights.dim() != 2 or not self.weights.numel():
            raise ShapeError(f"weights of '{self.title}' have shape {tuple(self.weights.shape)}, expected a grid")

    @property
    def grid(self) -> Place:
        """Rows and columns."""
        return self.weights.shape[0], self.weights.shape[1]

    @property
    def largest(self) -> float:
        """The largest number, drawn brightest."""
        return float(self.weights.max())

    def levels(self) -> Tensor:
        """The numbers as shares of the largest, 0 to 1; zeros where all are zero."""
        return self.weights.detach().cpu().double() / self.largest if self.largest > 0 else self.weights.double() * 0

    def cell(self, row: int, column: int) -> Box:
        """The part of the picture that one cell covers."""
        rows, columns = self.grid
        return part_of(self.area, row / rows, column / columns, (row + 1) / rows, (column + 1) / columns)

    def best(self) -> Place:
        """The place of the largest number (the first of equal ones)."""
        return divmod(int(self.weights.argmax()), self.grid[1])


def part_of(box: Box, top: float, left: float, bottom: float, right: float) -> Box:
    """A part of a box, given as fractions of its height and width."""
    height, width = box.bottom - box.top, box.right - box.left
    return Box(box.top + top * height, box.left + left * width, box.top + bottom * height, box.left + right * width)


def area_of(seen: Box, size: Place, first: tuple[float, float], step: tuple[float, float], grid: Place) -> Box:
    """The part of a picture that a grid of cells covers.

    Args:
        seen: The part of the picture that the model saw.
        size: Height and width of the model's input.
        first: Start of the first cell, in pixels of the input (down, across).
        step: Height and width of a cell in pixels of the input.
        grid: Rows and columns.
    """
    ends = (first[0] + step[0] * grid[0], first[1] + step[1] * grid[1])
    return part_of(seen, first[0] / size[0], first[1] / size[1], ends[0] / size[0], ends[1] / size[1])


@dataclass(frozen=True)
class Gallery:
    """Small maps in rows: the heads of each layer.

    Attributes:
        rows: The name of each row, and its maps.
    """

    title: str
    caption: str
    rows: tuple[tuple[str, tuple[PictureMap, ...]], ...]


@dataclass(frozen=True)
class Figure:
    """A small picture with a caption; `enlarged` is its magnification."""

    caption: str
    picture: Array
    enlarged: int = 1


@dataclass(frozen=True)
class Table:
    """Rows of text with column headings."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Step:
    """One step from the picture to its label: explanation, small pictures, numbers."""

    title: str
    prose: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    table: Table | None = None


@dataclass(frozen=True)
class Attentions:
    """All recorded attention of a model, for an interactive page.

    Attributes:
        grid: Rows and columns of patches.
        area: The part of the picture that the patches cover.
        weights: `(tokens, patches)` by name of layer and head; the class token, if any, is the first token.
    """

    grid: Place
    area: Box
    weights: dict[str, Tensor]


@dataclass(frozen=True)
class PictureLook:
    """Everything that a look at one picture shows.

    Attributes:
        source: File of the picture.
        picture: The whole picture, upright.
        seen: The part of the picture that the model saw.
        size: Height and width of the model's input.
        label: The predicted label; "" for none.
        top: The most probable labels with their probabilities, best first.
        maps: Maps drawn large over the picture.
        gallery: All heads of all layers, or None.
        distances: Mean attention distance by layer, or None.
        steps: The steps from the picture to its label.
        notes: Further lines to show.
        every: Attention for a page with a choice of patch, layer and head, or None.
    """

    title: str
    source: str
    picture: Array
    seen: Box
    size: Place
    label: str
    top: tuple[tuple[str, float], ...]
    maps: tuple[PictureMap, ...]
    gallery: Gallery | None = None
    distances: Distances | None = None
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    every: Attentions | None = None

    @property
    def said(self) -> str:
        """The most probable labels in one line: "7 0.981, 9 0.012"."""
        return ", ".join(f"{label} {probability:.3f}" for label, probability in self.top)

    def only(self, index: int) -> PictureLook:
        """The look with only one of its maps, without gallery and distances."""
        return replace(self, maps=(self.maps[index],), gallery=None, distances=None)


def plain_look(look: PictureLook) -> dict[str, Any]:
    """A look as plain values for JSON: boxes and grids, no pixels."""
    return {
        "title": look.title,
        "source": look.source,
        "picture": {"height": look.picture.shape[0], "width": look.picture.shape[1]},
        "seen": _plain_box(look.seen),
        "read": {"height": look.size[0], "width": look.size[1]},
        "label": look.label,
        "probabilities": dict(look.top),
        "notes": list(look.notes),
        "maps": [_plain_map(one) for one in look.maps],
        "heads": [
            {"row": name, "maps": [_plain_map(one) for one in maps]}
            for name, maps in (look.gallery.rows if look.gallery is not None else ())
        ],
        "distances": None if look.distances is None else plain_distances(look.distances),
        "steps": [
            {
                "title": step.title,
                "prose": list(step.prose),
                "table": None if step.table is None else [list(step.table.heads), *map(list, step.table.rows)],
            }
            for step in look.steps
        ],
    }


def _plain_box(box: Box) -> dict[str, float]:
    return {name: round(value, 6) for name, value in zip(("top", "left", "bottom", "right"), box, strict=True)}


def _plain_map(one: PictureMap) -> dict[str, Any]:
    return {
        "title": one.title,
        "unit": one.unit,
        "caption": one.caption,
        "query": None if one.query is None else list(one.query),
        "outside": round(one.outside, 6),
        "area": _plain_box(one.area),
        "marked": None if one.marked is None else _plain_box(one.marked),
        "weights": rounded(one.weights),
    }


def plain_distances(distances: Distances) -> dict[str, Any]:
    """Distances as plain values for JSON."""
    return {
        "unit": "pixels of what the model reads",
        "pictures": distances.pictures,
        "even": round(distances.even, 6),
        "layers": rounded(distances.values),
    }


def rounded(values: Tensor) -> list[list[float]]:
    """A matrix as numbers with six decimals."""
    rows: Sequence[Sequence[float]] = values.detach().cpu().double().tolist()
    return [[round(value, 6) + 0.0 for value in row] for row in rows]
