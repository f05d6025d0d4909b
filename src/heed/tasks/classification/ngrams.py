"""Linear classifiers of n-grams: one next to a classifier's body, fitted before the body is trained; the baseline.

The body is trained to add what the n-grams miss. N-grams fitted to a training text overfit it, so while the body
learns, each text has the logits of n-grams fitted without its part of the texts (stacked generalisation: Wolpert
1992, Neural Networks 5(2)). The n-grams that are kept are fitted to all training texts.

N-grams are those of the words of a text in lower case, whether or not the tokenizer knows them, and of the characters
within a word with a blank on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.batch import TokenText
from heed.data.examples import without_breaks
from heed.data.tokens.special import split_words
from heed.layers.ngrams import HashedNgrams, hash_ngrams
from heed.tasks.base.labels import LabelPrediction

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CHARACTERS = 4
"""Length of the longest n-grams of characters by default; 5 gave the same in twice the time."""
MOST_CHARACTERS = 5_000_000
"""Largest number of characters of training text times regressions for n-grams of characters by default."""
_SHORTEST = 3
"""Length of the shortest n-grams of characters."""
_LONGEST_WORD = 64
"""Characters of a word that n-grams of characters are taken from."""
_PARTS = 4
"""Folds of the training texts: the n-gram logits of each come from a fit to the others."""
_STRENGTHS = (10.0, 3.0, 1.0, 0.3)
"""C of the logistic regressions, the inverse of regularisation; chosen by accuracy on held-out texts."""
_FEW, _MANY = 100_000, 4_000_000
"""Largest numbers of n-grams of words of all texts times outputs for choosing on all folds, and for choosing C at all;
between them two folds decide, above them C is the first."""
NAME, ALONE = "TF-IDF and a linear SVM", "the n-grams of this run alone"
_WORDS = r"\w+|[^\w\s]"
MOST_FITTED = 40_000_000
"""Largest number of characters of training text used, about half a minute's work; of more, a sample is used."""
_BYTES = 14
"""Memory of fitting for each character; 20 for IMDb and 48 for SST-2, but what training has freed is used again."""


@dataclass(frozen=True)
class Fitted:
    """Result of fitting the n-grams, for the log and for the report."""

    longest: int
    characters: int  # length of the longest n-grams of characters; 0 if without them more held-out texts were right
    buckets: int  # rows of the table used by training texts
    of: int  # rows of the table
    texts: int
    strength: float  # C of the regressions
    held_out: float  # share of training texts labelled correctly by n-grams fitted without them

    def __str__(self) -> str:
        characters = f" and {_SHORTEST} to {self.characters} characters" * (self.characters > 0)
        return (
            f"n-grams of up to {self.longest} words{characters}, fitted to {self.texts:,} texts, use "
            f"{self.buckets:,} of {self.of:,} table rows; alone they are right on {self.held_out:.1%} of training "
            "texts held out from the fit"
        )

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        return dict(vars(self))


