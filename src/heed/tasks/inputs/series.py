"""Series from files and from Python data: in order of their dates, one for each name, with their gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heed.data.columns import label_of
from heed.data.kinds.numbers import Rows, hold_rows, number_columns, read_rows, without_counters
from heed.data.tables import column_names
from heed.errors import DataError
from heed.tasks.base.report import counted
from heed.tasks.inputs.dates import Step, Timeline, find_dates


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


def hold_series(given: Any, split: str, data: Any, columns: Sequence[str] | None = None) -> list[NamedSeries]:
    """The series in Python data: in one of the forms of `hold_rows`, or a list of several; as `read_series`.

    Raises:
        DataError: As for `read_series`.
    """
    several = isinstance(given, list | tuple) and bool(given) and all(map(_is_series, given))
    made: list[NamedSeries] = []
    for n, part in enumerate(given if several else [given]):
        name = f"{split} series {n}" if several else split
        made += _series(hold_rows(part, name, **_choice(data, columns)), name, data, columns)
    return made


def _is_series(data: Any) -> bool:
    """True if one of several items is a series rather than a row."""
    return column_names(data) is not None or (hasattr(data, "ndim") and data.ndim == 2)


def _choice(data: Any, columns: Sequence[str] | None) -> dict[str, Any]:
    """What to read: the values first, and all other columns as they are, for dates and names of series."""
    if columns is not None:
        return {"wanted": columns, "kinds": dict.fromkeys(columns, True), "others": {}}
    asked = {"date": data.columns.date, "series": data.columns.series}
    others = {option: name for option, name in asked.items() if name not in (None, "auto", "none")}
    return {"wanted": data.columns.values, "others": others}


def _series(rows: Rows, source: str, data: Any, columns: Sequence[str] | None) -> list[NamedSeries]:
    """The series in these rows; if the `columns` of training are known, those for dates and names may be missing."""
    names, said, cells = rows.columns, [*rows.said], rows.cells.reset_index(drop=True)
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
    able = cells[[name for name in names if name == date or name not in (by, *chosen)]]
    dates = None
    if date != "none" and able.shape[1]:
        form, wanted = data.date_format, date if date in names else None
        dates = find_dates(able, [*groups.values()], rows.origin, wanted, form)
        if columns is None and form is not None and (dates is None or dates.format != form):
            raise DataError(f"{rows.split} has no column of dates such as {form} (data.date_format)")
    timed = {} if dates is None else {name: dates.timeline(group) for name, group in groups.items()}
    for name, line in timed.items():
        if len(line.repeated):
            raise DataError(_repeated(rows, groups[name][line.order], line, by))
    if values is None:
        chosen = [name for name in names if name != by and (dates is None or name not in dates.names)]
        kept = [without_counters(cells[chosen].iloc[group]) for group in groups.values()]
        chosen, every = [name for name in chosen if any(name in part for part, _ in kept)], chosen
        said += [line for _, lines in kept for line in lines] if len(chosen) < len(every) else []
    numbers = number_columns(rows, chosen, data.missing)
    named, made = partial(NamedSeries, labels=(), split=rows.split, by=by if by in names else None, said=(*said,)), []
    for name, group in groups.items():
        timeline = timed.get(name)
        order = group if timeline is None else group[timeline.order]
        table = pd.DataFrame(numbers[order], columns=chosen, index=None if timeline is None else timeline.times)
        filled = int(np.isnan(numbers[order]).sum())
        if filled:
            table = table.interpolate("index", limit_direction="both")
            if table.isna().any(axis=None):
                raise DataError(f"{name or source} has no value in column '{table.isna().any().idxmax()}'")
        cells = table.set_axis(rows.cells.index[order])
        made.append(named(cells, name=str(name) or source, order=order, timeline=timeline, filled=filled))
    return made


def _repeated(rows: Rows, order: NDArray[np.int64], timeline: Timeline, by: str | None) -> str:
    """The message about dates that repeat within a series."""
    row, dates = int(timeline.repeated[0]), timeline.column
    lines = f"{rows.origin(int(order[row - 1]))} and {rows.origin(int(order[row]))}"
    what = f"{lines} have the same date, {dates.written(int(order[row]))}"
    cells = rows.cells.reset_index(drop=True)
    able = {name: cells[name].nunique() for name in rows.columns if by is None and name not in dates.names}
    for name in sorted(able, key=lambda name: (cells[name].dtype == float, able[name])):
        pairs = pd.DataFrame({"date": dates.times, "name": cells[name]})
        if 2 * able[name] <= len(rows) and not pairs.duplicated().any():
            return f"{what}: they are several series; data.columns.series={name} reads one for each '{name}'"
    return f"{what}; leave one of the rows out, or name the column that tells series apart: data.columns.series"


def remarks_on(series: Sequence[NamedSeries]) -> list[str]:
    """What was found in the dates, for people: their column and step, another order, gaps, interpolated values."""
    lines, timed = [], [(one, one.timeline) for one in series if one.timeline is not None]
    if timed:
        (first, start), (last, end) = (
            min(timed, key=lambda some: some[1].times[0]),
            max(timed, key=lambda some: some[1].times[-1]),
        )
        dates = f"{start.column.written(first.order[0])} to {end.column.written(last.order[-1])}"
        steps = dict.fromkeys(str(line.step or "not evenly spaced") for _, line in timed)
        then = "predictions continue the dates" if all(line.step for _, line in timed) else "predictions have no dates"
        names = ", ".join(f"'{name}'" for name in start.column.names)
        single = len(start.column.names) == 1
        holds, are = (f"column {names} holds", "it is") if single else (f"columns {names} hold", "they are")
        lines.append(f"{holds} dates ({dates}, {' or '.join(steps)}): {are} not forecast; {then}")
    if count := sum(bool((np.diff(one.order) < 0).any()) for one, _ in timed):
        lines.append(f"rows sorted by their dates: those of {count:,} series were in another order")
    gaps = [
        f"{line.missing[row - 1]:,} after {line.column.written(one.order[row - 1])} ({one.origin(row - 1)})"
        for one, line in timed
        for row in one.gaps
    ]
    if gaps:
        shown = f"{', '.join(gaps[:3])}{', ...' if len(gaps) > 3 else ''}"
        lines.append(f"{counted(len(gaps), 'gap')} in the dates, which windows do not cross; rows missing: {shown}")
    if filled := sum(one.filled for one in series):
        lines.append(f"{counted(filled, 'missing value')} interpolated (data.missing)")
    return lines
