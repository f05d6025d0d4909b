"""Reversible conversions between tensors of a checkpoint and ours.

All also work on tensors without values (device "meta"), which gives the shapes that a checkpoint should have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.exchange.huggingface.numbering import Numbering

NEVER = -1e4
"""Output bias of tokens that a checkpoint's vocabulary lacks, so that they are never predicted."""


class Transform(ABC):
    """A reversible conversion between some tensors of a checkpoint and some of ours."""

    @abstractmethod
    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Our tensors from theirs."""

    @abstractmethod
    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """Their tensors from ours."""


@dataclass(frozen=True)
class Same(Transform):
    """One tensor, unchanged."""

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """The same."""
        return list(theirs)

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """The same."""
        return list(ours)


@dataclass(frozen=True)
class Transposed(Transform):
    """Transposition of a matrix (in, out), as in GPT-2, to ours, (out, in)."""

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Transposed."""
        return [one.t().contiguous() if one.dim() == 2 else one for one in theirs]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """Transposed."""
        return self.to_ours(ours)


@dataclass(frozen=True)
class Joined(Transform):
    """One tensor that consists of `count` equal parts along an axis, as GPT-2's queries, keys and values.

    With `transposed` their parts are matrices (in, out); `axis` is theirs.
    """

    count: int
    axis: int
    transposed: bool = False

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """The parts."""
        parts = theirs[0].chunk(self.count, dim=self.axis)
        return [(one.t() if self.transposed else one).contiguous() for one in parts]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """The parts side by side."""
        return [torch.cat([one.t() if self.transposed else one for one in ours], dim=self.axis).contiguous()]


@dataclass(frozen=True)
class Rows(Transform):
    """Rows by token (dimension 0): renumbered; a token that their vocabulary lacks has rows of `absent`.

    Rows of theirs that no token of ours has are zeros when written.
    """

    numbering: Numbering
    absent: float = 0.0

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Rows in our order."""
        (tensor,) = theirs
        if tensor.is_meta:
            return [tensor.new_empty((len(self.numbering), *tensor.shape[1:]))]
        return [self.numbering.to_ours(tensor, self.absent)]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """Rows in their order."""
        (tensor,) = ours
        if tensor.is_meta:
            return [tensor.new_empty((self.numbering.size, *tensor.shape[1:]))]
        return [self.numbering.to_theirs(tensor)]


@dataclass(frozen=True)
class After(Transform):
    """A table with `count` unused first rows, as RoBERTa's positions, which begin after the padding token's id."""

    count: int

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Without the first rows."""
        return [one[self.count :].contiguous() for one in theirs]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """With rows of zeros before."""
        return [torch.cat([one.new_zeros((self.count, *one.shape[1:])), one]) for one in ours]


@dataclass(frozen=True)
class First(Transform):
    """The first row of a table of `size` rows, as RoBERTa's segments, of which only one is used."""

    size: int

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """The first row."""
        return [one[:1].contiguous() for one in theirs]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """With rows of zeros after it."""
        return [torch.cat([one, one.new_zeros((self.size - 1, *one.shape[1:]))]) for one in ours]


@dataclass(frozen=True)
class Leading(Transform):
    """A tensor with `count` axes of length 1 before those of ours, as ViT's positions."""

    count: int

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Without them."""
        return [one.flatten(0, self.count) for one in theirs]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """With them."""
        return [one.reshape(*([1] * self.count), *one.shape) for one in ours]


@dataclass(frozen=True)
class Flattened(Transform):
    """A matrix whose rows are tensors of a `shape` there, as the filters of a convolution over patches."""

    shape: tuple[int, ...]

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Rows of numbers."""
        return [one.flatten(1) for one in theirs]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """Rows of their shape."""
        return [one.unflatten(1, self.shape) for one in ours]


@dataclass(frozen=True)
class Zeros(Transform):
    """A tensor of ours, of shape `shape`, that checkpoints lack (a bias): zero on reading, omitted on writing."""

    shape: tuple[int, ...]

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Zeros."""
        return [torch.zeros(self.shape)]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """Nothing."""
        return []


SAME, TRANSPOSED = Same(), Transposed()