@dataclass(frozen=True)
class Reading:
    """The n-grams of a text: their lengths and their rows in the table."""

    longest: int  # in words
    characters: int  # in characters within a word, 0 for none
    num_buckets: int

    def rows(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The rows of the n-grams of words, then of those of characters."""
        hashed = [_hashed(word, self.characters) for word in words]
        numbers = np.array([one[0] for one in hashed], dtype=np.int64)
        found = hash_ngrams(numbers, self.longest, self.num_buckets)
        if self.characters and words:
            within = hash_ngrams(np.concatenate([one[1:] for one in hashed]), 1, self.num_buckets)
            found.append(within[0] + self.num_buckets)
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def names(self, words: Sequence[str]) -> list[str]:
        """The n-grams of `rows`, for people: "not good", and characters as "un-", "-ful-", "-ing"."""
        lengths = range(1, self.longest + 1)
        found = [" ".join(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1)]
        within = [part for word in words for part in _within(word, self.characters)]
        return found + ["-" * (part[0] != " ") + part.strip() + "-" * (part[-1] != " ") for part in within]


def _within(word: str, longest: int) -> list[str]:
    """The n-grams of characters of a word, with a blank on either side."""
    spaced = f" {word[:_LONGEST_WORD]} "
    return [spaced[i : i + n] for n in range(_SHORTEST, longest + 1) for i in range(len(spaced) - n + 1)]


@lru_cache(1 << 16)
def _hashed(word: str, longest: int) -> NDArray[np.int64]:
    """Numbers below 2 ** 31 for a word and, after it, for its n-grams of characters."""
    return np.array([crc32(part.encode("utf-8", "replace")) >> 1 for part in (word, *_within(word, longest))])


def words_of(text: str) -> list[str]:
    """The words and marks of a text, in lower case."""
    text = text.lower()
    return [text[start:end] for start, end in split_words(text)]


@dataclass(frozen=True)
class Chosen:
    """How the regressions are fitted: what is right most often on the held-out parts of the training set."""

    characters: int  # length of the longest n-grams of characters, 0 if they do not help
    strength: float  # C
    scale: float  # factor of the logits with which the held-out texts have the smallest loss
    logits: Tensor  # `(texts, outputs)`, of each text from a fit to the other parts


def choose(task: Any) -> Chosen:
    """Choose how to fit the n-grams of a model by cross-validation on its training texts.

    Where labels are uncertain, such as grades of praise or labels of short phrases, a smaller C is better. N-grams of
    characters help most with few texts, whose words are mostly new; they are tried with the best C for words.
    """
    _, head = task.model_and_head()
    texts = list(task.encoded("train"))
    true = targets(task, texts)
    parts = min(_PARTS, len(texts))
    part = np.random.default_rng(0).permutation(len(texts)) % parts
    counts = {0: _matrix(texts, head.ngram_buckets, characters=False)}
    work = counts[0].nnz * true.shape[1]
    searched = parts if work <= _FEW else min(2, parts)
    inside = np.flatnonzero(part < searched)

    def held_out(characters: int, strength: float, first: int, last: int, logits: Tensor) -> Tensor:
        for number in range(first, last):
            out = part == number
            idf = _idf(counts[characters][~out])
            inputs, others = (_scaled(counts[characters][rows], idf, head.ngram_buckets) for rows in (~out, out))
            weight, bias = _regress(inputs, true[~out], task.class_weights, strength)
            logits[out] = torch.from_numpy(others @ weight + bias)
        return logits

    def tried(characters: int, strength: float) -> tuple[float, int, float, Tensor]:
        logits = held_out(characters, strength, 0, searched, torch.zeros(true.shape))
        return _right(task, logits[inside], [texts[i] for i in inside]), characters, strength, logits

    strengths = _STRENGTHS if work <= _MANY else _STRENGTHS[:1]
    best = max((tried(0, strength) for strength in strengths), key=itemgetter(0))  # the first if equal
    if head.ngram_characters:
        counts[head.ngram_characters] = _matrix(texts, head.ngram_buckets, characters=True)
        best = max(best, tried(head.ngram_characters, best[2]), key=itemgetter(0))
    _, characters, strength, logits = best
    logits = held_out(characters, strength, searched, parts, logits)
    # Where all held-out texts are right, the largest scale has the smallest loss, however few they are.
    labels, scales = task.label_tensor(texts), np.geomspace(0.25, 2, 31).tolist()
    scale = min(scales, key=lambda scale: float(task.label_loss(logits * scale, labels, 0.0)))
    return Chosen(characters, strength, scale, logits * scale)


def fit(task: Any, ngrams: HashedNgrams) -> Fitted:
    """Fit the n-grams of a new model to all training texts."""
    texts, chosen = list(task.encoded("train")), task.chosen_ngrams
    counts = _matrix(texts, ngrams.num_buckets, chosen.characters > 0)
    idf = _idf(counts)
    inputs = _scaled(counts, idf, ngrams.num_buckets)
    weight, bias = _regress(inputs, targets(task, texts), task.class_weights, chosen.strength)
    ngrams.idf[: len(idf)], ngrams.weight[: len(idf)] = map(torch.from_numpy, (idf, weight * chosen.scale))
    ngrams.bias.copy_(torch.from_numpy(bias * chosen.scale))
    _, head = task.model_and_head()
    right = _right(task, chosen.logits, texts)
    used = int((idf > 0).sum())
    return Fitted(head.ngrams, chosen.characters, used, len(ngrams.idf), len(texts), chosen.strength, right)


def _right(task: Any, logits: Tensor, texts: Sequence[TokenText]) -> float:
    """Share of the texts whose labels these logits predict correctly."""
    right = task.decide(task.probabilities(logits)) == task.indicators(texts)
    return float(right.all(1).mean())


def targets(task: Any, texts: Sequence[TokenText]) -> NDArray[np.bool_]:
    """Which outputs of the model should be positive for each text, `(texts, outputs)`."""
    true: NDArray[np.bool_] = task.indicators(texts)
    return true[:, 1:] if task.sigmoid and not task.config.data.several_labels else true


def _matrix(texts: Sequence[TokenText], num_buckets: int, characters: bool) -> csr_matrix:
    """1 if a text has an n-gram, `(texts, rows)`; without `characters` only those of words."""
    from scipy.sparse import csr_matrix

    num_rows = num_buckets * (1 + characters)
    found = [text.ngrams[: np.searchsorted(text.ngrams, num_rows)] for text in texts]
    begins = np.cumsum([0, *map(len, found)])
    values = np.ones(begins[-1], dtype=np.float32)
    return csr_matrix((values, np.concatenate(found), begins), shape=(len(texts), num_rows))


def _idf(counts: csr_matrix) -> NDArray[np.float32]:
    """ln((1 + texts) / (1 + texts that have it)) + 1, as scikit-learn; 0 for n-grams that no text has."""
    found = np.asarray(counts.sum(0)).ravel()
    idf = np.log((1 + counts.shape[0]) / (1 + found)) + 1
    return np.where(found > 0, idf, 0).astype(np.float32)


def _scaled(counts: csr_matrix, idf: NDArray[np.float32], num_buckets: int) -> csr_matrix:
    """Each row times idf, its n-grams of words normalised to length 1, and those of characters as well."""
    from scipy.sparse import diags, hstack

    scaled, kinds = (counts @ diags(idf)).tocsr(), []
    for first in range(0, counts.shape[1], num_buckets):
        kind = scaled[:, first : first + num_buckets]
        lengths = np.sqrt(np.asarray(kind.multiply(kind).sum(1)).ravel())
        kinds.append(diags(1 / np.maximum(lengths, 1e-9)) @ kind)
    result: csr_matrix = hstack(kinds, format="csr") if len(kinds) > 1 else kinds[0].tocsr()
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
    # The solver's time grows with the number of rows of the table, most of which are empty.
    used = np.flatnonzero(np.bincount(inputs.indices, minlength=inputs.shape[1]))
    inputs = inputs[:, used]
    for number, column in enumerate(columns.T):
        if column.all() or not column.any():  # only one class: the odds with one text of the other class added
            bias[number] = (1 if column.any() else -1) * np.log(len(column) + 1)
            continue
        sample_weights = _sample_weights(true, weights, two, number, column)
        weight[used, number], bias[number] = _one(inputs, column, sample_weights, strength)
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
    # The dual solver is five times as fast as the primal one, and the texts labelled correctly are the same.
    made = LogisticRegression(C=strength, solver="liblinear", dual=True, tol=0.1, max_iter=1000, random_state=0)
    plain = made.fit(inputs, column, weights)
    coefficients, bias = plain.coef_[0], float(plain.intercept_[0])
    scaled = made.fit(inputs @ diags(scale), column, weights)
    return (coefficients + scale * scaled.coef_[0]) / 2, (bias + float(scaled.intercept_[0])) / 2


def _log_count_ratios(inputs: csr_matrix, column: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Log-count ratio of each n-gram: ln of its share in texts with the label over that in texts without.

    Source: Wang and Manning 2012 (ACL P12-2018), section 2.1, alpha = 1, for binarised counts.
    """
    found = inputs > 0
    those, others = (np.asarray(found[rows].sum(0)).ravel() + 1.0 for rows in (column, ~column))
    result: NDArray[np.float64] = np.log(those / those.sum()) - np.log(others / others.sum())
    return result


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
