"""How many tokens texts have, from the tokens of their words: what batches are planned by before texts are encoded.

No token of a word or subword tokenizer reaches over a blank, so a text has as many tokens as its words have. Each word
is encoded once; that is several times faster than encoding the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Pair
from heed.data.store.store import in_turn
from heed.data.tokens.tokenizer import TextTokenizer

__all__ = ["Lengths", "pair_lengths"]

Lengths = NDArray[np.int32]
"""`(pairs, 2)`: target with its start or end token, and source, as a batch pays for them."""
_TOGETHER = 10_000
"""Pairs whose words are looked up together."""
_KNOWN = 300_000
"""Words of a side that are remembered."""
_ASKED = 50_000
"""New words of pairs together that are encoded; more (of a script without blanks, say) are estimated by these."""


def pair_lengths(
    pairs: Sequence[Pair], tokenizers: tuple[TextTokenizer, TextTokenizer], exact_from: int, tag: bool = False
) -> Iterator[Lengths]:
    """The lengths of pairs, some pairs at a time; a function of these pairs and the tokenizers only.

    Args:
        pairs: Any number.
        tokenizers: Of sources and targets.
        exact_from: Texts that seem to have more tokens than this are encoded, so that these lengths are beyond doubt.
        tag: Whether a tag comes before each source.
    """
    source, target = (_Counter(tokenizer, exact_from) for tokenizer in tokenizers)
    for some in in_turn(pairs, _TOGETHER):
        sources, targets = source.count([pair.source for pair in some]), target.count([pair.target for pair in some])
        yield np.stack([targets + 1, sources + tag], axis=1)


class _Counter:
    """Counts the tokens of the texts of one side."""

    def __init__(self, tokenizer: TextTokenizer, exact_from: int) -> None:
        self._tokenizer = tokenizer
        self._exact_from = exact_from
        self._known: dict[str, int] = {}

    def count(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """Tokens of each text."""
        tokenizer = self._tokenizer
        if tokenizer.unit == "character":
            return np.array([len(t) if t.isascii() else len(tokenizer.normalize(t)) for t in texts], dtype=np.int32)
        words = " ".join(texts).split(" ")
        estimated = self._learn(words)
        lengths = np.fromiter(map(self._known.__getitem__, words), dtype=np.int32, count=len(words))
        for word in estimated:
            del self._known[word]
        ends = np.cumsum([text.count(" ") + 1 for text in texts])
        result = np.add.reduceat(lengths, np.concatenate([[0], ends[:-1]]), dtype=np.int32)
        doubtful = np.flatnonzero(result > self._exact_from).tolist()
        for i, ids in zip(doubtful, tokenizer.encode_all([texts[i] for i in doubtful]), strict=True):
            result[i] = len(ids)
        return result

    def _learn(self, words: Iterable[str]) -> list[str]:
        """Know all these words; those that are returned by estimate only."""
        every = set(words)
        if len(self._known) > _KNOWN:
            self._known.clear()
        self._known[""] = 1  # a blank beside a blank
        new = sorted(every.difference(self._known))
        asked, others = new[:: -(-len(new) // _ASKED)] if new else [], []
        counts = list(map(len, self._tokenizer.encode_all(asked)))
        self._known.update(zip(asked, counts, strict=True))
        if len(asked) < len(new):
            share = sum(counts) / sum(map(len, asked))
            others = [word for word in new if word not in self._known]
            self._known.update((word, max(1, round(share * len(word)))) for word in others)
        return others
