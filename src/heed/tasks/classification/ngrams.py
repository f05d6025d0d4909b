"""The n-gram classifier next to a classifier's body: fitting it before the body is trained, and showing it.

The body is trained to add what the n-grams miss. N-grams fitted to a training text overfit it, so while the body
learns, each text has the logits of n-grams fitted without its quarter of the texts (stacked generalisation: Wolpert
1992, Neural Networks 5(2)). The n-grams that are kept are fitted to all training texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.batch.texts import TokenText
from heed.layers.ngrams import HashedNgrams, hash_ngrams
from heed.observe.looks import Shading
from heed.observe.maps import Axis
from heed.tasks.base.looking import Words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from heed.tasks.classification.model import Classifier

_PARTS = 4
"""Folds of the training texts: the n-gram logits of each come from a fit to the others."""
_STRENGTHS = (10.0, 3.0)
"""C of the logistic regressions, the inverse of regularisation; chosen by accuracy on held-out texts."""
_FEW = 4_000_000
"""Largest number of n-grams of all texts times outputs for choosing C, a matter of seconds; above it C is the first."""
_LISTED = 12
"""Largest number of n-grams that a look lists."""


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


def fit(task: Any, model: Classifier) -> Fitted:
    """Fit the n-grams of a new model to all training texts."""
    ngrams = model.ngrams
    assert ngrams is not None
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


@torch.no_grad()
def ngram_shading(task: Any, model: Classifier, encoded: TokenText, words: Words, label: str) -> Shading | None:
    """The n-grams of a text that add most to a label's score, with their contributions; None without n-grams.

    An n-gram that occurs several times counts once, at its first place. With softmax, a score is the difference from
    the mean score of all labels.
    """
    ngrams: HashedNgrams | None = model.ngrams
    if ngrams is None:
        return None
    has_cls = int(model.has_cls)
    places: dict[int, tuple[int, int]] = {}
    begin = has_cls
    for sentence in encoded.sentences:
        row = torch.tensor(sentence, dtype=torch.long)
        found = hash_ngrams(row, torch.ones_like(row, dtype=torch.bool), ngrams.longest, len(ngrams.idf)).tolist()
        for size, starts in enumerate(found, start=1):
            for i, bucket in enumerate(starts):
                if bucket >= 0:
                    places.setdefault(bucket, (begin + i, begin + i + size))
        begin += len(sentence)
    buckets = torch.tensor([sorted(places)], dtype=torch.long, device=ngrams.idf.device)
    values = (ngrams.features(buckets)[0] * _toward(task, model, label)[buckets[0]]).tolist()
    added = {places[bucket]: value for bucket, value in zip(buckets[0].tolist(), values, strict=True) if value}
    best = sorted(added, key=lambda place: (-abs(added[place]), place))[:_LISTED]
    if not best:
        return None
    what = "before the sigmoid" if task.sigmoid else "minus the mean score of all labels"
    title = f"N-gram classifier: the {len(best)} largest contributions to the score of '{label}' ({what})"
    numbers = tuple(added[place] for place in best)
    axis = Axis("text", "n-gram", tuple(_text(words, *place) for place in best))
    return Shading(title, axis, numbers, max(map(abs, numbers)), signed=True, listed=True)


def _toward(task: Any, model: Classifier, label: str) -> Tensor:
    """Contribution of each bucket to the score of a label, before scaling by a text's length, `(buckets,)`."""
    assert model.ngrams is not None
    weight, number = model.ngrams.weight * model.ngram_scale, task.labels.index(label)
    if not task.sigmoid:
        return weight[:, number] - weight.mean(1)
    if task.config.data.several_labels:
        return weight[:, number]
    return weight[:, 0] if number == 1 else -weight[:, 0]


def _text(words: Words, start: int, stop: int) -> str:
    """The words that contain some tokens."""
    inside = [
        name for name, word in zip(words.axis.labels, words.tokens, strict=True)
        if word.start < stop and word.stop > start
    ]  # fmt: skip
    return ("" if words.axis.kind == "character" else " ").join(inside)
