"""Runs over series of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.read.findings import Findings
from heed.data.read.memory import column_names
from heed.data.read.memory_numbers import aligned, hold_numbers
from heed.errors import ConfigError
from heed.evaluation.forecasts import Errors, error_measures, error_report, last_value, seasonal_naive
from heed.evaluation.measures import Outcomes
from heed.observe.shown import ShownLook
from heed.tasks.base.run import Run
from heed.tasks.series.forecast import Forecast
from heed.tasks.series.look import look_at_series
from heed.tasks.series.model import Forecaster
from heed.tasks.series.outputs import SeriesOutputs
from heed.tasks.series.report import body
from heed.tasks.series.task import Part, Series, to_forecast, whole_series

Values = NDArray[np.float64]


class SeriesRun(Run[Series, Forecaster]):
    """A trained forecaster of series."""

    task_class = Series
    body = staticmethod(body)

    def held(self, data: Any) -> Sequence[Part]:
        """Series from Python data, with the run's columns; the first rows of each are only context (`to_forecast`)."""
        held = self.task.hold(data, "examples", self.config, Findings.of(self.config.data, strict=True))
        columns, window = self.task.standard.columns, self.task.config.data.window
        return [to_forecast(aligned(one, columns).values, one.name, window, ConfigError) for one in held]

    def predict(self, rows: Any, horizon: int | None = None) -> Forecast:
        """Forecast the rows that follow a series.

        Args:
            rows: A data frame or a dict of columns; or an array `(rows, columns)` in the order of
                `run.task.standard.columns`, a plain list for one column.
            horizon: Number of rows; `data.horizon` by default.

        Returns:
            `(horizon, columns)`; `to_frame()` converts it to a data frame.

        Raises:
            ConfigError: The series has no rows, or the wrong number of columns.
            DataError: A value is not a number, or a column is missing.
        """
        values = self._values(rows)
        horizon = horizon or self.task.config.data.horizon
        return Forecast.of(self.task.forecast(self.model, [values], horizon)[0], self.task.standard.columns)

    def _values(self, rows: Any) -> Values:
        """Rows in any form that `predict` accepts, as an array `(rows, columns)`."""
        columns = self.task.standard.columns
        if column_names(rows) is not None:
            values = hold_numbers(rows, "series", columns).values
        else:
            try:
                values = np.asarray(rows, dtype=np.float64)
            except (TypeError, ValueError):
                values = hold_numbers(rows, "series", None).values  # its error names the value that is not a number
        values = values.reshape(-1, 1) if values.ndim == 1 and len(columns) == 1 else values
        if values.ndim != 2 or values.shape[1] != len(columns) or not len(values):
            raise ConfigError(f"the series has shape {values.shape}, expected (rows, {len(columns)})")
        return values

    def predict_file(self, path: str | Path, horizon: int | None = None) -> Forecast:
        """Forecast the rows that follow those of a file with the run's columns."""
        return self.predict(self.task.read(Path(path)).values, horizon)

    def look(
        self,
        text: Any,
        *,
        steps: bool = False,
        mechanism: str | None = None,
        layer: int | str = -1,
        head: int | str = "mean",
    ) -> ShownLook:
        """Show gates and states of the network for each row that a forecast is made from.

        Args:
            text: A file with the run's columns, or rows in any form that `predict` accepts.
            steps: Whether to show every step.
            mechanism: Not applicable: the model has no attention.
            layer: As `mechanism`.
            head: As `mechanism`.

        Raises:
            ConfigError: `mechanism`, `layer` or `head` is given, or the series has no rows.
        """
        if mechanism is not None or layer != -1 or head != "mean":
            raise ConfigError(f"model {self.config.model.name} has no attention; a look shows its gates")
        is_file = isinstance(text, str | Path)
        values = self.task.read(Path(text)).values if is_file else self._values(text)
        name = Path(text).name if is_file else "series"
        if not len(values):
            raise ConfigError(f"{name} has no rows")
        return ShownLook(look_at_series(self.task, self.model, values, name=name, title=self.title), steps)

    def read(self, files: Sequence[str | Path]) -> Sequence[Part]:
        """Series from files with the run's columns; the first rows of each are only context (`to_forecast`)."""
        columns, window = self.task.standard.columns, self.task.config.data.window
        return [whole_series(path, columns, window, ConfigError) for path in map(Path, files)]

    def outcomes(self, examples: Sequence[Part], outputs: Sequence[Values] | None = None) -> Outcomes:
        """Forecast every row of some series, `data.horizon` at a time; errors by column."""
        data = self.task.config.data
        made, errors = self._forecasts(examples, outputs)
        texts = [" ".join(f"{value:.6g}" for value in rows.flatten()) for rows in made]
        measures = [one for by in errors.values() for one in by["model"].values()]
        return Outcomes(tuple(texts), tuple(measures), details={"horizon": data.horizon})

    def report_of(self, examples: Sequence[Part]) -> dict[str, Any]:
        """The report: for each column the errors of the model's forecasts and of the naive ones."""
        made, errors = self._forecasts(examples)
        columns = error_report(errors, self.config.evaluation.bootstrap)
        horizon = self.task.config.data.horizon
        return {"task": self.config.task, "examples": len(made), "columns": columns, "horizon": horizon}

    def _forecasts(
        self, examples: Sequence[Part], made: Sequence[Values] | None = None
    ) -> tuple[Sequence[Values], Errors]:
        """The model's forecast from each origin; errors of the model and of the naive forecasts."""
        data = self.task.config.data
        ends = [(p.values, at) for p in examples for at in range(p.start, len(p.values), data.horizon)]
        contexts = [values[:at] for values, at in ends]
        true = [values[at : at + data.horizon] for values, at in ends]
        if not true:
            raise ConfigError("there are no series to score")
        made = self.task.forecast(self.model, contexts, data.horizon) if made is None else made
        forecasts = {"model": made, "last value": [last_value(context, data.horizon) for context in contexts]}
        if data.season is not None:
            season = data.season
            forecasts["seasonal naive"] = [seasonal_naive(context, data.horizon, season) for context in contexts]
        cut = {name: [f[: len(t)] for f, t in zip(given, true, strict=True)] for name, given in forecasts.items()}
        return made, error_measures(true, cut, self.task.standard.columns)

    def outputs(self, options: Mapping[str, Any]) -> SeriesOutputs:
        """The writer of predictions."""
        return SeriesOutputs(self, options)
