"""A look at one picture as data: the picture, maps over it, a gallery of all heads, and distances.

The maps are recorded attention of a model that reads patches, or made from the gradient of the score of a class at each
place; the latter need no attention, so they can compare a convolutional network with a Vision Transformer.

Mean attention distance is how far apart in a picture patches are that attend to each other.

Source: Dosovitskiy et al. 2021 (arXiv:2010.11929), figure 7 right and appendix D.7: the distance between the querying
patch and every other one, weighted by the attention weights, averaged over patches and pictures.
Differs from the paper: distances are between the centres of patches, in pixels of the picture that the model reads;
the weight on the class token is left out, and the rest of the row is rescaled to sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.errors import ConfigError, ShapeError
from heed.watch.attribution import Picture
from heed.watch.effects import Effect
from heed.watch.looks import ROLLOUT, Choice
from heed.watch.maps import Axis, Map, WeightSource, WithEffect
from heed.watch.trace import Trace, rolled_out


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
        """The meaning of the numbers, and the number of pictures."""
        pictures = "this picture" if self.pictures == 1 else f"mean of {self.pictures:,} pictures"
        return (
            "Distance in pixels between attending and attended patches, weighted by attention (the model reads "
            f"{self.size[1]} x {self.size[0]} pixels; {pictures})."
        )


GridPlace = tuple[int, int]
"""Row and column on a grid, from 0."""


@dataclass(frozen=True)
class PictureMap(WithEffect):
    """Numbers on a grid over a picture: attention weights, or numbers from the gradient of a class's score."""

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
    weight_source: WeightSource | None = field(default=None, compare=False)  # of weights of attention; None for others
    effect: Effect | None = None  # of other weights on the label; None if it was not computed
    # the number drawn brightest, for maps on one scale; by default the largest
    vmax: float | None = field(default=None, metadata={"json": "most"})
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
        """The number drawn brightest: `vmax`, or the largest number or absolute value."""
        if self.vmax is not None:
            return self.vmax
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
    kind: str = "label"  # of the prediction: a label, or a number

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
    def prediction(self) -> str:
        """The most probable labels in one line: "7 0.981, 9 0.012"; or the number."""
        return ", ".join(f"{label} {probability:.3f}" for label, probability in self.top) or self.label

    def minus(self, other: PictureLook, how: str, name: str = "") -> PictureLook:
        """The look with the differences of its maps from those of another look at the picture, on one scale.

        `how` says in titles what is subtracted; if the other network has a `name`, its maps are added too.
        """
        maps: list[PictureMap] = []
        notes = []
        theirs = {map.title: map for map in other.maps}
        for number, map in enumerate(self.maps):
            match = theirs.get(map.title, other.maps[number] if len(other.maps) == len(self.maps) else None)
            named = None if match is None else replace(match, title=f"{match.title}, of {name}", weight_source=None)
            if match is None or named is None or match.grid != map.grid:
                maps += [map] if named is None else [map, named]
                why = "there is none" if match is None else f"its grid is {match.grid[0]} x {match.grid[1]}"
                notes.append(f"{map.title}: nothing is subtracted: {why}")
                continue
            vmax, caption = max(map.largest, match.largest), ""
            if map.unit == "weight":
                distance = float((map.weights - match.weights).abs().sum()) + abs(map.outside - match.outside)
                same = "the same patch" if map.best() == match.best() else "different patches"
                caption = f"Largest weights on {same}. Distance: {distance / 2:.2f}, the total variation."
            difference = replace(map, title=f"{map.title}: {how}", weights=map.weights - match.weights, signed=True,
                                 caption=caption, weight_source=None, outside=map.outside - match.outside)  # fmt: skip
            maps += [replace(each, vmax=vmax) for each in (map, *([named] if name else []), difference)]
        return replace(self, maps=tuple(maps), notes=(*self.notes, *notes))

    def only(self, index: int) -> PictureLook:
        """The look with only one of its maps, without gallery and distances."""
        return replace(self, maps=(self.maps[index],), gallery=None, distances=None)


# From recorded attention and gradients -------------------------------------------------------------------------------


