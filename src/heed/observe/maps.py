"""A map: the weights of one attention mechanism on named axes, refused when weights and axes do not fit."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from heed.errors import ShapeError


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a map: what its positions are, and the text of each.

    Attributes:
        name: What a reader calls it: "source", "target", "encoder layer 2".
        kind: What a position is: "character", "token", "word", "sentence", "turn" or "patch".
        labels: One text per position.
    """

    name: str
    kind: str
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Map:
    """The weights with which each query looked at each key.

    Attributes:
        mechanism: "cross", "encoder", "decoder" or another name given by the model.
        layer: Which layer, from 0.
        head: Which head, from 0; None for a mean over heads.
        query: Axis of the rows.
        key: Axis of the columns.
        weights: `(query, key)`, before dropout; rows sum to 1, or to 0 where nothing may be attended to.
        scores: `(query, key)` before the softmax, or None.
        mask: `(query, key)`, True = may attend, or None where everything may.
        caption: What a reader must know to read the map.
    """

    mechanism: str
    layer: int
    head: int | None
    query: Axis
    key: Axis
    weights: Tensor
    scores: Tensor | None = None
    mask: Tensor | None = None
    caption: str = field(default="")

    def __post_init__(self) -> None:
        expected = (len(self.query), len(self.key))
        for name in ("weights", "scores", "mask"):
            tensor = getattr(self, name)
            if tensor is not None and tuple(tensor.shape) != expected:
                raise ShapeError(
                    f"{name} of map '{self.mechanism}' (layer {self.layer}) has shape {tuple(tensor.shape)}, but its "
                    f"axes have {expected[0]} {self.query.kind}s ({self.query.name}) and {expected[1]} "
                    f"{self.key.kind}s ({self.key.name})"
                )

    @property
    def title(self) -> str:
        """Short name: mechanism, layer and head."""
        head = "" if self.head is None else f", head {self.head}"
        return f"{self.mechanism} attention, layer {self.layer}{head}"

    @property
    def unit(self) -> str:
        """What its numbers are."""
        return "weight"

    def best(self) -> list[int]:
        """For each query the position of its largest weight (the first of equal ones)."""
        return [int(i) for i in torch.argmax(self.weights, dim=-1)]


@dataclass(frozen=True, slots=True)
class Traces(Map):
    """Numbers of a recurrent network over a text, drawn as a map is: one row a gate, one column a position.

    `mechanism` is the network ("forward", "backward"); the weights are numbers in 0..1 and need not sum to anything.
    """

    @property
    def title(self) -> str:
        """Short name: network and layer."""
        return f"{self.mechanism} network, layer {self.layer}: gates over the text"

    @property
    def unit(self) -> str:
        """What its numbers are."""
        return "value"
