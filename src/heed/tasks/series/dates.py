"""Columns of dates: they are not forecast but continued, one date for each forecast row."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from heed.data.kinds.numbers import text_columns
from heed.errors import DataError

_CLOCKS = ("", " %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M", "T%H:%M:%SZ")
_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y")
_FORMATS = (*(f"{day}{clock}" for day in _DAYS for clock in _CLOCKS), "%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y")
_FEW = 50
"""Cells tried first, to rule out most formats quickly."""
_UNITS = {1: "second", 60: "minute", 3_600: "hour", 86_400: "day", 604_800: "week"}


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
