"""Series of numbers: read in order of their dates, with their gaps; their windows, standardised; forecasts as arrays.

A series is one for each name. Windows are stretches without a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heed.config import RunConfig
from heed.data.columns import label_of
from heed.data.examples import in_turn
from heed.data.findings import Findings
from heed.data.kinds.features import Standard, constant_lines
from heed.data.kinds.numbers import Rows, hold_rows, number_columns, read_rows, without_counters
from heed.data.splits import Splits
from heed.data.tables import column_names
from heed.errors import DataError
from heed.evaluation.forecasts import Values
from heed.tasks.base.report import counted
from heed.tasks.contracts import Batch, Draw, Head, Pass
from heed.tasks.inputs.dates import Step, Timeline, find_dates
from heed.tasks.inputs.rows import Standardised, column_lines, standardised
from heed.tasks.work import Work


@dataclass(frozen=True)
class NamedSeries(Rows):
    """The rows of one series in order of time."""

    name: str = ""
    order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # rows of the file
    timeline: Timeline | None = None
    by: str | None = None  # column that names the series
    filled: int = 0  # interpolated values
    indexed: str = ""  # column of the dates that becomes the index of a forecast, as it was that of a data frame

    @property
    def gaps(self) -> list[int]:
        """The rows before which others are missing."""
        return [] if self.timeline is None else (np.flatnonzero(self.timeline.missing) + 1).tolist()

    @property
    def step(self) -> Step | None:
        """The step of its dates, if they are evenly spaced."""
        return None if self.timeline is None else self.timeline.step

    def numbers(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """The values of these columns, `(rows, columns)`.

        Raises:
            DataError: A column is missing.
        """
        values: NDArray[np.float64] = self.ordered(columns).cells.to_numpy(np.float64)
        return values


def read_series(path: Path, data: Any, columns: Sequence[str] | None = None) -> list[NamedSeries]:
    """The series in a file, with the `columns` of training if they are known.

    Raises:
        DataError: The file cannot be read; a column, a date or a value is missing; dates repeat.
    """
    return _series(read_rows(path, **_choice(data, columns)), path.name, data, columns)


def hold_series(rows: Any, split: str, data: Any, columns: Sequence[str] | None = None) -> list[NamedSeries]:
    """The series in Python data: in one of the forms of `hold_rows`, or a list of several; as `read_series`.

    Raises:
        DataError: As for `read_series`.
    """
    several = isinstance(rows, list | tuple) and bool(rows) and all(map(_is_series, rows))
    series: list[NamedSeries] = []
    for n, part in enumerate(rows if several else [rows]):
        name = f"{split} series {n}" if several else split
        series += _series(hold_rows(part, name, **_choice(data, columns)), name, data, columns)
    return series


def _is_series(data: Any) -> bool:
    """True if one of several items is a series rather than a row."""
    return column_names(data) is not None or (hasattr(data, "ndim") and data.ndim == 2)


def _choice(data: Any, columns: Sequence[str] | None) -> dict[str, Any]:
    """Options of reading: the values first, and all other columns unchanged, for dates and names of series."""
    if columns is not None:
        return {"wanted": columns, "kinds": dict.fromkeys(columns, True), "others": {}}
    named = {"date": data.columns.date, "series": data.columns.series}
    others = {option: name for option, name in named.items() if name not in (None, "auto", "none")}
    return {"wanted": data.columns.values, "others": others}


def _series(rows: Rows, source: str, data: Any, columns: Sequence[str] | None) -> list[NamedSeries]:
    """The series in these rows; if the `columns` of training are known, those for dates and names may be missing."""
    names, remarks, cells = rows.columns, [*rows.said], rows.cells.reset_index(drop=True)
    date, by, values = data.columns.date, data.columns.series, data.columns.values if columns is None else columns
    chosen = [] if values is None else [*names[: len(values)]]
    groups = {"": np.arange(len(rows))}
    if by in names:
        labels = cells[by].map(label_of)
        if labels.isna().any():
            raise DataError(
                f"{rows.origin(int(labels.isna().argmax()))}, column '{by}': the name of the series is missing"
            )
        groups = labels.groupby(labels, sort=False).indices
    candidates = cells[[name for name in names if name == date or name not in (by, *chosen)]]
    dates = None
    if date != "none" and candidates.shape[1]:
        form, column = data.date_format, date if date in names else None
        dates = find_dates(candidates, [*groups.values()], rows.origin, column, form)
        if columns is None and form is not None and (dates is None or dates.format != form):
            raise DataError(f"{rows.split} has no column of dates such as {form} (data.date_format)")
    timelines = {} if dates is None else {name: dates.timeline(group) for name, group in groups.items()}
    for name, line in timelines.items():
        if len(line.repeated):
            raise DataError(_repeated(rows, groups[name][line.order], line, by))
    if values is None:
        chosen = [name for name in names if name != by and (dates is None or name not in dates.names)]
        tables = [without_counters(cells[chosen].iloc[group]) for group in groups.values()]
        chosen, every = [name for name in chosen if any(name in part for part, _ in tables)], chosen
        remarks += [line for _, lines in tables for line in lines] if len(chosen) < len(every) else []
    numbers = number_columns(rows, chosen, data.missing)
    shared: Any = {"labels": (), "split": rows.split, "by": by if by in names else None, "said": (*remarks,)}
    series = []
    for name, group in groups.items():
        timeline = timelines.get(name)
        order = group if timeline is None else group[timeline.order]
        table = pd.DataFrame(numbers[order], columns=chosen, index=None if timeline is None else timeline.times)
        filled = int(np.isnan(numbers[order]).sum())
        if filled:
            table = table.interpolate("index", limit_direction="both")
            if table.isna().any(axis=None):
                raise DataError(f"{name or source} has no value in column '{table.isna().any().idxmax()}'")
        cells = table.set_axis(rows.cells.index[order])
        shared |= {"name": str(name) or source, "order": order, "timeline": timeline, "filled": filled}
        series.append(NamedSeries(cells, **shared))
    return series


def _repeated(rows: Rows, order: NDArray[np.int64], timeline: Timeline, by: str | None) -> str:
    """The message about dates that repeat within a series."""
    row, dates = int(timeline.repeated[0]), timeline.column
    lines = f"{rows.origin(int(order[row - 1]))} and {rows.origin(int(order[row]))}"
    what = f"{lines} have the same date, {dates.written(int(order[row]))}"
    cells = rows.cells.reset_index(drop=True)
    num_values = {name: cells[name].nunique() for name in rows.columns if by is None and name not in dates.names}
    for name in sorted(num_values, key=lambda name: (cells[name].dtype == float, num_values[name])):
        pairs = pd.DataFrame({"date": dates.times, "name": cells[name]})
        if 2 * num_values[name] <= len(rows) and not pairs.duplicated().any():
            return f"{what}: they are several series; data.columns.series={name} reads one for each '{name}'"
    return f"{what}; leave one of the rows out, or name the column that tells series apart: data.columns.series"


def remarks_on(all_series: Sequence[NamedSeries]) -> list[str]:
    """Remarks on the dates: their column and step, another order, gaps, interpolated values."""
    lines, timed = [], [(series, series.timeline) for series in all_series if series.timeline is not None]
    if timed:
        (first, start), (last, end) = (
            min(timed, key=lambda pair: pair[1].times[0]),
            max(timed, key=lambda pair: pair[1].times[-1]),
        )
        dates = f"{start.column.written(first.order[0])} to {end.column.written(last.order[-1])}"
        steps = dict.fromkeys(str(line.step or "not evenly spaced") for _, line in timed)
        then = "predictions continue the dates" if all(line.step for _, line in timed) else "predictions have no dates"
        names = ", ".join(f"'{name}'" for name in start.column.names)
        single = len(start.column.names) == 1
        holds, are = (f"column {names} holds", "it is") if single else (f"columns {names} hold", "they are")
        lines.append(f"{holds} dates ({dates}, {' or '.join(steps)}): {are} not forecast; {then}")
    if count := sum(bool((np.diff(series.order) < 0).any()) for series, _ in timed):
        lines.append(f"rows sorted by their dates: those of {count:,} series were in another order")
    gaps = [
        f"{line.missing[row - 1]:,} after {line.column.written(series.order[row - 1])} ({series.origin(row - 1)})"
        for series, line in timed
        for row in series.gaps
    ]
    if gaps:
        shown = f"{', '.join(gaps[:3])}{', ...' if len(gaps) > 3 else ''}"
        lines.append(f"{counted(len(gaps), 'gap')} in the dates, which windows do not cross; rows missing: {shown}")
    if filled := sum(series.filled for series in all_series):
        lines.append(f"{counted(filled, 'missing value')} interpolated (data.missing)")
    return lines


class Forecast(np.ndarray[Any, np.dtype[np.float64]]):
    """Forecast of a series, `(horizon, columns)`, or of several, one below the other.

    `columns` holds the column names, `keys` a data frame with the series' name and the date of each row, if known.
    """

    columns: tuple[str, ...]
    keys: pd.DataFrame | None

    @classmethod
    def of(cls, values: Any, columns: tuple[str, ...], keys: pd.DataFrame | None = None) -> Self:
        """Make a forecast from an array, the names of its columns, and its keys."""
        forecast = np.asarray(values, dtype=np.float64).view(cls)
        forecast.columns, forecast.keys = columns, keys
        return forecast

    @classmethod
    def following(cls, values: Any, columns: tuple[str, ...], all_series: Sequence[NamedSeries]) -> Self:
        """The rows that follow each of several series, as many of each, with the dates that continue theirs."""
        first, horizon = all_series[0], len(values) // len(all_series)
        keys = pd.DataFrame({first.by: np.repeat([series.name for series in all_series], horizon)} if first.by else {})
        if all(series.step for series in all_series):
            lines = [(series.timeline, int(series.order[-1])) for series in all_series if series.timeline is not None]
            dates = [date for line, row in lines for date in line.following(row, horizon)]
            keys = pd.concat([keys, pd.DataFrame(dates, columns=list(lines[0][0].column.names))], axis=1)
        if first.indexed in keys.columns:
            keys = keys.set_index(first.indexed)
        return cls.of(values, columns, keys if len(keys) else None)

    def __array_finalize__(self, source: Any) -> None:
        """Keep the column names on slices and results that have as many columns; otherwise drop them."""
        names, self.keys = getattr(source, "columns", ()), None
        self.columns = names if self.ndim == 2 and self.shape[-1] == len(names) else ()

    def to_frame(self) -> pd.DataFrame:
        """Convert to a pandas data frame, one row for each forecast row: name of the series, date, values.

        Dates that were in the index of a data frame are the index.
        """
        index = None if self.keys is None else self.keys.index
        values = pd.DataFrame(np.asarray(self), index=index, columns=list(self.columns) or None)
        return values if self.keys is None else pd.concat([self.keys, values], axis=1)


_WINDOW, _LONGEST = 48, 600
"""The usual window, and the longest one that is chosen for the sake of the season."""
_AT_ONCE = 256
"""Most series forecast at a time."""


@dataclass(frozen=True)
class Stretch:
    """Rows of a series to learn or to forecast, after others, which are only read."""

    values: Values  # `(rows, columns)`, in their own units
    start: int  # the first row to learn or to forecast
    origin: str  # name of the series
    series: NamedSeries | None = None  # the series that it continues, if the rows to forecast are unknown
    blank: ClassVar = False

    @property
    def rows(self) -> int:
        """Number of rows to learn or to forecast."""
        return len(self.values) - self.start


class Encoded(NamedTuple):
    """Standardised rows, and how many of them are only read."""

    rows: Tensor
    read: int


@dataclass
class SeriesSplits(Splits[Stretch]):
    """Splits of series, with their columns and the configuration that follows from their dates."""

    config: Any = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Windows(Standardised):
    """Windows of rows that follow one another; of a forecast, the rows before it."""

    unused: ClassVar = ("tokenizer", "training.train_size", "training.label_smoothing")

    def open(self, config: Any, examples: Mapping[str, Sequence[Any]] | None) -> SeriesSplits:
        return open_series(config, examples)

    def read_data(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Any]:
        if self.standard is None:
            return hold_series(data, split, config.data)
        return all_to_forecast(hold_series(data, split, self.config.data, self.columns), self.config.data, self.columns)

    def learn(self, config: Any, splits: Splits[Stretch], parent: Any) -> tuple[Any, Self]:
        assert isinstance(splits, SeriesSplits)
        rows = np.concatenate([stretch.values for stretch in splits.examples["train"]])
        splits.remarks += constant_lines(splits.names, rows)
        return splits.config, replace(self, standard=Standard.of(splits.names, rows))

    @property
    def window(self) -> int:
        """Rows that a forecast reads."""
        rows: int = self.config.data.window
        return rows

    # Reading ------------------------------------------------------------------------------------------------------

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> Sequence[Stretch]:
        series = [series for path in files for series in self.read(Path(path))]
        return all_to_forecast(series, self.config.data, self.columns)

    def read(self, path: Path) -> list[NamedSeries]:
        """The series in a file with the run's columns."""
        return read_series(path, self.config.data, self.columns)

    def questions(self, rows: Any) -> tuple[Sequence[Stretch], bool]:
        index = getattr(rows, "index", None)
        named = str(index.name or "date") if isinstance(index, pd.DatetimeIndex | pd.PeriodIndex) else ""
        return self.continuations(self.series_of(rows), named), True

    def series_of(self, rows: Any) -> list[NamedSeries]:
        """The series in rows in any form that `predict` accepts."""
        return hold_series(rows, "series", self.config.data, self.columns)

    def continuations(self, all_series: Sequence[NamedSeries], indexed: str = "") -> list[Stretch]:
        """The continuation to forecast of each series, read after its last gap; dates become the index `indexed`."""
        last = [series.numbers(self.columns)[[0, *series.gaps][-1] :] for series in all_series]
        named = [replace(series, indexed=indexed) for series in all_series]
        return [Stretch(rows, len(rows), series.name, series) for rows, series in zip(last, named, strict=True)]

    def finished(self, head: Head, predictions: Sequence[Any], examples: Sequence[Stretch], encoded: Any) -> list[Any]:
        continued = [stretch.series for stretch in examples if stretch.series is not None]
        if not continued:
            return list(predictions)
        return [Forecast.following(np.concatenate(predictions), self.columns, continued)]

    # Batches ------------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Stretch], split: str = "") -> list[Encoded]:
        encoded = []
        for stretch in examples:
            read = min(stretch.start, self.window)
            encoded.append(Encoded(standardised(self.standard, stretch.values[stretch.start - read :]), read))
        return encoded

    def costs(self, encoded: Sequence[Encoded]) -> NDArray[np.int64]:
        return np.array([len(item.rows) for item in encoded])

    def collate(self, encoded: Sequence[Encoded], indices: list[int], draw: Draw | None) -> Batch:
        items = [encoded[n] for n in indices]
        following = pad_sequence([rows[read:] for rows, read in items], batch_first=True, padding_value=torch.nan)
        read = torch.stack([rows[:read] for rows, read in items])
        return Batch(indices, {"values": read}, targets={"rows": following}, masks=())

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        """Adjacent windows that cover every training series; their first row changes with each pass.

        A window is given by the index of its first row, counted over all training series.
        """
        window, encoded, examples = self.window, work.encoded(split), work.splits.examples[split]
        ends = [*accumulate((len(item.rows) for item in encoded), initial=0)]
        rng, starts = Random(f"{draw.seed}:{draw.epoch}"), list[int]()
        for begin, end in pairwise(ends):
            last = end - window - 1  # a window also needs the row after it
            starts += range(begin + rng.randrange(min(window, last + 1 - begin)), last + 1, window)
        rng.shuffle(starts)

        def place(piece: int) -> tuple[int, int]:
            part = bisect_right(ends, piece) - 1
            return part, piece - ends[part]

        def collate(pieces: Sequence[int]) -> Batch:
            rows = torch.stack([encoded[n].rows[at : at + window + 1] for n, at in map(place, pieces)])
            return Batch(list(pieces), {"values": rows[:, :-1]}, targets={"rows": rows[:, 1:]}, masks=())

        def described(pieces: Sequence[int]) -> str:
            part, at = place(pieces[0])
            return f"{len(pieces)} windows, the first from row {at + 1} of {examples[part].origin}"

        size = max(1, work.config.training.batch_tokens // window)
        costs = np.broadcast_to(np.int64(window), (ends[-1], 1))
        return Pass([*in_turn(starts, size)], collate, costs, described=described)

    def scoring(self, encoded: Sequence[Encoded], tokens: int) -> Sequence[list[int]]:
        lengths = [item.read for item in encoded]
        alike = groupby(sorted(range(len(encoded)), key=lengths.__getitem__), lengths.__getitem__)
        return [[*batch] for _, numbers in alike for batch in in_turn([*numbers], _AT_ONCE)]

    def scorable(self, examples: Sequence[Stretch], where: str) -> Sequence[Stretch]:
        """Rows that are learned from, without rows before them, as forecasts."""
        data = self.config.data
        return [
            forecast
            for stretch in examples
            for forecast in ([stretch] if stretch.start else forecasts_of(stretch.values, 0, data, stretch.origin))
        ]

    # For people ---------------------------------------------------------------------------------------------------

    def lines(self, work: Work) -> list[str]:
        return [work.notes, "", *column_lines(self.standard)]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        examples = work.splits.examples[split]
        return {"examples": sum(stretch.rows for stretch in examples), "series": len(names_of(examples))}


def names_of(examples: Sequence[Stretch]) -> list[str]:
    """The names of different series."""
    return [*dict.fromkeys(stretch.origin for stretch in examples)]


def stretches(series: NamedSeries, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The rows from `begin` to `end` without a gap between them: start of the context, first and last row."""
    for start, stop in pairwise([0, *series.gaps, len(series)]):
        if max(start, begin) < min(stop, end):
            yield start, max(start, begin), min(stop, end)


def to_forecast(
    series: NamedSeries, data: Any, columns: Sequence[str], begin: int = 0, end: int | None = None
) -> list[Stretch]:
    """The forecasts of a series, of its rows from `begin` to `end`."""
    values, end = series.numbers(columns), len(series) if end is None else end
    return [
        forecast
        for start, first, last in stretches(series, begin, end)
        if last - start >= 3
        for forecast in forecasts_of(values[start:last], first - start, data, series.name)
    ]


def forecasts_of(values: Values, first: int, data: Any, origin: str) -> Iterator[Stretch]:
    """The forecasts of rows without a gap, of `data.horizon` each, from row `first` or the end of the first window.

    The first `data.window` rows, at most half of them, are only read.
    """
    for at in range(max(first, min(data.window, len(values) // 2)), len(values), data.horizon):
        yield Stretch(values[: at + data.horizon], at, origin)


def all_to_forecast(all_series: Sequence[NamedSeries], data: Any, columns: Sequence[str]) -> list[Stretch]:
    """The forecasts of several series.

    Raises:
        DataError: A series is too short.
    """
    every = []
    for series in all_series:
        every += (forecasts := to_forecast(series, data, columns))
        if not forecasts:
            raise DataError(f"'{series.name}' has {counted(len(series), 'row')}; a series to forecast needs at least 3")
    return every


def open_series(config: RunConfig, examples: Mapping[str, Sequence[Any]] | None = None) -> SeriesSplits:
    """Read every split from its own files or from the last rows of each training series; or take `examples`.

    Raises:
        DataError: A file cannot be read, or a series is too short.
    """
    data: Any = config.data
    if examples is None and data.origin == "memory":
        raise DataError(data.not_kept)
    by_split: dict[str, list[NamedSeries]] = {}
    for split in ("train", "valid", "test"):
        files, by_split[split] = getattr(data, split), [*(examples or {}).get(split, ())]
        train = by_split["train"]
        for path in files if examples is None and isinstance(files, list) else ():
            by_split[split] += read_series(Path(path), data, train[0].columns if train else None)
    columns = train[0].columns
    config, remarks = with_series_settings(config, train)
    data = config.data
    every = [series for of_split in by_split.values() for series in of_split]
    remarks = [*dict.fromkeys(line for series in every for line in series.said), *remarks_on(every), *remarks]
    window: int = data.window
    splits: dict[str, list[Stretch]] = {"train": [], "valid": [], "test": []}
    short: list[str] = []
    for series in train:
        end, test = len(series), data.test if isinstance(data.test, int) else 0
        valid = max(1, (end - test) // 10) if data.valid is None else data.valid if isinstance(data.valid, int) else 0
        if end - test - valid < window + 2:
            held_out = f"({valid:,} held out for validation, {test:,} for testing)"
            needs = f"training needs at least {window + 2} others (data.window + 2)"
            has = f"'{series.name}' has {counted(end, 'row')}"
            short.append(f"{has} {held_out}; {needs}: give more or a smaller data.window")
            continue
        values = series.numbers(columns)
        for split, count in (("test", test), ("valid", valid)):  # the test rows are the last ones
            if count:
                splits[split] += to_forecast(series, data, columns, end - count, end)
                end -= count
        parts = [Stretch(values[first:last], 0, series.name) for _, first, last in stretches(series, 0, end)]
        splits["train"] += [part for part in parts if part.rows > window]
        if few := sum(part.rows for part in parts if part.rows <= window):
            rows = f"{series.name}: {counted(few, 'row')}"
            remarks.append(f"{rows} between gaps, too few for data.window + 1, not trained on")
    if short and (train[0].by is None or not splits["train"]):
        raise DataError(short[0])
    remarks += [f"left out: {line}" for line in short]
    if not splits["train"]:
        raise DataError(
            f"no {window + 1} rows (data.window + 1) follow one another without a gap; use a smaller window"
        )
    for split in ("valid", "test"):
        splits[split] += all_to_forecast(by_split[split], data, columns)
    if not splits["valid"]:
        raise DataError("no validation rows left; give data.valid a number above 0, or files")
    split_examples: dict[str, Sequence[Stretch]] = {name: of_split for name, of_split in splits.items() if of_split}
    counts = "\n".join(
        f"{name}: {counted(sum(stretch.rows for stretch in of_split), 'row')} of {len(names_of(of_split))} series"
        for name, of_split in split_examples.items()
    )
    return SeriesSplits(split_examples, remarks=remarks, made=counts, config=config, names=columns)


def with_series_settings(config: RunConfig, all_series: Sequence[NamedSeries]) -> tuple[Any, list[str]]:
    """The configuration with the format of the dates, the season and the window, and a remark on the season."""
    data: Any = config.data
    steps, rows = {series.step for series in all_series}, max(map(len, all_series))
    season: Any = "none" if data.season in ("auto", None, 1) else data.season
    remarks, why = [], "no season is known"
    if data.season == "auto" and len(steps) == 1 and (step := steps.pop()) is not None:
        if step.season is not None and rows >= 3 * step.season:
            season, why = step.season, f"by the spacing of the dates, {step}"
            remarks.append(f"season of {season} rows, {why} (data.season sets another)")
    if season != data.season:
        config = config.settle(why, {"data.season": season})
    if data.window == "auto":
        is_long = season != "none" and _WINDOW < 2 * season <= min(_LONGEST, rows // 2)
        held_out = sum(split if isinstance(split, int) else 0 for split in (data.valid or rows // 10, data.test))
        usual = _WINDOW if rows - held_out >= _WINDOW + 2 else max(2, rows // 3)
        why = "two seasons" if is_long else f"for series of {rows:,} rows"
        config = config.settle(why, {"data.window": 2 * season if is_long else usual})
    if data.date_format is None and all_series[0].timeline is not None:
        config = config.settle("format of the dates", {"data.date_format": all_series[0].timeline.column.format})
    return config, remarks