def saliency(picture: Picture) -> Tensor:
    """The absolute gradient of a score with respect to each pixel, maximum over the channels, `(height, width)`.

    Source: Simonyan et al. 2014 (arXiv:1312.6034), section 3.1.
    """
    _, gradients = picture.gradients(picture.vectors.unsqueeze(0))
    return gradients[0].abs().amax(1).view(picture.pixels.shape[1:])


def cells_of(size: GridPlace, grid: GridPlace) -> Tensor:
    """The cell of each pixel of a picture of `size` that is divided into a grid, row by row, `(height * width,)`."""
    row, column = (torch.arange(n) * parts // n for n, parts in zip(size, grid, strict=True))
    return (row[:, None] * grid[1] + column).flatten()


def class_activation(states: Tensor, gradient: Tensor) -> Tensor:
    """Grad-CAM: relu of the sum over k of a_k A^k, with a_k the mean over places of the gradient of the score for A^k.

    Args:
        states: `(d, rows, columns)`, the feature maps A^k.
        gradient: `(d, rows, columns)`, of the class's score, before the softmax, with respect to them.

    Returns:
        `(rows, columns)`, 0 and above.

    Source: Selvaraju et al. 2017 (arXiv:1610.02391), equations 1 and 2.
    """
    return torch.einsum("d,drc->rc", gradient.mean((1, 2)), states).clamp_min(0)


def smoothed(grid: Tensor, height: int, width: int) -> Tensor:
    """A grid `(rows, columns)` interpolated bilinearly to `height x width` pixels, as Grad-CAM is usually shown."""
    return interpolate(grid[None, None].float(), (height, width), mode="bilinear", align_corners=False)[0, 0]


MAX_NUMBERS = 3_000_000
"""Maximum number of weights on an interactive page; for larger models it has only the mean of each layer's heads."""

_MEAN = "mean of {count} heads"


@dataclass(frozen=True)
class Patches:
    """The patches of a model and their places in the picture."""

    grid: GridPlace  # rows and columns
    leading: int  # number of tokens before the patches: 1 with a class token, 2 with a distillation token too, else 0
    size: GridPlace  # height and width of the model's input
    step: tuple[float, float]  # pixels of the input from one patch to the next, down and across
    area: Box  # the part of the picture that the grid covers

    @property
    def count(self) -> int:
        """Number of patches."""
        return self.grid[0] * self.grid[1]

    @property
    def read(self) -> str:
        """The tokens that the label is read from, in words."""
        return ("mean of the patches", "class token", "class and distillation tokens")[self.leading]

    def token(self, place: GridPlace | None) -> int | None:
        """The index of a patch's token; without a place that of the class token, or None if there is none.

        Raises:
            ConfigError: There is no such patch.
        """
        if place is None:
            return 0 if self.leading else None
        row, column = place
        rows, columns = self.grid
        if not (0 <= row < rows and 0 <= column < columns):
            raise ConfigError(
                f"no patch in row {row}, column {column}: this model reads {rows} rows and {columns} columns "
                "of patches, counted from 0"
            )
        return self.leading + row * columns + column

    def on_grid(self, tokens: Tensor) -> Tensor:
        """From numbers of all tokens `(tokens,)`, those of the patches on their grid."""
        return tokens[self.leading :].reshape(self.grid)


class SeenAttention:
    """The self-attention of one picture in every layer of an encoder over patches."""

    def __init__(self, seen: Trace, patches: Patches, mechanism: str = "encoder", entry: int = 0) -> None:
        self.patches = patches
        self.mechanism = mechanism
        self.seen = seen.mechanisms()
        self.layers = sorted(number for name, number in self.seen if name == mechanism)
        maps = [seen.maps(mechanism, number, entries=[entry]) for number in self.layers]
        self.weights = [layer.weights[0].detach().cpu() for layer in maps]
        self.weight_sources = [layer.weight_sources[0] for layer in maps]

    @property
    def num_heads(self) -> int:
        """Heads of each layer."""
        return len(self.weights[0])

    @cached_property
    def rolled(self) -> list[Tensor]:
        """For each layer `(tokens, tokens)`: the share of each input token in each token's state."""
        return [weights[0] for weights in rolled_out(layer[None] for layer in self.weights)]

    def maps(self, choice: Choice, place: GridPlace | None = None) -> list[PictureMap]:
        """The attention of the class token or of a patch: a map for each chosen layer and head.

        Without class token and place, the mean over all attending patches.
        """
        maps = []
        for _, layer in choice.layers(self.seen):
            weights = self.weights[self.layers.index(layer)]
            for head in choice.heads(len(weights)):
                named = _MEAN.format(count=len(weights)) if head is None else f"head {head}"
                title = f"{self._looker(place)}: attention of layer {layer}, {named}"
                drawn = self._map(title, weights.mean(0) if head is None else weights[head], place)
                source = self.weight_sources[self.layers.index(layer)]
                maps.append(replace(drawn, weight_source=replace(source, head=head)))
        return maps

    def rollout_maps(self, choice: Choice, place: GridPlace | None = None) -> list[PictureMap]:
        """Attention rolled out up to each chosen layer."""
        maps = []
        for _, layer in choice.layers(self.seen):
            title = f"{self._looker(place)}: attention rolled out over layers 0 to {layer}"
            maps.append(self._map(title, self.rolled[self.layers.index(layer)], place, _ROLLOUT))
        return maps

    def gallery(self, place: GridPlace | None = None) -> Gallery:
        """Every head of every layer."""
        rows = []
        for layer, weights in zip(self.layers, self.weights, strict=True):
            maps = [self._map(f"layer {layer}, head {head}", head_weights, place, short=f"head {head}")
                    for head, head_weights in enumerate(weights)]  # fmt: skip
            rows.append((f"layer {layer}", tuple(maps)))
        caption = f"{self._looker(place)}, each layer and head; colours of each map from 0 to its own largest weight."
        return Gallery("All heads", caption, tuple(rows))

    def distances(self) -> Distances:
        """Mean attention distance of every layer and head in this picture."""
        return distances_of([self.layer_distances()], self.patches)

    def layer_distances(self) -> Tensor:
        """`(layers, heads)` in pixels."""
        grid, step = self.patches.grid, self.patches.step
        return torch.cat([mean_distances(layer[None], *grid, step) for layer in self.weights])

    def every(self) -> Attentions:
        """All maps, for a page: each head if the model is small enough, means of heads, and rollout."""
        (rows, columns), names = self.patches.grid, ("class", "distillation")[: self.patches.leading]
        places = (f"{row},{column}" for row in range(rows) for column in range(columns))
        axis, maps = Axis("patches", "patch", (*names, *places)), list[Map]()
        every_head = self.weights[0].numel() * len(self.weights) <= MAX_NUMBERS and self.num_heads > 1
        for layer, weights in reversed([*zip(self.layers, self.weights, strict=True)]):
            maps.append(Map(self.mechanism, layer, None, axis, axis, weights.mean(0)))
            heads = enumerate(weights) if every_head else ()
            maps += [Map(self.mechanism, layer, n, axis, axis, head_weights) for n, head_weights in heads]
        rolled = zip(self.layers, self.rolled, strict=True)
        maps += [Map(ROLLOUT, layer, None, axis, axis, weights, caption=_ROLLOUT) for layer, weights in rolled]
        return Attentions(self.patches.grid, self.patches.area, tuple(maps))

    def _looker(self, place: GridPlace | None) -> str:
        if place is not None:
            return f"patch in row {place[0]}, column {place[1]}"
        return "class token" if self.patches.leading else "mean of all patches"

    def _map(
        self, title: str, weights: Tensor, place: GridPlace | None, caption: str = "", short: str = ""
    ) -> PictureMap:
        """One row of `(tokens, tokens)`, or the mean of all rows, over the picture."""
        token = self.patches.token(place)
        row = weights.mean(0) if token is None else weights[token]
        outside = float(row[: self.patches.leading].sum())
        sentences = [caption] if caption else []
        if self.patches.leading:
            itself = " itself" * (place is None and self.patches.leading == 1)
            sentences.append(f"Weight on the {self.patches.read}{itself}: {outside:.3f}.")
        grid = self.patches.on_grid(row)
        return PictureMap(title, grid, self.patches.area, "weight", place, outside, " ".join(sentences), short=short)


_ROLLOUT = "Product over the layers of (A + I) / 2, A the mean of the heads."


def distances_of(each: Sequence[Tensor], patches: Patches) -> Distances:
    """The mean over pictures of `(layers, heads)` distances."""
    even = even_distance(*patches.grid, patches.step)
    return Distances(torch.stack(list(each)).mean(0), even, patches.size, len(each))
