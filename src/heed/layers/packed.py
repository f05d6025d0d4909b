"""Packing: padded texts concatenated without their padding, and back.

In training on a CPU `bert` packs before the embeddings and unpacks after the last block, so that tasks see only padded
batches. Texts of equal length are adjacent in the matrix of tokens, so attention needs neither padding nor a mask. The
plain form packs too, so that it draws the same dropout masks. Watched passes, GPUs and other precisions run the modules
on padded texts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.kernels import Groups


@dataclass(frozen=True)
class Packed:
    """Positions of the tokens of a padded batch when its texts are concatenated, longest first.

    Attributes:
        index: `(rows,)`, index of each row among the `batch * length` positions of the padded batch.
        shape: `(batch, length)` of the batch.
        groups: Number of texts of each length, and the length, in order (`kernels.encoder_block`).
    """

    index: Tensor
    shape: tuple[int, int]
    groups: Groups

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
        """Pack values of tokens, `(batch, length, ...)`, into one long row, `(1, rows, ...)`."""
        return x.flatten(0, 1).index_select(0, self.index).unsqueeze(0)

    def padded(self, x: Tensor) -> Tensor:
        """Unpack `(rows, d)` to `(batch, length, d)`, with zeros for padding."""
        batch, length = self.shape
        filled = x.new_zeros(batch * length, x.shape[1]).index_copy(0, self.index, x)
        return filled.view(batch, length, -1)
