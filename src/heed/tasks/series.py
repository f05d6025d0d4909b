"""Series: forecasts of series of numbers, each row from the one before, by a network that reads from left to right.

    h(t) = body(x(1) .. x(t));    x^(t+1) = V h(t) + b, plus x(t) if `difference`;    loss: mean squared error

The last rows of a training window, `data.horizon` of them but at most half, are predicted as in a forecast, from rows
that are predicted themselves, so that training is for what is reported; the others from the rows before them.
With a season of s rows, x^ also has a share of the change to the row one season before, a (x(t+1-s) - x(t)), where a is
learned for each column. Training starts from the seasonal naive forecast, a = 1 and V = 0. In a forecast of several
rows each one is fed back. Columns are standardised by the training rows; all are forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd
import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.config.data import Source, Sources, section
from heed.config.sections import (
    DataPath,
    EvaluationConfig,
    ModelSection,
    RunConfig,
    Section,
    from_left_to_right,
)
from heed.errors import ConfigError
from heed.evaluation.forecasts import Errors, Values, error_measures, error_report, last_value, seasonal_naive
from heed.evaluation.measures import Outcomes
from heed.models.base import SeriesEncoder
from heed.tasks.base.head_options import SeriesHead
from heed.tasks.base.looking import Units, Words, encoder_frames, gate_maps, networks, notes_on, views_of_text, watched
from heed.tasks.base.predictions import FileOutputs, csv_row
from heed.tasks.base.report import counted, interval, with_interval
from heed.tasks.contracts import Batch, Draw, Facts, Head, Input
from heed.tasks.inputs.windows import Stretch, Windows, names_of
from heed.tasks.work import Looks, Task, Work
from heed.visible import escaped
from heed.watch.edits import Edit
from heed.watch.looks import Choice, Look
from heed.watch.maps import Axis
from heed.watch.trace import edit


class Series(Source):
    """Series of numbers in chronological order: CSV or TSV, column names first (`heed.data.kinds.numbers`)."""

    train: list[DataPath] = Field(min_length=1)
    """Training files, each a series of its own, with the same columns. Relative to the configuration."""
    valid: list[DataPath] | int | None = None
    """Validation files, or how many of each training file's last rows to hold out; a tenth by default."""
    test: list[DataPath] | int | None = None  # type: ignore[assignment]  # rows are held out for a test, too
    """Test files, or how many of each training file's last rows to hold out, after the validation rows."""
    columns: Any = section(date=(str, "auto"), series=(str | None, None), values=(tuple[int | str, ...] | None, None))
    """Columns of a series, or a list of those to read and forecast.

    - date: Column of the dates, which order the rows; auto: recognised by its values; none: rows are in order of time.
    - series: Column that names the series of each row, in files of several; each is forecast.
    - values: Columns to read and forecast, by name or by number from 0; all others by default. `data.columns=[a,b]` is
      short for it.
    """
    date_format: str | None = None
    """Format of the dates, as Python's `strptime` reads it, with %q for quarters; recognised by default."""
    missing: Literal["refuse", "interpolate"] = "refuse"
    """What to do with missing values: refuse, or interpolate between the values before and after, linearly in time."""
    window: Annotated[int, Field(gt=1)] | Literal["auto"] = "auto"
    """Rows read before the first forecast row, and rows of a training example; auto: 48, two seasons if
    longer, or a third of a short series."""
    horizon: int = Field(12, gt=0, le=100_000)
    """Rows to forecast; each forecast row is fed back to forecast the next."""
    season: Annotated[int, Field(gt=0)] | Literal["auto", "none"] | None = "auto"
    """Period of the series in rows, of the seasonal naive forecast, a baseline; auto: by the spacing of the dates (24
    hours, 7 days, 12 months, ...); none or 1: no season."""

    @field_validator("columns", mode="before")
    @classmethod
    def _values(cls, columns: Any) -> Any:
        """Allow one column, or a list of them, in place of the section."""
        values = [columns] if isinstance(columns, int | str) else columns
        return values if isinstance(values, dict | Section) else {"values": values}


class SeriesModelSection(ModelSection):
    """Which model of a series; all other fields are the model's and the head's own."""

    name: str = "rnn"
    """File in `heed/models`."""


class SeriesEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss, the mean squared error of forecasts of
    data.horizon rows."""


class SeriesConfig(RunConfig):
    """The configuration of a run over series of numbers."""

    task: Literal["series"] = "series"
    """What is learned."""
    data: Annotated[Series, Sources(Series, without="bad_lines encoding max_line duplicates overlap")]
    """Where the examples come from."""
    model: SeriesModelSection = SeriesModelSection()
    """Which model."""
    evaluation: SeriesEvaluation = SeriesEvaluation()
    """How it is scored."""

    _direction = model_validator(mode="before")(
        from_left_to_right("a forecaster that reads backwards would see the row to predict and learn to copy it")
    )


LONGEST = 100_000
"""Largest number of rows of a forecast."""


class Forecaster(nn.Module):
    """A series encoder and a linear layer that predicts the next row."""

    def __init__(self, body: SeriesEncoder, num_columns: int, head: SeriesHead) -> None:
        super().__init__()
        self.body = body
        self.output = nn.Linear(body.d_output, num_columns)
        self.difference, self.season = head.difference, head.season
        if head.season is not None:
            self.seasonal = nn.Parameter(torch.ones(num_columns))
            nn.init.zeros_(self.output.weight)
            nn.init.zeros_(self.output.bias)

    def forward(self, values: Tensor, further: int = 0) -> Tensor:
        """Predict the next row after each row, and after `further` rows that are predicted themselves.

        From `(batch, length, columns)` to `(batch, length + further, columns)`.
        """
        rows, states = self.read(values)
        parts = [rows]
        for _ in range(further):
            rows, states = self.read(rows[:, -1:], states)
            parts.append(rows)
        return torch.cat(parts, dim=1)

    def read(self, values: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """The next row after each row, and the states after them; `states` are those after earlier rows."""
        states, before = states or (None, values[:, :0])
        hidden, states = self.body.read(values, states)
        change: Tensor = self.output(hidden)
        if self.season is not None:
            history = torch.cat([before, values], dim=1)
            past = history[:, : max(0, history.shape[1] - self.season + 1)][:, -values.shape[1] :]
            count = past.shape[1]  # rows whose next row has one a season before it
            moved = past - values[:, values.shape[1] - count :]
            change = change + self.seasonal * pad(moved, (0, 0, values.shape[1] - count, 0))
            before = history[:, -self.season :]
        return values + change if self.difference else change, (states, before)


@dataclass(frozen=True)
class NextRow(Head):
    """The row after each row of a window; in a forecast, the rows after the last."""

    options: ClassVar = SeriesHead
    names: ClassVar = "next"
    keywords: ClassVar[Mapping[str, Any]] = {"horizon": None}

    horizon: int | None = None
    """Rows to forecast; `data.horizon` by default."""

    def __post_init__(self) -> None:
        if self.horizon and not 1 <= self.horizon <= LONGEST:
            raise ConfigError(f"horizon is {self.horizon}, expected 1 to {LONGEST:,} rows")

    def settled(self, options: SeriesHead, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        assert isinstance(work.input, Windows)
        season = work.config.data.season
        is_seasonal = isinstance(season, int) and 1 < season <= work.input.window // 2 and options.difference
        return options.model_dump() | ({"season": season} if is_seasonal and "season" not in fields else {})

    def build(self, body: Any, options: SeriesHead, facts: Facts) -> Forecaster:
        return Forecaster(body, len(facts.rows["columns"]), options)

    @property
    def asked_rows(self) -> int:
        """Rows to forecast."""
        rows: int = self.horizon or self.config.data.horizon
        return rows

    def encode(self, examples: Sequence[Stretch], input: Input | None = None) -> None:
        """Nothing: the batch has the rows that follow."""

    def collate(self, truths: None, batch: Batch, draw: Draw | None) -> Batch:
        """A training batch, whose last rows are forecast; targets without a row one season before are left out."""
        season = self.chosen.season or 1
        values, targets = batch.inputs["values"], batch.targets["rows"][:, season - 1 :]
        further = min(self.config.data.horizon, targets.shape[1] // 2)
        inputs = {"values": values[:, : values.shape[1] - further], "further": further}
        return replace(batch, inputs=inputs, targets={"rows": targets}, num_targets=targets.numel())

    def states(self, model: Forecaster, batch: Batch, carried: Any = None) -> Tensor:
        """The rows that follow each row, `(batch, rows, columns)`: in training the window, or else also a forecast."""
        states: Tensor = model(**{"further": self.asked_rows - 1, **batch.inputs})
        return states

    def loss(self, model: Forecaster, states: Tensor, batch: Batch, smoothing: float) -> Tensor:
        targets = batch.targets["rows"]
        total: Tensor = (states[:, -targets.shape[1] :].float() - targets).square().sum()
        return total

    def judge(self, model: Forecaster, states: Tensor, batch: Batch) -> Tensor:
        rows = batch.targets["rows"]
        present = ~rows.isnan()  # others are padding
        wrong = states[:, -self.asked_rows :][:, : rows.shape[1]].double() - rows
        squares, count = wrong.square().where(present, 0.0).sum((1, 2)), present.sum((1, 2)).double()
        return torch.stack([squares, torch.zeros_like(count), count], dim=1)

    def decode(self, model: Forecaster, states: Tensor, batch: Batch) -> Sequence[Tensor]:
        return [*states[:, -self.asked_rows :].double().cpu()]

    def predict(self, answer: Tensor, example: Any = None, input: Input | None = None) -> Values:  # type: ignore[override]
        assert isinstance(input, Windows) and input.standard is not None
        return input.standard.undo(answer.numpy())

    # Scores -------------------------------------------------------------------------------------------------------

    def measures(self, predictions: Sequence[Values], examples: Sequence[Stretch]) -> Sequence[Any]:
        return ()

    def outcomes(
        self, predictions: Sequence[Values], examples: Sequence[Stretch], input: Input, others: Any = None
    ) -> Outcomes:
        """Errors of the model; the report also has those of naive forecasts."""
        assert isinstance(input, Windows)
        horizon, season = self.config.data.horizon, self.config.data.season
        contexts = [example.values[: example.start] for example in examples]
        true = [example.values[example.start :] for example in examples]
        forecasts = {"model": predictions, "last value": [last_value(context, horizon) for context in contexts]}
        if isinstance(season, int):
            forecasts["seasonal naive"] = [seasonal_naive(context, horizon, season) for context in contexts]
        cut = {name: [f[: len(t)] for f, t in zip(forecast, true, strict=True)] for name, forecast in forecasts.items()}
        errors = error_measures(true, cut, input.columns)
        texts = [" ".join(f"{value:.6g}" for value in rows.flatten()) for rows in predictions]
        measures = [measure for by in errors.values() for measure in by["model"].values()]
        return Outcomes(tuple(texts), tuple(measures), report=partial(self._reported, errors, examples))

    def _reported(self, errors: Errors, examples: Sequence[Stretch], resamples: int) -> dict[str, Any]:
        """Errors of the model and of naive forecasts by column; with several series, also the error of each series."""
        shown, data = error_report(errors, resamples), self.config.data
        report: dict[str, Any] = {"examples": len(examples), "columns": shown, "horizon": data.horizon}
        if isinstance(data.season, int):
            report["season"] = data.season
        if len(names := names_of(examples)) > 1:
            places = {name: [n for n, example in enumerate(examples) if example.origin == name] for name in names}
            report["series"] = {
                name: {
                    "forecasts": len(some),
                    "mae": {column: measures["model"]["mae"].of(some).score() for column, measures in errors.items()},
                }
                for name, some in places.items()
            }
        return report

    def report(self, scores: dict[str, Any]) -> list[str]:
        season = (
            f"; seasonal naive: {counted(scores['season'], 'row')} before (data.season)" if scores.get("season") else ""
        )
        lines = [f"  of up to {counted(scores['horizon'], 'row')} each (data.horizon){season}"]
        for column, shown in scores["columns"].items():
            lines.append(f"  {escaped(column)[:20]:<20} {'MAE':>32} {'RMSE':>32}   the model's MAE is lower by")
            for name, values in shown.items():
                both = " ".join(f"{with_interval(values[kind]):>32}" for kind in ("mae", "rmse"))
                missing = "" if name == "model" else "- (its MAE is almost 0)"
                gain = interval(values["gain"]) if "gain" in values else missing
                lines.append(f"    {name:<18} {both}   {gain}".rstrip())
        for name, shown in scores.get("series", {}).items():
            errors = ", ".join(f"{escaped(column)} {error:.4g}" for column, error in shown["mae"].items())
            lines.append(f"  {escaped(name)}: {counted(shown['forecasts'], 'forecast')}, MAE of the model: {errors}")
        return lines


class SeriesOutputs(FileOutputs):
    """Forecasts of the series in a file."""

    _noted: Sequence[str] = ()

    def notes(self) -> list[str]:
        return [*self._noted]

    def write_file(self, path: Path) -> list[str]:
        series = self.run.input.read(path)
        (forecast,) = self.run.predicted(self.run.input.continuations(series), horizon=self.options["horizon"])
        lines = [part.timeline for part in series if part.timeline is not None]
        uneven = [line.column.names[0] for line in lines if line.step is None]
        if uneven:
            self._noted = [f"the dates of column '{uneven[0]}' are not evenly spaced, so the forecast has no dates"]
        keys = pd.DataFrame(index=range(len(forecast))) if forecast.keys is None else forecast.keys
        numbers = ([f"{value:.6g}" for value in row] for row in forecast)
        rows = [[*map(str, key), *row] for key, row in zip(keys.itertuples(index=False), numbers, strict=True)]
        return [csv_row(row) for row in [[*keys.columns, *forecast.columns], *rows]]


def look_at_series(
    work: Work,
    model: Forecaster,
    series: Stretch,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    units: Units | None = None,
) -> Look:
    """Show how a model reads the last `data.window` rows of a series: its attention, gates and states.

    Raises:
        ConfigError: The model does not have this attention, or no attention at all.
    """
    assert isinstance(work.input, Windows)
    window, columns, choice = work.input.window, work.input.columns, choice or Choice()
    encoded = work.input.encode([series])
    values = work.input.collate(encoded, [0], None).to(next(model.parameters()).device).inputs["values"]
    with edit(model, *edits), watched(model) as seen:
        predicted = model(values)
    count, first = values.shape[1], len(series.values) - values.shape[1]
    if not seen.mechanisms() and (choice != Choice() or edits):
        raise ConfigError(f"model {work.config.model.name} has no attention; a look shows its gates")
    choice.check(seen.mechanisms())
    labels = tuple(str(first + n + 1) for n in range(count))
    places = Words.counted(Axis("rows", "row", labels), [1] * count)
    views, nets = views_of_text(seen, choice, places, count), networks(seen, count)
    shown = [_row(columns, row) for row in series.values[first:]]
    lines = tuple(f"row {label}: {row}" for label, row in zip(labels, shown, strict=True))
    following = work.head.predict(predicted[0, -1:].double().cpu(), series, work.input)
    blocks = {f"layer {n}": states[0] for n, states in enumerate(seen.tensors("states"))}
    return Look(
        title or work.title,
        series.origin,
        f"row {len(series.values) + 1}: {_row(columns, following[0])}",  # type: ignore[index]
        (
            *(view.map for view in views),
            *gate_maps([(net, places) for net in nets], work.config.model.name, bool(nets), units),
        ),
        encoder_frames(nets, replace(places, axis=Axis("rows", "row", lines)), blocks, views),
        (),
        (f"read: rows {labels[0]} to {labels[-1]} (data.window {window})", *notes_on((), edits)),
        names=("series", "next"),
        parts=(("series", "reads"), ("", "")),
        unit="row",
    )


def readable(work: Work, text: Any) -> Stretch:
    """The series to look at, of a file or of Python data."""
    assert isinstance(work.input, Windows)
    is_file, input = isinstance(text, str | Path), work.input
    series, name = (input.read(Path(text)), Path(text).name) if is_file else (input.series_of(text), "series")
    if len(series) > 1:
        raise ConfigError(f"{name} has {len(series)} series; a look shows one, so give the rows of one")
    values = series[0].numbers(input.columns)
    return Stretch(values, len(values), name)


def _row(columns: Sequence[str], row: Any) -> str:
    return ", ".join(f"{column} {value:.6g}" for column, value in zip(columns, row.tolist(), strict=True))


TASK = Task(
    "series",
    input=Windows(),
    head=NextRow("numbers"),
    config=SeriesConfig,
    looks=Looks(at=look_at_series, readable=readable),
    outputs=SeriesOutputs,
    enough_updates=300,
    cannot={"ensemble": "", "errors": ""},
)
