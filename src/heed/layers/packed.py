"""Padded texts laid end to end without their padding, and back.

`bert` packs in training on a CPU: before the embeddings, and back after the last block, so that tasks see padded
batches only. Texts of one length lie side by side in the one matrix of tokens, so attention needs neither padding nor a
mask. The plain form packs too, since dropout's masks are drawn over what is computed. Watched passes, GPUs and other
precisions run the modules on padded texts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.kernels import Groups


@dataclass(frozen=True)
class Packed:
    """Where the tokens of a padded batch are when its texts lie end to end, the longest first.

    Attributes:
        index: `(rows,)`, the place of each row among the batch's `batch * length` places.
        shape: `(batch, length)` of the batch.
        groups: Texts of one length and that length, in order (`kernels.encoder_block`).
    """

    index: Tensor
    shape: tuple[int, int]
    groups: Groups

    @classmethod
    def of(cls, mask: Tensor) -> Packed:
        """From a mask `(batch, length)`, True on real tokens, which come first; texts without any are left out."""
        lengths, order = mask.sum(1).sort(descending=True, stable=True)
        counts = Counter(length for length in lengths.tolist() if length)  # in order of first occurrence
        ends = lengths.cumsum(0)
        first = torch.repeat_interleave(order * mask.shape[1] - (ends - lengths), lengths)
        groups = [(texts, length) for length, texts in counts.items()]
        return cls(first + torch.arange(len(first), device=mask.device), (mask.shape[0], mask.shape[1]), groups)

    def line(self, x: Tensor) -> Tensor:
        """What each token has, `(batch, length, ...)`, as one long row `(1, rows, ...)`."""
        return x.flatten(0, 1).index_select(0, self.index).unsqueeze(0)

    def padded(self, x: Tensor) -> Tensor:
        """`(rows, d)` to `(batch, length, d)`, zeros for padding."""
        batch, length = self.shape
        filled = x.new_zeros(batch * length, x.shape[1]).index_copy(0, self.index, x)
        return filled.view(batch, length, -1)
