"""Linear classifiers of n-grams: one next to a classifier's body, fitted before the body is trained; the baseline.

The body is trained to add what the n-grams miss. N-grams fitted to a training text overfit it, so while the body
learns, each text has the logits of n-grams fitted without its quarter of the texts (stacked generalisation: Wolpert
1992, Neural Networks 5(2)). The n-grams that are kept are fitted to all training texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.batch import TokenText
from heed.layers.ngrams import HashedNgrams, hash_ngrams

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

from heed.data.examples import without_breaks
from heed.tasks.base.labels import LabelPrediction

_PARTS = 4
"""Folds of the training texts: the n-gram logits of each come from a fit to the others."""
_STRENGTHS = (10.0, 3.0)
"""C of the logistic regressions, the inverse of regularisation; chosen by accuracy on held-out texts."""
_FEW = 4_000_000
"""Largest number of n-grams of all texts times outputs for choosing C, a matter of seconds; above it C is the first."""
NAME = "TF-IDF and a linear SVM"
_WORDS = r"\w+|[^\w\s]"
_MOST_CHARACTERS = 40_000_000
"""Largest number of characters of training text used, about half a minute's work; of more, a sample is used."""
_BYTES = 14
"""Memory of fitting for each character; 20 for IMDb and 48 for SST-2, but what training has freed is used again."""


@dataclass(frozen=True)
class Fitted:
    """Result of fitting the n-grams, for the log and for the report."""

    longest: int
    buckets: int  # rows of the table used by training texts
    of: int  # rows of the table
    texts: int
    strength: float  # C of the regressions
    held_out: float  # share of training texts labelled correctly by n-grams fitted without them

    def __str__(self) -> str:
        return (
            f"n-grams of up to {self.longest} words, fitted to {self.texts:,} texts, use {self.buckets:,} of "
            f"{self.of:,} table rows; alone they are right on {self.held_out:.1%} of training texts held out from "
            "the fit"
        )

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        return dict(vars(self))


def fit(task: Any, ngrams: HashedNgrams) -> Fitted:
    """Fit the n-grams of a new model to all training texts."""
    texts = task.encoded("train")
    counts = _matrix(task, texts, ngrams.longest, len(ngrams.idf))
    idf = _idf(counts)
    strength, logits = task.strength_and_held_out
    weight, bias = _regress(_scaled(counts, idf), targets(task, texts), task.class_weights, strength)
    for buffer, values in ((ngrams.idf, idf), (ngrams.weight, weight), (ngrams.bias, bias)):
        buffer.copy_(torch.from_numpy(values))
    right = _right(task, logits)
    return Fitted(ngrams.longest, int((idf > 0).sum()), len(idf), len(texts), strength, right)


def strength_and_held_out(task: Any) -> tuple[float, Tensor]:
    """C, and logits of each training text by n-grams fitted to the other parts of the training set.

    C is the one of `_STRENGTHS` whose logits, `(texts, outputs)`, are right most often: where labels are uncertain,
    such as grades of praise, smaller values are better.
    """
    _, head = task.model_and_head()
    texts = task.encoded("train")
    counts, true = _matrix(task, texts, head.ngrams, head.ngram_buckets), targets(task, texts)
    part = np.random.default_rng(0).permutation(len(texts)) % min(_PARTS, len(texts))
    strengths = _STRENGTHS if counts.nnz * true.shape[1] <= _FEW else _STRENGTHS[:1]
    found = {strength: np.zeros(true.shape, dtype=np.float32) for strength in strengths}
    for number in range(part.max() + 1):
        out = part == number
        idf = _idf(counts[~out])
        inputs, others = _scaled(counts[~out], idf), _scaled(counts[out], idf)
        for strength, result in found.items():
            weight, bias = _regress(inputs, true[~out], task.class_weights, strength)
            result[out] = others @ weight + bias
    logits = {strength: torch.from_numpy(result) for strength, result in found.items()}
    best = max(logits, key=lambda strength: _right(task, logits[strength]))  # the first if equal
    return best, logits[best]


def _right(task: Any, logits: Tensor) -> float:
    """Share of the training texts whose labels these logits predict correctly."""
    right = task.decide(task.probabilities(logits)) == task.indicators(task.encoded("train"))
    return float(right.all(1).mean())


def targets(task: Any, texts: Sequence[TokenText]) -> NDArray[np.bool_]:
    """Which outputs of the model should be positive for each text, `(texts, outputs)`."""
    true: NDArray[np.bool_] = task.indicators(texts)
    return true[:, 1:] if task.sigmoid and not task.config.data.several_labels else true


def _matrix(task: Any, texts: Sequence[TokenText], longest: int, num_buckets: int) -> csr_matrix:
    """1 if a text has an n-gram, `(texts, buckets)`; for hierarchical models, n-grams do not cross sentences."""
    from scipy.sparse import csr_matrix

    hierarchical = task.hierarchical
    columns = []
    for text in texts:
        sentences = text.sentences if hierarchical else [task.tokens_of(text)]
        rows = [torch.tensor(sentence, dtype=torch.long) for sentence in sentences]
        found = [hash_ngrams(row, torch.ones_like(row, dtype=torch.bool), longest, num_buckets) for row in rows]
        all_of = np.unique(torch.cat([one.flatten() for one in found]).numpy()) if found else np.zeros(0, dtype=int)
        columns.append(all_of[all_of >= 0])
    begins = np.cumsum([0, *map(len, columns)])
    values = np.ones(begins[-1], dtype=np.float32)
    return csr_matrix((values, np.concatenate(columns), begins), shape=(len(texts), num_buckets))


