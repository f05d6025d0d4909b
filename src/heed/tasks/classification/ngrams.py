"""The n-grams beside a classifier's body: fitted to the training texts before the body is trained, and shown.

The body is trained to add what the n-grams do not say. Of a training text these know too much, since they were fitted
to it; so while the body learns, each text has the logits of n-grams fitted without it and its quarter of the texts
(stacked generalisation: Wolpert 1992, Neural Networks 5(2)). What is kept is fitted to all of them.
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
from heed.observe.maps import Axis
from heed.observe.shading import Shading
from heed.tasks.base.looking import Words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from heed.tasks.classification.model import Classifier
    from heed.tasks.classification.task import Classification

_PARTS = 4
"""Into how many parts training texts are divided, to know the n-grams' logits of each from the others."""
_STRENGTHS = (10.0, 3.0)
"""C of the logistic regressions, the inverse of regularisation: the one that is right on most held-out texts."""
_FEW = 4_000_000
"""N-grams of all texts times outputs up to which C is chosen, a matter of seconds; beyond that it is the first."""
_LISTED = 12
"""N-grams that a look lists."""


@dataclass(frozen=True)
class Fitted:
    """What the n-grams of the training texts gave, for people and for the report."""

    longest: int
    buckets: int  # of the table, those that a training text has
    of: int  # rows of the table
    texts: int
    strength: float  # C of the regressions
    held_out: float  # share of training texts on which n-grams fitted without them say what is right

    def __str__(self) -> str:
        return (
            f"n-grams of up to {self.longest} words beside the model, fitted to {self.texts:,} texts: {self.buckets:,} "
            f"places of a table of {self.of:,}; alone they are right on {self.held_out:.1%} of texts that they were "
            "not fitted to"
        )

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        return dict(vars(self))


def fit(task: Classification, model: Classifier) -> Fitted:
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


def strength_and_held_out(task: Classification) -> tuple[float, Tensor]:
    """C, and logits of each training text by n-grams fitted to the other parts of the training set.

    C is the one of `_STRENGTHS` whose logits, `(texts, outputs)`, are right most often: where labels are uncertain,
    as grades of praise are, smaller ones are better.
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
    best = max(logits, key=lambda strength: _right(task, logits[strength]))  # of equals the first
    return best, logits[best]


def _right(task: Classification, logits: Tensor) -> float:
    """Share of the training texts whose labels these logits tell."""
    right = task.decide(task.probabilities(logits)) == task.indicators(task.encoded("train"))
    return float(right.all(1).mean())


def targets(task: Classification, texts: Sequence[TokenText]) -> NDArray[np.bool_]:
    """Which outputs of the model should be positive for each text, `(texts, outputs)`."""
    true: NDArray[np.bool_] = task.indicators(texts)
    return true[:, 1:] if task.sigmoid and not task.config.data.several_labels else true


def _matrix(task: Classification, texts: Sequence[TokenText], longest: int, num_buckets: int) -> csr_matrix:
    """Ones where a text has an n-gram, `(texts, buckets)`; n-grams lie within a sentence where texts are cut so."""
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
    """ln((1 + texts) / (1 + texts that have it)) + 1, as scikit-learn; 0 for what no text has."""
    found = np.asarray(counts.sum(0)).ravel()
    idf = np.log((1 + counts.shape[0]) / (1 + found)) + 1
    return np.where(found > 0, idf, 0).astype(np.float32)


def _scaled(counts: csr_matrix, idf: NDArray[np.float32]) -> csr_matrix:
    """Each row times idf, of length 1."""
    from scipy.sparse import diags

    scaled = counts @ diags(idf)
    lengths = np.sqrt(np.asarray(scaled.multiply(scaled).sum(1)).ravel())
    result: csr_matrix = (diags(1 / np.maximum(lengths, 1e-9)) @ scaled).tocsr()
    return result


def _regress(
    inputs: csr_matrix, true: NDArray[np.bool_], weights: list[float] | None, strength: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A logistic regression for each output: W `(buckets, outputs)` and b `(outputs,)`.

    Of two outputs of which one is chosen, each has half of the one regression that tells them apart.
    """
    two = true.shape[1] == 2 and bool((true.sum(1) == 1).all())
    columns = true[:, 1:] if two else true
    weight = np.zeros((inputs.shape[1], columns.shape[1]), dtype=np.float32)
    bias = np.zeros(columns.shape[1], dtype=np.float32)
    for number, column in enumerate(columns.T):
        if column.all() or not column.any():  # nothing to tell apart: the odds of one more text of the other kind
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
    """How much each text counts in the regression of one output."""
    if weights is None:
        return None
    of_label = np.array(weights)
    if len(of_label) == true.shape[1] and not two and (true.sum(1) != 1).any():  # several labels: those with the label
        return np.where(column, of_label[number], 1.0)
    of_text = true.argmax(1) if len(of_label) == true.shape[1] else column.astype(int)
    result: NDArray[np.float64] = of_label[of_text]  # by the label, which one output for two labels tells too
    return result


