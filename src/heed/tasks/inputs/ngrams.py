"""The linear part of a classifier: logits linear in the n-grams of a text, fitted before the network; the baseline.

    x = TF-IDF of the n-grams that a text has, 1 or 0 of each, those of words and of characters normalised to length 1;
    logits = x W + b, a logistic regression for each output

The network is trained to add what the n-grams miss. N-grams fitted to a training text overfit it, so while the network
learns, each text comes with logits of n-grams fitted without its part of the texts (stacked generalisation: Wolpert
1992, Neural Networks 5(2)). The n-grams that are kept are fitted to all training texts.

N-grams are those of the words of a text in lower case, whether or not the tokenizer knows them, and of the characters
within a word with a blank on either side. Using them takes NumPy only, fitting scikit-learn.

Source: scikit-learn's `TfidfTransformer` and `LogisticRegression`; Cheng et al. 2016 (arXiv:1606.07792), section 3.1,
for a linear part beside a deep one; it differs from theirs in that it is fitted before the network, not with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from itertools import count
from operator import itemgetter
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from heed.data.examples import select
from heed.data.kinds.features import load, save
from heed.data.tokens.special import split_words
from heed.storage.disk import write_whole
from heed.storage.files import damaged
from heed.training.weights import check_finite, read_tensors, save_tensors

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

T = TypeVar("T")
Floats = NDArray[np.float32]
Words = Sequence[str]
CHARACTERS = 5
"""Length of the longest n-grams of characters by default."""
_MAX_CHARACTERS = 5_000_000
"""Largest number of characters of training text for n-grams of characters by default."""
_SHORTEST = 3
"""Length of the shortest n-grams of characters."""
_LONGEST_WORD = 64
"""Characters of a word that n-grams of characters are taken from."""
_ROWS, _NUMBERS = 2**18, 2**26
"""Most n-grams of a kind, the most frequent ones, and most coefficients of a kind."""
_PARTS = 4
"""Folds of the training texts: the held-out logits of a text come from a fit to the other folds."""
_LOSSES = (("logistic", 10.0), ("logistic", 3.0), ("logistic", 1.0), ("logistic", 0.3), ("squared_hinge", 1.0))
"""Losses and C, the inverse of regularisation. With few texts for each of many labels the SVM's loss is better."""
FITTED, _CHEAP = 15_000_000, 4
"""Characters of text times regressions of a fit, for each minute of the budget: all fits take some sixth of it. A fit
without n-grams of characters takes a fourth of the time; of yet more text a sample is used."""
_FEWEST, _FEW = 100, 7_000
"""Texts on which at least loss, C and lengths are chosen; texts of which two folds of four decide if there are more."""
VOCABULARY, WEIGHTS = "ngrams.json", "ngrams.safetensors"


def words_of(text: str) -> list[str]:
    """The words and marks of a text, in lower case."""
    text = text.lower()
    return [intern(text[start:end]) for start, end in split_words(text)]


def _word_grams(words: Words, longest: int) -> list[str]:
    return [" ".join(words[i : i + n]) for n in range(1, longest + 1) for i in range(len(words) - n + 1)]


@lru_cache(1 << 16)
def _grams_within(word: str, longest: int) -> tuple[str, ...]:
    spaced = f" {word[:_LONGEST_WORD]} "
    return tuple(spaced[i : i + n] for n in range(_SHORTEST, longest + 1) for i in range(len(spaced) - n + 1))


def _shown(part: str) -> str:
    """An n-gram of characters for people: "un-", "-ful-", "-ing"."""
    return "-" * (part[0] != " ") + part.strip() + "-" * (part[-1] != " ")


def _character_grams(words: Words, longest: int) -> list[str]:
    return [part for word in words for part in _grams_within(word, longest)]


@dataclass(frozen=True)
class Fit:
    """How a linear part was fitted: lengths of n-grams, loss and C with which most held-out texts are right."""

    longest: int  # length of the longest n-grams of words
    characters: int  # length of the longest n-grams of characters; 0 without them
    loss: str  # of the regressions
    strength: float  # their C
    step: int  # every step-th training text was used
    texts: int = 0  # training texts used
    scale: float = 1.0  # factor of the logits, with which the held-out texts have the smallest loss
    held_out: float = 0.0  # share of the texts used that are labelled correctly by n-grams fitted without them


Names = tuple[tuple[str, ...], tuple[str, ...]]
"""The n-grams of words, and those of characters, in the order of their rows."""
_TENSORS = ("idf", "weight", "bias")


