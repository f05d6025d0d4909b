"""Rows of token ids as padded tensors: one row an example, or several (sides, sentences)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from heed.data.tokens.tokenizer import END, PADDING, START
from heed.device import to_device
from heed.layers.groups import grouped_positions


class Batch:
    """Padded examples `indices` as a dataclass of tensors; its `masks` are False on padding."""

    masks: ClassVar[tuple[str, ...]] = ("mask",)
    indices: list[int]

    @property
    def padding_share(self) -> float:
        """Share of padding among the positions."""
        masks: list[Tensor] = [getattr(self, name) for name in self.masks]
        return 1.0 - sum(int(mask.sum()) for mask in masks) / sum(map(self.positions, masks))

    def positions(self, mask: Tensor) -> int:
        """Number of positions of a mask that a model computes: all of them."""
        return mask.numel()

    def to(self, device: torch.device) -> Self:
        """The batch on another device."""
        return to_device(self, device)


def positions_in_groups(mask: Tensor) -> int:
    """Positions computed if rows `(..., rows, longest)` are grouped by length and rows of padding left out."""
    lengths = mask.sum(-1).flatten()
    return max(1, grouped_positions(lengths[lengths > 0].tolist()))


def pad_rows(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor `(rows, longest)`, and its mask, True on real ids."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    mask = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    tokens = np.full(mask.shape, PADDING, dtype=np.int64)
    tokens[mask] = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    return torch.from_numpy(tokens), torch.from_numpy(mask)


def pad_nested(examples: Sequence[Sequence[list[int]]]) -> tuple[Tensor, Tensor]:
    """Examples of several rows (sentences, turns) as one tensor `(examples, rows, longest)`, and its mask."""
    count = max(1, max(map(len, examples), default=1))
    tokens, mask = pad_rows([row for rows in examples for row in (*rows, *[[]] * (count - len(rows)))])
    shape = (len(examples), count, tokens.shape[1])
    return tokens.view(shape), mask.view(shape)


def pad_shifted(rows: Sequence[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Decoder inputs, start token first; the expected predictions, end token last; and the mask of both."""
    read, mask = pad_rows([[START, *row] for row in rows])
    labels, _ = pad_rows([[*row, END] for row in rows])
    return read, labels, mask
