"""Maps over a picture: recorded attention of a model that reads patches, and gradients.

Gradient maps are made of the gradient of the score of a class at each place; they need no attention, so they can
compare a convolutional network with a Vision Transformer on one picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from heed.data.pictures.sizing import Box
from heed.errors import ConfigError
from heed.watch.attribution import Picture
from heed.watch.looks import ROLLOUT, Choice
from heed.watch.maps import Axis, Map
from heed.watch.picture_looks import (
    Attentions,
    Distances,
    Gallery,
    GridPlace,
    PictureMap,
    even_distance,
    mean_distances,
)
from heed.watch.trace import Trace, rolled_out


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


MOST_NUMBERS = 3_000_000
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
        """What the label is read from, in words."""
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
        self.weights = [one.weights[0].detach().cpu() for one in maps]
        self.openers = [one.openers[0] for one in maps]

    @property
    def num_heads(self) -> int:
        """Heads of each layer."""
        return len(self.weights[0])

    @cached_property
    def rolled(self) -> list[Tensor]:
        """For each layer `(tokens, tokens)`: the share of each input token in each token's state."""
        return [one[0] for one in rolled_out(layer[None] for layer in self.weights)]

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
                opener = self.openers[self.layers.index(layer)]
                maps.append(replace(drawn, opens=replace(opener, head=head)))
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
            maps = [self._map(f"layer {layer}, head {head}", one, place, short=f"head {head}")
                    for head, one in enumerate(weights)]  # fmt: skip
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
        every_head = self.weights[0].numel() * len(self.weights) <= MOST_NUMBERS and self.num_heads > 1
        for layer, weights in reversed([*zip(self.layers, self.weights, strict=True)]):
            maps.append(Map(self.mechanism, layer, None, axis, axis, weights.mean(0)))
            maps += [Map(self.mechanism, layer, n, axis, axis, one) for n, one in enumerate(weights) if every_head]
        rolled = zip(self.layers, self.rolled, strict=True)
        maps += [Map(ROLLOUT, layer, None, axis, axis, one, caption=_ROLLOUT) for layer, one in rolled]
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
        said = [caption] if caption else []
        if self.patches.leading:
            itself = " itself" * (place is None and self.patches.leading == 1)
            said.append(f"Weight on the {self.patches.read}{itself}: {outside:.3f}.")
        grid = self.patches.on_grid(row)
        return PictureMap(title, grid, self.patches.area, "weight", place, outside, " ".join(said), short=short)


_ROLLOUT = "Product over the layers of (A + I) / 2, A the mean of the heads."


def distances_of(each: Sequence[Tensor], patches: Patches) -> Distances:
    """The mean over pictures of `(layers, heads)` distances."""
    even = even_distance(*patches.grid, patches.step)
    return Distances(torch.stack(list(each)).mean(0), even, patches.size, len(each))
