"""Token ids as padded tensors: one row an example, or several (sides, sentences), or characters of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from heed.data.tokens.tokenizer import END, PADDING, START
from heed.device import to_device


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
    longest = total = 0
    for length in sorted(filter(None, mask.sum(-1).flatten().tolist()), reverse=True):
        longest = length if 2 * length <= longest or not longest else longest  # as `layers.ragged.length_groups`
        total += longest
    return max(1, total)


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


_SHORT = 8
"""Words up to this length form one group; above it the longest of a group is at most twice its shortest."""


@dataclass(frozen=True)
class DistinctWords:
    """The distinct words of a batch, padded in groups, so that a long word does not lengthen the others.

    Attributes:
        groups: Character ids `(words, characters)` of each group of words of similar length.
        place: `(batch, words)`, each word's row in the concatenated groups, from 1; 0 for padding and empty words.
    """

    groups: tuple[Tensor, ...]
    place: Tensor

    @property
    def num_positions(self) -> int:
        """Number of padded characters."""
        return sum(group.numel() for group in self.groups)

    def to(self, device: torch.device) -> DistinctWords:
        """The words on another device."""
        return to_device(self, device)


def distinct_words(texts: Sequence[Sequence[Sequence[int]]]) -> DistinctWords:
    """Group the words of some texts, given as character ids."""
    distinct = {tuple(word) for words in texts for word in words}
    ordered = sorted(filter(None, distinct), key=lambda word: (len(word), word))
    grouped: dict[int, list[tuple[int, ...]]] = {}
    for word in ordered:
        grouped.setdefault(max(_SHORT, 1 << (len(word) - 1).bit_length()), []).append(word)
    row_of = {word: row for row, word in enumerate(ordered, start=1)}
    place, _ = pad_rows([[row_of.get(tuple(word), 0) for word in words] for words in texts])
    return DistinctWords(tuple(pad_rows(words)[0] for words in grouped.values()), place)
