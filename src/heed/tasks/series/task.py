"""Forecasting series of numbers: a network that reads from left to right and predicts the next row after each one.

    h(t) = body(x(1) .. x(t));    x^(t+1) = V h(t) + b, plus x(t) if `difference`;    loss: mean squared error

The last rows of a training example, `data.horizon` of them but at most half, are predicted as in a forecast, from rows
that are predicted themselves, so that training is for what is reported; the others from the rows before them.
With a season of s rows, x^ also has a share of the change to the row one season before, a (x(t+1-s) - x(t)), where a is
learned for each column. Training starts from the seasonal naive forecast, a = 1 and V = 0. In a forecast of several
rows each one is fed back. Columns are standardised by the training rows; all are forecast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.data.examples import in_turn
from heed.data.findings import Findings
from heed.data.kinds.features import Standard, constant_lines
from heed.data.splits import Splits
from heed.errors import ConfigError, DataError
from heed.evaluation.forecasts import Values
from heed.models.base import SeriesEncoder
from heed.tasks.base.numeric import NumericTask, ValuesBatch
from heed.tasks.base.report import counted
from heed.tasks.base.task import refuse_pictures
from heed.tasks.base.transfer import with_parents
from heed.tasks.series.config import SeriesConfig, SeriesHead
from heed.tasks.series.reading import NamedSeries, hold_series, read_series, remarks_on
from heed.threads import threads_for

_WINDOW, _LONGEST = 48, 600
"""The usual window, and the longest one that is chosen for the sake of the season."""
_AT_ONCE = 256
"""Most series forecast at a time."""


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

    def forward(self, values: Tensor) -> Tensor:
        """Predict the next row after each row: `(batch, length, columns)` to the same shape."""
        return self.read(values)[0]

    def read(self, values: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """As `forward`, starting from the states after earlier rows; also returns the states after these rows."""
        states, before = states or (None, values[:, :0])
        hidden, states = self.body.read(values, states)
        change: Tensor = self.output(hidden)
        if self.season is not None:
            known = torch.cat([before, values], dim=1)
            past = known[:, : max(0, known.shape[1] - self.season + 1)][:, -values.shape[1] :]
            count = past.shape[1]  # rows that have one a season before the next
            moved = past - values[:, values.shape[1] - count :]
            change = change + self.seasonal * pad(moved, (0, 0, values.shape[1] - count, 0))
            before = known[:, -self.season :]
        return values + change if self.difference else change, (states, before)

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
    origin: str  # name of the series

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
        config, columns, splits = open_series(config, given)
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
        return Forecaster(body, len(self.row_names("columns")), head)

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        season, window = self.config.data.season, self.window
        known = isinstance(season, int) and 1 < season <= window // 2 and given.get("difference", True)
        return {"season": season} if known and "season" not in given else {}

    @property
    def window(self) -> int:
        """Rows that a forecast reads."""
        window = self.config.data.window
        return _WINDOW if window == "auto" else window

    @classmethod
    def open_splits(cls, config: SeriesConfig, given: Mapping[str, Sequence[Any]] | None = None) -> Splits[Part]:
        return open_series(config, given)[2]

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Any]:
        return hold_series(data, split, config.data)

    def read(self, path: Path) -> list[NamedSeries]:
        """Read the series in a file with the run's columns."""
        return read_series(path, self.config.data, self.standard.columns)

    @property
    def notes(self) -> str:
        lines = [
            f"{name}: {counted(sum(part.rows for part in parts), 'row')} of {len(names_of(parts))} series"
            for name, parts in self.splits.examples.items()
        ]
        columns = f"columns {', '.join(self.standard.columns)}, standardised by the training rows"
        return "\n".join([*lines, columns, *self.splits.remarks])

    def overview(self) -> str:
        return "\n".join([self.notes, "", *self.column_lines()])

    def report_counts(self) -> dict[str, Any]:
        return {
            name: {"examples": sum(part.rows for part in parts), "series": len(names_of(parts))}
            for name, parts in self.splits.examples.items()
        }

    def train_batches(self, epoch: int) -> list[list[int]]:
        """Batches of adjacent windows that cover every training series; their first row changes with each pass.

        A window is given by the index of its first row, counted over all training series.
        """
        training, window = self.config.training, self.window
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
        window, known = self.window, self.from_row
        rows = torch.stack([self.tensor(part.values[at : at + window + 1]) for part, at in map(self._at, indices)])
        return ValuesBatch(indices, rows[:, :-1], rows[:, 1 + known :])

    @property
    def from_row(self) -> int:
        """The first row of a window from which the next one is learned: it has one a season before the next."""
        return ((self.config.model.model_extra or {}).get("season") or 1) - 1

    def _at(self, index: int) -> tuple[Part, int]:
        for part in self.splits.examples["train"]:
            if index < part.rows:
                return part, part.start + index
            index -= part.rows
        raise IndexError(index)

    def loss(self, model: Forecaster, batch: ValuesBatch, label_smoothing: float) -> Tensor:
        values, targets = batch.values, batch.targets
        count = min(self.config.data.horizon, targets.shape[1] // 2)
        last, states = model.read(values[:, : values.shape[1] - count])
        rows = [last[:, self.from_row :]]
        for _ in range(count):  # the last rows are forecast, each from the forecast before
            last, states = model.read(last[:, -1:], states)
            rows.append(last)
        return (torch.cat(rows, dim=1).float() - targets).square().sum()

    def work(self, indices: list[int]) -> int:
        return len(indices) * self.window

    def describe(self, indices: list[int], epoch: int) -> str:
        part, at = self._at(indices[0])
        return f"{len(indices)} windows, the first from row {at + 1} of {part.origin}"

    @property
    def finishing_work(self) -> float:
        return 2.0 * len(self.splits.examples.get("test", ()))

    @torch.no_grad()
    def validate(self, model: Forecaster) -> dict[str, float]:
        """The mean squared error of the forecasts that a report shows, standardised."""
        total, count = 0.0, 0
        for part in self.splits.examples["valid"]:
            ends = range(part.start, len(part.values), self.config.data.horizon)
            made = self.forecast(model, [part.values[:end] for end in ends], self.config.data.horizon)
            wrong = self.tensor(np.concatenate(made)[: part.rows]) - self.tensor(part.values[part.start :])
            total += float(wrong.square().sum())
            count += wrong.numel()
        return {"loss": total / count}

    @torch.no_grad()
    def forecast(self, model: Forecaster, contexts: list[Values], horizon: int) -> list[Values]:
        """Forecast each series from its last rows, `(horizon, columns)`, in the units of the data."""
        model.eval()
        device = next(model.parameters()).device
        made: dict[int, Values] = {}
        lengths = [min(len(context), self.window) for context in contexts]
        for length, numbers in groupby(sorted(range(len(contexts)), key=lengths.__getitem__), lengths.__getitem__):
            for several in in_turn([*numbers], _AT_ONCE):
                rows = self.tensor(np.stack([contexts[n][-length:] for n in several])).to(device)
                with threads_for(model, rows.shape[0] * (length + horizon)):
                    future = model.forecast(rows, horizon)
                made.update(zip(several, self.standard.undo(future.double().cpu().numpy()), strict=True))
        return [made[n] for n in range(len(contexts))]


def names_of(parts: Sequence[Part]) -> list[str]:
    """The names of different series."""
    return [*dict.fromkeys(part.origin for part in parts)]


def stretches(series: NamedSeries, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The rows from `begin` to `end` without a gap between them: start of the context, first and last row."""
    edges = [0, *series.gaps, len(series)]
    for start, stop in pairwise(edges):
        if max(start, begin) < min(stop, end):
            yield start, max(start, begin), min(stop, end)


def to_forecast(
    series: NamedSeries, columns: Sequence[str], window: int, begin: int = 0, end: int | None = None
) -> list[Part]:
    """The stretches of a series to forecast; the first `window` rows, at most half of them, are only context."""
    values, end = series.numbers(columns), len(series) if end is None else end
    return [
        Part(values[start:last], max(first - start, min(window, (last - start) // 2)), series.name)
        for start, first, last in stretches(series, begin, end)
        if last - start >= 3
    ]


def all_to_forecast(series: Sequence[NamedSeries], columns: Sequence[str], window: int) -> list[Part]:
    """The stretches of several series to forecast.

    Raises:
        DataError: A series is too short.
    """
    parts = []
    for one in series:
        parts += (found := to_forecast(one, columns, window))
        if not found:
            raise DataError(f"'{one.name}' has {counted(len(one), 'row')}; a series to forecast needs at least 3")
    return parts


def open_series(
    config: SeriesConfig, given: Mapping[str, Sequence[Any]] | None = None
) -> tuple[SeriesConfig, tuple[str, ...], Splits[Part]]:
    """Read every split from its own files or from the last rows of each training series; or take the `given` series.

    Returns:
        The configuration with what follows from the dates, the columns, and the splits.

    Raises:
        DataError: A file cannot be read, or a series is too short.
    """
    data = config.data
    if given is None and data.origin == "memory":
        raise DataError(data.not_kept)
    series: dict[str, list[NamedSeries]] = {}
    for split, files in (("train", data.train), ("valid", data.valid), ("test", data.test)):
        series[split] = list(given.get(split, ())) if given is not None else []
        for path in map(Path, files if isinstance(files, list) and given is None else ()):
            columns = series["train"][0].columns if series["train"] else None
            series[split] += read_series(path, data, columns)
    columns = series["train"][0].columns
    config, said = settled(config, series["train"])
    every = [one for some in series.values() for one in some]
    said = [*dict.fromkeys(line for one in every for line in one.said), *remarks_on(every), *said]
    window = config.data.window
    assert isinstance(window, int)
    splits: dict[str, list[Part]] = {"train": [], "valid": [], "test": []}
    short: list[str] = []
    for one in series["train"]:
        end = len(one)
        test = data.test if isinstance(data.test, int) else 0
        valid = max(1, (end - test) // 10) if data.valid is None else data.valid if isinstance(data.valid, int) else 0
        cut = {"test": test, "valid": valid}
        if end - cut["test"] - cut["valid"] < window + 2:
            held = f"({cut['valid']:,} held out for validation, {cut['test']:,} for testing)"
            needs = f"training needs at least {window + 2} others (data.window + 2)"
            short.append(f"'{one.name}' has {counted(end, 'row')} {held}; {needs}: give more or a smaller data.window")
            continue
        values = one.numbers(columns)
        for split, count in cut.items():  # the test rows are the last ones
            if count:
                splits[split] += to_forecast(one, columns, window, end - count, end)
                end -= count
        parts = [Part(values[first:last], 0, one.name) for _, first, last in stretches(one, 0, end)]
        splits["train"] += [part for part in parts if part.rows > window]
        if few := sum(part.rows for part in parts if part.rows <= window):
            said.append(f"{one.name}: {counted(few, 'row')} between gaps, too few for data.window + 1, not trained on")
    if short and (series["train"][0].by is None or not splits["train"]):
        raise DataError(short[0])
    said += [f"left out: {line}" for line in short]
    if not splits["train"]:
        raise DataError(
            f"no {window + 1} rows (data.window + 1) follow one another without a gap; use a smaller window"
        )
    for split in ("valid", "test"):
        splits[split] += all_to_forecast(series[split], columns, window)
    if not splits["valid"]:
        raise DataError("no validation rows left; give data.valid a number above 0, or files")
    return config, columns, Splits({name: parts for name, parts in splits.items() if parts}, remarks=said)


def settled(config: SeriesConfig, series: Sequence[NamedSeries]) -> tuple[SeriesConfig, list[str]]:
    """The configuration with the format of the dates, the season and the window, and a remark on the season."""
    data, steps, rows = config.data, {one.step for one in series}, max(map(len, series))
    season: Any = "none" if data.season in ("auto", None, 1) else data.season
    said, why = [], "no season is known"
    if data.season == "auto" and len(steps) == 1 and (step := steps.pop()) is not None:
        if step.season is not None and rows >= 3 * step.season:
            season, why = step.season, f"by the spacing of the dates, {step}"
            said.append(f"season of {season} rows, {why} (data.season sets another)")
    if season != data.season:
        config = config.settle(why, {"data.season": season})
    if data.window == "auto":
        is_long = season != "none" and _WINDOW < 2 * season <= min(_LONGEST, rows // 2)
        held_out = sum(split if isinstance(split, int) else 0 for split in (data.valid or rows // 10, data.test))
        usual = _WINDOW if rows - held_out >= _WINDOW + 2 else max(2, rows // 3)
        why = "two seasons" if is_long else f"for series of {rows:,} rows"
        config = config.settle(why, {"data.window": 2 * season if is_long else usual})
    if data.date_format is None and series[0].timeline is not None:
        config = config.settle("format of the dates", {"data.date_format": series[0].timeline.column.format})
    return config, said
