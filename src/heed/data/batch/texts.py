"""Batches of texts with labels, and of words with tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.data.batch.rows import Batch, pad_nested, pad_rows, positions_in_groups
from heed.data.batch.words import DistinctWords, distinct_words


@dataclass(frozen=True, slots=True)
class TokenText:
    """A text as token ids, sentence by sentence (one for models without sentences, none empty), and its label ids.

    `cut` is the number of tokens left out at the end.
    """

    sentences: list[list[int]]
    labels: list[int]
    cut: int = 0

    @property
    def length(self) -> int:
        """Number of tokens."""
        return sum(map(len, self.sentences))


@dataclass(frozen=True)
class TextBatch(Batch):
    """Padded texts.

    Attributes:
        tokens: `(batch, length)` or, for a model that reads sentences, `(batch, sentences, words)`.
        mask: Shape of the tokens, True on real ones.
        labels: `(batch,)` label ids, or `(batch, num_labels)` zeros and ones for multi-label data.
    """

    indices: list[int]
    tokens: Tensor
    mask: Tensor
    labels: Tensor

    @property
    def num_targets(self) -> int:
        """Number of texts."""
        return len(self.indices)

    def positions(self, mask: Tensor) -> int:
        """Number of positions that a model computes; sentences are grouped by length, whole texts are not."""
        return positions_in_groups(mask) if mask.ndim == 3 else super().positions(mask)


def collate_texts(
    texts: Sequence[TokenText], indices: list[int], *, hierarchical: bool, num_labels: int | None
) -> TextBatch:
    """Pad the chosen texts into one batch, sentence by sentence if `hierarchical`.

    Labels are a row of `num_labels` zeros and ones or, if that is None, one id (-1 for none).
    """
    chosen = [texts[i] for i in indices]
    if hierarchical:
        tokens, mask = pad_nested([text.sentences for text in chosen])
    else:
        tokens, mask = pad_rows([[token for sentence in text.sentences for token in sentence] for text in chosen])
    if num_labels is None:
        labels = torch.tensor([text.labels[0] if text.labels else -1 for text in chosen])
    else:
        labels = torch.zeros(len(chosen), num_labels)
        for row, text in enumerate(chosen):
            labels[row, text.labels] = 1.0
    return TextBatch(indices, tokens, mask, labels)


@dataclass(frozen=True, slots=True)
class TokenWords:
    """The token ids of each word (at least one), its tag id, and its character ids, if used."""

    words: list[list[int]]
    tags: list[int]
    characters: list[list[int]]


@dataclass(frozen=True)
class WordBatch(Batch):
    """Padded sentences.

    Attributes:
        tokens: `(batch, length)`.
        mask: `(batch, length)`, True on real tokens.
        word_of: `(batch, length)`, index of the word of each token; None if every word is one token.
        word_mask: `(batch, words)`, True on real words.
        tags: `(batch, words)`, tag ids, 0 on padding.
        characters: The characters of the words, or None.
        num_targets: Number of words.
    """

    indices: list[int]
    tokens: Tensor
    mask: Tensor
    word_of: Tensor | None
    word_mask: Tensor
    tags: Tensor
    characters: DistinctWords | None
    num_targets: int


def collate_words(sentences: Sequence[TokenWords], indices: list[int]) -> WordBatch:
    """Pad the chosen sentences into one batch."""
    chosen = [sentences[i] for i in indices]
    tokens, mask = pad_rows([[token for word in s.words for token in word] for s in chosen])
    word_of = None
    if any(len(word) > 1 for s in chosen for word in s.words):
        word_of, _ = pad_rows([[n for n, word in enumerate(s.words) for _ in word] for s in chosen])
    tags, _ = pad_rows([s.tags or [0] * len(s.words) for s in chosen])
    _, word_mask = pad_rows([[0] * len(s.words) for s in chosen])
    characters = None
    if any(s.characters for s in chosen):
        characters = distinct_words([s.characters or [[]] * len(s.words) for s in chosen])
    return WordBatch(indices, tokens, mask, word_of, word_mask, tags, characters, sum(len(s.words) for s in chosen))
