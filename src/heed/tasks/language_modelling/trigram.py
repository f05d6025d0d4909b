"""A trigram model over a run's own tokens: the baseline of its scores.

    p(c)       = (n(c) + 1) / (N + V)
    p(c | b)   = (n(bc) + m p(c)) / (n(b.) + m)
    p(c | ab)  = (n(abc) + m p(c | b)) / (n(ab.) + m)        m = 5

Source: MacKay and Peto 1995, Natural Language Engineering 1 (3), hierarchical Dirichlet smoothing, with one fixed m.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_STRENGTH = 5.0
"""m above."""
_MOST = 20_000_000
"""Tokens that are counted: the first ones of the training data."""
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Sorted keys, and how often each occurs."""


class Trigram:
    """Counts of a stream of tokens."""

    def __init__(self, ids: Sequence[int] | NDArray[np.int64], vocab_size: int) -> None:
        stream = np.asarray(ids[:_MOST], dtype=np.int64)
        self._size = vocab_size
        pairs = stream[:-1] * vocab_size + stream[1:]
        triples = pairs[:-1] * vocab_size + stream[2:]
        self._ones = np.bincount(stream, minlength=vocab_size)
        self._before_pairs = np.bincount(stream[:-1], minlength=vocab_size)
        self._pairs, self._triples = _counted(pairs), _counted(triples)
        self._before_triples = _counted(pairs[:-1])

    def log_probs(self, ids: NDArray[np.int64], first_token: int) -> NDArray[np.float64]:
        """Natural log-probability of each of the tokens of a document, `(tokens,)`, the first after `first_token`."""
        read = np.concatenate([[first_token], ids]).astype(np.int64)
        before, own = read[:-1], read[1:]
        chances = (self._ones[own] + 1) / (self._ones.sum() + self._size)
        pairs = before * self._size + own
        chances = _mixed(_looked_up(self._pairs, pairs), self._before_pairs[before], chances)
        if len(own) > 1:
            triples = pairs[:-1] * self._size + own[1:]
            seen = _looked_up(self._before_triples, pairs[:-1])
            chances[1:] = _mixed(_looked_up(self._triples, triples), seen, chances[1:])
        return np.log(chances)


def _counted(keys: NDArray[np.int64]) -> Counts:
    found, counts = np.unique(keys, return_counts=True)
    return found, counts


def _looked_up(counts: Counts, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    known, numbers = counts
    if not len(known):
        return np.zeros(len(keys), np.int64)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: NDArray[np.int64] = np.where(known[places] == keys, numbers[places], 0)
    return found


def _mixed(count: NDArray[np.int64], total: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.float64]:
    mixed: NDArray[np.float64] = (count + _STRENGTH * chances) / (total + _STRENGTH)
    return mixed
