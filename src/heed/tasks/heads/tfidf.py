"""What a classifier is compared with: TF-IDF with a linear SVM, and the parts of a model with n-grams alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heed.data.examples import without_breaks
from heed.tasks.base.labels import LabelPrediction

NAME, ALONE, NETWORK = "TF-IDF and a linear SVM", "the n-grams of this run alone", "the network of this run alone"
_WORDS = r"\w+|[^\w\s]"
MOST_FITTED = 40_000_000
"""Largest number of characters of training text used, about half a minute's work; of more, a sample is used."""
_BYTES = 14
"""Memory of fitting for each character; 20 for IMDb and 48 for SST-2, but what training has freed is used again."""


def fitting_memory(characters: int) -> int:
    """Bytes that fitting the baseline to training texts of this many characters takes."""
    return _BYTES * min(characters, MOST_FITTED)


class TfidfClassifier:
    """TF-IDF of single words and pairs, counting punctuation marks as words, and one linear SVM for each label.

    Source: scikit-learn's `TfidfVectorizer` and `LinearSVC` with their defaults.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[Sequence[str]], several: bool) -> None:
        """Fit to labelled texts, to every n-th of very many. `several`: a text may have any number of labels."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.svm import LinearSVC

        step = 1 + sum(map(len, texts)) // MOST_FITTED
        texts, labels = texts[::step], labels[::step]
        self._several = several
        self._labels = sorted({label for own in labels for label in own})
        self._vectorizer: Any = TfidfVectorizer(ngram_range=(1, 2), token_pattern=_WORDS)
        inputs = self._vectorizer.fit_transform(map(without_breaks, texts))
        self._machines: list[Any] = []
        for label in self._labels:
            column = np.array([label in own for own in labels])
            # A label that every text has needs no SVM.
            self._machines.append(None if column.all() else LinearSVC(random_state=0).fit(inputs, column))

    def predict(self, texts: Sequence[str]) -> list[LabelPrediction]:
        """The labels of each text, without probabilities, which an SVM does not give."""
        inputs = self._vectorizer.transform(map(without_breaks, texts))
        scores = np.stack(
            [np.ones(len(texts)) if one is None else one.decision_function(inputs) for one in self._machines], axis=1
        )
        chosen = [
            [self._labels[i] for i in np.flatnonzero(row > 0)] if self._several else [self._labels[int(row.argmax())]]
            for row in scores
        ]
        return [LabelPrediction(",".join(own), tuple(own), 0.0, {}) for own in chosen]
