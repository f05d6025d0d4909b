"""A look at one picture as data: the picture, maps over it, a gallery of all heads, and distances.

Mean attention distance is how far apart in a picture patches are that attend to each other.

Source: Dosovitskiy et al. 2021 (arXiv:2010.11929), figure 7 right and appendix D.7: the distance between the querying
patch and every other one, weighted by the attention weights, averaged over patches and pictures.
Differs from the paper: distances are between the centres of patches, in pixels of the picture that the model reads;
the weight on the class token is left out, and the rest of the row is rescaled to sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.errors import ShapeError
from heed.watch.effects import Effect
from heed.watch.maps import Map, Tried, WeightSource


def centre_distances(rows: int, columns: int, step: tuple[float, float]) -> Tensor:
    """Distances in pixels between the centres of the patches of a grid `step` pixels (down, across) apart, `(n, n)`."""
    y = torch.arange(rows, dtype=torch.float64).repeat_interleave(columns) * step[0]
    x = torch.arange(columns, dtype=torch.float64).repeat(rows) * step[1]
    return torch.hypot(y[:, None] - y[None, :], x[:, None] - x[None, :])


def mean_distances(weights: Tensor, rows: int, columns: int, step: tuple[float, float]) -> Tensor:
    """Mean attention distance of every head, in pixels.

    Args:
        weights: `(batch, heads, tokens, tokens)` of one layer; the patches, row by row, are the last tokens, after any
            others (the class token).
        rows: Rows of the grid of patches.
        columns: Columns of the grid.
        step: Pixels from one patch to the next, down and across.

    Returns:
        `(batch, heads)`.
    """
    count = rows * columns
    among = weights[..., -count:, -count:].double()
    among = among / among.sum(-1, keepdim=True).clamp_min(1e-30)
    return (among * centre_distances(rows, columns, step).to(among.device)).sum(-1).mean(-1)


def even_distance(rows: int, columns: int, step: tuple[float, float]) -> float:
    """The mean distance of uniform attention."""
    return float(centre_distances(rows, columns, step).mean())


@dataclass(frozen=True)
class Distances:
    """Mean attention distance by layer, for a plot."""

    values: Tensor  # `(layers, heads)` in pixels, the mean over pictures
    even: float  # the mean distance of uniform attention
    size: tuple[int, int]  # height and width of the model's input in pixels
    pictures: int  # number of pictures averaged over
    panel = "distances"

    @property
    def caption(self) -> str:
        """What the numbers are, and from how many pictures."""
        pictures = "this picture" if self.pictures == 1 else f"mean of {self.pictures:,} pictures"
        return (
            "Distance in pixels between attending and attended patches, weighted by attention (the model reads "
            f"{self.size[1]} x {self.size[0]} pixels; {pictures})."
        )


GridPlace = tuple[int, int]
"""Row and column on a grid, from 0."""


@dataclass(frozen=True)
class PictureMap(Tried):
    """Numbers on a grid over a picture: attention weights, or made of the gradient of a class's score."""

    title: str
    weights: Tensor  # `(rows, columns)`, 0 and above unless they are signed
    area: Box  # the part of the picture that the grid covers, in cells of equal size
    unit: str = "weight"  # name of the numbers: "weight", "gradient", "activation"
    query: GridPlace | None = None  # the place of the attending patch, or None
    outside: float = 0.0  # the weight on tokens without a place in the picture (the class token)
    caption: str = ""  # how to read the map
    marked: Box | None = None  # a box of the picture to outline (the receptive field of a unit), or None
    short: str = ""  # label in a gallery
    # the part of the picture over which the map is drawn, its outer cells extended to the edges; `area` by default
    reach: Box | None = None
    signed: bool = False  # True if numbers may be below 0; those are drawn in another colour
    opens: WeightSource | None = field(
        default=None, compare=False
    )  # what weights of attention came from; None for others
    effect: Effect | None = None  # what the label does under other weights; None if nothing was tried
    most: float | None = None  # the number drawn brightest, for maps on one scale; by default the largest
    panel: str = field(default="map", compare=False)  # its name for `--panels`

    def __post_init__(self) -> None:
        if not self.signed and bool((self.weights < 0).any()):
            raise ShapeError(f"weights of '{self.title}' are below 0, which only a signed map can show")
        if self.weights.dim() != 2 or not self.weights.numel():
            raise ShapeError(f"weights of '{self.title}' have shape {tuple(self.weights.shape)}, expected a grid")

    @property
    def grid(self) -> GridPlace:
        """Rows and columns."""
        return self.weights.shape[0], self.weights.shape[1]

    @property
    def largest(self) -> float:
        """The largest number, or the largest absolute value, drawn brightest; or `most`."""
        if self.most is not None:
            return self.most
        return float((self.weights.abs() if self.signed else self.weights).max())

    @property
    def scale(self) -> str:
        """The range of the colours and the name of the numbers."""
        low = f"{-self.largest:.3g} (orange)" if self.signed else "0"
        return f"{low} to {self.largest:.3g} ({self.unit})"

    def levels(self) -> Tensor:
        """The numbers as shares of the largest, up to 1; zeros where all are zero."""
        return self.weights.detach().cpu().double() / self.largest if self.largest > 0 else self.weights.double() * 0

    def cell(self, row: int, column: int) -> Box:
        """The part of the picture that one cell covers."""
        rows, columns = self.grid
        return part_of(self.area, row / rows, column / columns, (row + 1) / rows, (column + 1) / columns)

    def best(self) -> GridPlace:
        """The place of the largest number (the first of equal ones)."""
        return divmod(int(self.weights.argmax()), self.grid[1])