def _idf(counts: csr_matrix) -> NDArray[np.float32]:
    """ln((1 + texts) / (1 + texts that have it)) + 1, as scikit-learn; 0 for n-grams that no text has."""
    found = np.asarray(counts.sum(0)).ravel()
    idf = np.log((1 + counts.shape[0]) / (1 + found)) + 1
    return np.where(found > 0, idf, 0).astype(np.float32)


def _scaled(counts: csr_matrix, idf: NDArray[np.float32]) -> csr_matrix:
    """Each row times idf, normalised to length 1."""
    from scipy.sparse import diags

    scaled = counts @ diags(idf)
    lengths = np.sqrt(np.asarray(scaled.multiply(scaled).sum(1)).ravel())
    result: csr_matrix = (diags(1 / np.maximum(lengths, 1e-9)) @ scaled).tocsr()
    return result


def _regress(
    inputs: csr_matrix, true: NDArray[np.bool_], weights: list[float] | None, strength: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A logistic regression for each output: W `(buckets, outputs)` and b `(outputs,)`.

    For two exclusive outputs one regression is fitted, and each output has half of its weights.
    """
    two = true.shape[1] == 2 and bool((true.sum(1) == 1).all())
    columns = true[:, 1:] if two else true
    weight = np.zeros((inputs.shape[1], columns.shape[1]), dtype=np.float32)
    bias = np.zeros(columns.shape[1], dtype=np.float32)
    for number, column in enumerate(columns.T):
        if column.all() or not column.any():  # only one class: the odds with one text of the other class added
            bias[number] = (1 if column.any() else -1) * np.log(len(column) + 1)
            continue
        sample_weights = _sample_weights(true, weights, two, number, column)
        weight[:, number], bias[number] = _one(inputs, column, sample_weights, strength)
    if two:
        return np.hstack([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
    return weight, bias


def _sample_weights(
    true: NDArray[np.bool_], weights: list[float] | None, two: bool, number: int, column: NDArray[np.bool_]
) -> NDArray[np.float64] | None:
    """Weight of each text in the regression of one output."""
    if weights is None:
        return None
    of_label = np.array(weights)
    if (
        len(of_label) == true.shape[1] and not two and (true.sum(1) != 1).any()
    ):  # several labels: weigh texts with the label
        return np.where(column, of_label[number], 1.0)
    of_text = true.argmax(1) if len(of_label) == true.shape[1] else column.astype(int)
    result: NDArray[np.float64] = of_label[of_text]  # by the label; one output gives the label of two
    return result


def _one(
    inputs: csr_matrix, column: NDArray[np.bool_], weights: NDArray[np.float64] | None, strength: float
) -> tuple[NDArray[np.float32], float]:
    """One output's regression: the mean of a plain one and of one whose inputs are scaled by log-count ratios.

    The second finds n-grams that occur with one label only, the first those that many texts have; on four validation
    sets their mean was right more often than either.
    """
    from scipy.sparse import diags
    from sklearn.linear_model import LogisticRegression

    scale = _log_count_ratios(inputs, column)
    used = np.unique(inputs.indices)  # the solver's time grows with the number of columns, most of which are empty
    weight = np.zeros(inputs.shape[1], dtype=np.float64)
    inputs, of_used = inputs[:, used], scale[used]
    made = LogisticRegression(C=strength, solver="liblinear", random_state=0)
    plain = made.fit(inputs, column, weights)
    coefficients, bias = plain.coef_[0], float(plain.intercept_[0])
    scaled = made.fit(inputs @ diags(of_used), column, weights)
    weight[used] = (coefficients + of_used * scaled.coef_[0]) / 2
    return weight, (bias + float(scaled.intercept_[0])) / 2


def _log_count_ratios(inputs: csr_matrix, column: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Log-count ratio of each n-gram: ln of its share in texts with the label over that in texts without.

    Source: Wang and Manning 2012 (ACL P12-2018), section 2.1, alpha = 1, for binarised counts.
    """
    found = inputs > 0
    there = np.asarray(found.sum(0)).ravel() > 0  # skip buckets that no text uses
    those, others = (np.asarray(found[rows].sum(0)).ravel()[there] + 1.0 for rows in (column, ~column))
    result = np.zeros(len(there))
    result[there] = np.log(those / those.sum()) - np.log(others / others.sum())
    return result


def fitting_memory(texts: Iterable[str]) -> int:
    """Bytes that fitting the baseline to these training texts takes."""
    characters = 0
    for text in texts:
        characters += len(text)
        if characters >= _MOST_CHARACTERS:  # a large corpus is not read to its end
            break
    return _BYTES * min(characters, _MOST_CHARACTERS)


class TfidfClassifier:
    """TF-IDF of single words and pairs, counting punctuation marks as words, and one linear SVM for each label.

    Source: scikit-learn's `TfidfVectorizer` and `LinearSVC` with their defaults.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[Sequence[str]], several: bool) -> None:
        """Fit to labelled texts, to every n-th of very many. `several`: a text may have any number of labels."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.svm import LinearSVC

        step = 1 + sum(map(len, texts)) // _MOST_CHARACTERS
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
