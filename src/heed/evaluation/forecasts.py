"""Scores of forecasts of numbers, beside those of the forecasts that anybody can make without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.evaluation.measures import Array, Measure
from heed.evaluation.metrics import Interval
from heed.evaluation.significance import interval, resampled

__all__ = ["last_value", "score_forecasts", "seasonal_naive"]

Values = NDArray[np.float64]


def last_value(context: Values, horizon: int) -> Values:
    """The last row again and again, `(horizon, columns)`."""
    return np.repeat(context[-1:], horizon, axis=0)


def seasonal_naive(context: Values, horizon: int, season: int) -> Values:
    """The rows of one season ago, `(horizon, columns)`; of a season that is longer than the context, its first rows."""
    start = max(0, len(context) - season)
    rows = start + np.arange(horizon) % max(1, len(context) - start)
    return context[rows]


def score_forecasts(
    true: Sequence[Values], forecasts: Mapping[str, Sequence[Values]], columns: Sequence[str], resamples: int = 1000
) -> dict[str, Any]:
    """The report of one test set, as plain values.

    Args:
        true: The rows that followed each origin, `(rows, columns)`.
        forecasts: By who made them ("model", "last value", ...), the rows forecast, as `true`.
        columns: Names.
        resamples: Bootstrap resamples over the origins for the intervals.

    Returns:
        examples (origins); per column and forecaster mae and rmse with intervals; and how much smaller the model's mae
        is than each other's ("gain", a share; its interval is paired).
    """
    report: dict[str, Any] = {"task": "series", "examples": len(true), "columns": {}}
    for c, column in enumerate(columns):
        measures = {name: _measures([f[:, c] - t[:, c] for f, t in zip(made, true, strict=True)])
                    for name, made in forecasts.items()}  # fmt: skip
        drawn = {
            kind: resampled([[pair[kind]] for pair in measures.values()], resamples, seed=1) for kind in ("mae", "rmse")
        }
        shown: dict[str, Any] = {}
        for place, (name, pair) in enumerate(measures.items()):
            shown[name] = {
                kind: asdict(Interval(pair[kind].score(), *interval(drawn[kind][place]))) for kind in ("mae", "rmse")
            }
            if place:
                gain = 1 - drawn["mae"][0] / np.maximum(drawn["mae"][place], 1e-300)
                value = 1 - measures["model"]["mae"].score() / max(pair["mae"].score(), 1e-300)
                shown[name]["gain"] = asdict(Interval(value, *interval(gain)))
        report["columns"][column] = shown
    return report


def _measures(errors: Sequence[Values]) -> dict[str, Measure]:
    counts = np.array([len(error) for error in errors], dtype=np.float64)
    absolute = np.stack([np.array([np.abs(error).sum() for error in errors]), counts], axis=1)
    mae = Measure("mae", "MAE", absolute, lambda sums: sums[:, 0] / sums[:, 1], higher_is_better=False)
    squares = np.stack([np.array([(error**2).sum() for error in errors]), counts], axis=1)
    return {"mae": mae, "rmse": replace(mae, name="rmse", label="RMSE", statistics=squares, formula=_root)}


def _root(sums: Array) -> Array:
    root: Array = np.sqrt(sums[:, 0] / sums[:, 1])
    return root