def part_of(box: Box, top: float, left: float, bottom: float, right: float) -> Box:
    """A part of a box, given as fractions of its height and width."""
    height, width = box.bottom - box.top, box.right - box.left
    return Box(box.top + top * height, box.left + left * width, box.top + bottom * height, box.left + right * width)


def area_of(seen: Box, size: GridPlace, first: tuple[float, float], step: tuple[float, float], grid: GridPlace) -> Box:
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
    """Small maps in rows: the heads of each layer."""

    title: str
    caption: str
    rows: tuple[tuple[str, tuple[PictureMap, ...]], ...]  # the name of each row, and its maps


@dataclass(frozen=True)
class Attentions:
    """All recorded attention of a model, for an interactive page."""

    grid: GridPlace  # rows and columns of patches
    area: Box  # the part of the picture that the patches cover
    maps: tuple[Map, ...]  # over all tokens; the patches, row by row, are the last

    @property
    def leading(self) -> int:
        """Number of tokens before the patches."""
        return len(self.maps[0].key) - self.grid[0] * self.grid[1]


@dataclass(frozen=True)
class PictureLook:
    """Everything that a look at one picture shows."""

    title: str
    source: str  # file of the picture
    picture: Array  # the whole picture, upright
    seen: Box  # the part of the picture that the model saw
    size: GridPlace  # height and width of the model's input
    label: str  # the predicted label, or number; "" for none
    top: tuple[tuple[str, float], ...]  # the most probable labels with their probabilities, best first
    maps: tuple[PictureMap, ...]  # maps drawn large over the picture
    gallery: Gallery | None = None  # all heads of all layers, or None
    distances: Distances | None = None  # mean attention distance by layer, or None
    notes: tuple[str, ...] = ()  # further lines to show
    every: Attentions | None = None  # attention for a page with a choice of patch, layer and head, or None
    kind: str = "label"  # what was predicted: a label, or a number

    @property
    def pixels(self) -> GridPlace:
        """Height and width of the picture."""
        return self.picture.shape[0], self.picture.shape[1]

    @property
    def sees_all(self) -> bool:
        """True if the model saw the whole picture."""
        (height, width), seen = self.pixels, self.seen
        return seen.top <= 0 and seen.left <= 0 and seen.bottom >= height and seen.right >= width

    @property
    def said(self) -> str:
        """The most probable labels in one line: "7 0.981, 9 0.012"; or the number."""
        return (
            self.label if not self.top else ", ".join(f"{label} {probability:.3f}" for label, probability in self.top)
        )

    def minus(self, other: PictureLook, how: str, name: str = "") -> PictureLook:
        """The look with the differences of its maps from those of another look at the picture, on one scale.

        `how` says in titles what is subtracted; if the other network has a `name`, its maps are added too.
        """
        maps: list[PictureMap] = []
        notes = []
        theirs = {one.title: one for one in other.maps}
        for number, one in enumerate(self.maps):
            there = theirs.get(one.title, other.maps[number] if len(other.maps) == len(self.maps) else None)
            if there is None or there.grid != one.grid:
                maps += [one] if there is None else [one, replace(there, title=f"{there.title}, of {name}", opens=None)]
                why = "there is none" if there is None else f"its grid is {there.grid[0]} x {there.grid[1]}"
                notes.append(f"{one.title}: nothing is subtracted: {why}")
                continue
            most, caption = max(one.largest, there.largest), ""
            if one.unit == "weight":
                far = float((one.weights - there.weights).abs().sum()) + abs(one.outside - there.outside)
                same = "the same patch" if one.best() == there.best() else "different patches"
                caption = f"Largest weights on {same}. Distance: {far / 2:.2f}, the total variation."
            beside = [replace(there, title=f"{there.title}, of {name}", most=most, opens=None)] if name else []
            difference = replace(one, title=f"{one.title}: {how}", weights=one.weights - there.weights, signed=True,
                                 caption=caption, opens=None, outside=one.outside - there.outside)  # fmt: skip
            maps += [replace(each, most=most) for each in (one, *beside, difference)]
        return replace(self, maps=tuple(maps), notes=(*self.notes, *notes))

    def only(self, index: int) -> PictureLook:
        """The look with only one of its maps, without gallery and distances."""
        return replace(self, maps=(self.maps[index],), gallery=None, distances=None)
