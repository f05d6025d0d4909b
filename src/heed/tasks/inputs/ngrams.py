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
from functools import cache, cached_property, lru_cache
from itertools import count
from operator import attrgetter
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from typing_extensions import TypedDict

from heed.data.examples import select, without_breaks
from heed.data.kinds.features import load, save
from heed.data.tokens.special import split_words
from heed.storage.disk import write_whole
from heed.storage.files import damaged
from heed.tasks.base.labels import LabelPrediction
from heed.training.weights import check_finite, read_tensors, save_tensors

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

T = TypeVar("T")
Floats = NDArray[np.float32]
Words = Sequence[str]
CHARACTERS = 5
"""Length of the longest n-grams of characters by default."""
_MOST_CHARACTERS = 5_000_000
"""Largest number of characters of training text for n-grams of characters by default."""
_SHORTEST = 3
"""Length of the shortest n-grams of characters."""
_LONGEST_WORD = 64
"""Characters of a word that n-grams of characters are taken from."""
_ROWS, _NUMBERS = 2**18, 2**26
"""Most n-grams of a kind, the most frequent ones, and most coefficients of a kind."""
_PARTS = 4
"""Folds of the training texts: the logits beside which a text is learned come from a fit to the others."""
_STRENGTHS = (10.0, 3.0, 1.0, 0.3)
"""C of the logistic regressions, the inverse of regularisation."""
_SEARCHED, _FITTED, _CHEAP = 8_000_000, 50_000_000, 4
"""Largest numbers of characters of text times regressions for a fit, on all texts or a sample: of those tried (some
10 s for all), of those kept (some 30 s). Without n-grams of characters a fit takes a fourth of the time."""
VOCABULARY, WEIGHTS = "ngrams.json", "ngrams.safetensors"
NAME, ALONE, NETWORK = "TF-IDF and a linear SVM", "the n-grams of this run alone", "the network of this run alone"
_TOKENS = r"\w+|[^\w\s]"
MOST_FITTED = 40_000_000
"""Largest number of characters of training text used, about half a minute's work; of more, a sample is used."""
_FEWEST = 100
"""Texts on which at least C is chosen."""
_BYTES = 14
"""Memory of fitting for each character; 20 for IMDb and 48 for SST-2, but what training has freed is used again."""


def words_of(text: str) -> list[str]:
    """The words and marks of a text, in lower case."""
    text = text.lower()
    return [intern(text[start:end]) for start, end in split_words(text)]


def _of_words(words: Words, longest: int) -> list[str]:
    return [" ".join(words[i : i + n]) for n in range(1, longest + 1) for i in range(len(words) - n + 1)]


@lru_cache(1 << 16)
def _within(word: str, longest: int) -> tuple[str, ...]:
    spaced = f" {word[:_LONGEST_WORD]} "
    return tuple(spaced[i : i + n] for n in range(_SHORTEST, longest + 1) for i in range(len(spaced) - n + 1))


def _shown(part: str) -> str:
    """An n-gram of characters for people: "un-", "-ful-", "-ing"."""
    return "-" * (part[0] != " ") + part.strip() + "-" * (part[-1] != " ")


def _of_characters(words: Words, longest: int) -> list[str]:
    return [part for word in words for part in _within(word, longest)]


@dataclass(frozen=True)
class Fit:
    """How a linear part was fitted; length of n-grams and C are those with which most held-out texts are right."""

    longest: int  # length of the longest n-grams of words
    characters: int  # length of the longest n-grams of characters; 0 without them
    strength: float  # C of the regressions
    step: int  # every step-th training text was used
    texts: int = 0  # training texts used
    scale: float = 1.0  # factor of the logits, with which the held-out texts have the smallest loss
    held_out: float = 0.0  # share of the texts used that are labelled correctly by n-grams fitted without them


Names = tuple[tuple[str, ...], tuple[str, ...]]
"""The n-grams of words, and those of characters, in the order of their rows."""
_TENSORS = ("idf", "weight", "bias")


