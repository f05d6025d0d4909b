"""Forecasting series of numbers: a network that reads from left to right and predicts the next row after each one.

    h(t) = body(x(1) .. x(t));    x^(t+1) = V h(t) + b, plus x(t) if `difference`;    loss: mean squared error

In a forecast of several rows each one is fed back. Columns are standardised by the training rows; all are forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heed.config.data import InMemory
from heed.data.findings import Findings
from heed.data.kinds.numbers import Numbers, Standard, aligned, constant_lines, hold_series, read_numbers, text_columns
from heed.data.splits.splits import Splits
from heed.errors import ConfigError, DataError, HeedError
from heed.models.base import SeriesEncoder
from heed.tasks.base.capabilities import refuse_pictures
from heed.tasks.base.report import counted
from heed.tasks.base.task import NumericTask, ValuesBatch
from heed.tasks.base.transfer import with_parents
from heed.tasks.series.config import SeriesConfig, SeriesHead
from heed.tasks.series.dates import date_column
from heed.threads import threads_for


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


Values = NDArray[np.float64]


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

    def describe(self, indices: list[int]) -> str:
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
            with threads_for(model, rows.shape[1], "forced"):
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
        if columns is None and (dates := date_column(path, _names(data.columns))) is not None:
            said.append(str(dates))
            wanted = wanted or [name for name in text_columns(path) if name != dates.name]
        read = read_numbers(path, wanted, trained=columns is not None, said=said)
        columns = read.columns
        series.append((path.name, read.values))
    assert columns is not None
    splits: dict[str, list[Part]] = {"train": [], "valid": []}
    for name, values in series:
        end = len(values)
        cut = {"test": _count(data.test), "valid": _count(data.valid)}
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
    return columns, Splits({n: splits[n] for n in ("train", "valid", "test") if n in splits}, remarks=said)


def _names(columns: Sequence[int | str] | None) -> list[str]:
    """The columns requested by name; these are forecast even if they look like dates."""
    return [column for column in columns or () if isinstance(column, str)]


def _count(rows: Any) -> int:
    return rows if isinstance(rows, int) else 0
