"""Batches of pairs of source and target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from heed.data.batch.rows import Batch, pad_rows, pad_shifted
from heed.data.sequences import take


class TokenPair(NamedTuple):
    """A pair as token ids, without start and end."""

    source: list[int]
    target: list[int]

    @property
    def cost(self) -> tuple[int, int]:
        """Lengths that are padded: target with its start or end token, and source."""
        return len(self.target) + 1, len(self.source)


@dataclass(frozen=True)
class PairBatch(Batch):
    """Padded pairs.

    Attributes:
        source: `(batch, source)`.
        source_mask: `(batch, source)`, True on real tokens.
        target: `(batch, target)`, decoder input, start token first.
        labels: `(batch, target)`, expected predictions, end token last.
        target_mask: `(batch, target)`, True on real tokens of both.
        num_targets: Number of real target tokens, the end token included.
        alignment: `(batch, target, source)`, weights to train attention towards, rows summing to at most 1; or None.
    """

    masks: ClassVar[tuple[str, ...]] = ("source_mask", "target_mask")

    indices: list[int]
    source: Tensor
    source_mask: Tensor
    target: Tensor
    labels: Tensor
    target_mask: Tensor
    num_targets: int
    alignment: Tensor | None = None


def collate_pairs(pairs: Sequence[TokenPair], indices: list[int]) -> PairBatch:
    """Pad the chosen pairs into one batch."""
    chosen = take(pairs, indices)
    source, source_mask = pad_rows([pair.source for pair in chosen])
    target, labels, target_mask = pad_shifted([pair.target for pair in chosen])
    num_targets = sum(len(pair.target) + 1 for pair in chosen)
    return PairBatch(indices, source, source_mask, target, labels, target_mask, num_targets)
