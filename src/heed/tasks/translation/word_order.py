"""Word order: a search for the most probable order of the source's words, and baselines for shuffled sentences.

`SameWords` lets a search write only outputs that have exactly the words of the source, in any order. With a character
tokenizer, only the characters are the same.

The baselines are the shuffled words themselves, and their most probable order under an add-k trigram model. Trigrams
are counted on the training sentences (a million at most); k is the value from 1 to 0.0001 under which the validation
sentences are most probable, the beam keeps 50 orderings, and punctuation that opens or ends a sentence is fixed. Words
keep their capital letters, whatever the model reads. If the training data can no longer be read, this baseline is left
out.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention import Rows
from heed.data.examples import Pair
from heed.data.kinds.pairs import words_of
from heed.data.tokens.special import is_continued
from heed.data.tokens.tokenizer import TextTokenizer
from heed.models.base import Memory, ModelConfig, PairDecoder
from heed.tasks.base.writing import Writing
from heed.tasks.base.writing_run import Baselines

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
    The remaining probability goes to a token that no search writes.
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
                allowed[row, n, list(may_follow(places[row], self._tokenizer.special.end))] = True
        rest = torch.logsumexp(log_probs.masked_fill(allowed, -torch.inf), dim=-1)
        log_probs = log_probs.masked_fill(~allowed, -torch.inf)
        if self._never:
            log_probs[..., min(self._never)] = rest
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


def may_follow(place: Progress, end: int) -> frozenset[int]:
    """The allowed next tokens: those that continue a word or, after a whole word, start another or end the output."""
    words, begun = place
    size = len(begun)
    tokens = {word[size] for word in words if len(word) > size and word[:size] == begun}
    rest = _without(words, begun)
    if rest is not None:
        tokens |= {word[0] for word in rest} or {end}
    return frozenset(tokens or {end})


def _without(words: SortedWords, word: tuple[int, ...]) -> SortedWords | None:
    """The words without one occurrence of `word`; None if it does not occur."""
    if word not in words:
        return None
    place = words.index(word)
    return (*words[:place], *words[place + 1 :])


Shuffled = Writing[Any, Pair, Any, Any]
"""A task whose sources are the shuffled words of its targets."""
BEAM = 50
"""Orderings kept after each word."""
_CONSTANTS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
"""Values of k to choose from."""
_LEARN_FROM = 1_000_000
"""Most training sentences that are counted."""
_TUNE_ON = 1_000
"""Most validation sentences used to choose k."""
_START, _END = "", "\n"
"""Boundaries of a sentence, which are never words."""


class Trigrams:
    """An add-k trigram model of words.

        p(w | u v) = (count(u v w) + k) / (count(u v) + k V)

    V is the number of words of the training sentences, one unknown word and the end. Two starts precede a sentence.

    Source: Lidstone's law; Manning & Schuetze 1999, Foundations of Statistical NLP, 6.2.2.
    """

    def __init__(self, sentences: Iterable[Sequence[str]], k: float = 1.0) -> None:
        """Count the trigrams of sentences, each a sequence of words."""
        self.k = k
        self._trigrams: Counter[tuple[str, str, str]] = Counter()
        vocabulary: set[str] = set()
        for words in sentences:
            vocabulary.update(words)
            padded = [_START, _START, *words, _END]
            self._trigrams.update(zip(padded, padded[1:], padded[2:], strict=False))
        self._bigrams: Counter[tuple[str, str]] = Counter()
        for (u, v, _), count in self._trigrams.items():
            self._bigrams[u, v] += count
        self.vocab_size = len(vocabulary) + 2

    def log_prob(self, u: str, v: str, w: str) -> float:
        """The logarithm of p(w | u v), in nats."""
        count, before = self._trigrams.get((u, v, w), 0), self._bigrams.get((u, v), 0)
        return math.log((count + self.k) / (before + self.k * self.vocab_size))

    def score(self, words: Sequence[str]) -> float:
        """The log-probability of a sentence, its end included, in nats."""
        padded = [_START, _START, *words, _END]
        return sum(map(self.log_prob, padded, padded[1:], padded[2:]))

    def tune(self, sentences: Sequence[Sequence[str]], constants: Sequence[float] = _CONSTANTS) -> None:
        """Set k to the value under which these sentences are most probable."""

        def total(k: float) -> float:
            self.k = k
            return math.fsum(map(self.score, sentences))

        self.k = max(constants, key=total)

    def best_order(
        self, words: Sequence[str], first: Sequence[str] = (), last: Sequence[str] = (), beam_size: int = BEAM
    ) -> list[str]:
        """The most probable order of some words between the words `first` and `last`, by beam search.

        Of orderings of the same words that end in the same two words, only the best is kept, so an unlimited beam
        finds the maximum (tests compare with all permutations); ties go to the alphabetically first order.
        """
        kinds = sorted(set(words))
        left = tuple(map(Counter(words).__getitem__, kinds))
        known: dict[tuple[str, str, str], float] = {}

        def log_prob(u: str, v: str, w: str) -> float:
            if (u, v, w) not in known:
                known[u, v, w] = self.log_prob(u, v, w)
            return known[u, v, w]

        # (words left by kind, last two words) -> score, ordering
        u, v = [_START, _START, *first][-2:]
        beam: dict[tuple[tuple[int, ...], str, str], tuple[float, tuple[str, ...]]] = {(left, u, v): (0.0, ())}
        for _ in words:
            grown: dict[tuple[tuple[int, ...], str, str], tuple[float, tuple[str, ...]]] = {}
            for (left, u, v), (score, order) in beam.items():
                for place, count in enumerate(left):
                    if count:
                        word = kinds[place]
                        key = ((*left[:place], count - 1, *left[place + 1 :]), v, word)
                        found = (score + log_prob(u, v, word), (*order, word))
                        if key not in grown or _better(found, grown[key]):
                            grown[key] = found
            best = sorted(grown.items(), key=lambda item: (-item[1][0], item[1][1]))
            beam = dict(best[:beam_size])
        rest = [*last, _END]
        ended = []
        for (_, u, v), (score, order) in beam.items():
            padded = [u, v, *rest]
            ended.append((-score - sum(map(log_prob, padded, padded[1:], rest)), order))
        return list(min(ended)[1])


def _better(one: tuple[float, tuple[str, ...]], other: tuple[float, tuple[str, ...]]) -> bool:
    return one[0] > other[0] or (one[0] == other[0] and one[1] < other[1])


def learn_trigrams(task: Shuffled) -> Trigrams:
    """Count the trigrams of a run's training sentences, and choose k on its validation sentences.

    Sentences are normalised by the target tokenizer; punctuation that opens or ends a sentence is a separate word.

    Raises:
        DataError: The run's data cannot be read.
    """
    train, valid = task.splits.examples["train"], task.splits.examples["valid"]

    def words(pairs: Iterable[Pair]) -> Iterable[list[str]]:
        for pair in pairs:
            opening, inner, closing = words_of(task.target_tokenizer.normalize(pair.target))
            yield [*filter(None, [opening]), *inner, *filter(None, [closing])]

    trigrams = Trigrams(words(islice(train, _LEARN_FROM)))
    trigrams.tune(list(words(islice(valid, _TUNE_ON))))
    return trigrams


def baselines(task: Shuffled, trigrams: Trigrams | None) -> Baselines:
    """Shuffled words as they are, and in the order of the trigram model, if there is one."""
    normalize, found = task.target_tokenizer.normalize, dict[str, Callable[[Sequence[str]], list[str]]]()
    found["the shuffled input"] = lambda sources: [*map(normalize, sources)]
    if trigrams is not None:
        name = f"add-k trigrams, k {trigrams.k:g}, beam {BEAM}"
        found[name] = lambda sources: [_ordered(trigrams, normalize(source)) for source in sources]
    return found


def _ordered(trigrams: Trigrams, source: str) -> str:
    opening, words, closing = words_of(source)
    first, last = [opening] if opening else [], [closing] if closing else []
    return opening + " ".join(trigrams.best_order(words, first, last)) + closing