@dataclass(frozen=True)
class Ngrams:
    """A linear classifier of the n-grams of texts, which are given as their words (`words_of`)."""

    fit: Fit
    names: Names
    idf: Floats  # `(rows,)`, ln((1 + texts) / (1 + texts that have it)) + 1
    weight: Floats  # `(rows, outputs)`, W
    bias: Floats  # `(outputs,)`, b

    def __str__(self) -> str:
        characters = f" and {_SHORTEST} to {self.fit.characters} characters" * (self.fit.characters > 0)
        return (
            f"n-grams of up to {self.fit.longest} words{characters}, {len(self.idf):,} of them, fitted to "
            f"{self.fit.texts:,} texts; alone they are right on {self.fit.held_out:.1%} of training texts held out "
            "from the fit"
        )

    def as_report(self) -> dict[str, Any]:
        """How it was fitted, for `report.json`."""
        return {**asdict(self.fit), "rows": len(self.idf)}

    @cached_property
    def _rows(self) -> list[dict[str, int]]:
        words, characters = self.names
        return [{name: row for row, name in enumerate(words)}, dict(zip(characters, count(len(words))))]

    def features(self, words: Words) -> tuple[list[int], Floats]:
        """The rows of the distinct n-grams that a text has and that were in training texts, and their values x."""
        rows, values = [], [np.zeros(0, np.float32)]
        grams = _word_grams(words, self.fit.longest), _character_grams(words, self.fit.characters)
        for row_of, text_grams in zip(self._rows, grams, strict=True):
            known_rows = sorted({row_of[gram] for gram in text_grams if gram in row_of})
            rows += known_rows
            values.append(self.idf[known_rows] / (np.linalg.norm(self.idf[known_rows]) or 1.0))
        return rows, np.concatenate(values)

    def logits(self, documents: Iterable[Words]) -> Tensor:
        """Logits of texts, `(texts, outputs)`; b for a text without known n-grams."""
        result = [np.zeros((0, len(self.bias)), np.float32)]
        for words in documents:
            rows, values = self.features(words)
            result.append(self.bias + values[np.newaxis] @ self.weight[rows])
        return torch.from_numpy(np.concatenate(result))

    def parts(self, words: Words) -> dict[str, Floats]:
        """The contribution of each n-gram of a text to the logits, `(outputs,)`: "not good", "un-", "-ful-"."""
        (rows, values), num_words = self.features(words), len(self.names[0])
        names = [self.names[0][row] if row < num_words else _shown(self.names[1][row - num_words]) for row in rows]
        return dict(zip(names, values[:, np.newaxis] * self.weight[rows], strict=True))

    def held_out_logits(self, texts: Sequence[T], words: Callable[[T], Words], targets: Targets) -> Tensor:
        """For each text of `learn` the logits of n-grams that were fitted without it, `(texts, outputs)`."""
        used, lengths = np.arange(0, len(texts), self.fit.step), (self.fit.longest, self.fit.characters)
        counts, num_words, _ = _count([words(text) for text in select(texts, used)], lengths, len(self.bias))
        held_out = _held_out(counts, num_words, targets.of(used), self.fit, range(_PARTS))
        return self._completed(texts, words, held_out * np.float32(self.fit.scale))

    def _completed(self, texts: Sequence[T], words: Callable[[T], Words], held_out: Floats) -> Tensor:
        """Held-out logits of the texts used, with those of the others, to which the n-grams are not fitted."""
        others = np.flatnonzero(np.arange(len(texts)) % self.fit.step)
        result = torch.zeros(len(texts), len(self.bias))
        result[:: self.fit.step] = torch.from_numpy(held_out)
        result[others] = self.logits(words(text) for text in select(texts, others))
        return result

    def save(self, folder: Path) -> None:
        """Write the n-grams and how they were fitted as JSON, idf and coefficients as safetensors."""
        save(folder / VOCABULARY, (self.fit, self.names))
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in _TENSORS}
        write_whole(folder / WEIGHTS, partial(save_tensors, tensors))

    @classmethod
    def restore(cls, folder: Path) -> Self:
        """Read the n-grams that `save` wrote.

        Raises:
            RunError: A file is missing or damaged.
        """
        (fit, names), path = load(folder / VOCABULARY, tuple[Fit, Names]), folder / WEIGHTS
        tensors = read_tensors(path)
        rows, outputs = sum(map(len, names)), tensors["bias"].numel() if "bias" in tensors else 0
        shapes = {"idf": (rows,), "weight": (rows, outputs), "bias": (outputs,)}
        if (actual := {name: tuple(tensor.shape) for name, tensor in tensors.items()}) != shapes:
            raise damaged(path, f"its tensors are {actual}, expected {shapes}")
        for name, tensor in tensors.items():
            check_finite(tensor, name, str(path))
        return cls(fit, names, *(tensors[name].float().numpy() for name in _TENSORS))