def _one(
    inputs: csr_matrix, column: NDArray[np.bool_], weights: NDArray[np.float64] | None, strength: float
) -> tuple[NDArray[np.float32], float]:
    """One output's regression: the mean of a plain one and of one whose inputs are scaled by log-count ratios.

    The second finds n-grams that stand with one label only, the first those that many texts have; on four validation
    sets their mean was right more often than either.
    """
    from scipy.sparse import diags
    from sklearn.linear_model import LogisticRegression

    scale = _log_count_ratios(inputs, column)
    used = np.unique(inputs.indices)  # the solver's time goes with all columns, most of which are empty
    weight = np.zeros(inputs.shape[1], dtype=np.float64)
    inputs, of_used = inputs[:, used], scale[used]
    made = LogisticRegression(C=strength, solver="liblinear", random_state=0)
    plain = made.fit(inputs, column, weights)
    coefficients, bias = plain.coef_[0], float(plain.intercept_[0])
    scaled = made.fit(inputs @ diags(of_used), column, weights)
    weight[used] = (coefficients + of_used * scaled.coef_[0]) / 2
    return weight, (bias + float(scaled.intercept_[0])) / 2


def _log_count_ratios(inputs: csr_matrix, column: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Ln of how much more often each n-gram stands in texts with the label than in those without, each once more.

    Source: Wang and Manning 2012 (ACL P12-2018), section 2.1, alpha = 1, of n-grams that a text has or has not.
    """
    found = inputs > 0
    there = np.asarray(found.sum(0)).ravel() > 0  # buckets of no text are no n-grams
    those, others = (np.asarray(found[rows].sum(0)).ravel()[there] + 1.0 for rows in (column, ~column))
    result = np.zeros(len(there))
    result[there] = np.log(those / those.sum()) - np.log(others / others.sum())
    return result


@torch.no_grad()
def ngram_shading(
    task: Classification, model: Classifier, encoded: TokenText, words: Words, label: str
) -> Shading | None:
    """The n-grams of a text that count most, with what each adds to a label's score; None for a model without.

    An n-gram that occurs several times counts once, at its first place. Of labels of which one is chosen, a score is
    what stands above the mean score of all labels.
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
    what = "before the sigmoid" if task.sigmoid else "less the mean score of all labels"
    title = f"What n-grams beside the model add to the score of '{label}' ({what}): the {len(best)} that add most"
    numbers = tuple(added[place] for place in best)
    axis = Axis("text", "n-gram", tuple(_text(words, *place) for place in best))
    return Shading(title, axis, numbers, max(map(abs, numbers)), signed=True, listed=True)


def _toward(task: Classification, model: Classifier, label: str) -> Tensor:
    """What each bucket adds to the score of a label before it is scaled by a text's length, `(buckets,)`."""
    assert model.ngrams is not None
    weight, number = model.ngrams.weight * model.ngram_scale, task.labels.index(label)
    if not task.sigmoid:
        return weight[:, number] - weight.mean(1)
    if task.config.data.several_labels:
        return weight[:, number]
    return weight[:, 0] if number == 1 else -weight[:, 0]


def _text(words: Words, start: int, stop: int) -> str:
    """The words of some tokens."""
    inside = [
        name for name, word in zip(words.axis.labels, words.tokens, strict=True)
        if word.start < stop and word.stop > start
    ]  # fmt: skip
    return ("" if words.axis.kind == "character" else " ").join(inside)
