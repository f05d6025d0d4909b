"""Series from files and from Python data: in order of their dates, one for each name, with their gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heed.data.examples import select
from heed.data.kinds.numbers import Rows, hold_rows, names_of, number_columns, read_rows, with_dates
from heed.data.readers import column_names, label_of
from heed.errors import DataError, suggest
from heed.tasks.base.report import counted
from heed.tasks.series.config import SeriesData
from heed.tasks.series.dates import DateColumn, Step, Timeline, find_dates


@dataclass(frozen=True)
class NamedSeries(Rows):
    """The rows of one series in order of time; `values` are its numbers `(rows, columns)`."""

    name: str = ""
    order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # rows of the file
    dates: DateColumn | None = None  # of all rows of the file
    timeline: Timeline | None = None
    by: str | None = None  # column that names the series
    filled: int = 0  # interpolated values
    said: tuple[str, ...] = ()  # remarks on the layout

    @property
    def gaps(self) -> list[int]:
        """The rows before which others are missing."""
        return [] if self.timeline is None else (np.flatnonzero(self.timeline.missing) + 1).tolist()

    @property
    def step(self) -> Step | None:
        """The step of its dates, if they are evenly spaced."""
        return None if self.timeline is None else self.timeline.step

    def date(self, row: int) -> str:
        """The date of a row, for people."""
        return "" if self.dates is None else self.dates.written(int(self.order[row]))

    def following(self, count: int) -> list[tuple[Any, ...]]:
        """The next `count` dates, a value for each of their columns; empty ones without evenly spaced dates."""
        if self.dates is None or self.timeline is None or self.timeline.step is None:
            return [()] * count
        return self.dates.following(self.timeline, int(self.order[-1]), count)


def read_series(
    path: Path, data: SeriesData, columns: Sequence[str] | None = None, said: list[str] | None = None
) -> list[NamedSeries]:
    """The series in a file, with the `columns` of training if they are known.

    Raises:
        DataError: The file cannot be read; a column, a date or a value is missing; dates repeat.
    """
    values = data.columns.values if columns is None else columns
    said: list[str] = []
    rows = read_rows(path, said=said, **_choice(names_of(path, values), values, columns))
    return _series(rows, path.name, data, columns, said)


def hold_series(given: Any, split: str, data: SeriesData, columns: Sequence[str] | None = None) -> list[NamedSeries]:
    """The series in Python data: in one of the forms of `hold_rows`, or a list of several; as `read_series`.

    Raises:
        DataError: As for `read_series`.
    """
    several = isinstance(given, list | tuple) and bool(given) and all(map(_is_series, given))
    made: list[NamedSeries] = []
    for n, part in enumerate(given if several else [given]):
        name = f"{split} series {n}" if several else split
        names = column_names(part := with_dates(part)) or ()
        values = (data.columns.values if columns is None else columns) if names else None
        said: list[str] = []
        rows = hold_rows(part, name, said=said, **_choice(names, values, columns))
        made += _series(rows, name, data, columns, said)
    return made


def _is_series(data: Any) -> bool:
    """True if one of several items is a series rather than a row."""
    return column_names(data) is not None or (hasattr(data, "ndim") and data.ndim == 2)


def _choice(names: Sequence[str], values: Sequence[int | str] | None, columns: Sequence[str] | None) -> dict[str, Any]:
    """What to read: the values first, and all other columns as they are, for dates and names of series."""
    if values is None:
        return {"wanted": None}
    others = [n for n, name in enumerate(names) if name not in values and n not in values]
    kinds = None if columns is None else {name: False for name in names} | dict.fromkeys(columns, True)
    return {"wanted": [*values, *others], "categories": others, "kinds": kinds}


def _series(
    rows: Rows, source: str, data: SeriesData, columns: Sequence[str] | None, said: Sequence[str]
) -> list[NamedSeries]:
    cells, date, by = rows.cells, data.columns.date, data.columns.series
    for kind, name in (("date", date), ("series", by)):
        if columns is None and name not in (None, "auto", "none", *rows.columns):
            at = f"{rows.split or source} has no column '{name}'"
            raise DataError(f"{at}{suggest(str(name), rows.columns)}; set data.columns.{kind}")
    values = data.columns.values if columns is None else columns
    chosen = () if values is None else rows.columns[: len(values)]
    groups = {"": np.arange(len(rows))}
    if by in rows.columns:
        names = cells[by].map(label_of)
        if names.isna().any():
            raise DataError(
                f"{rows.origins[int(names.isna().argmax())]}, column '{by}': the name of the series is missing"
            )
        groups = dict(names.groupby(names, sort=False).indices)
    others = cells.drop(columns=[name for name in (by, *chosen) if name in rows.columns and name != date])
    wanted = date if date in rows.columns else None
    dates = None
    if date != "none" and others.shape[1]:
        dates = find_dates(others, list(groups.values()), rows.origins.__getitem__, wanted, data.date_format)
    if columns is None and data.date_format is not None and (dates is None or dates.format != data.date_format):
        raise DataError(f"{source} has no column of dates such as data.date_format={data.date_format}")
    timed = {} if dates is None else {name: dates.timeline(group) for name, group in groups.items()}
    for name, timeline in timed.items():
        if len(timeline.repeated):
            raise DataError(_repeated(rows, dates, groups[name][timeline.order], timeline, by))
    if not chosen:
        chosen = tuple(name for name in rows.columns if name != by and (dates is None or name not in dates.names))
    numbers = number_columns(rows, chosen, data.missing)
    made = []
    for name, group in groups.items():
        timeline = timed.get(name)
        order = group if timeline is None else group[timeline.order]
        table, filled = pd.DataFrame(numbers[order], columns=[*chosen]), int(np.isnan(numbers[order]).sum())
        if filled:
            times = table.index if timeline is None else timeline.times
            table = table.set_axis(times).interpolate("index", limit_direction="both").reset_index(drop=True)
        if table.isna().any(axis=None):
            raise DataError(f"{name or source} has no value in column '{chosen[int(table.isna().any().argmax())]}'")
        lines = select(rows.origins, order)
        made.append(
            NamedSeries(
                *(table, (), lines, rows.split),
                name=str(name) or source,
                order=order,
                dates=dates,
                timeline=timeline,
                by=by if by in rows.columns else None,
                filled=filled,
                said=tuple(said),
            )
        )
    return made


def _repeated(rows: Rows, dates: DateColumn, order: NDArray[np.int64], timeline: Timeline, by: str | None) -> str:
    """The message about dates that repeat within a series."""
    second = int(timeline.repeated[0])
    lines = " and ".join(rows.origins[int(order[n])] for n in (second - 1, second))
    what = f"{lines} have the same date, {dates.written(int(order[second]))}"
    if by is not None:
        return f"{what}, in one series of '{by}'; remove one of the rows"
    able = {name: rows.cells[name].nunique() for name in rows.columns if name not in dates.names}
    pairs = {name: pd.DataFrame({"date": dates.times, "name": rows.cells[name]}) for name in able}
    names = [name for name in able if 2 * able[name] <= len(rows) and not pairs[name].duplicated().any()]
    name = min(names, key=lambda name: (rows.cells[name].dtype == float, able[name]), default=None)
    if name is None:
        return (
            f"{what}; remove one of the rows, or name the column that tells several series apart: data.columns.series"
        )
    return f"{what}: they are several series; data.columns.series={name} reads one for each '{name}'"


def remarks_on(series: Sequence[NamedSeries]) -> list[str]:
    """What was found in the dates, for people: their column and step, another order, gaps, interpolated values."""
    lines, timed = [], [one for one in series if one.dates is not None and one.timeline is not None]
    if timed:
        names = timed[0].dates.names
        first, last = (
            min(timed, key=lambda one: one.timeline.times[0]),
            max(timed, key=lambda one: one.timeline.times[-1]),
        )
        steps = [*dict.fromkeys(str(one.step or "not evenly spaced") for one in timed)]
        column = f"column '{names[0]}' holds" if len(names) == 1 else f"columns {', '.join(map(repr, names))} hold"
        then = "it is not forecast; predictions continue the dates"
        if any(one.step is None for one in timed):
            then = "it orders the rows and is not forecast; predictions have no dates"
        lines.append(f"{column} dates ({first.date(0)} to {last.date(-1)}, {' or '.join(steps)}): {then}")
    if count := sum(bool((np.diff(one.order) < 0).any()) for one in timed):
        lines.append(f"rows sorted by their dates: those of {count:,} series were in another order")
    gaps = [(one, row) for one in timed for row in one.gaps]
    if gaps:
        shown = [
            f"{counted(one.timeline.missing[row - 1], 'row')} after {one.date(row - 1)} ({one.origins[row - 1]})"
            for one, row in gaps[:3]
        ]
        more = ", ..." if len(gaps) > 3 else ""
        lines.append(
            f"{counted(len(gaps), 'gap')} in the dates, which windows do not cross; missing: {', '.join(shown)}{more}"
        )
    if filled := sum(one.filled for one in series):
        lines.append(f"{counted(filled, 'missing value')} interpolated (data.missing)")
    return lines