@dataclass(frozen=True)
class Targets:
    """Which outputs should be positive for each text, `(texts, outputs)`, and how much each of them counts."""

    true: NDArray[np.bool_]
    weights: Floats | None  # `(texts, outputs)`; None if all count equally
    exclusive: bool  # exactly one output of a text is positive

    def of(self, texts: NDArray[np.int64]) -> Targets:
        """The targets of some texts."""
        return replace(self, true=self.true[texts], weights=None if self.weights is None else self.weights[texts])

    @property
    def two(self) -> bool:
        """True for two exclusive outputs: one regression is fitted, and each output has half of its coefficients."""
        return self.exclusive and self.true.shape[1] == 2

    def right(self, logits: Floats) -> float:
        """Share of the texts for which these logits decide correctly."""
        best = logits.argmax(1) == self.true.argmax(1)
        return float((best if self.exclusive else ((logits >= 0) == self.true).all(1)).mean())

    def loss(self, logits: Floats) -> float:
        """Cross-entropy of logits."""
        function = cross_entropy if self.exclusive else binary_cross_entropy_with_logits
        return float(function(torch.from_numpy(logits), torch.from_numpy(self.true).float()))


def learn(
    texts: Sequence[T], words: Callable[[T], Words], targets: Targets, lengths: tuple[int, int], work: float
) -> tuple[Ngrams, Tensor]:
    """Choose and fit the n-grams of texts.

    Where labels are uncertain, such as grades of praise or labels of short phrases, a smaller C is better. Tried are
    each loss and C with n-grams of words, then also n-grams of characters (for many texts with the best loss and C
    only), then single words.

    Args:
        texts: Training texts.
        words: The words of a text.
        targets: The right outputs of each text.
        lengths: Length of the longest n-grams of words, and of characters; 0 for none.
        work: Characters of all texts for each that may be fitted (`work_of`).

    Returns:
        The n-grams, and the held-out logits with which the network is trained (`Ngrams.held_out_logits`).
    """
    longest, characters = lengths
    step = 1 + int(work if characters else work / _CHEAP)
    used = np.arange(0, len(texts), step)
    documents, targets = [words(text) for text in select(texts, used)], targets.of(used)
    few = np.arange(0, len(used), max(1, min(round(work / step), len(used) // _FEWEST)))
    whole, folds = len(few) == len(used), _PARTS if len(few) <= _FEW else 2
    counted = cache(lambda *lengths: _count(documents, lengths, targets.true.shape[1]))

    def tried(longest: int, characters: int, loss: str, strength: float) -> tuple[float, Fit, Floats]:
        fit = Fit(longest, characters, loss, strength, step, len(used))
        (counts, num_words), sample = counted(longest, characters)[:2], targets.of(few)
        logits = _held_out(counts[few], num_words, sample, fit, range(folds))
        inside = np.flatnonzero(_parts(len(few)) < folds)
        return sample.of(inside).right(logits[inside]), fit, logits

    best = max((tried(longest, 0, *loss) for loss in _LOSSES), key=itemgetter(0))  # the first of equals
    if characters:
        losses = _LOSSES if folds == _PARTS else [(best[1].loss, best[1].strength)]
        best = max(best, *(tried(longest, characters, *loss) for loss in losses), key=itemgetter(0))
    if longest > 1:
        best = max(best, tried(1, best[1].characters, best[1].loss, best[1].strength), key=itemgetter(0))
    _, fit, logits = best
    counts, num_words, names = counted(fit.longest, fit.characters)
    logits = _held_out(counts, num_words, targets, fit, range(folds * whole, _PARTS), logits if whole else None)
    # Where all held-out texts are right, the largest scale has the smallest loss, however few they are.
    scales = np.geomspace(0.25, 2 if fit.loss == "logistic" else 32, 31, dtype=np.float32)
    scale = min(scales, key=lambda scale: targets.loss(logits * scale))
    idf, weight, bias = _regress(counts, num_words, targets, fit)
    fit = replace(fit, scale=float(scale), held_out=targets.right(logits))
    ngrams = Ngrams(fit, names, idf, weight * scale, bias * scale)
    return ngrams, ngrams._completed(texts, words, logits * scale)


def work_of(size: int, num_outputs: int, minutes: float) -> float:
    """How many times as much text there is as can be fitted in a sixth of a budget, with n-grams of characters."""
    return size * max(1, num_outputs - (num_outputs == 2)) / (FITTED * min(10.0, minutes))


def usual_characters(size: int, work: float) -> int:
    """Length of the longest n-grams of characters by default, for texts with `size` characters; 0 for none."""
    return CHARACTERS if size <= _MAX_CHARACTERS and work <= 1 else 0


def _count(documents: Sequence[Words], lengths: tuple[int, ...], num_outputs: int) -> tuple[csr_matrix, int, Names]:
    """1 if a text has an n-gram, `(texts, rows)`, the number of n-grams of words, and all n-grams."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import CountVectorizer

    counts, names = [], []
    for grams, longest in zip((_word_grams, _character_grams), lengths, strict=True):
        if longest:
            settings = {"binary": True, "dtype": np.float32, "max_features": min(_ROWS, _NUMBERS // num_outputs)}
            vectorizer = CountVectorizer(analyzer=partial(grams, longest=longest), **settings)
            counts.append(vectorizer.fit_transform(documents))
            names.append(tuple(vectorizer.get_feature_names_out().tolist()))
    return hstack(counts, format="csr"), len(names[0]), (names[0], names[1] if len(names) > 1 else ())


def _scaled(counts: csr_matrix, idf: Floats, num_words: int) -> csr_matrix:
    """The values x of texts, as `Ngrams.features`."""
    from scipy.sparse import diags, hstack
    from sklearn.preprocessing import normalize

    scaled = (counts @ diags(idf)).tocsr()
    kinds = [kind for kind in (scaled[:, :num_words], scaled[:, num_words:]) if kind.shape[1]]
    return hstack([normalize(kind, copy=False) for kind in kinds], format="csr", dtype=np.float32)


def _parts(count: int) -> NDArray[np.int64]:
    """The fold of each of some texts."""
    return np.random.default_rng(0).permutation(count) % _PARTS


def _held_out(
    counts: csr_matrix, num_words: int, targets: Targets, fit: Fit, folds: range, logits: Floats | None = None
) -> Floats:
    """`logits` of texts, `(texts, outputs)`, with those of some folds computed from fits to the other folds."""
    part, logits = _parts(len(targets.true)), np.zeros(targets.true.shape, np.float32) if logits is None else logits
    for number in folds:
        out, others = np.flatnonzero(part == number), np.flatnonzero(part != number)
        if len(out) and len(others):
            idf, weight, bias = _regress(counts[others], num_words, targets.of(others), fit)
            logits[out] = _scaled(counts[out], idf, num_words) @ weight + bias
    return logits


def _regress(counts: csr_matrix, num_words: int, targets: Targets, fit: Fit) -> tuple[Floats, Floats, Floats]:
    """idf, W and b of a regression for each output."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    texts = counts.getnnz(0)
    idf = np.where(texts > 0, np.log((1 + counts.shape[0]) / (1 + texts)) + 1, 0).astype(np.float32)
    used = np.flatnonzero(texts)
    inputs = _scaled(counts, idf, num_words)[:, used]
    # The dual solver is five times as fast as the primal one, and the texts labelled correctly are the same.
    settings: Any = {"C": fit.strength, "dual": True, "tol": 0.1, "max_iter": 1000, "random_state": 0}
    regression = LogisticRegression(solver="liblinear", **settings) if fit.loss == "logistic" else LinearSVC(**settings)
    columns = targets.true[:, int(targets.two) :].T
    weight, bias = np.zeros((len(idf), len(columns)), np.float32), np.zeros(len(columns), np.float32)
    for number, column in enumerate(columns):
        if column.all() or not column.any():  # only one class: the odds with one text of the other class added
            bias[number] = (1 if column.any() else -1) * np.log(len(column) + 1)
            continue
        regression.fit(inputs, column, None if targets.weights is None else targets.weights[:, number])
        weight[used, number], bias[number] = regression.coef_[0], regression.intercept_[0]
    if targets.two:
        return idf, np.hstack([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
    return idf, weight, bias