class Saved(TypedDict):
    """The JSON part of what is saved."""

    fit: Fit
    names: Names


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
        grams = _of_words(words, self.fit.longest), _of_characters(words, self.fit.characters)
        for known, own_grams in zip(self._rows, grams, strict=True):
            own = sorted({known[gram] for gram in own_grams if gram in known})
            rows += own
            values.append(self.idf[own] / (np.linalg.norm(self.idf[own]) or 1.0))
        return rows, np.concatenate(values)

    def logits(self, documents: Iterable[Words]) -> Tensor:
        """Logits of texts, `(texts, outputs)`; b for a text without known n-grams."""
        result = [np.zeros((0, len(self.bias)), np.float32)]
        for words in documents:
            rows, values = self.features(words)
            result.append(self.bias + values[np.newaxis] @ self.weight[rows])
        return torch.from_numpy(np.concatenate(result))

    def parts(self, words: Words) -> dict[str, Floats]:
        """What each n-gram of a text adds to the logits, `(outputs,)`: "not good", characters as "un-", "-ful-"."""
        (rows, values), num_words = self.features(words), len(self.names[0])
        names = [self.names[0][row] if row < num_words else _shown(self.names[1][row - num_words]) for row in rows]
        return dict(zip(names, values[:, np.newaxis] * self.weight[rows], strict=True))

    def beside(self, texts: Sequence[T], words: Callable[[T], Words], targets: Targets) -> Tensor:
        """For each text of `learn` the logits of n-grams that were fitted without it, `(texts, outputs)`."""
        used = _every(self.fit.step, len(texts))
        counts, names = _counted([words(text) for text in select(texts, used)], self.fit, len(self.bias))
        held_out = _held_out(counts, len(names[0]), targets.of(used), self.fit.strength)
        return self._completed(texts, words, held_out * np.float32(self.fit.scale))

    def _completed(self, texts: Sequence[T], words: Callable[[T], Words], held_out: Floats) -> Tensor:
        """Held-out logits of the texts used, with those of the others, to which the n-grams are not fitted."""
        if self.fit.step == 1:
            return torch.from_numpy(held_out)
        used = _every(self.fit.step, len(texts))
        others = np.setdiff1d(np.arange(len(texts)), used)
        result = torch.zeros(len(texts), len(self.bias))
        result[used] = torch.from_numpy(held_out)
        result[others] = self.logits(words(text) for text in select(texts, others))
        return result

    def save(self, folder: Path) -> None:
        """Write the n-grams and how they were fitted as JSON, idf and coefficients as safetensors."""
        save(folder / VOCABULARY, {"fit": self.fit, "names": self.names})
        tensors = {name: torch.from_numpy(getattr(self, name)) for name in _TENSORS}
        write_whole(folder / WEIGHTS, lambda part: save_tensors(tensors, part))

    @classmethod
    def restore(cls, folder: Path) -> Self:
        """What was saved.

        Raises:
            RunError: A file is missing or damaged.
        """
        saved, path = load(folder / VOCABULARY, Saved), folder / WEIGHTS
        try:
            tensors = read_tensors(path)
        except (SafetensorError, OSError) as error:
            raise damaged(path, str(error)) from None
        rows, outputs = sum(map(len, saved["names"])), tensors["bias"].numel() if "bias" in tensors else 0
        shapes = {"idf": (rows,), "weight": (rows, outputs), "bias": (outputs,)}
        if (found := {name: tuple(tensor.shape) for name, tensor in tensors.items()}) != shapes:
            raise damaged(path, f"its tensors are {found}, expected {shapes}")
        for name, tensor in tensors.items():
            check_finite(tensor, name, str(path))
        return cls(saved["fit"], saved["names"], *(tensors[name].float().numpy() for name in _TENSORS))


