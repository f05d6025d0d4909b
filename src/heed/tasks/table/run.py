"""Runs over rows of numbers, and the lines that they write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, overload

from heed.data.kinds.numbers import Rows, hold_rows
from heed.data.readers import column_names
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.tasks.base.labels import LabelPrediction, LabelRun, most_probable
from heed.tasks.base.predictions import FileOutputs, Predictions
from heed.tasks.table.task import RowClassifier, Table
from heed.visible import to_json


class TableOutputs(FileOutputs):
    """One line for each row of a file."""

    run: TableRun

    def write_file(self, path: Path) -> Iterator[str]:
        for one in self.run.predict_rows(path):
            yield from (to_json(one.as_json()),) if self.options["json"] else one.lines("", self.options)


class TableRun(LabelRun[Table, RowClassifier]):
    """A trained classifier of rows of numbers."""

    task_class = Table
    outputs_class = TableOutputs

    @overload
    def predict(self, rows: Mapping[str, Any]) -> LabelPrediction: ...

    @overload
    def predict(self, rows: Any) -> Predictions[LabelPrediction]: ...

    def predict(self, rows: Any) -> LabelPrediction | Predictions[LabelPrediction]:
        """Predict the label of one row or of several.

        Args:
            rows: A row (a dict, column -> value), a list of rows, a data frame, a dict of columns, or an array with
                the run's columns in their order; a missing value is None or NaN.

        Raises:
            ConfigError: A column is missing.
            DataError: A value is not a number.
        """
        columns = self.task.features.names
        one = isinstance(rows, Mapping) and not column_names(rows)
        given: Any = [rows] if one else rows
        if isinstance(given, list) and not given:
            return Predictions([])
        if isinstance(given, list) and isinstance(given[0], Mapping):
            for row in given:
                if missing := [column for column in columns if column not in row]:
                    raise ConfigError(f"the row has no column '{missing[0]}'; the model reads {', '.join(columns)}")
        predictions = self._of(self._encoded(given, "rows", None).values)
        return predictions[0] if one else Predictions(predictions)

    def _encoded(self, data: Any, split: str, label: int | str | None) -> Rows:
        """Data passed in Python with the run's columns in their order, and their numbers."""
        features = self.task.features
        rows = data[0] if label is not None and isinstance(data, tuple) else data
        named = column_names(rows) is not None or (isinstance(rows, list) and rows and isinstance(rows[0], Mapping))
        wanted, kinds = (features.names, features.kinds) if named else (None, None)
        return features.encoded(hold_rows(data, split, wanted, label, kinds=kinds).ordered(features.names))

    def predict_file(self, path: str | Path) -> list[LabelPrediction]:
        """Predict the label of each row of a file with the run's columns."""
        return [*self.predict_rows(path)]

    def predict_rows(self, path: str | Path) -> Iterator[LabelPrediction]:
        """As `predict_file`, but reading the file in parts, so that memory does not grow with its length."""
        first = 0
        for part in self.task.parts(Path(path)):
            yield from self._of(part.values, first)
            first += len(part)

    def _of(self, values: Any, first: int = 0) -> list[LabelPrediction]:
        task = self.task
        return [task.prediction(row) for row in task.probabilities(task.logits(self.model, values, first))]

    def held(self, data: Any) -> Rows:
        return self._encoded(data, "examples", self.config.data.columns.label)

    def read(self, files: Sequence[str | Path]) -> Rows:
        return Rows.joined([self.task.read(Path(file)) for file in files])

    def label(self, examples: Rows) -> list[LabelPrediction]:
        return self._of(examples.values)

    def true_labels(self, examples: Rows) -> list[tuple[str]]:
        self.task.numbers_of(examples)  # raises DataError for labels that are not in the training set
        return [(label,) for label in examples.labels]

    def place_of(self, examples: Rows, i: int) -> dict[str, str]:
        (row,) = examples.take([i])
        cells = zip(examples.columns, row.values, strict=True)
        shown = (f"{column} {value:g}" if isinstance(value, float) else f"{column} {value}" for column, value in cells)
        return {"origin": row.origin, "text": ", ".join(shown)}

    def baselines(self, examples: Rows) -> Mapping[str, Outcomes]:  # type: ignore[override]
        """Majority class: each row gets the most frequent training label, with the training shares as probabilities."""
        known = self.known()
        if known is None:
            return {}
        counts = Counter(cast(Rows, known).labels)
        prediction = most_probable(self.task.labels, [counts[label] / len(known) for label in self.task.labels])
        return {"majority class": self.outcomes(examples, [prediction] * len(examples))}
