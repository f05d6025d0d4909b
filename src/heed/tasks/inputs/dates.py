"""Dates of series: recognised, put in order, checked for even spacing, and continued as they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from itertools import product
from typing import Any, NamedTuple, Self
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heed.errors import DataError

_DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y"),
    *("%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
)
_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
_PARTS = ("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%YQ%q", "%Y-Q%q", "%Y Q%q", "Q%q %Y")
_WEEKS = ("%G-W%V", "%GW%V", "%G-W%V-%u")
_TIMES = (*map(" ".join, product(_DAYS, _CLOCKS)), *map("T".join, product(_DAYS[:1], _CLOCKS)))
_FORMATS = (*_DAYS, *_TIMES, *_PARTS, *_WEEKS)
_DIGITS = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Formats of whole numbers of so many digits, in columns that are called so."""
_CALLED = re.compile(r"(^|[\W_])(date|datetime|day|ds|month|period|quarter|time|timestamp|week|year|yr)([\W_]|$)", re.I)
_JOINED = {
    **{"year": ("%Y",), "month": ("%m", "%b", "%B"), "day": ("%d",), "hour": ("%H",)},
    **{"date": _DAYS, "time": _CLOCKS},
}
"""Formats of the parts of a date in columns of their own."""
_TOGETHER = (("date", "time"), ("date", "hour"))
_APART = (("year", "month", "day", "hour"), ("year", "month", "day"), ("year", "month"))
"""Columns that are dates together, by name: tried before and after single columns."""
_ZONE = r"^(.*:\d\d(?:\.\d+)?)(\s?(?:Z|[+-]\d\d:?\d\d))$"
_ZONES = (
    *("Europe/London", "Europe/Berlin", "Europe/Helsinki", "America/New_York", "America/Santiago"),
    *("Australia/Sydney", "Pacific/Auckland"),
)
"""Time zones that change their clocks at different local times."""
_FEW = 50
"""Cells tried first, to rule out most formats quickly."""
_HOLIDAYS = 5
"""Most weekdays without a row that are no gap in rows of weekdays."""
_DAY = 86_400_000_000
_UNITS = {"week": 7 * _DAY, "day": _DAY, "hour": _DAY // 24, "minute": _DAY // 1440, "second": 10**6, "microsecond": 1}


class Step(NamedTuple):
    """Interval between evenly spaced times: `size` microseconds, months (always on the same `day`) or weekdays."""

    unit: str
    size: int
    day: int

    def __str__(self) -> str:
        unit, size = self.unit, self.size
        if unit == "weekday":
            return "every day from Monday to Friday"
        if unit == "month" and size % 12 == 0:
            unit, size = "year", size // 12
        if unit == "microsecond":
            unit = next(name for name, length in _UNITS.items() if size % length == 0)
            size //= _UNITS[unit]
        return f"every {unit}" if size == 1 else f"every {size} {unit}s"

    @property
    def season(self) -> int | None:
        """Rows of the usual season: a year of months, quarters or weeks, a week of days, a day of shorter steps."""
        if self.unit == "weekday":
            return 5
        times = 1 if self.size < _DAY else 7 if self.size < 7 * _DAY else 364
        whole = 12 if self.unit == "month" else times * _DAY
        return whole // self.size if whole % self.size == 0 and whole > self.size else None

    def after(self, last: pd.Timestamp, count: int) -> pd.DatetimeIndex:
        """The `count` times after the last one."""
        if self.unit != "month":
            freq: Any = "B" if self.unit == "weekday" else pd.Timedelta(self.size, "us")
            return pd.date_range(last, periods=count + 1, freq=freq)[1:]
        first = last - pd.Timedelta(last.day - 1, "D")
        months = pd.date_range(first, periods=count + 1, freq=pd.offsets.MonthBegin(self.size))[1:]
        return months + pd.to_timedelta(np.minimum(self.day, months.days_in_month) - 1, unit="D")


def _spacing(times: pd.DatetimeIndex) -> tuple[Step | None, NDArray[np.int64]]:
    """The step of different times in order, None if uneven, and the number of missing rows before all but the first."""
    day = 31 if times.is_month_end.all() else int(times.day.max())
    numbers: dict[str, Any] = {}
    alike = len((times - times.normalize()).unique()) == 1
    if alike and (times.day == np.minimum(day, times.days_in_month)).all():
        numbers["month"] = np.asarray(12 * times.year + times.month)
    numbers["microsecond"] = times.as_unit("us").asi8
    days = times.to_numpy().astype("datetime64[D]")
    if alike and np.is_busday(days).all():
        numbers["weekday"] = np.busday_count(days[0], days)
    spacings = []
    for unit, number in numbers.items():
        gaps = np.diff(number)
        size = int(np.gcd.reduce(gaps)) if len(gaps) > 1 else 0
        if size > 0 and 2 * (gaps == size).sum() > len(gaps) and (unit != "weekday" or size == 1):
            missing = gaps // size - 1
            missing[missing <= (_HOLIDAYS if unit == "weekday" else 0)] = 0
            spacings.append((Step(unit, size, day), missing))
    uneven = (None, np.zeros(len(times) - 1, np.int64))
    return min(spacings, key=lambda spacing: int((spacing[1] > 0).sum()), default=uneven)


@dataclass(frozen=True)
class Timeline:
    """The times of one series, in order."""

    column: DateColumn
    order: NDArray[np.int64]  # rows of the series in order of time
    times: pd.DatetimeIndex  # in order, without a time zone
    step: Step | None  # None if they are not evenly spaced
    missing: NDArray[np.int64]  # missing rows before each time but the first
    zone: tzinfo | None  # of the written dates, if the times are in UTC

    @classmethod
    def of(cls, column: DateColumn, times: pd.DatetimeIndex, zone: tzinfo | None = None) -> Self:
        """The times of rows in any order."""
        order = np.argsort(times.asi8, kind="stable")
        return cls(column, order, times[order], *_spacing(times[order].unique()), zone)

    @property
    def repeated(self) -> NDArray[np.int64]:
        """Places in the order of time with the date of the place before."""
        return np.flatnonzero(self.times[1:] == self.times[:-1]) + 1

    @property
    def unevenness(self) -> tuple[int, bool, int]:
        """Number of repeated dates, whether the spacing is uneven, number of gaps."""
        return len(self.repeated), self.step is None, int((self.missing > 0).sum())

    def following(self, last: int, count: int) -> list[tuple[Any, ...]]:
        """The next `count` dates, as row `last` of the file is written; a value for each column.

        They are empty if the times are not evenly spaced.
        """
        if self.step is None:
            return [()] * count
        times, zone = self.step.after(self.times[-1], count), self.zone
        local = times if zone is None else times.tz_localize("UTC").tz_convert(zone).tz_localize(None)
        return self.column.write(local, last)


@dataclass(frozen=True)
class DateColumn:
    """Dates of all rows, from one column or several."""

    names: tuple[str, ...]
    times: pd.DatetimeIndex  # local time, without time zone
    write: Callable[[pd.DatetimeIndex, int], list[tuple[Any, ...]]]  # values of the columns, with the zone of a row
    format: str | None = None  # of texts
    offsets: pd.TimedeltaIndex | None = None  # local time - UTC
    zone: tzinfo | None = None  # None if each date has its offset

    def timeline(self, rows: NDArray[np.int64]) -> Timeline:
        """The times of a series with these rows: in UTC, in local time, or in a time zone, whichever is most even."""
        local = self.times[rows]
        views = [Timeline.of(self, local)]
        if self.offsets is not None:
            utc = local - self.offsets[rows]
            zone = self.zone or timezone(self.offsets[rows[utc.argmax()]].to_pytimedelta())
            views = [Timeline.of(self, utc, zone), *views]
        elif views[0].unevenness > (0, False, 0) and (local.is_monotonic_increasing or local.is_monotonic_decreasing):
            # One hour occurs twice where clocks are set back.
            first = ~local.duplicated("last" if local.is_monotonic_decreasing else "first")
            for name in _ZONES:
                with suppress(KeyError):  # the machine does not know the time zone
                    zone = ZoneInfo(name)
                    moved = local.tz_localize(zone, ambiguous=first, nonexistent="NaT").tz_convert("UTC")
                    views += [] if moved.hasnans else [Timeline.of(self, moved.tz_localize(None), zone)]
        return min(views, key=lambda view: view.unevenness)

    def unevenness(self, groups: Sequence[NDArray[np.int64]]) -> list[int]:
        """How uneven several series are, as `Timeline.unevenness`."""
        each = [self.timeline(rows).unevenness for rows in groups if len(rows) > 2]
        return [sum(numbers) for numbers in zip(*each, strict=True)]

    def written(self, row: int) -> str:
        """The date of a row, for people."""
        return " ".join(map(str, self.write(self.times[row : row + 1], row)[0]))


def find_dates(
    frame: pd.DataFrame,
    groups: Sequence[NDArray[np.int64]],
    place: Callable[[int], str],
    column: str | None = None,
    form: str | None = None,
) -> DateColumn | None:
    """The column of dates, or those that are dates together; None if there is none.

    Args:
        frame: Cells of all columns, numbered from 0: texts, numbers, dates of pandas.
        groups: Rows of each series.
        place: Name of a row in messages.
        column: Column of dates; recognised by default.
        form: Format of the dates, as `strptime` reads it; recognised by default.

    Raises:
        DataError: A date is missing or not like the others, or it is unclear which number is the month.
    """
    names = {str(name).casefold(): str(name) for name in frame.columns}
    together, apart = ([kind for kind in kinds if names.keys() >= {*kind}] for kinds in (_TOGETHER, _APART))
    single = [(key,) for key in names if key not in ("month", "year") or not apart]
    for keys in [*together, *single, *apart] if column is None else [(column,)]:
        columns = tuple(names.get(key, key) for key in keys)
        if (dates := _dates(frame[[*columns]], columns, groups, place, form, column is not None)) is not None:
            return dates
    return None


def _dates(
    cells: pd.DataFrame,
    names: tuple[str, ...],
    groups: Sequence[NDArray[np.int64]],
    place: Callable[[int], str],
    form: str | None,
    is_configured: bool,
) -> DateColumn | None:
    if cells.dtypes.iloc[0].kind == "M" or isinstance(cells.dtypes.iloc[0], pd.PeriodDtype):
        return _of_pandas(names, pd.Index(cells[names[0]]))
    is_date_name = is_configured or bool(_CALLED.search(names[0]))
    if not is_date_name and pd.api.types.is_numeric_dtype(cells[names[0]]):
        return None
    first, *others = (cells[name].convert_dtypes().astype("string").fillna("").str.strip() for name in names)
    texts = first.str.cat(others, sep="\t") if others else first
    zoned = texts.str.extract(_ZONE)
    zones = zoned[1] if zoned[1].notna().all() else None
    texts = texts if zones is None else zoned[0]
    if form is not None and not _parsed(texts, form).hasnans:
        forms = [form]
    elif others:
        forms = ["\t".join(parts) for parts in product(*(_JOINED[name.casefold()] for name in names))]
    elif texts.str.fullmatch(r"\d+").all():
        digits = {len(text) for text in texts} if is_date_name and texts.str.match(r"1[6-9]|2[01]").all() else {0}
        forms = [_DIGITS[length] for length in digits if length in _DIGITS and len(digits) == 1]
    else:
        forms = [*_FORMATS]
    plausible = [pattern for pattern in forms if 2 * _parsed(texts[:_FEW], pattern).isna().sum() < len(texts[:_FEW])]
    fits = {pattern: times for pattern in plausible if not (times := _parsed(texts, pattern)).hasnans}
    if not fits and (is_configured or (plausible and not others)):
        bad = int(np.argmax(_parsed(texts, plausible[0]).isna())) if plausible else 0
        like = f" like '{texts[0 if bad else 1]}'" if plausible else ""
        what = f"'{texts[bad]}' is no date{like}" if texts[bad] else "the date is missing"
        raise DataError(f"{place(bad)}, column '{names[0]}': {what}; data.date_format reads other formats")
    offsets = None if zones is None else pd.TimedeltaIndex(zones.map({zone: _offset(zone) for zone in zones.unique()}))
    kinds: dict[bytes, DateColumn] = {}
    for pattern, times in fits.items():
        column = DateColumn(names, times, _writer(pattern, texts, zones), pattern, offsets)
        kinds.setdefault(times.asi8.tobytes(), column)
    columns = [*kinds.values()]
    if not all(_parsed(pd.Series([*names[:1]]), pattern).hasnans for pattern in fits):
        raise DataError(f"a column is named '{names[0]}', a date; the first line should name the columns: date,sales")
    ranked = sorted(columns, key=lambda column: column.unevenness(groups)) if len(columns) > 1 else columns
    if len(columns) > 1 and ranked[0].unevenness(groups) == ranked[1].unevenness(groups):
        row = next(row for row in range(len(texts)) if columns[0].times[row] != columns[1].times[row])
        days = " or ".join(f"{column.times[row]:%Y-%m-%d} (data.date_format={column.format})" for column in columns)
        raise DataError(f"{place(row)}, column '{names[0]}': '{texts[row]}' can be {days}; set data.date_format")
    return ranked[0] if ranked else None


def _parsed(texts: pd.Series[str], form: str) -> pd.DatetimeIndex:
    """Dates of a format, which has %q for quarters; NaT for a text that does not match it."""
    if "%q" in form:
        form = form.replace("%q", "%m")
        texts = texts.str.replace("Q([1-4])", lambda match: f"Q{3 * int(match[1]) - 2:02}", regex=True)
    if "%V" in form and "%u" not in form:
        form, texts = f"{form}-%u", texts + "-1"
    try:
        return pd.DatetimeIndex(pd.to_datetime(texts, format=form, errors="coerce")).as_unit("us")
    except ValueError:  # not a format
        return pd.DatetimeIndex([pd.NaT] * len(texts))


def _offset(zone: str) -> Any:
    return pd.Timedelta(datetime.strptime(zone.strip(), "%z").utcoffset())


def _writer(form: str, texts: pd.Series[str], zones: pd.Series[str] | None) -> Any:
    """The function that writes dates like these texts: with or without zeros before short numbers."""
    samples = texts[:_FEW]
    times = _parsed(samples, form)
    ways = [bare for bare in ("", "HI", "dm", "dmHI") if [_written(time, form, bare) for time in times] == [*samples]]
    way = "" if not ways else ways[-1 if "\t" in form else 0]  # numbers in columns of their own have no zeros

    def write(times: pd.DatetimeIndex, row: int) -> list[tuple[Any, ...]]:
        zone = "" if zones is None else zones[row]
        return [tuple(f"{_written(time, form, way)}{zone}".split("\t")) for time in times]

    return write


def _written(time: pd.Timestamp, form: str, bare: str) -> str:
    for letter in bare:
        form = form.replace(f"%{letter}", time.strftime(f"%{letter}").lstrip("0") or "0")
    return str(time.strftime(form.replace("%q", str(time.quarter))))


def _of_pandas(names: tuple[str, ...], index: Any) -> DateColumn:
    """Dates of pandas, which are continued as such."""
    if isinstance(index, pd.PeriodIndex):
        return DateColumn(
            names, index.to_timestamp().as_unit("us"), lambda times, _: [*zip(times.to_period(index.freq))]
        )
    zone, local = index.tz, index.tz_localize(None).as_unit("us")
    if zone is None:
        return DateColumn(names, local, lambda times, _: [*zip(times)])

    def write(times: pd.DatetimeIndex, _: int) -> list[tuple[Any, ...]]:
        return [*zip(times.tz_localize(zone, ambiguous=~times.duplicated(), nonexistent="shift_forward"))]

    offsets = local - index.tz_convert("UTC").tz_localize(None).as_unit("us")
    return DateColumn(names, local, write, None, offsets, zone)
