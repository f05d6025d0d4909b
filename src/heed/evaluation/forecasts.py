"""Scores of numeric forecasts and of other predicted numbers, and naive forecasts to compare them with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.evaluation.measures import Array, Measure, columns, first_by_second
from heed.evaluation.significance import SEED, Interval, interval, resampled, score_interval

Values = NDArray[np.float64]


def last_value(context: Values, horizon: int) -> Values:
    """The last row repeated, `(horizon, columns)`."""
    return np.repeat(context[-1:], horizon, axis=0)


def seasonal_naive(context: Values, horizon: int, season: int) -> Values:
    """The rows of one season ago, `(horizon, columns)`; all of the context if it is shorter than a season."""
    start = max(0, len(context) - season)
    rows = start + np.arange(horizon) % max(1, len(context) - start)
    return context[rows]


_LEAST = 1e-4
"""Smallest mae of another forecaster, as a share of the model's, for which a gain is reported."""

Errors = dict[str, dict[str, dict[str, Measure]]]
"""The measures "mae" and "rmse" by column and by forecaster ("model", "last value", ...)."""


def error_measures(true: Sequence[Values], forecasts: Mapping[str, Sequence[Values]], columns: Sequence[str]) -> Errors:
    """Errors of forecasts over all origins.

    Args:
        true: The rows that followed each origin, `(rows, columns)`.
        forecasts: The forecast rows, shaped like `true`, by forecaster.
        columns: Names of the columns.
    """
    return {
        column: {
            name: _measures(column, [f[:, c] - t[:, c] for f, t in zip(forecast, true, strict=True)])
            for name, forecast in forecasts.items()
        }
        for c, column in enumerate(columns)
    }


def error_report(errors: Errors, resamples: int = 1000) -> dict[str, Any]:
    """Errors (mae, rmse) with intervals, by column and forecaster; for forecasters other than the model also "gain".

    "gain" is the relative reduction of mae by the model, 1 - mae(model) / mae(other), with a paired interval. It is
    left out if mae(other) is almost 0, also in a resample.
    """
    measures = [measure for column in errors.values() for kinds in column.values() for measure in kinds.values()]
    draws = resampled([[measure] for measure in measures], resamples, SEED)
    drawn = {id(measure): scores for measure, scores in zip(measures, draws, strict=True)}
    report: dict[str, Any] = {}
    for column, by_forecaster in errors.items():
        model = by_forecaster["model"]["mae"]
        shown: dict[str, Any] = {}
        for name, kinds in by_forecaster.items():
            shown[name] = {
                kind: Interval(measure.score(), *score_interval([measure], drawn[id(measure)])).as_values()
                for kind, measure in kinds.items()
            }
            if name != "model":
                other, others = kinds["mae"], drawn[id(kinds["mae"])]
                if min(other.score(), *others) > _LEAST * model.score():
                    gain = Interval(1 - model.score() / other.score(), *interval(1 - drawn[id(model)] / others))
                    shown[name]["gain"] = asdict(gain)
        report[column] = shown
    return report


def number_measures(true: Values, predicted: Values) -> tuple[Measure, ...]:
    """Mean absolute error, root mean squared error and R2 of one number for each example.

    R2 = 1 - sum (y^ - y)^2 / sum (y - mean y)^2; NaN if all true numbers are equal.

    Args:
        true: `(examples,)`.
        predicted: `(examples,)`.
    """
    errors, centred = predicted - true, true - true.mean()  # centred: sums of squares far from 0 would round
    scale = np.abs(centred).max() or 1.0
    squares = columns((errors / scale) ** 2, (centred / scale) ** 2, centred / scale, np.ones(len(true)))
    r2 = Measure("r2", "R2", squares, _explained, digits=3)
    return *_measures("", errors[:, None], _digits(centred)).values(), r2


def _digits(centred: Values) -> int:
    """Digits after the point for errors of numbers: the third of their deviation."""
    deviation = float(np.sqrt((centred**2).mean()))
    return 1 if deviation == 0 else max(0, 3 - math.ceil(math.log10(deviation)))


def _explained(sums: Array) -> Array:
    wrong, squares, total, count = sums.T
    spread = squares - total**2 / np.maximum(count, 1)
    spread = np.where(spread > 1e-12 * squares, spread, np.nan)  # less is rounding
    return np.asarray(1 - wrong / spread)


def _measures(column: str, errors: Sequence[Values] | Values, digits: int = 1) -> dict[str, Measure]:
    counts = [len(error) for error in errors]
    sizes = {"mae": [np.abs(error).sum() for error in errors], "rmse": [(error**2).sum() for error in errors]}
    return {
        kind: Measure(
            f"{column}_{kind}" if column else kind,
            f"{kind.upper()} of {column}" if column else kind.upper(),
            columns(size, counts),
            _root if kind == "rmse" else first_by_second,
            higher_is_better=False,
            digits=digits,
        )
        for kind, size in sizes.items()
    }


def _root(sums: Array) -> Array:
    return np.sqrt(first_by_second(sums))
