"""Forecasting series of numbers: a network that reads from left to right and predicts the next row after each one.

    h(t) = body(x(1) .. x(t));    x^(t+1) = V h(t) + b, plus x(t) if `difference`;    loss: mean squared error

In a forecast of several rows each one is fed back. Columns are standardised by the training rows; all are forecast.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from heed.config.data import InMemory
from heed.data.findings import Findings
from heed.data.kinds.features import Standard, constant_lines
from heed.data.kinds.numbers import hold_series
from heed.data.splits.splits import Splits
from heed.errors import ConfigError, DataError, HeedError
from heed.evaluation.forecasts import Values
from heed.models.base import SeriesEncoder
from heed.tasks.base.numeric import NumericTask, ValuesBatch
from heed.tasks.base.report import counted
from heed.tasks.base.task import refuse_pictures
from heed.tasks.base.transfer import with_parents
from heed.tasks.series.config import SeriesConfig, SeriesHead
from heed.threads import threads_for

_CLOCKS = ("", " %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M", "T%H:%M:%SZ")
_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y")
_FORMATS = (*(f"{day}{clock}" for day in _DAYS for clock in _CLOCKS), "%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y")
_FEW = 50
"""Cells tried first, to rule out most formats quickly."""
_UNITS = {1: "second", 60: "minute", 3_600: "hour", 86_400: "day", 604_800: "week"}


class Forecaster(nn.Module):
    """A series encoder and a linear layer that predicts the next row."""

    def __init__(self, body: SeriesEncoder, num_columns: int, difference: bool) -> None:
        super().__init__()
        self.body = body
        self.output = nn.Linear(body.d_output, num_columns)
        self.difference = difference

    def forward(self, values: Tensor) -> Tensor:
        """Predict the next row after each row: `(batch, length, columns)` to the same shape."""
        return self.read(values)[0]

    def read(self, values: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """As `forward`, starting from the states after earlier rows; also returns the states after these rows."""
        hidden, states = self.body.read(values, states)
        change = self.output(hidden)
        said: Tensor = values + change if self.difference else change
        return said, states

    @torch.no_grad()
    def forecast(self, values: Tensor, horizon: int) -> Tensor:
        """Forecast `(batch, horizon, columns)` from `(batch, length, columns)`, feeding each forecast row back."""
        said, states = self.read(values)
        rows = [said[:, -1:]]
        while len(rows) < horizon:
            said, states = self.read(rows[-1], states)
            rows.append(said)
        return torch.cat(rows, dim=1)


@dataclass(frozen=True)
class Part:
    """A stretch of one series to train on or to forecast, with the rows before it."""

    values: Values  # `(rows, columns)`, in their own units
    start: int  # first row of the stretch; the rows before it are only context
    origin: str  # the file it comes from

    @property
    def rows(self) -> int:
        """Number of rows in the stretch."""
        return len(self.values) - self.start


class Series(NumericTask[SeriesConfig, Part]):
    """The series task: series, model, loss and scores."""

    targets = "numbers"
    enough_updates = 300
    interfaces = ("series",)
    head_class = SeriesHead
    selected_by = "loss"

    @classmethod
    def prepare(cls, config: SeriesConfig, given: Mapping[str, Sequence[Any]] | None = None) -> Self:
        cls.refuse(config)
        config, parent, _ = with_parents(config, cls)
        if config.training.train_size is not None:
            raise ConfigError(
                f"training.train_size is {config.training.train_size}, which does not apply to series: their rows "
                "follow one another; give fewer files, or leave training.train_size out"
            )
        if config.training.label_smoothing:
            raise ConfigError("training.label_smoothing does not apply to series, whose data is numbers")
        refuse_pictures(config)
        columns, splits = open_series(config, given)
        rows = np.concatenate([part.values[part.start :] for part in splits.examples["train"]])
        splits.remarks += constant_lines(columns, rows)
        return cls(config, Standard.of(columns, rows), splits).settle(parent)

    @classmethod
    def restore(cls, config: SeriesConfig, folder: Path) -> Self:
        return cls(config, cls.load_standard(folder), None)

    def build_model(self) -> Forecaster:
        config, head = self.model_and_head()
        body = self.body_class(config)
        assert isinstance(body, SeriesEncoder)
        return Forecaster(body, len(self.row_names("columns")), head.difference)

    @classmethod
    def open_splits(cls, config: SeriesConfig, given: Mapping[str, Sequence[Any]] | None = None) -> Splits[Part]:
        return open_series(config, given)[1]

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Any]:
        return hold_series(data, split, config.data.columns)

    def read(self, path: Path) -> Numbers:
        """Read a series from a file with the run's columns."""
        return read_numbers(path, self.standard.columns, trained=True)

    @property
    def notes(self) -> str:
        lines = [
            f"{name}: {counted(sum(part.rows for part in parts), 'row')} of {len(parts)} series"
            for name, parts in self.splits.examples.items()
        ]
        columns = f"columns {', '.join(self.standard.columns)}, standardised by the training rows"
        return "\n".join([*lines, columns, *self.splits.remarks])

    def overview(self) -> str:
        return "\n".join([self.notes, "", *self.column_lines()])

    def report_counts(self) -> dict[str, Any]:
        return {
            name: {"examples": sum(part.rows for part in parts), "series": len(parts)}
            for name, parts in self.splits.examples.items()
        }

    def train_batches(self, epoch: int) -> list[list[int]]:
        """Batches of adjacent windows that cover every training series; their first row changes with each pass.

        A window is given by the index of its first row, counted over all training series.
        """
        training, window = self.config.training, self.config.data.window
        rng = Random(f"{training.seed}:{epoch}")
        starts, base = [], 0
        for part in self.splits.examples["train"]:
            last = part.rows - window - 1  # last start: a window also needs the row after it
            first = rng.randrange(min(window, last + 1))
            starts += [base + start for start in range(first, last + 1, window)]
            base += part.rows
        rng.shuffle(starts)
        size = max(1, training.batch_tokens // window)
        return [starts[i : i + size] for i in range(0, len(starts), size)]

    def collate(self, indices: list[int], epoch: int = 0) -> ValuesBatch:
        window = self.config.data.window
        rows = torch.stack([self.tensor(part.values[at : at + window + 1]) for part, at in map(self._at, indices)])
        return ValuesBatch(indices, rows[:, :-1], rows[:, 1:])

    def _at(self, index: int) -> tuple[Part, int]:
        for part in self.splits.examples["train"]:
            if index < part.rows:
                return part, part.start + index
            index -= part.rows
        raise IndexError(index)

    def loss(self, model: Forecaster, batch: ValuesBatch, label_smoothing: float) -> Tensor:
        return (model(batch.values).float() - batch.targets).square().sum()  # type: ignore[no-any-return]

    def work(self, indices: list[int]) -> int:
        return len(indices) * self.config.data.window

    def describe(self, indices: list[int], epoch: int) -> str:
        part, at = self._at(indices[0])
        return f"{len(indices)} windows, the first from row {at + 1} of {part.origin}"

    @property
    def finishing_work(self) -> float:
        return 2.0 * len(self.splits.examples.get("test", ()))

    @torch.no_grad()
    def validate(self, model: Forecaster) -> dict[str, float]:
        model.eval()
        device = next(model.parameters()).device
        total, count = 0.0, 0
        for part in self.splits.examples["valid"]:
            first = max(0, part.start - self.config.data.window)
            rows = self.tensor(part.values[first:]).unsqueeze(0).to(device)
            with threads_for(model, rows.shape[1]):
                wrong = (model(rows[:, :-1]).float() - rows[:, 1:])[:, max(0, part.start - first - 1) :]
            total += float(wrong.square().sum())
            count += wrong.numel()
        return {"loss": total / count}

    def forecast(self, model: Forecaster, contexts: list[Values], horizon: int) -> list[Values]:
        """Forecast each series from its last rows, `(horizon, columns)`, in the units of the data."""
        model.eval()
        device = next(model.parameters()).device
        made: list[Values] = []
        for context in contexts:
            rows = self.tensor(context[-self.config.data.window :]).unsqueeze(0).to(device)
            with threads_for(model, rows.shape[1] + horizon):
                future = model.forecast(rows, horizon)[0]
            made.append(self.standard.undo(future.float().cpu().numpy().astype(np.float64)))
        return made


def whole_series(path: Path, columns: Sequence[str], window: int, error: type[HeedError]) -> Part:
    """Read the series of a file; its first `window` rows, at most half of them, are only context."""
    return to_forecast(read_numbers(path, columns, trained=True).values, str(path), window, error)


def to_forecast(values: Values, name: str, window: int, error: type[HeedError]) -> Part:
    """A series to forecast; its first `window` rows, at most half of them, are only context."""
    if len(values) < 3:
        raise error(f"'{name}' has {counted(len(values), 'row')}; a series to forecast needs at least 3")
    return Part(values, min(window, len(values) // 2), Path(name).name)


def open_series(
    config: SeriesConfig, given: Mapping[str, Sequence[Any]] | None = None
) -> tuple[tuple[str, ...], Splits[Part]]:
    """Read every split from its own files or from the last rows of each training file; or take the `given` series.

    Raises:
        DataError: A file cannot be read, or a series is too short.
    """
    data = config.data
    columns: tuple[str, ...] | None = None
    series: list[tuple[str, Values]] = []
    said: list[str] = []
    if given is None and isinstance(data, InMemory):
        raise DataError(data.missing)
    for one in given["train"] if given is not None else ():
        columns = one.columns if columns is None else columns
        series.append((one.name, aligned(one, columns).values))
    for path in map(Path, data.train if given is None else ()):
        wanted: Sequence[int | str] | None = data.columns if columns is None else columns
        named = [column for column in data.columns or () if isinstance(column, str)]  # forecast even if dates
        if columns is None and (dates := date_column(path, named)) is not None:
            said.append(str(dates))
            wanted = wanted or [name for name in text_columns(path, whole=False) if name != dates.name]
        read = read_numbers(path, wanted, trained=columns is not None, said=said)
        columns = read.columns
        series.append((path.name, read.values))
    assert columns is not None
    splits: dict[str, list[Part]] = {"train": [], "valid": []}
    for name, values in series:
        end = len(values)
        cut = {
            split: rows if isinstance(rows, int) else 0 for split, rows in (("test", data.test), ("valid", data.valid))
        }
        if data.valid is None:
            cut["valid"] = max(1, (end - cut["test"]) // 10)
        if end - cut["test"] - cut["valid"] < data.window + 2:
            raise DataError(
                f"'{name}' has {counted(end, 'row')} ({cut['valid']:,} held out for validation, {cut['test']:,} for "
                f"testing); training needs at least {data.window + 2} others (data.window + 2): give more rows or a "
                "smaller data.window"
            )
        for split, count in cut.items():  # the test rows are the last ones
            if count:
                splits.setdefault(split, []).append(Part(values[:end], end - count, name))
                end -= count
        splits["train"].append(Part(values[:end], 0, name))
    for split, files in (("valid", data.valid), ("test", data.test)):
        for one in given.get(split, ()) if given is not None else ():
            part = to_forecast(aligned(one, columns).values, one.name, data.window, DataError)
            splits.setdefault(split, []).append(part)
        for path in map(Path, files if isinstance(files, list) and given is None else ()):
            splits.setdefault(split, []).append(whole_series(path, columns, data.window, DataError))
    if not splits["valid"]:
        raise DataError("no validation rows left; give data.valid a number above 0, or files")
    return columns, Splits({n: splits[n] for n in ("train", "valid", "test") if n in splits}, remarks=said)


@dataclass(frozen=True)
class Step:
    """Interval between consecutive dates of an evenly spaced column."""

    name: str  # for people: "every day", "every 3 months"
    after: Callable[[datetime], datetime]  # the date one step later


@dataclass(frozen=True)
class DateColumn:
    """A column of dates, in row order."""

    name: str
    dates: list[datetime]
    format: str  # as `strptime` reads it
    padded: bool  # whether days and months have two digits
    step: Step | None  # None if the dates are not evenly spaced

    def following(self, count: int) -> list[str]:
        """The next `count` dates, in the column's format; the dates must be evenly spaced."""
        assert self.step is not None
        date, written = self.dates[-1], []
        for _ in range(count):
            date = self.step.after(date)
            written.append(_written(date, self.format, self.padded))
        return written

    def __str__(self) -> str:
        first, last = (_written(date, self.format, self.padded) for date in (self.dates[0], self.dates[-1]))
        told = f"column '{self.name}' holds dates ({first} to {last}"
        if self.step is None:
            return f"{told}, not evenly spaced): left out"
        return f"{told}, {self.step.name}): it is not forecast; predictions continue the dates"


def date_column(path: Path, numbers: Collection[str] | None = None) -> DateColumn | None:
    """The first column of dates in a file, or None; columns in `numbers` are skipped.

    Raises:
        DataError: The file cannot be read, or its first line holds data instead of column names.
    """
    first = text_columns(path, whole=False)
    if not any(_as_dates(name, cells[:_FEW]) for name, cells in first.items()):
        return None
    for name, cells in text_columns(path).items():
        if (numbers is None or name not in numbers) and (column := _as_dates(name, cells)) is not None:
            if _parsed([name], column.format):
                raise DataError(
                    f"'{path}' line 1 starts with a date ('{name}'), but should name the columns: date,sales"
                )
            return column
    return None


def _as_dates(name: str, cells: Sequence[str]) -> DateColumn | None:
    found = []
    for form in _FORMATS:
        if _parsed(cells[:_FEW], form) and (dates := _parsed(cells, form)):
            padded = all(_written(date, form, True) == cell for date, cell in zip(dates, cells, strict=True))
            found.append(DateColumn(name, dates, form, padded, _step(dates)))
    return next((column for column in found if column.step is not None), found[0] if found else None)


def _parsed(cells: Sequence[str], form: str) -> list[datetime]:
    """The cells as dates; an empty list if any cell does not match the format."""
    try:
        return [datetime.strptime(cell, form) for cell in cells]  # naive: the formats have no time zone
    except ValueError:
        return []


def _written(date: datetime, form: str, padded: bool) -> str:
    if not padded:
        form = form.replace("%d", str(date.day)).replace("%m", str(date.month))
    return date.strftime(form)


def _step(dates: Sequence[datetime]) -> Step | None:
    """The step of evenly spaced dates: a fixed interval, calendar months or weekdays; None if they are uneven."""
    if len(dates) < 3:
        return None
    gap = dates[1] - dates[0]
    if gap > timedelta(0) and all(b - a == gap for a, b in pairwise(dates)):
        return Step(_every(gap), lambda date: date + gap)
    months = _months(dates[1]) - _months(dates[0])
    at_end = all(date.day == monthrange(date.year, date.month)[1] for date in dates)
    if months > 0 and all(_later(a, months, at_end, dates[0].day) == b for a, b in pairwise(dates)):
        name = _counted(months, "month") if months % 12 else _counted(months // 12, "year")
        return Step(name, lambda date: _later(date, months, at_end, dates[0].day))
    if all(_workday(a) == b for a, b in pairwise(dates)):
        return Step("every day from Monday to Friday", _workday)
    return None


def _months(date: datetime) -> int:
    return 12 * date.year + date.month - 1


def _later(date: datetime, months: int, at_end: bool, day: int) -> datetime:
    year, month = divmod(_months(date) + months, 12)
    last = monthrange(year, month + 1)[1]
    return date.replace(year=year, month=month + 1, day=last if at_end else min(day, last))


def _workday(date: datetime) -> datetime:
    return date + timedelta(days={4: 3, 5: 2}.get(date.weekday(), 1))


def _every(gap: timedelta) -> str:
    seconds = int(gap.total_seconds())
    size = max(size for size in _UNITS if seconds % size == 0)
    return _counted(seconds // size, _UNITS[size])


def _counted(count: int, unit: str) -> str:
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"
