"""Edits: replace attention weights inside the call, on the plain path; steps and full passes behave alike.

As data, an edit is a JSON object with its name, where it applies, and the fields of its kind; an omitted field means
all:

    {"edit": "uniform", "mechanism": "cross", "layer": 0, "head": 3, "rows": [2, 4]}
    {"edit": "block", "keys": [0]}    {"edit": "set", "rows": [2], "keys": [0], "weight": 0.9}
    {"edit": "scale", "factor": 0.5}    {"edit": "permute", "seed": 1}
    {"edit": "force", "position": 2, "weights": [0, 1, 0]}    {"edit": "zero"}    {"edit": "keep"}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention.modules import Attends, MultiHeadAttention
from heed.errors import ConfigError, suggest
from heed.storage.files import MissingFileError, read_text


@dataclass(frozen=True)
class Edit:
    """Base of edits: the mechanism, layer, head and rows (positions of queries, from 0) to change; None means all."""

    mechanism: str | None = None
    layer: int | None = None
    head: int | None = None
    rows: Sequence[int] | None = None

    def __str__(self) -> str:
        """The edit as JSON, without the fields that are None."""
        values = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}
        name = next((name for name, kind in EDITS.items() if kind is type(self)), type(self).__name__)
        return json.dumps({"edit": name, **values})

    def applies(self, mechanism: str, layer: int) -> bool:
        """True if the edit applies to an attention module."""
        return self.mechanism in (None, mechanism) and self.layer in (None, layer)

    def check(self, model: nn.Module) -> None:
        """Check that the edit would change something.

        Raises:
            ConfigError: The model has no such mechanism, layer or head; the message lists what it has.
        """
        meant = [m for m in attention_of(model).values() if self.applies(m.mechanism, m.layer)]
        if not meant or (self.head is not None and not any(0 <= self.head < _heads(m) for m in meant)):
            raise ConfigError(f"{self} changes nothing: the model has {listing(model)}")

    def __call__(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """New weights `(rows, heads, query, key)`; see `heed.attention.watch.WatchedEdit`."""
        new = self.change(weights, allowed, positions)
        if self.head is not None:
            chosen = torch.arange(weights.shape[1], device=weights.device) == self.head
            new = torch.where(chosen[:, None, None], new, weights)
        return new if self.rows is None else torch.where(self._meant(positions)[:, None, :, None], new, weights)

    def _meant(self, positions: Tensor) -> Tensor:
        """True for the queries that the edit changes."""
        if self.rows is None:
            return torch.ones_like(positions, dtype=torch.bool)
        return torch.isin(positions, torch.tensor(list(self.rows), device=positions.device))

    def reaches(self, weights: Tensor, positions: Tensor) -> bool:
        """True if the edit changes something in a call; arguments as for calling the edit."""
        has_head = self.head is None or self.head < weights.shape[1]
        return weights.numel() > 0 and has_head and bool(self._meant(positions).any())

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """The changed weights, for every head."""
        raise NotImplementedError


def _heads(module: Attends) -> int:
    return module.num_heads if isinstance(module, MultiHeadAttention) else 1


def attention_of(model: nn.Module) -> dict[str, Attends]:
    """The attention modules of a model by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Attends)}


def heads_of(model: nn.Module) -> dict[tuple[str, int], int]:
    """The number of heads of each mechanism and layer of a model."""
    return {(module.mechanism, module.layer): _heads(module) for module in attention_of(model).values()}


def listing(model: nn.Module) -> str:
    """List of a model's attention, for messages."""
    modules = ((m, _heads(m)) for m in attention_of(model).values())
    return ", ".join(f"{m.mechanism} layer {m.layer} ({n} head{'s' * (n != 1)})" for m, n in modules) or "no attention"


