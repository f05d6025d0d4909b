"""Search over outputs that have exactly the words of the source in another order: for shuffled sentences.

The search looks for the most probable of these outputs. With a character tokenizer, only the characters are the same.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention import Rows
from heed.data.tokens.special import is_continued
from heed.data.tokens.tokenizer import END, PADDING, TextTokenizer
from heed.models.base import Memory, ModelConfig, PairDecoder

_BLANK = "\u2581"  # start of a token that follows a space
SortedWords = tuple[tuple[int, ...], ...]
"""SortedWords as their tokens, sorted, with repeats."""
Progress = tuple[SortedWords, tuple[int, ...]]
"""Progress of an output: the words that are not finished, and the tokens of the current word."""


@dataclass(frozen=True)
class SourceMemory(Memory):
    """Encoded sources, and the words of each."""

    own: Memory | None = None
    words: tuple[SortedWords, ...] = ()

    def select(self, sources: Tensor) -> SourceMemory:
        assert self.own is not None
        return SourceMemory((), None, self.own.select(sources), tuple(self.words[i] for i in sources.tolist()))


@dataclass(frozen=True)
class SourceState:
    """The decoder's own state, and the progress of each row."""

    own: Any
    places: tuple[Progress, ...]

    def select(self, rows: Tensor) -> SourceState:
        """Reorder the rows: the new row i continues the old `rows[i]`."""
        return SourceState(self.own.select(rows), tuple(self.places[i] for i in rows.tolist()))


class SameWords(PairDecoder):
    """A decoder that writes each word of its source once and then ends; both sides have one vocabulary.

    Allowed tokens keep the decoder's own probabilities, not renormalised, since a beam compares whole outputs by them.
    The remaining probability goes to the padding token, which no search writes.
    """

    def __init__(self, decoder: PairDecoder, tokenizer: TextTokenizer, never: Collection[int]) -> None:
        """Wrap a decoder in evaluation mode; tokens in `never` are not written, even if the source has them."""
        super().__init__(ModelConfig())
        self._own = [decoder]  # in a list, so that it is not registered as a submodule
        self._tokenizer, self._never = tokenizer, frozenset(never)
        self.output = nn.Identity()

    @property
    def aligns(self) -> bool:
        return self._own[0].aligns

    def encode(self, source: Tensor, source_mask: Tensor) -> SourceMemory:
        rows = [row[mask].tolist() for row, mask in zip(source, source_mask, strict=True)]
        return SourceMemory((), None, self._own[0].encode(source, source_mask), tuple(map(self._cut, rows)))

    def _cut(self, ids: list[int]) -> SortedWords:
        return tuple(sorted(cut_words(self._tokenizer, [i for i in ids if i not in self._never])))

    def start(self, memory: Memory | None, rows: Rows) -> SourceState:
        assert isinstance(memory, SourceMemory)
        own = self._own[0].start(memory.own, rows)
        return SourceState(own, tuple((memory.words[i], ()) for i in rows.source_of.tolist()))

    def step(self, tokens: Tensor, state: SourceState, lengths: Tensor | None = None) -> tuple[Tensor, SourceState]:
        hidden, own = self._own[0].step(tokens, state.own, lengths)
        log_probs, places = torch.log_softmax(self._own[0].logits(hidden).float(), dim=-1), list(state.places)
        allowed = torch.zeros_like(log_probs, dtype=torch.bool)
        for n, column in enumerate(tokens.unbind(1)):
            for row, token in enumerate(column.tolist()):
                places[row] = advance(places[row], token)
                allowed[row, n, list(may_follow(places[row]))] = True
        rest = torch.logsumexp(log_probs.masked_fill(allowed, -torch.inf), dim=-1)
        log_probs = log_probs.masked_fill(~allowed, -torch.inf)
        log_probs[..., PADDING] = rest
        return log_probs, SourceState(own, tuple(places))


def cut_words(tokenizer: TextTokenizer, ids: Sequence[int]) -> list[tuple[int, ...]]:
    """Group tokens into words at spaces, final punctuation marks one by one; with characters, each token by itself."""
    texts = [tokenizer.token(i) for i in ids]
    if tokenizer.unit == "character":
        return [(i,) for i in ids]
    end = len(ids)
    while end and len(texts[end - 1]) == 1 and unicodedata.category(texts[end - 1]).startswith("P"):
        end -= 1
    pieces = tokenizer.is_of_pieces
    begins = [not is_continued(text) if pieces else text.startswith(_BLANK) for text in texts]
    starts = [n for n in range(end) if n == 0 or begins[n]]
    words = [tuple(ids[a:b]) for a, b in zip(starts, [*starts[1:], end], strict=True)] if starts else []
    return [*words, *((i,) for i in ids[end:])]


def advance(place: Progress, token: int) -> Progress:
    """The place after one more token; a token that is not allowed (such as a start token) changes nothing."""
    words, begun = place
    longer = (*begun, token)
    if any(word[: len(longer)] == longer for word in words):
        return words, longer
    rest = _without(words, begun)
    return (rest, (token,)) if rest is not None and any(word[0] == token for word in rest) else place


def may_follow(place: Progress) -> frozenset[int]:
    """The allowed next tokens: those that continue a word or, after a whole word, start another or end the output."""
    words, begun = place
    size = len(begun)
    tokens = {word[size] for word in words if len(word) > size and word[:size] == begun}
    rest = _without(words, begun)
    if rest is not None:
        tokens |= {word[0] for word in rest} or {END}
    return frozenset(tokens or {END})


def _without(words: SortedWords, word: tuple[int, ...]) -> SortedWords | None:
    """The words without one occurrence of `word`; None if it does not occur."""
    if word not in words:
        return None
    place = words.index(word)
    return (*words[:place], *words[place + 1 :])
