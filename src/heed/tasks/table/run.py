"""Runs over rows of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, overload

from heed.data.read.findings import Findings
from heed.data.read.memory import column_names
from heed.data.read.memory_numbers import aligned, hold_numbers
from heed.data.read.numbers import Numbers
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.tasks.base.labels import LabelPrediction, most_probable, outcomes_of
from heed.tasks.base.predictions import Predictions
from heed.tasks.base.report import label_body, label_errors
from heed.tasks.base.run import Run
from heed.tasks.table.model import RowClassifier
from heed.tasks.table.outputs import TableOutputs
from heed.tasks.table.task import Table, joined


class TableRun(Run[Table, RowClassifier]):
    """A trained classifier of rows of numbers."""

    task_class = Table
    no_look = "its network reads a whole row at once, so it has no steps, no gates and no attention"
    body = staticmethod(label_body)
    errors = staticmethod(label_errors)

    @overload
    def predict(self, rows: Mapping[str, float]) -> LabelPrediction: ...

    @overload
    def predict(self, rows: Any) -> Predictions[LabelPrediction]: ...

    def predict(self, rows: Any) -> LabelPrediction | Predictions[LabelPrediction]:
        """Predict the label of one row or of several.

        Args:
            rows: A row (a dict, column -> number), a list of rows, a data frame, a dict of columns, or an array with
                the run's columns in their order.

        Raises:
            ConfigError: A column is missing.
            DataError: A value is not a number.
        """
        columns = self.task.standard.columns
        one = isinstance(rows, Mapping) and not column_names(rows)
        given: Any = [rows] if one else rows
        if isinstance(given, list) and not given:
            return Predictions([])
        if isinstance(given, list) and isinstance(given[0], Mapping):
            for row in given:
                if missing := [column for column in columns if column not in row]:
                    raise ConfigError(f"the row has no column '{missing[0]}'; the model reads {', '.join(columns)}")
        named = column_names(given) is not None or (isinstance(given, list) and isinstance(given[0], Mapping))
        predictions = self._of(aligned(hold_numbers(given, "rows", columns if named else None), columns).values)
        return predictions[0] if one else Predictions(predictions)

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
        return [self.task.prediction(row) for row in self.task.probabilities(self.model, values, first)]

    def held(self, data: Any) -> Numbers:
        """Rows from Python data, with the run's columns in their order."""
        held = self.task.hold(data, "examples", self.config, Findings.of(self.config.data, strict=True))
        return aligned(held, self.task.standard.columns)

    def read(self, files: Sequence[str | Path]) -> Numbers:
        """Labelled rows from files with the run's columns."""
        return joined([self.task.read(Path(file)) for file in files])

    def outcomes(  # type: ignore[override]
        self, examples: Numbers, outputs: Sequence[LabelPrediction] | None = None
    ) -> Outcomes:
        """Predicted labels, their scores, and the errors, most confident first."""
        self.task.numbers_of(examples)  # raises DataError for labels that are not in the training set
        return outcomes_of(
            self._of(examples.values) if outputs is None else outputs,
            [(label,) for label in examples.labels],
            self.task.labels,
            False,
            lambda i: (
                examples.origins[i],
                ", ".join(f"{c} {v:g}" for c, v in zip(examples.columns, examples.values[i], strict=True)),
            ),
        )

    def baselines(self, examples: Numbers) -> Mapping[str, Outcomes]:
        """Majority class: each row gets the most frequent training label, with the training shares as probabilities."""
        known = self.known()
        if known is None:
            return {}
        counts = Counter(cast(Numbers, known).labels)
        prediction = most_probable(self.task.labels, [counts[label] / len(known) for label in self.task.labels])
        return {"majority class": self.outcomes(examples, [prediction] * len(examples))}

    def outputs(self, options: Mapping[str, Any]) -> TableOutputs:
        """The writer of predictions."""
        return TableOutputs(self, options)
