"""Runs over rows of numbers: predictions and the lines that they write, scores and their report, baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast, overload

import torch

from heed.data.kinds.numbers import Rows, hold_rows
from heed.data.readers import column_names
from heed.evaluation.measures import Outcomes
from heed.tasks.base.labels import LabelRun
from heed.tasks.base.predictions import FileOutputs, Predictions
from heed.tasks.base.report import label_body, label_errors
from heed.tasks.table.baselines import Fitted, fitted
from heed.tasks.table.regression import RowPrediction, number_body, number_errors, number_outcomes, values_in
from heed.tasks.table.task import RowClassifier, Table
from heed.visible import to_json


class TableOutputs(FileOutputs):
    """One line for each row of a file."""

    run: TableRun

    def write_file(self, path: Path) -> Iterator[str]:
        for one in self.run.predict_rows(path):
            yield from (to_json(one.as_json()),) if self.options["json"] else one.lines("", self.options)


class TableRun(LabelRun[Table, RowClassifier]):
    """A trained model of rows of numbers, which predicts a label or a number."""

    task_class = Table
    outputs_class = TableOutputs

    @staticmethod
    def body(report: dict[str, Any]) -> list[str]:
        """The scores of one set, as lines for people."""
        return number_body(report) if "mae" in report else label_body(report)

    @staticmethod
    def errors(report: Mapping[str, Any], most: int) -> list[str]:
        """The wrong labels or largest errors of a report."""
        return number_errors(report, most) if "mae" in report else label_errors(report, most)

    @overload
    def predict(self, rows: Mapping[str, Any]) -> RowPrediction: ...

    @overload
    def predict(self, rows: Any) -> Predictions[RowPrediction]: ...

    def predict(self, rows: Any) -> RowPrediction | Predictions[RowPrediction]:
        """Predict the label, or the number, of one row or of several.

        Args:
            rows: A row (a dict, column -> value), a list of rows, a data frame, a dict of columns, or an array with
                the run's columns in their order; a missing value is None or NaN.

        Raises:
            DataError: A column is missing, or a value is not a number.
        """
        one = isinstance(rows, Mapping) and not column_names(rows)
        given: Any = [rows] if one else rows
        if isinstance(given, list) and not given:
            return Predictions([])
        predictions = self._of(self._encoded(given, "rows", None).values)
        return predictions[0] if one else Predictions(predictions)

    def _encoded(self, data: Any, split: str, label: int | str | None) -> Rows:
        """Data passed in Python with the run's columns in their order, and their numbers."""
        features = self.task.features
        return features.encoded(hold_rows(data, split, features.names, label, kinds=features.kinds))

    def predict_file(self, path: str | Path) -> list[RowPrediction]:
        """Predict the label, or the number, of each row of a file with the run's columns."""
        return [*self.predict_rows(path)]

    def predict_rows(self, path: str | Path) -> Iterator[RowPrediction]:
        """As `predict_file`, but reading the file in parts, so that memory does not grow with its length."""
        first = 0
        for part in self.task.parts(Path(path)):
            yield from self._of(part.values, first)
            first += len(part)

    def _of(self, values: Any, first: int = 0) -> list[RowPrediction]:
        logits = self.task.logits(self.model, values, first)
        return self.task.predictions(logits if self.task.target is not None else self.task.probabilities(logits))

    def held(self, data: Any) -> Rows:
        return self._encoded(data, "examples", self.config.data.columns.label)

    def read(self, files: Sequence[str | Path]) -> Rows:
        return Rows.joined([self.task.read(Path(file)) for file in files])

    def label(self, examples: Rows) -> list[Any]:
        return self._of(examples.values)

    def true_labels(self, examples: Rows) -> list[tuple[str]]:
        self.task.numbers_of(examples)  # raises DataError for labels that are not in the training set
        return [(label,) for label in examples.labels]

    def place_of(self, examples: Rows, i: int) -> dict[str, str]:
        (row,) = examples.take([i])
        cells = zip(examples.columns, row.values, strict=True)
        shown = (f"{column} {value:g}" if isinstance(value, float) else f"{column} {value}" for column, value in cells)
        return {"origin": row.origin, "text": ", ".join(shown)}

    def outcomes(self, examples: Any, outputs: Any = None, labels: Any = None, several: bool | None = None) -> Outcomes:
        if self.task.target is None or not len(examples):
            return super().outcomes(examples, outputs, labels, several)
        outputs = self.label(examples) if outputs is None else outputs
        return number_outcomes(values_in(examples), outputs, lambda i: self.place_of(examples, i))

    def baselines(self, examples: Rows) -> Mapping[str, Outcomes]:  # type: ignore[override]
        """A constant (training shares, or the mean), a linear model and gradient boosting."""
        values, task = examples.values, self.task
        said = {name: task.predictions(torch.tensor(predict(values))) for name, predict in self._baselines.items()}
        return {name: self.outcomes(examples, outputs) for name, outputs in said.items()}

    @cached_property
    def _baselines(self) -> dict[str, Fitted]:
        known, task = cast("Rows | None", self.known()), self.task
        if known is None:
            return {}
        values, targets = known.values, task.targets_of(known).numpy()
        return dict(fitted(values, targets, len(task.labels) or 1, number=task.target is not None))