@dataclass(frozen=True)
class Targets:
    """Which outputs should be positive for each text, `(texts, outputs)`, and how much each of them counts."""

    true: NDArray[np.bool_]
    weights: Floats | None  # `(texts, outputs)`; None if all count equally
    exclusive: bool  # exactly one output of a text is positive

    def of(self, texts: NDArray[np.int64]) -> Targets:
        """Those of some texts."""
        return replace(self, true=self.true[texts], weights=None if self.weights is None else self.weights[texts])

    @property
    def two(self) -> bool:
        """True for two exclusive outputs: one regression is fitted, and each output has half of its coefficients."""
        return self.exclusive and self.true.shape[1] == 2

    @property
    def regressions(self) -> int:
        """Number of regressions."""
        return 1 if self.two else self.true.shape[1]

    def right(self, logits: Floats) -> float:
        """Share of the texts for which these logits decide correctly."""
        if self.exclusive:
            return float((logits.argmax(1) == self.true.argmax(1)).mean())
        return float(((logits >= 0) == self.true).all(1).mean())

    def loss(self, logits: Floats) -> float:
        """Cross-entropy of logits."""
        given, true = torch.from_numpy(logits), torch.from_numpy(self.true).float()
        weights = torch.ones_like(true) if self.weights is None else torch.from_numpy(self.weights)
        if self.exclusive:
            return float((cross_entropy(given, true, reduction="none") * weights[:, 0]).sum())
        return float(binary_cross_entropy_with_logits(given, true, weights))


