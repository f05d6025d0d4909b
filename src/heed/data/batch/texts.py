"""Batches of texts with labels, and of words with tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.data.tokens.tokenizer import PADDING
from heed.device import to_device

__all__ = ["TextBatch", "TokenText", "TokenWords", "WordBatch", "collate_texts", "collate_words", "pad_rows"]


@dataclass(frozen=True, slots=True)
class TokenText:
    """A text as token ids, sentence by sentence (one sentence where the model reads no sentences), and its labels.

    Attributes:
        sentences: Token ids, none of the sentences empty.
        labels: Which labels, by number.
        cut: Tokens left away at the end.
    """

    sentences: list[list[int]]
    labels: list[int]
    cut: int = 0

    @property
    def length(self) -> int:
        """Number of tokens."""
        return sum(map(len, self.sentences))


@dataclass(frozen=True)
class TextBatch:
    """Padded texts.

    Attributes:
        indices: Which examples, `(batch,)` as a list.
        tokens: `(batch, length)` or, for a model that reads sentences, `(batch, sentences, words)`.
        mask: As the tokens, True on real ones.
        labels: `(batch,)` label numbers, or `(batch, num_labels)` zeros and ones for several.
    """

    indices: list[int]
    tokens: Tensor
    mask: Tensor
    labels: Tensor

    @property
    def num_targets(self) -> int:
        """Number of texts."""
        return len(self.indices)

    @property
    def padding_share(self) -> float:
        """Share of the positions that hold padding."""
        return 1.0 - float(self.mask.float().mean())

    def to(self, device: torch.device) -> TextBatch:
        """The batch on another device."""
        return to_device(self, device)


def collate_texts(
    texts: Sequence[TokenText], indices: list[int], *, hierarchical: bool, num_labels: int | None
) -> TextBatch:
    """Pad the chosen texts into one batch.

    Args:
        texts: All texts.
        indices: Which of them.
        hierarchical: Whether sentences stay apart.
        num_labels: Number of labels where a text may have several, None where each has one (-1 where it has none).
    """
    chosen = [texts[i] for i in indices]
    if hierarchical:
        num_sentences = max(1, max(len(text.sentences) for text in chosen))
        rows = [row for text in chosen for row in (*text.sentences, *[[]] * (num_sentences - len(text.sentences)))]
        tokens, mask = pad_rows(rows)
        shape = (len(chosen), num_sentences, tokens.shape[1])
        tokens, mask = tokens.view(shape), mask.view(shape)
    else:
        tokens, mask = pad_rows([[token for sentence in text.sentences for token in sentence] for text in chosen])
    if num_labels is None:
        labels = torch.tensor([text.labels[0] if text.labels else -1 for text in chosen])
    else:
        labels = torch.zeros(len(chosen), num_labels)
        for row, text in enumerate(chosen):
            labels[row, text.labels] = 1.0
    return TextBatch(indices, tokens, mask, labels)


def pad_rows(rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor `(rows, longest)`, and its mask, True on real ones."""
    width = max(1, max(map(len, rows), default=1))
    tokens = torch.full((len(rows), width), PADDING, dtype=torch.long)
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(width) < lengths.unsqueeze(1)
    tokens[mask] = torch.tensor([token for row in rows for token in row], dtype=torch.long)
    return tokens, mask


@dataclass(frozen=True, slots=True)
class TokenWords:
    """A sentence as token ids word by word, and its tags.

    Attributes:
        words: The ids of each word, at least one.
        tags: The number of each word's tag; empty where unknown.
        characters: The character ids of each word; empty where the model reads none.
    """

    words: list[list[int]]
    tags: list[int]
    characters: list[list[int]]


@dataclass(frozen=True)
class WordBatch:
    """Padded sentences.

    Attributes:
        indices: Which examples, `(batch,)` as a list.
        tokens: `(batch, length)`.
        mask: `(batch, length)`, True on real tokens.
        word_of: `(batch, length)`, the word that each token belongs to; None where every word is one token.
        word_mask: `(batch, words)`, True on real words.
        tags: `(batch, words)`, tag numbers, 0 on padding.
        characters: `(batch, words, characters)`, or None.
        num_targets: Number of words.
    """

    indices: list[int]
    tokens: Tensor
    mask: Tensor
    word_of: Tensor | None
    word_mask: Tensor
    tags: Tensor
    characters: Tensor | None
    num_targets: int

    @property
    def padding_share(self) -> float:
        """Share of the positions that hold padding."""
        return 1.0 - float(self.mask.float().mean())

    def to(self, device: torch.device) -> WordBatch:
        """The batch on another device."""
        return to_device(self, device)


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
        width = word_mask.shape[1]
        rows = [row for s in chosen for row in (*s.characters, *[[]] * (width - len(s.words)))]
        flat, _ = pad_rows(rows)
        characters = flat.view(len(chosen), width, -1)
    return WordBatch(indices, tokens, mask, word_of, word_mask, tags, characters, sum(len(s.words) for s in chosen))
