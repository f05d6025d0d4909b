"""Labels that are numbers: when they are, their values, predictions, scores and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from heed.data.columns import is_float, shown
from heed.data.kinds.numbers import LARGEST, Rows
from heed.errors import DataError
from heed.evaluation.forecasts import number_measures
from heed.evaluation.measures import Outcomes
from heed.tasks.base.labels import MOST_ERRORS, LabelPrediction
from heed.tasks.base.predictions import Prediction
from heed.tasks.base.report import shown_errors, with_interval

_FEW = 20
"""Most different whole numbers that are classes."""
_MOST = 0.9
"""Share of labels that must be numbers; the others are then errors of the file."""


def target_of(data: Any, labels: Sequence[str]) -> Literal["classes", "number"]:
    """What the labels of the training files are, by `data.target`; its "auto" is settled by the labels."""
    if data.target != "auto":
        return data.target  # type: ignore[no-any-return]
    values = {label: value for label in set(labels) if (value := _value(label)) is not None}
    if sum(label in values for label in labels) < _MOST * max(1, len(labels)):
        return "classes"
    distinct = {*values.values()}
    return "number" if len(distinct) > _FEW or any(value % 1 for value in distinct) else "classes"


def _value(label: str) -> float | None:
    value = float(label) if is_float(label) and "_" not in label else np.nan  # only Python groups digits by _
    return value if abs(value) <= LARGEST else None


def values_in(rows: Rows) -> NDArray[np.float64]:
    """The numbers `(rows,)` that are the labels.

    Raises:
        DataError: A label is not a finite number, or its square is not finite.
    """
    values = [_value(label) for label in rows.labels]
    if None in values:
        at = values.index(None)
        raise DataError(
            f"{rows.origin(at)}: the label {rows.labels[at]!r:.40} is not a finite number below 1e150, which "
            "regression needs; train with data.target=classes if labels are classes"
        )
    return np.array(values, dtype=np.float64)


def target_line(column: int | str, values: NDArray[np.float64]) -> str:
    """Say that the label is a number; `values` are those of the training rows."""
    facts = f"{len(np.unique(values)):,} different, {values.min():.6g} to {values.max():.6g}"
    return f"label {shown(column)} holds numbers ({facts}): regression; data.target=classes treats them as classes"


@dataclass(frozen=True)
class NumberPrediction(Prediction):
    """The predicted number of one row."""

    value: float  # in the unit of the label

    def as_json(self) -> dict[str, Any]:
        return {"value": float(self.summary())}

    def summary(self) -> str:
        """The number with the seven digits that a network computes with."""
        return f"{self.value:.7g}"


RowPrediction = LabelPrediction | NumberPrediction


def number_outcomes(
    true: NDArray[np.float64], outputs: Sequence[NumberPrediction], place: Callable[[int], dict[str, str]]
) -> Outcomes:
    """Predicted numbers with their scores; the details list the largest errors first.

    `true`: `(examples,)`; `place` returns the origin and the content of an example.
    """
    predicted = np.array([output.value for output in outputs])
    order = np.argsort(-np.abs(predicted - true), kind="stable")[:MOST_ERRORS].tolist()
    errors = [{**place(i), "true": float(true[i]), "predicted": float(predicted[i])} for i in order]
    measures = number_measures(true, predicted)
    return Outcomes(tuple(output.summary() for output in outputs), measures, details={"errors": errors})


def number_body(report: Mapping[str, Any]) -> list[str]:
    """The scores of numbers."""
    return [f"  {name:<20} {with_interval(report[name.lower()])}" for name in ("MAE", "RMSE", "R2")]


def number_errors(report: Mapping[str, Any], most: int) -> list[str]:
    """The examples of a report with the largest errors."""
    lines = [
        f"  {e['origin']}  is {e['true']:.7g}, predicted {e['predicted']:.7g} ({e['predicted'] - e['true']:+.4g})\n"
        f"    {e['text']}"
        for e in shown_errors(report, most)
    ]
    return ["largest errors first:", *lines]
