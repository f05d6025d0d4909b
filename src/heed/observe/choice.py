"""Which of a model's attentions a look shows: a Transformer has one per layer, head and mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from torch import Tensor

from heed.errors import ConfigError
from heed.observe.looks import Glance
from heed.observe.maps import Map


@dataclass(frozen=True)
class View:
    """A map to show, with its contexts `(query, d_value)` (heads concatenated) and the number of heads."""

    map: Map
    context: Tensor
    num_heads: int

    @cached_property
    def _has_masked(self) -> bool:
        return self.map.has_masked

    def glance(self, position: int) -> Glance:
        """This attention at one query position."""
        scores, mask = self.map.scores, self.map.mask
        return Glance(
            self.map.title,
            self.map.mechanism,
            self.map.key,
            self.map.weights[position],
            None if scores is None else scores[position],
            None if mask is None or not self._has_masked else mask[position],
            self.context[position],
        )


@dataclass(frozen=True)
class Choice:
    """Selection of attention to show: mechanism (None for all), layer (negative counts from the last) and head."""

    mechanism: str | None = None
    layer: int | Literal["all"] = -1
    head: int | Literal["mean", "all"] = "mean"

    def __post_init__(self) -> None:
        for name, words in (("layer", ("all",)), ("head", ("mean", "all"))):
            given = getattr(self, name)
            if given not in words and (not isinstance(given, int) or isinstance(given, bool)):
                raise ConfigError(f"{name} is {given!r}; give a whole number, {' or '.join(map(repr, words))}")

    def check(self, seen: Sequence[tuple[str, int]]) -> None:
        """Check that the chosen mechanism and layer are among those seen.

        Raises:
            ConfigError: They are not, or the model has no attention; the message lists what was seen.
        """
        names = list(dict.fromkeys(name for name, _ in seen))
        if self.mechanism is not None and self.mechanism not in names:
            has = f"this model has {', '.join(names)} attention" if names else "this model has no attention"
            raise ConfigError(f"no '{self.mechanism}' attention: {has}")
        if not seen and (self.layer not in (-1, "all") or isinstance(self.head, int)):
            raise ConfigError("this model has no attention, so --layer and --head do not apply")
        if seen and self.layer != "all" and not any(self._numbers(seen, name) for name in names):
            numbers = {name: sum(n == name for n, _ in seen) for name in names}
            counts = ", ".join(f"{n} layer{'s' if n != 1 else ''} of {name} attention" for name, n in numbers.items())
            raise ConfigError(f"no layer {self.layer}: this model has {counts}, counted from 0")

    def layers(self, seen: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """The chosen (mechanism, layer) pairs, in the order seen."""
        meant = [(name, number) for name, number in seen if self.mechanism in (None, name)]
        return [(name, number) for name, number in meant if number in self._numbers(seen, name)]

    def _numbers(self, seen: Sequence[tuple[str, int]], name: str) -> list[int]:
        """The chosen layers of one mechanism."""
        layers = sorted(number for other, number in seen if other == name)
        if self.layer == "all":
            return layers
        if -len(layers) <= self.layer < 0:
            return [layers[self.layer]]
        return [self.layer] if self.layer in layers else []

    def heads(self, num_heads: int) -> list[int | None]:
        """The chosen heads; None is the mean of all.

        Raises:
            ConfigError: There is no such head.
        """
        if self.head == "all" or (num_heads == 1 and self.head == "mean"):
            return list(range(num_heads))
        if self.head == "mean":
            return [None]
        if not 0 <= self.head < num_heads:
            are = "is 1 head" if num_heads == 1 else f"are {num_heads} heads"
            raise ConfigError(f"no head {self.head}: there {are}, counted from 0")
        return [self.head]

    def hidden(self, views: Sequence[View]) -> str:
        """A note of the layers and heads shown; empty for a model with one layer and one head."""
        if all(view.num_heads == 1 and view.map.layer == 0 for view in views):
            return ""
        layers = {"all": "all layers", -1: "the last layer"}.get(self.layer, f"layer {self.layer}")
        heads = f"head {self.head}"
        if isinstance(self.head, str):
            count = max(view.num_heads for view in views)
            heads = f"the mean of {count} heads" if self.head == "mean" else "each head"
        return f"shown: {layers}, {heads}; change with --layer, --head and --mechanism"
