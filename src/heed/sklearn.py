"""Estimators for scikit-learn: `Classifier` of texts, `Tagger` of words, `ImageClassifier` of pictures.

    from heed.sklearn import Classifier
    cross_val_score(Classifier(minutes=1), texts, labels, cv=3)

They follow scikit-learn's protocol (fit, predict, predict_proba, score, get_params, set_params), so that `clone`,
`GridSearchCV` and `Pipeline` work with them. Fitting trains a run of heed; `run_` is that run, which can `look`.

All have the parameters `model`, `size`, `minutes`, `steps`, `valid`, `random_state`, `settings`, `folder` and
`verbose`. A run is trained in a temporary folder, which is removed with the estimator, or in `folder/fit-1`, `fit-2`,
... A copy made by joblib or pickle predicts without the folder.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from heed.data.readers import to_texts
from heed.data.tables import column_names, described
from heed.errors import DataError
from heed.runs.loading import load
from heed.runs.train import train


class _Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Common base of the estimators: parameters, run folder, copies."""

    _task: ClassVar[str]

    def __init__(
        self,
        model: str | None = None,
        *,
        size: str = "auto",
        minutes: float | None = None,
        steps: int | None = None,
        valid: int | None = None,
        random_state: Any = None,
        settings: Mapping[str, Any] | None = None,
        folder: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.size = size
        self.minutes = minutes
        self.steps = steps
        self.valid = valid
        self.random_state = random_state
        self.settings = settings
        self.folder = folder
        self.verbose = verbose

    def _train(self, examples: list[tuple[Any, Any]]) -> None:
        """Train a run on (input, output) tuples."""
        seed = self.random_state
        if seed is not None and not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        if self.folder is None:
            out = self._temporary_folder()
        else:  # fitting again, as a search does, must not overwrite earlier fits
            out = next(path for n in count(1) if not (path := Path(self.folder) / f"fit-{n}").exists())
        self.run_: Any = train(
            self._task,
            train=examples,
            valid=self.valid,
            model=self.model,
            size=self.size,
            minutes=self.minutes,
            steps=self.steps,
            seed=None if seed is None else int(seed),
            out=out,
            settings=None if self.settings is None else dict(self.settings),
            quiet=not self.verbose,
        )

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn: inputs are texts, and targets are required."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.target_tags.required = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """The state with the run as it is opened from its folder: without data and threads of training."""
        state = dict(super().__getstate__())
        if "run_" in state and self.run_.folder.is_dir():  # else a copy's, which is as it was opened
            state["run_"] = load(self.run_.folder)
        return state

    def _temporary_folder(self) -> Path:
        """A new folder for a run, removed with this estimator."""
        folder = tempfile.mkdtemp(prefix="heed-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder) / "run"


class Classifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A classifier of texts, trained by heed.

    Args:
        model: Name of the model (`heed models`); None for heed's default for the amount of data.
        size: "auto", "scarce", "tiny", "small" or "base".
        minutes: Time budget of one fit, including evaluation; 2 if neither it nor `steps` is given.
        steps: Number of updates instead of a time budget; with it a fit is reproducible bit for bit.
        valid: Number of the given texts to hold out for choosing the best weights; None for heed's default.
        random_state: Seed of weights, order and dropout; None for 1.
        settings: Any other fields of the configuration, such as `{"training.learning_rate": 0.001}`.
        folder: Folder for the run folders of the fits; None for a temporary one, removed with the estimator.
        verbose: Print the messages of training.

    Attributes:
        classes_: The classes, sorted.
        run_: The run of heed: `run_.look(text)` shows its attention.
    """

    _task = "classification"
    _unit = "text"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803  # scikit-learn's names
        """Train on texts `(n,)` and their labels `(n,)`.

        Raises:
            ValueError: An input is not a text, lengths differ, or there are fewer than two classes.
        """
        texts = self._inputs(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        check_classification_targets(y)
        labels = column_or_1d(y, warn=True)
        if len(labels) != len(texts):
            what = self._unit
            raise ValueError(f"there are {len(texts)} {what}s and {len(labels)} labels; each {what} needs one")
        self.classes_ = np.unique(labels)
        names = self._names()
        if len(names) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; a classifier needs two or more")
        counts = [int((labels == one).sum()) for one in self.classes_]
        self._shares = np.array(counts) / len(labels)
        number = {one: name for one, name in zip(self.classes_.tolist(), names, strict=True)}
        self._train([(text, number[label]) for text, label in zip(texts, labels.tolist(), strict=True)])
        return self

    def _names(self) -> list[str]:
        """The classes as heed's labels (text)."""
        names = [str(one).strip() for one in self.classes_.tolist()]
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(
                f"the classes {self.classes_.tolist()} are not distinct, or one is blank, when written as text"
            )
        return names

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """The probability of each class, `(n, classes)` in the order of `classes_`; class shares for blank texts."""
        check_is_fitted(self, "run_")
        inputs = self._inputs(X)
        found = self._probabilities(inputs)
        known = self.run_.head.labels
        made = np.stack([found[:, known.index(name)] if name in known else np.zeros(len(inputs))
                         for name in self._names()], axis=1)  # fmt: skip
        made[[isinstance(one, str) and not one.strip() for one in inputs]] = self._shares
        shares: np.ndarray[Any, Any] = made / made.sum(1, keepdims=True)
        return shares

    def predict(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """The most probable class of each input, `(n,)`."""
        chosen = self.predict_proba(X).argmax(1)
        return self.classes_[chosen]  # type: ignore[no-any-return]

    def _inputs(self, given: Any) -> Sequence[Any]:
        return _texts(given)

    def _probabilities(self, inputs: Sequence[Any]) -> np.ndarray[Any, Any]:
        """The probabilities `(n, labels)` of the run's labels."""
        said, known = self.run_.predict(inputs), self.run_.head.labels
        return np.array([[one.probabilities.get(label, 0.0) for label in known] for one in said])


class ImageClassifier(Classifier):
    """A classifier of pictures, trained by heed; parameters and attributes as in `Classifier`.

    Pictures are an array `(n, height, width)` or `(n, height, width, channels)`, or a list of arrays, pictures of
    Pillow or names of files.
    """

    _task = "images"
    _unit = "picture"

    def __sklearn_tags__(self) -> Any:
        """Inputs are pictures, not texts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.three_d_array = False, True
        return tags

    def _inputs(self, given: Any) -> Sequence[Any]:
        if isinstance(given, str) or not hasattr(given, "__len__") or getattr(given, "ndim", 3) in (0, 2):
            shape = getattr(given, "shape", None)
            what = described(given) if shape is None else f"an array of shape {tuple(shape)}"
            raise DataError(f"X is {what}; expected pictures, as an array (n, height, width) or a list")
        if not len(given):
            raise DataError("X has 0 pictures; a minimum of 1 is required")
        return list(given)


class Tagger(_Estimator):
    """A tagger of words, trained by heed; parameters as in `Classifier`.

    Sentences are lists of words, and outputs lists of tags, one for each word: names of entities as BIO tags, or plain
    tags such as parts of speech.

    Attributes:
        classes_: The tags, in the order of the columns of `predict_proba`.
        run_: The run of heed: `run_.look(text)` shows its attention.
    """

    _task = "tagging"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on sentences, lists of words, and the tags of each.

        Raises:
            ValueError: A sentence is not a list of words, or the number of its tags differs.
        """
        sentences = _sentences(X, "X")
        if y is None:
            raise ValueError("Tagger requires y to be passed, but the target y is None")
        tags = _sentences(y, "y")
        if len(tags) != len(sentences):
            raise ValueError(f"X has {len(sentences)} sentences, but y has tags for {len(tags)}")
        self._train(list(zip(sentences, tags, strict=True)))
        self.classes_ = np.array(self.run_.head.labels)
        return self

    def _tagged(self, X: Any) -> Any:  # noqa: N803
        check_is_fitted(self, "run_")
        return self.run_.answers(_sentences(X, "X"))

    def predict(self, X: Any) -> list[list[str]]:  # noqa: N803
        """The tags of each sentence."""
        return [self.classes_[one.tags].tolist() for one in self._tagged(X)]

    def predict_proba(self, X: Any) -> list[np.ndarray[Any, Any]]:  # noqa: N803
        """For each sentence the probability of every tag of every word, `(words, classes)`."""
        return [one.probabilities.numpy() for one in self._tagged(X)]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """F1 of entities, or accuracy for plain tags."""
        check_is_fitted(self, "run_")
        examples = list(zip(_sentences(X, "X"), _sentences(y, "y"), strict=True))
        report = self.run_.report_of(self.run_.read_data(examples))
        return float(report["accuracy" if self.run_.head.plain else "entity_f1"]["value"])


def _texts(given: Any) -> list[str]:
    """Texts of a list, a series, an array `(n,)` or `(n, 1)`, or a data frame of one column.

    Raises:
        DataError: It contains something else.
    """
    if isinstance(given, str):
        raise DataError(f"X is {described(given)}; expected a list of texts, as [{given!r:.40}]")
    if hasattr(given, "toarray"):
        raise DataError("X is a sparse matrix of numbers; expected a list of texts")
    if getattr(given, "ndim", 1) == 2 and column_names(given) is None and given.shape[1] == 1:
        given = given[:, 0]
    if getattr(given, "ndim", 1) == 0 or not hasattr(given, "__len__"):
        raise DataError(f"X is {described(given)}; expected a list of texts")
    if not len(given):
        raise DataError("X has 0 texts; a minimum of 1 is required")
    return to_texts(given, "X")


def _sentences(given: Any, name: str) -> list[list[str]]:
    """Lists of words or of tags."""
    if isinstance(given, str) or (not isinstance(given, Sequence | np.ndarray) and not hasattr(given, "tolist")):
        raise DataError(f"{name} is {described(given)}; expected a list of lists of texts, one for each sentence")
    rows = list(given.tolist() if hasattr(given, "tolist") else given)
    if not rows:
        raise DataError(f"{name} has 0 sentences; a minimum of 1 is required")
    for i, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__len__"):
            raise DataError(f"{name}[{i}] is {described(row)}, expected a list of words, and of tags one for each word")
    return [[str(one) if isinstance(one, int) else one for one in row] for row in rows]
