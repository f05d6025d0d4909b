"""Runs over series of numbers: forecasts, their errors, looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heed.errors import ConfigError
from heed.evaluation.forecasts import Errors, Values, error_measures, error_report, last_value, seasonal_naive
from heed.evaluation.measures import Outcomes
from heed.observe.looks import Look
from heed.observe.maps import Axis
from heed.observe.shown import ShownLook
from heed.tasks.base.looking import Units, Words, encoder_frames, gate_maps, networks, watched
from heed.tasks.base.predictions import FileOutputs, csv_row
from heed.tasks.base.report import counted, interval, with_interval
from heed.tasks.base.run import Run
from heed.tasks.series.reading import NamedSeries, hold_series
from heed.tasks.series.task import Forecaster, Part, Series, all_to_forecast, names_of
from heed.visible import escaped


class Forecast(np.ndarray[Any, np.dtype[np.float64]]):
    """Forecast of a series, `(horizon, columns)`, or of several, one below the other.

    `columns` holds the column names, `keys` a data frame with the series' name and the date of each row, if known.
    """

    columns: tuple[str, ...]
    keys: pd.DataFrame | None

    @classmethod
    def of(cls, values: Any, columns: tuple[str, ...], keys: pd.DataFrame | None = None) -> Self:
        """Make a forecast from an array, the names of its columns, and its keys."""
        made = np.asarray(values, dtype=np.float64).view(cls)
        made.columns, made.keys = columns, keys
        return made

    def __array_finalize__(self, made: Any) -> None:
        """Keep the column names on slices and results that have as many columns; otherwise drop them."""
        names, self.keys = getattr(made, "columns", ()), None
        self.columns = names if self.ndim == 2 and self.shape[-1] == len(names) else ()

    def to_frame(self) -> pd.DataFrame:
        """Convert to a pandas data frame, one row for each forecast row: name of the series, date, values.

        Dates that were in the index of a data frame are the index.
        """
        index = None if self.keys is None else self.keys.index
        values = pd.DataFrame(np.asarray(self), index=index, columns=list(self.columns) or None)
        return values if self.keys is None else pd.concat([self.keys, values], axis=1)


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    season = (
        f"; seasonal naive: {counted(report['season'], 'row')} before (data.season)" if report.get("season") else ""
    )
    lines = [f"  of up to {counted(report['horizon'], 'row')} each (data.horizon){season}"]
    for column, shown in report["columns"].items():
        lines.append(f"  {escaped(column)[:20]:<20} {'MAE':>32} {'RMSE':>32}   the model's MAE is lower by")
        for name, values in shown.items():
            scores = " ".join(f"{with_interval(values[kind]):>32}" for kind in ("mae", "rmse"))
            gain = (
                interval(values["gain"]) if "gain" in values else "" if name == "model" else "- (its MAE is almost 0)"
            )
            lines.append(f"    {name:<18} {scores}   {gain}".rstrip())
    for name, shown in report.get("series", {}).items():
        scores = ", ".join(f"{escaped(column)} {error:.4g}" for column, error in shown["mae"].items())
        lines.append(f"  {escaped(name)}: {counted(shown['forecasts'], 'forecast')}, MAE of the model: {scores}")
    return lines


class SeriesOutputs(FileOutputs):
    """Forecasts of the series in a file."""

    run: SeriesRun
    _noted: Sequence[str] = ()

    def notes(self) -> list[str]:
        return [*self._noted]

    def write_file(self, path: Path) -> list[str]:
        series = self.run.task.read(path)
        forecast = self.run.forecast(series, self.options["horizon"])
        lines = [one.timeline for one in series if one.timeline is not None]
        uneven = [line.column.names[0] for line in lines if line.step is None]
        if uneven:
            self._noted = [f"the dates of column '{uneven[0]}' are not evenly spaced, so the forecast has no dates"]
        keys = pd.DataFrame(index=range(len(forecast))) if forecast.keys is None else forecast.keys
        numbers = ([f"{value:.6g}" for value in row] for row in forecast)
        rows = [[*map(str, key), *row] for key, row in zip(keys.itertuples(index=False), numbers, strict=True)]
        return [csv_row(row) for row in [[*keys.columns, *forecast.columns], *rows]]


def look_at_series(
    task: Series,
    model: Forecaster,
    values: NDArray[np.float64],
    *,
    name: str = "series",
    title: str = "",
    units: Units | None = None,
) -> Look:
    """Show how a model reads the last `data.window` rows of a series `(rows, columns)`, from which it forecasts.

    Raises:
        ConfigError: The model has no recurrent network, so there are no gates or states to show.
    """
    window, columns = task.window, task.standard.columns
    read, first = values[-window:], max(0, len(values) - window)
    rows = task.tensor(read).unsqueeze(0).to(next(model.parameters()).device)
    with watched(model) as seen:
        said = model(rows)[0, -1:]
    nets = networks(seen, len(read))
    if not nets:
        raise ConfigError(f"model {task.config.model.name} has no recurrent network, so there are no gates to look at")
    labels = tuple(str(first + n + 1) for n in range(len(read)))
    places = Words.counted(Axis("rows", "row", labels), [1] * len(read))
    shown = [", ".join(f"{c} {v:.6g}" for c, v in zip(columns, row, strict=True)) for row in read.tolist()]
    lines = tuple(f"row {label}: {row}" for label, row in zip(labels, shown, strict=True))
    following = task.standard.undo(said.float().cpu().numpy().astype(np.float64))[0]
    numbers = ", ".join(f"{c} {v:.6g}" for c, v in zip(columns, following.tolist(), strict=True))
    return Look(
        title or task.title,
        name,
        f"row {len(values) + 1}: {numbers}",
        gate_maps(((net, places) for net in nets), task.config.model.name, True, units),
        encoder_frames(nets, Words.counted(Axis("rows", "row", lines), [1] * len(read))),
        (),
        (f"read: rows {labels[0]} to {labels[-1]} (data.window {window})",),
        names=("series", "next"),
        parts=(("series", "reads"), ("", "")),
        unit="row",
    )


class SeriesRun(Run[Series, Forecaster]):
    """A trained forecaster of series."""

    task_class = Series
    outputs_class = SeriesOutputs
    body = staticmethod(body)

    def held(self, data: Any) -> Sequence[Part]:
        series = self._series(data, "examples")
        return all_to_forecast(series, self.task.standard.columns, self.task.window)

    def predict(self, rows: Any, horizon: int | None = None) -> Forecast:
        """Forecast the rows that follow a series.

        Args:
            rows: A data frame or a dict of columns; or an array `(rows, columns)` in the order of
                `run.task.standard.columns`, a plain list for one column.
            horizon: Number of rows; `data.horizon` by default.

        Returns:
            `(horizon, columns)`, of several series one below the other; `to_frame()` converts it to a data frame with
            the names of the series and the dates that follow.

        Raises:
            ConfigError: The horizon is too long.
            DataError: The series has no rows, a value is not a number, or a column is missing.
        """
        forecast = self.forecast(self._series(rows), horizon)
        index = getattr(rows, "index", None)
        if forecast.keys is not None and isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
            name = index.name or "date"
            forecast.keys = forecast.keys.set_index(name) if name in forecast.keys.columns else forecast.keys
        return forecast

    def forecast(self, series: Sequence[NamedSeries], horizon: int | None = None) -> Forecast:
        """Forecast the rows that follow each of several series, from the rows after its last gap."""
        columns, first = self.task.standard.columns, series[0]
        horizon = horizon or self.task.config.data.horizon
        if not 1 <= horizon <= 100_000:
            raise ConfigError(f"horizon is {horizon}, expected 1 to 100,000 rows")
        last = [one.numbers(columns)[[0, *one.gaps][-1] :] for one in series]
        made = np.concatenate(self.task.forecast(self.model, last, horizon))
        keys = pd.DataFrame({first.by: np.repeat([one.name for one in series], horizon)} if first.by else {})
        if all(one.step for one in series):
            lines = [(one.timeline, int(one.order[-1])) for one in series if one.timeline is not None]
            dates = [date for line, row in lines for date in line.following(row, horizon)]
            keys = pd.concat([keys, pd.DataFrame(dates, columns=list(lines[0][0].column.names))], axis=1)
        return Forecast.of(made, columns, keys if len(keys) else None)

    def _series(self, rows: Any, name: str = "series") -> list[NamedSeries]:
        """Rows in any form that `predict` accepts."""
        return hold_series(rows, name, self.task.config.data, self.task.standard.columns)

    def predict_file(self, path: str | Path, horizon: int | None = None) -> Forecast:
        """Forecast the rows that follow those of a file with the run's columns."""
        return self.forecast(self.task.read(Path(path)), horizon)

    def look(
        self,
        text: Any,
        *,
        steps: bool = False,
        mechanism: str | None = None,
        layer: int | str = -1,
        head: int | str = "mean",
        edits: Sequence[Any] = (),
        units: Units | None = None,
    ) -> ShownLook:
        """Show gates and states of the network for each row that a forecast is made from.

        Args:
            text: A file with the run's columns, or rows in any form that `predict` accepts.
            steps: Whether to show every step.
            mechanism: Not applicable: the model has no attention.
            layer: As `mechanism`.
            head: As `mechanism`.
            edits: As `mechanism`.
            units: Also draw single units: the N of largest variance, or those with these numbers.

        Raises:
            ConfigError: One of these is given, or the series has no rows.
        """
        if mechanism is not None or layer != -1 or head != "mean" or edits:
            raise ConfigError(f"model {self.config.model.name} has no attention; a look shows its gates")
        is_file = isinstance(text, str | Path)
        series = self.task.read(Path(text)) if is_file else self._series(text)
        name = Path(text).name if is_file else "series"
        if len(series) > 1:
            raise ConfigError(f"{name} has {len(series)} series; a look shows one, so give the rows of one")
        values = series[0].numbers(self.task.standard.columns)
        look = look_at_series(self.task, self.model, values, name=name, title=self.title, units=units)
        return ShownLook(look, steps)

    def read(self, files: Sequence[str | Path]) -> Sequence[Part]:
        series = [one for path in files for one in self.task.read(Path(path))]
        return all_to_forecast(series, self.task.standard.columns, self.task.window)

    def outcomes(self, examples: Sequence[Part], outputs: Sequence[Values] | None = None) -> Outcomes:
        data = self.task.config.data
        made, errors = self._forecasts(examples, outputs)
        texts = [" ".join(f"{value:.6g}" for value in rows.flatten()) for rows in made]
        measures = [one for by in errors.values() for one in by["model"].values()]
        return Outcomes(tuple(texts), tuple(measures), details={"horizon": data.horizon})

    def report_of(self, examples: Sequence[Part]) -> dict[str, Any]:
        made, errors = self._forecasts(examples)
        data, columns = self.task.config.data, error_report(errors, self.config.evaluation.bootstrap)
        report: dict[str, Any] = {
            "task": self.config.task,
            "examples": len(made),
            "columns": columns,
            "horizon": data.horizon,
        }
        if isinstance(data.season, int):
            report["season"] = data.season
        origins = [part.origin for part in examples for _ in range(part.start, len(part.values), data.horizon)]
        if len(names := names_of(examples)) > 1:
            places = {name: [n for n, origin in enumerate(origins) if origin == name] for name in names}
            report["series"] = {
                name: {
                    "forecasts": len(some),
                    "mae": {column: made["model"]["mae"].of(some).score() for column, made in errors.items()},
                }
                for name, some in places.items()
            }
        return report

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
        season = data.season
        if isinstance(season, int):
            forecasts["seasonal naive"] = [seasonal_naive(context, data.horizon, season) for context in contexts]
        cut = {name: [f[: len(t)] for f, t in zip(given, true, strict=True)] for name, given in forecasts.items()}
        return made, error_measures(true, cut, self.task.standard.columns)
