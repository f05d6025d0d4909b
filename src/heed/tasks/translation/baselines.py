"""Two translators that learn nothing: copy the source; look up the nearest training sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST = 200_000
"""Most training pairs that are searched: the first ones."""
_AT_ONCE = 64
"""Sentences looked up together, each with a row of similarities."""


class NearestSentence:
    """The translation of the training sentence that shares the most words with a sentence.

    Similarity is the Jaccard index |A and B| / |A or B| of the sets of lower-cased words; of ties, the first is taken.

    Source: Jaccard 1912, New Phytologist 11 (2); Manning, Raghavan & Schuetze 2008, Introduction to Information
    Retrieval, 3.3.4.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Keep the source words and the targets of the first 200,000 pairs."""
        self._vocabulary: dict[str, int] = {}
        sources, self._targets = [], list[str]()
        for source, target in islice(pairs, MOST):
            sources.append([self._vocabulary.setdefault(word, len(self._vocabulary)) for word in _words(source)])
            self._targets.append(target)
        self._known = self._matrix(sources)  # (pairs, words)
        self._sizes = np.array([len(words) for words in sources])
        self._holders = self._known.T.tocsr()

    def __len__(self) -> int:
        return len(self._targets)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """The looked-up translation of each sentence; "" without training pairs."""
        if not self._targets:
            return [""] * len(sentences)
        found: list[str] = []
        for start in range(0, len(sentences), _AT_ONCE):
            words = [_words(sentence) for sentence in sentences[start : start + _AT_ONCE]]
            known = [[self._vocabulary[word] for word in one if word in self._vocabulary] for one in words]
            shared = (self._matrix(known) @ self._holders).toarray()  # (sentences, pairs)
            sizes = np.array([len(one) for one in words])[:, None]
            similar = shared / np.maximum(1, sizes + self._sizes - shared)
            found += [self._targets[i] for i in similar.argmax(1)]
        return found

    def _matrix(self, rows: Sequence[Sequence[int]]) -> csr_array:
        from scipy.sparse import csr_array  # slow to import, and only evaluation needs it

        starts = np.cumsum([0, *map(len, rows)])
        places = np.array([word for row in rows for word in row], dtype=np.int32)
        return csr_array((np.ones(len(places), np.float32), places, starts), shape=(len(rows), len(self._vocabulary)))


def _words(text: str) -> list[str]:
    return sorted(set(re.findall(r"\w+", text.lower())))
