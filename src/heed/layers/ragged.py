"""Sequences of unequal length: groups of similar length, packing without padding, pooling without parameters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.kernels import Groups
from heed.shapes import Bool, Float


def length_groups(lengths: list[int]) -> list[list[int]]:
    """Group sequence indices, longest first; each length is more than half of the longest in its group."""
    groups: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not groups or 2 * lengths[row] <= longest:
            groups.append([])
            longest = lengths[row]
        groups[-1].append(row)
    return groups


@dataclass(frozen=True)
class Packed:
    """Positions of the tokens of a padded batch when its texts are concatenated, longest first.

    Texts of equal length are adjacent, so that attention within them needs neither padding nor a mask.
    """

    index: Tensor  # `(rows,)`, index of each row among the `batch * length` positions of the padded batch
    shape: tuple[int, int]  # `(batch, length)` of the batch
    groups: Groups  # number of texts of each length, and the length, in order (`kernels.packed`)

    @classmethod
    def of(cls, mask: Tensor) -> Packed:
        """From a mask `(batch, length)`, True on real tokens, which come first; texts without tokens are left out."""
        lengths, order = mask.sum(1).sort(descending=True, stable=True)
        counts = Counter(length for length in lengths.tolist() if length)  # in order of first occurrence
        ends = lengths.cumsum(0)
        first = torch.repeat_interleave(order * mask.shape[1] - (ends - lengths), lengths)
        groups = [(texts, length) for length, texts in counts.items()]
        return cls(first + torch.arange(len(first), device=mask.device), (mask.shape[0], mask.shape[1]), groups)

    def line(self, x: Tensor) -> Tensor:
        """Pack values of tokens, `(batch, length, ...)`, into `(rows, ...)`."""
        return x.flatten(0, 1).index_select(0, self.index)

    def padded(self, x: Tensor) -> Tensor:
        """Unpack `(rows, d)` to `(batch, length, d)`, with zeros for padding."""
        batch, length = self.shape
        filled = x.new_zeros(batch * length, x.shape[1]).index_copy(0, self.index, x)
        return filled.view(batch, length, -1)


def mean_pooling(
    states: Float[Tensor, "batch length d"], mask: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch d"]:
    """The mean of the states within the mask; zeros for an empty text."""
    total = states.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1)
    return total / mask.sum(1, keepdim=True).clamp_min(1)


def max_pooling(
    states: Float[Tensor, "batch length d"], mask: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch d"]:
    """The maximum of each unit over the states within the mask; zeros for an empty text.

    Source: Kim 2014 (arXiv:1408.5882), "max over time".
    """
    lowest = torch.finfo(states.dtype).min
    largest = states.masked_fill(~mask.unsqueeze(-1), lowest).amax(1)
    return largest.masked_fill(~mask.any(1, keepdim=True), 0.0)
