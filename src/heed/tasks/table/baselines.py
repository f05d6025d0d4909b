"""Baselines of tables, fitted to the training rows: a constant, a linear model and gradient boosting (scikit-learn)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Fitted = Callable[[Array], Array]
"""From rows `(rows, columns)` to outputs `(rows, outputs)`."""
_CELLS, _ROWS = 10_000_000, 1_000
"""Rows x columns x outputs above which a sample is fitted; the least rows of a sample."""
_WIDE = 1_000
"""Columns x outputs above which boosting takes minutes, and is left out."""
_TREES = 2_000
"""Most trees; each step of boosting adds one for each class."""
_SEED = 1


def fitted(values: Array, targets: NDArray[Any], outputs: int, number: bool) -> Iterator[tuple[str, Fitted]]:
    """The name of each baseline with its function.

    Args:
        values: The training rows, `(rows, columns)`.
        targets: Their numbers, standardised, or the numbers of their classes, `(rows,)`.
        outputs: How many classes there are; 1 for numbers.
        number: Whether targets are numbers; otherwise outputs are probabilities.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    plain = np.zeros(1) if number else np.bincount(targets, minlength=outputs) / len(targets)
    yield "mean" if number else "majority class", lambda rows: np.tile(plain, (len(rows), 1))
    cells = values.shape[1] * outputs
    count, most, note = len(values), max(_ROWS, _CELLS // cells), ""
    if count > most:
        chosen = np.sort(np.random.default_rng(_SEED).choice(count, most, replace=False))
        values, targets, note = values[chosen], targets[chosen], f", fitted to {most:,} of {count:,} rows"
    if len(np.unique(targets)) < 2:
        return
    linear = make_pipeline(StandardScaler(), Ridge() if number else LogisticRegression(max_iter=200))
    estimators = {"ridge regression" if number else "logistic regression": linear}
    if cells <= _WIDE:
        boosting = HistGradientBoostingRegressor if number else HistGradientBoostingClassifier
        steps = min(100, _TREES // outputs)
        estimators["gradient boosting"] = boosting(max_iter=steps, early_stopping=False, random_state=_SEED)
    for name, estimator in estimators.items():
        with warnings.catch_warnings(action="ignore"):  # of few iterations: a baseline need not have converged
            estimator.fit(values, targets)
        yield f"{name}{note}", partial(_outputs, estimator, outputs, number)


def _outputs(estimator: Any, outputs: int, number: bool, rows: Array) -> Array:
    if number:
        return np.asarray(estimator.predict(rows))[:, None]
    made = np.zeros((len(rows), outputs))
    made[:, estimator.classes_] = estimator.predict_proba(rows)  # classes without a fitted row have 0
    return made