def learn(
    texts: Sequence[T], words: Callable[[T], Words], targets: Targets, longest: int, characters: int, size: int
) -> tuple[Ngrams, Tensor]:
    """Choose and fit the n-grams of texts.

    Where labels are uncertain, such as grades of praise or labels of short phrases, a smaller C is better. Tried are
    each C with n-grams of words, then with the best C also those of characters, then only single words.

    Args:
        texts: Training texts.
        words: The words of a text.
        targets: What they should be labelled.
        longest: Length of the longest n-grams of words.
        characters: Length of the longest n-grams of characters; 0 for none.
        size: Characters of all texts.

    Returns:
        The n-grams, and their logits beside which the network is trained (`Ngrams.beside`).
    """
    work = size * targets.regressions
    step = 1 + work // (_FITTED if characters else _CHEAP * _FITTED)
    used = _every(step, len(texts))
    documents, targets = [words(text) for text in select(texts, used)], targets.of(used)
    searched = _every(max(1, min(work // step // _SEARCHED, len(used) // _FEWEST)), len(used))

    @cache
    def counted(longest: int, characters: int) -> tuple[csr_matrix, Names]:
        return _counted(documents, Fit(longest, characters, 0.0, step), targets.true.shape[1])

    def tried(longest: int, characters: int, strength: float) -> Fit:
        counts, names = counted(longest, characters)
        few = targets.of(searched)
        right = few.right(_held_out(counts[searched], len(names[0]), few, strength))
        return Fit(longest, characters, strength, step, len(used), held_out=right)

    best = max((tried(longest, 0, strength) for strength in _STRENGTHS), key=attrgetter("held_out"))  # the first
    for others in {(longest, characters): None, (1, characters): None, (1, 0): None}:
        if others != (longest, 0):
            best = max(best, tried(*others, best.strength), key=attrgetter("held_out"))
    counts, names = counted(best.longest, best.characters)
    held_out = _held_out(counts, len(names[0]), targets, best.strength)
    # Where all held-out texts are right, the largest scale has the smallest loss, however few they are.
    scale = min(np.geomspace(0.25, 2, 31, dtype=np.float32), key=lambda scale: targets.loss(held_out * scale))
    idf, weight, bias = _regress(counts, len(names[0]), targets, best.strength)
    fit = replace(best, scale=float(scale), held_out=targets.right(held_out))
    ngrams = Ngrams(fit, names, idf, weight * scale, bias * scale)
    return ngrams, ngrams._completed(texts, words, held_out * scale)


def usual_characters(size: int, regressions: int) -> int:
    """Length of the longest n-grams of characters by default, for texts with this many characters; 0 for none."""
    return CHARACTERS if size <= _MOST_CHARACTERS and size * regressions <= _FITTED else 0


def _every(step: int, count: int) -> NDArray[np.int64]:
    return np.arange(0, count, step)


def _counted(documents: Sequence[Words], fit: Fit, num_outputs: int) -> tuple[csr_matrix, Names]:
    """1 if a text has an n-gram, `(texts, rows)`, and the n-grams, those of words first."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import CountVectorizer

    most, counts, names = min(_ROWS, _NUMBERS // num_outputs), [], []
    for grams in (lambda words: _of_words(words, fit.longest), lambda words: _of_characters(words, fit.characters)):
        if grams(["word"]):
            vectorizer = CountVectorizer(analyzer=grams, binary=True, dtype=np.float32, max_features=most)
            counts.append(vectorizer.fit_transform(documents))
            names.append(tuple(vectorizer.get_feature_names_out().tolist()))
    return hstack(counts, format="csr"), (names[0], names[1] if fit.characters else ())


def _scaled(counts: csr_matrix, idf: Floats, num_words: int) -> csr_matrix:
    """The values x of texts, as `Ngrams.features`."""
    from scipy.sparse import diags, hstack
    from sklearn.preprocessing import normalize

    scaled = (counts @ diags(idf)).tocsr()
    kinds = [kind for kind in (scaled[:, :num_words], scaled[:, num_words:]) if kind.shape[1]]
    return hstack([normalize(kind, copy=False) for kind in kinds], format="csr", dtype=np.float32)


def _held_out(counts: csr_matrix, num_words: int, targets: Targets, strength: float) -> Floats:
    """Logits of each text from a fit to the other parts of the texts, `(texts, outputs)`."""
    part = np.random.default_rng(0).permutation(counts.shape[0]) % min(_PARTS, counts.shape[0])
    logits = np.zeros(targets.true.shape, np.float32)
    for number in range(part.max() + 1):
        out, others = np.flatnonzero(part == number), np.flatnonzero(part != number)
        idf, weight, bias = _regress(counts[others], num_words, targets.of(others), strength)
        logits[out] = _scaled(counts[out], idf, num_words) @ weight + bias
    return logits


def _regress(counts: csr_matrix, num_words: int, targets: Targets, strength: float) -> tuple[Floats, Floats, Floats]:
    """idf, W and b of a logistic regression for each output."""
    from sklearn.linear_model import LogisticRegression

    texts = counts.getnnz(0)
    idf = np.where(texts > 0, np.log((1 + counts.shape[0]) / (1 + texts)) + 1, 0).astype(np.float32)
    used = np.flatnonzero(texts)
    inputs = _scaled(counts, idf, num_words)[:, used]
    columns = targets.true[:, int(targets.two) :].T
    weight, bias = np.zeros((len(idf), len(columns)), np.float32), np.zeros(len(columns), np.float32)
    for number, column in enumerate(columns):
        if column.all() or not column.any():  # only one class: the odds with one text of the other class added
            bias[number] = (1 if column.any() else -1) * np.log(len(column) + 1)
            continue
        # The dual solver is five times as fast as the primal one, and the texts labelled correctly are the same.
        made = LogisticRegression(C=strength, solver="liblinear", dual=True, tol=0.1, max_iter=1000, random_state=0)
        made.fit(inputs, column, None if targets.weights is None else targets.weights[:, number])
        weight[used, number], bias[number] = made.coef_[0], made.intercept_[0]
    if targets.two:
        return idf, np.hstack([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
    return idf, weight, bias


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
        self._vectorizer: Any = TfidfVectorizer(ngram_range=(1, 2), token_pattern=_TOKENS)
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
