"""Edits: replace attention weights inside the call, on the plain path; steps and full passes behave alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heed.attention.modules import Attends, MultiHeadAttention
from heed.errors import ConfigError


@dataclass(frozen=True)
class Edit:
    """Base of edits: the mechanism, layer and head to change; None means all."""

    mechanism: str | None = None
    layer: int | None = None
    head: int | None = None

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
        if self.head is None:
            return new
        chosen = torch.arange(weights.shape[1], device=weights.device) == self.head
        return torch.where(chosen[:, None, None], new, weights)

    def reaches(self, weights: Tensor, positions: Tensor) -> bool:
        """True if the edit changes something in a call; arguments as for calling the edit."""
        return weights.numel() > 0 and (self.head is None or self.head < weights.shape[1])

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """The changed weights, for every head."""
        raise NotImplementedError


def _heads(module: Attends) -> int:
    return module.num_heads if isinstance(module, MultiHeadAttention) else 1


def attention_of(model: nn.Module) -> dict[str, Attends]:
    """The attention modules of a model by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Attends)}


def listing(model: nn.Module) -> str:
    """List of a model's attention, for messages."""
    have = attention_of(model).values()
    return ", ".join(f"{m.mechanism} layer {m.layer} ({_heads(m)} heads)" for m in have) or "no attention"


class GivenEdit:
    """An edit of an open trace, which records whether it was applied."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self._reached = False
        self._first, self._last = math.inf, -math.inf  # positions of the queries that were asked

    def __call__(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """Apply the edit."""
        if not self._reached:
            self._reached = self.edit.reaches(weights, positions)
            if positions.numel():
                self._first, self._last = min(self._first, int(positions.min())), max(self._last, int(positions.max()))
        return self.edit(weights, allowed, positions)

    def check(self) -> None:
        """Check, when the trace ends, that the edit changed something.

        Raises:
            ConfigError: No attention that the edit names was called, or none at its position.
        """
        if self._reached:
            return
        why = f"queries were at positions {self._first:g} to {self._last:g}"
        if self._last < 0:
            why = "none of the attention that it names was called"
        raise ConfigError(f"{self.edit} changed nothing: {why}")


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
        """The given row at the given position.

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
