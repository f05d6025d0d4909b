"""A map: the weights of one attention mechanism on named axes, whose sizes are checked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heed.errors import ShapeError


@dataclass(frozen=True, slots=True)
class Part:
    """Positions `start` to `stop` (exclusive) of an axis that belong together, such as the words of a turn."""

    label: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a map: one label per position.

    `name` is "source", "target", "encoder layer 2", ...; a position is a `kind`: "character", "token", "word",
    "sentence", "turn" or "patch". The `parts` of an axis are adjacent and cover it; most axes have none.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        ends = [0, *(part.stop for part in self.parts)]
        assert [part.start for part in self.parts] == ends[:-1] and ends[-1] in (0, len(self.labels))

    def __len__(self) -> int:
        return len(self.labels)

    def part_at(self, position: int) -> str:
        """The name of the part that contains a position; "" on an axis without parts."""
        return next((part.label for part in self.parts if part.start <= position < part.stop), "")


def unmasked(values: Tensor, mask: Tensor | None) -> list[float | None]:
    """A vector as numbers, None for masked positions."""
    allowed = [True] * len(values) if mask is None else mask.tolist()
    return [v if may else None for v, may in zip(values.detach().double().tolist(), allowed, strict=True)]


@dataclass(frozen=True, slots=True)
class Map:
    """The weights with which each query attended to each key.

    Attributes:
        mechanism: "cross", "encoder", "decoder" or another name given by the model.
        head: Which head, from 0; None for a mean over heads.
        weights: `(query, key)`, before dropout; rows sum to 1, or to 0 where nothing may be attended to.
        scores: `(query, key)` before the softmax, or None.
        mask: `(query, key)`, True = may attend, or None where everything may.
        caption: How to read the map.
    """

    mechanism: str
    layer: int
    head: int | None
    query: Axis
    key: Axis
    weights: Tensor
    scores: Tensor | None = None
    mask: Tensor | None = None
    caption: str = ""

    def __repr__(self) -> str:
        head = "" if self.head is None else f" head {self.head}"
        sizes = f"{len(self.query)} x {len(self.key)} {self.key.kind}s"
        return f"<map {self.mechanism} layer {self.layer}{head}: {sizes}>"

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
    def has_masked(self) -> bool:
        """True if any cell is masked."""
        return self.mask is not None and not bool(self.mask.all())

    def cells(self) -> list[list[float | None]]:
        """The weights as numbers, None for masked cells."""
        masks = [None] * len(self.query) if self.mask is None else self.mask
        return [unmasked(row, mask) for row, mask in zip(self.weights, masks, strict=True)]

    @property
    def title(self) -> str:
        """Short name: mechanism, layer and head."""
        head = "" if self.head is None else f", head {self.head}"
        return f"{self.mechanism} attention, layer {self.layer}{head}"

    @property
    def unit(self) -> str:
        """Name of the numbers."""
        return "weight"

    def best(self) -> list[int]:
        """For each query, the position of its largest weight (the first of equal ones)."""
        return [int(i) for i in torch.argmax(self.weights, dim=-1)]


@dataclass(frozen=True, slots=True, repr=False)
class Traces(Map):
    """Numbers of a recurrent network over a text, drawn like a map: a row for each gate, a column for each position.

    `mechanism` is the network ("forward", "backward"); the weights are numbers in 0..1 that need not sum to 1.
    """

    @property
    def title(self) -> str:
        """Short name: network and layer."""
        return f"{self.mechanism} network, layer {self.layer}: gates over the {self.key.name}"

    @property
    def unit(self) -> str:
        """Name of the numbers."""
        return "value"
