"""Batches of token ids: padded rows (examples, sides, sentences, characters), texts with labels, words with tags.

Framed texts have a start token before and an end token after, as `models.base.TokenEncoder.framed` expects:

one text     START a END
two texts    START a END b END         or, with a double separator (RoBERTa), START a END END b END
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from heed.data.tokens.tokenizer import END, PADDING, START
from heed.device import to_device
from heed.errors import DataError


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


def frame(ids: Sequence[int], pair: Sequence[int] | None = None, double: bool = False) -> list[int]:
    """A text, or two, with their start and end tokens."""
    one = [START, *ids, END]
    return one if pair is None else [*one, *([END] if double else []), *pair, END]


def frame_size(is_pair: bool, double: bool = False) -> int:
    """The number of tokens that `frame` adds."""
    return 3 + double if is_pair else 2


def fit(
    ids: Sequence[int], pair: Sequence[int] | None, max_length: int, double: bool = False
) -> tuple[list[int], list[int] | None]:
    """The text, or both, cut at the end so that framed they have at most `max_length` tokens.

    Of two texts the longer one is cut until both are equally long, then both alternately, the second first.

    Raises:
        DataError: `max_length` has no room for the frame.

    Source: Devlin et al. 2019, the published code (`_truncate_seq_pair`).
    """
    room = max_length - frame_size(pair is not None, double)
    if room < 0:
        raise DataError(f"{max_length} positions are too few for the {max_length - room} start and end tokens")
    if pair is None:
        return list(ids[:room]), None
    if len(ids) + len(pair) <= room:
        return list(ids), list(pair)
    half = room // 2  # tokens of the second text if both are cut; the first may have one more
    if len(pair) <= half:
        return list(ids[: room - len(pair)]), list(pair)
    first = min(len(ids), room - half)
    return list(ids[:first]), list(pair[: room - first])


def framed(tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Padded rows with the start token before each and the end token after its last real one.

    Args:
        tokens: `(batch, length)`, padded on the right.
        mask: `(batch, length)`, True on real tokens.

    Returns:
        Tokens and mask `(batch, length + 2)`: position t + 1 has the former position t.
    """
    lengths = mask.sum(1, keepdim=True)
    moved = pad(tokens.masked_fill(~mask, PADDING), (1, 1), value=PADDING)
    moved[:, 0] = START
    moved.scatter_(1, lengths + 1, END)
    return moved, torch.arange(moved.shape[1], device=tokens.device) < lengths + 2


def framed_features(features: Tensor) -> Tensor:
    """Features of each token `(batch, length, d)`, with zeros for the start and end tokens."""
    return pad(features, (0, 0, 1, 1))


def unframed(hidden: Tensor) -> Tensor:
    """States of framed tokens, `(batch, length + 2, d)`, without those of the first and last position.

    The result is `(batch, length, d)`, undefined outside the mask of the unframed tokens.
    """
    return hidden[:, 1:-1]


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
