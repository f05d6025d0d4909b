"""The baseline for pairs: word overlap and lengths of the two texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from heed.evaluation.measures import Array
from heed.tasks.pretraining.masked import answers
from heed.tasks.pretraining.rows import NO_QUESTION, Passages, Rows

NAME = "word overlap and lengths"
_WORD = re.compile(r"\w+")
_MOST = 20_000
"""Largest number of training pairs that the classifier is fitted to."""
_STEPS = 30


class OverlapClassifier:
    """A logistic regression on six numbers of a pair, fitted to pairs of the training set.

    The numbers are the count of shared words, their share of all words of the two, and the distinct words and the
    characters of each text, standardised.
    """

    def __init__(self, passages: Passages, rows: Rows, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        table, labels = self._table(passages, rows, _MOST)
        self._mean, self._std = table.mean(0), table.std(0) + 1e-9
        self._weights = _fitted(self._inputs(table), labels.astype(np.float64))

    def scores(self, passages: Passages, rows: Rows) -> Array:
        """Scores, for each row: 1 if it is a pair, 1 if it was answered right, and the nats, `(rows, 3)`."""
        found = np.zeros((len(rows), 3))
        asked = np.flatnonzero(rows.labels != NO_QUESTION)
        if len(asked):
            table, labels = self._table(passages, rows, len(asked))
            logits = self._inputs(table) @ self._weights
            found[asked] = answers(-np.logaddexp(0.0, np.stack([logits, -logits], axis=1)), labels)
        return found

    def _inputs(self, table: Array) -> Array:
        return np.concatenate([(table - self._mean) / self._std, np.ones((len(table), 1))], axis=1)

    def _table(self, passages: Passages, rows: Rows, most: int) -> tuple[Array, NDArray[np.int64]]:
        """The six numbers of at most `most` pairs, evenly spaced, and their labels."""
        asked = np.flatnonzero(rows.labels != NO_QUESTION)
        asked = asked[:: max(1, -(-len(asked) // max(1, most)))]
        table = np.zeros((len(asked), 6))
        for n, row in enumerate(asked.tolist()):
            texts = [
                self._decode(passages.ids[start[row] : stop[row]].tolist()).lower()
                for start, stop in ((rows.first, rows.first_end), (rows.second, rows.second_end))
            ]
            a, b = (set(_WORD.findall(text)) for text in texts)
            both = len(a & b)
            table[n] = both, both / max(1, len(a | b)), len(a), len(b), len(texts[0]), len(texts[1])
        return table, rows.labels[asked]


def _fitted(inputs: Array, labels: Array) -> Array:
    """Fit the weights of a logistic regression by Newton's method, with a little decay."""
    weights = np.zeros(inputs.shape[1])
    decay = np.full(len(weights), 1e-3)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (chance - labels) + decay * weights
        curvature = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.diag(decay)
        weights -= np.linalg.solve(curvature, gradient)
    return weights
