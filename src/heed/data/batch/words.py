"""Characters of the words of a batch: each distinct word once, grouped by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.data.batch.rows import pad_rows
from heed.device import to_device

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