class GivenEdit:
    """An edit of an open trace, which records whether it was applied."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self._reached = False
        self._first, self._last = math.inf, -math.inf  # positions of the queries that were asked
        self._keys = 0  # the most keys of a call

    def __call__(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """Apply the edit."""
        if not self._reached:
            self._reached = self.edit.reaches(weights, positions)
            self._keys = max(self._keys, weights.shape[-1])
            if positions.numel():
                self._first, self._last = min(self._first, int(positions.min())), max(self._last, int(positions.max()))
        return self.edit(weights, allowed, positions)

    def check(self, model: nn.Module) -> None:
        """Check, when the trace of a model ends, that the edit changed something.

        Raises:
            ConfigError: No attention that the edit names was called, or none at its position; the message lists the
                model's attention.
        """
        if self._reached:
            return
        why = f"queries were at positions {self._first:g} to {self._last:g}, with {self._keys} keys, counted from 0"
        if self._last < 0:
            why = "none of the attention that it names was called"
        raise ConfigError(f"{self.edit} changed nothing: {why}; the model has {listing(model)}")


@dataclass(frozen=True)
class Keep(Edit):
    """Change nothing: the pass to compare other edits with, which run on the plain path too."""

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        return weights


@dataclass(frozen=True)
class ZeroHead(Edit):
    """Set all weights of a head to 0, so that it contributes nothing."""

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        return torch.zeros_like(weights)


@dataclass(frozen=True)
class Uniform(Edit):
    """Give every unmasked key the same weight."""

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        if allowed is None:
            return torch.full_like(weights, 1.0 / weights.shape[-1])
        ones = allowed.to(weights.dtype).expand_as(weights)
        return ones / ones.sum(-1, keepdim=True).clamp_min(1.0)


@dataclass(frozen=True)
class Force(Edit):
    """Set the weights of one target position.

    `position` is absolute, from 0, the same in a step and in a full pass. `weights` are those of the first keys; they
    are not renormalised, and further keys get 0. The mask wins: padding and the future stay masked.
    """

    position: int = 0
    weights: Sequence[float] = ()

    def reaches(self, weights: Tensor, positions: Tensor) -> bool:
        return super().reaches(weights, positions) and bool((positions == self.position).any())

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """The weights of the row at `position`.

        Raises:
            ConfigError: There are more weights than keys, or the mask forbids these weights in every sequence.
        """
        meant = (positions == self.position)[:, None, :]  # (R, 1, Q)
        if not meant.any():
            return weights
        num_keys = weights.shape[-1]
        if len(self.weights) > num_keys:
            raise ConfigError(f"{len(self.weights)} weights were given for {num_keys} keys: {self}")
        row = weights.new_zeros(num_keys)
        row[: len(self.weights)] = weights.new_tensor(list(self.weights))
        if allowed is not None:
            may = allowed.expand_as(weights)
            if not ((may | (row == 0)).all(-1) & meant).any():
                raise ConfigError(f"position {self.position} may not attend to padding or to the future: {self}")
            row = torch.where(may, row, 0.0)
        return torch.where(meant.unsqueeze(-1), row, weights)


@dataclass(frozen=True)
class Scale(Edit):
    """Multiply all weights by a factor; they no longer sum to 1."""

    factor: float = 1.0

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        return weights * self.factor


@dataclass(frozen=True)
class Block(Edit):
    """Set the weights of some keys, counted from 0, to 0, and scale the others up to the same sum."""

    keys: Sequence[int] = ()

    def reaches(self, weights: Tensor, positions: Tensor) -> bool:
        there = bool(self.keys) and all(0 <= key < weights.shape[-1] for key in self.keys)
        return there and super().reaches(weights, positions)

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        left = torch.where(self._chosen(weights), 0.0, weights)
        return _scaled(left, weights.sum(-1, keepdim=True))

    def _chosen(self, weights: Tensor) -> Tensor:
        """True for the keys `(key,)`; those that a step does not have yet are left out."""
        places = torch.arange(weights.shape[-1], device=weights.device)
        return torch.isin(places, torch.tensor(list(self.keys), dtype=torch.long, device=weights.device))


_EPSILON = 1e-12
"""Lower bound of sums that are divided by."""


@dataclass(frozen=True)
class SetWeight(Block):
    """Give some keys a weight that they share as they did before, equally if they had none; the others get the rest.

    Masked keys stay at 0. Where no other key has any weight, the row then sums to `weight`.
    """

    weight: float = 0.0

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """The weights with that of the keys.

        Raises:
            ConfigError: The weight is not a share.
        """
        if not 0 <= self.weight <= 1:
            raise ConfigError(f"'weight' is {self.weight:g}, expected 0 to 1: {self}")
        chosen = self._chosen(weights).to(weights.dtype) * torch.ones_like(weights)
        chosen = chosen if allowed is None else chosen * allowed
        theirs, others = weights * chosen, weights * (1 - chosen)
        theirs = torch.where(theirs.sum(-1, keepdim=True) > _EPSILON, theirs, chosen)
        new = _scaled(theirs, self.weight) + _scaled(others, 1 - self.weight)
        return torch.where(chosen.sum(-1, keepdim=True) > 0, new, weights)


def _scaled(weights: Tensor, total: float | Tensor) -> Tensor:
    return weights * (total / weights.sum(-1, keepdim=True).clamp_min(_EPSILON))


@dataclass(frozen=True)
class Permute(Edit):
    """Exchange the weights of each row at random among the keys that it may attend to.

    The order is a function of seed, row and key, so that steps and full passes behave alike.
    """

    seed: int = 1

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        keys = torch.arange(weights.shape[-1], device=weights.device)
        mixed = (positions.double().unsqueeze(-1) * 78.233 + keys * 37.719 + self.seed * 12.9898).sin() * 43758.5453
        noise = mixed.frac().abs()[:, None].expand(weights.shape)
        may = torch.ones_like(weights, dtype=torch.bool) if allowed is None else allowed.expand(weights.shape)
        in_order = torch.where(may, keys, keys + len(keys)).argsort(-1)  # keys that may be attended to come first
        drawn = torch.where(may, noise, noise + 2.0).argsort(-1)
        return torch.zeros_like(weights).scatter(-1, drawn, weights.gather(-1, in_order))


EDITS: dict[str, type[Edit]] = {
    "keep": Keep,
    "zero": ZeroHead,
    "uniform": Uniform,
    "scale": Scale,
    "permute": Permute,
    "force": Force,
    "block": Block,
    "set": SetWeight,
}
"""Edits by their names as data."""


def edit_of(data: Mapping[str, Any], where: str = "an edit") -> Edit:
    """An edit from data.

    Raises:
        ConfigError: There is no such edit, it has no such field, or a value is of the wrong type.
    """
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    name = values.pop("edit", None)
    if name not in EDITS:
        fields_there = f", but {', '.join(map(repr, data))}" if data else ""
        what = f"has no field 'edit'{fields_there}" if name is None else f"has edit {name!r}"
        raise ConfigError(f"{where} {what}{suggest(str(name), EDITS)}")
    types = {item.name: str(item.type) for item in fields(EDITS[name])}
    for field, value in values.items():
        if field not in types:
            raise ConfigError(f"{where}: '{name}' has no field '{field}'{suggest(field, types)}")
        type_name = next(name for name in _TYPES if name in types[field])
        is_of_type, expected = _TYPES[type_name]
        if not (is_of_type(value) or (value is None and "None" in types[field])):
            raise ConfigError(f"{where}: '{field}' is {value!r}, expected {expected}")
    kind: Any = EDITS[name]
    return kind(**values)  # type: ignore[no-any-return]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Sequence[int]": (lambda value: isinstance(value, tuple) and all(map(_is_whole, value)), "a list of whole numbers"),
    "Sequence[float]": (lambda value: isinstance(value, tuple) and all(map(_is_number, value)), "a list of numbers"),
    "float": (_is_number, "a number"),
    "int": (_is_whole, "a whole number"),
    "str": (lambda value: isinstance(value, str), "a name"),
}
"""The types of fields of edits: a check of a value, and the name of what is expected."""


EditLike = Edit | Mapping[str, Any] | str
"""An edit, its data, or a text: JSON, or the name of a file with it."""


def edits_of(specs: Sequence[EditLike]) -> list[Edit]:
    """Edits from edits, from data, and from texts: JSON, or the name of a JSON file.

    Raises:
        ConfigError: A text is not JSON, or names no edit.
    """
    edits: list[Edit] = []
    for spec in specs:
        if isinstance(spec, Edit):
            edits.append(spec)
            continue
        where, value = "an edit", spec  # type: tuple[str, Any]
        if isinstance(spec, str):
            text = spec
            if not spec.lstrip().startswith(("{", "[")):
                try:
                    where, text = f"'{spec}'", read_text(Path(spec))
                except MissingFileError:
                    raise ConfigError(f"'{spec}' is neither an edit in JSON nor a file with one") from None
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{where} is not JSON: {error}") from None
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, Mapping):
                raise ConfigError(f'{where} is {item!r}, expected an object such as {{"edit": "uniform"}}')
            edits.append(edit_of(item, where))
    return edits
