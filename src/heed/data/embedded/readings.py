"""Exact search for written dates with two readings, over formats instead of samples.

"05/06/1998" is the 5th of June in one language and the 6th of May in another; without the language such a string has
no right answer, so it is not used as an example.

Claim: the search below finds every pair of formats F, G and dates a != b of four-digit years with F(a) = G(b).

1. In each format the year is the only run of four or more digits (cldr.py refuses others), so equal strings name
   the same year, in the same place. Whether two strings are equal therefore does not depend on which year it is:
   2000 represents all years, and only months, days and weekdays remain to be searched.
2. Equal strings stay equal when each run of digits is replaced by "0", and then they no longer depend on the day.
   So two strings can only be equal if their (format, month, weekday) fall into the same group by that masked text.
   A group of one cannot contain two dates: with the month fixed, different days print different digits.
3. Within a group every day is written out and compared. Two readings found this way exist in those years that
   have both days (29 February) and in which both fall on the weekdays that are written; `ambiguous` checks this for
   a given year.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from heed.data.embedded.cldr import DateFormat

_YEAR = 2000  # any year with four digits and a 29 February
_DIGITS = re.compile(r"\d+")


class _Reading(NamedTuple):
    """A day of any year; `weekday` is None if it is not written, so that any weekday fits."""

    month: int
    day: int
    weekday: int | None

    def exists_in(self, year: int) -> bool:
        """True if the year has this day, on this weekday."""
        try:
            date = datetime.date(year, self.month, self.day)
        except ValueError:
            return False
        return self.weekday is None or date.weekday() == self.weekday


class Readings:
    """Second readings of strings in these formats."""

    def __init__(self, formats: Iterable[DateFormat]) -> None:
        """Search all pairs of formats."""
        self._formats = list(dict.fromkeys(formats))
        self._has_weekday = [date_format.has_weekday for date_format in self._formats]
        self._numbers = {date_format: number for number, date_format in enumerate(self._formats)}
        self._rivals: list[dict[_Reading, tuple[_Reading, ...]]] = [{} for _ in self._formats]
        for members in _groups(self._formats):
            self._compare(members)

    def number(self, date_format: DateFormat) -> int:
        """The number of a format in this search; callers should keep it, since hashing a format is slow."""
        return self._numbers[date_format]

    def ambiguous(self, number: int, date: datetime.date) -> bool:
        """True if another date, in any of the formats, has the same text as this date in this format."""
        weekday = date.weekday() if self._has_weekday[number] else None
        rivals = self._rivals[number].get(_Reading(date.month, date.day, weekday), ())
        return any(rival.exists_in(date.year) for rival in rivals)

    def count(self, number: int, years: tuple[int, int]) -> int:
        """The number of ambiguous dates of a format from the first to the last year."""
        return sum(
            alike
            for year, alike in _kinds_of_years(years)
            for reading, rivals in self._rivals[number].items()
            if reading.exists_in(year) and any(rival.exists_in(year) for rival in rivals)
        )

    def _compare(self, members: Sequence[_Member]) -> None:
        """Write every day of a group and record which readings share a text."""
        said: dict[str, list[tuple[int, _Reading]]] = {}
        for number, month, weekday in members:
            written = weekday if self._has_weekday[number] else None
            for day in range(1, _days_in(month) + 1):
                text, _ = self._formats[number].write(_YEAR, month, day, weekday)
                said.setdefault(text, []).append((number, _Reading(month, day, written)))
        for readings in said.values():
            if len({(reading.month, reading.day) for _, reading in readings}) > 1:
                self._note(readings)

    def _note(self, readings: Sequence[tuple[int, _Reading]]) -> None:
        different = dict.fromkeys(reading for _, reading in readings)
        for number, reading in readings:
            self._rivals[number][reading] = tuple(
                rival for rival in different if (rival.month, rival.day) != (reading.month, reading.day)
            )


_Member = tuple[int, int, int]
"""Number of a format, month, weekday."""


def _groups(formats: Sequence[DateFormat]) -> Iterator[list[_Member]]:
    """Group (format number, month, weekday) by the text with its digits masked; groups of one are left out."""
    groups: dict[str, list[_Member]] = {}
    for number, date_format in enumerate(formats):
        for month, weekday, text in date_format.texts(year=_YEAR):
            groups.setdefault(_DIGITS.sub("0", text), []).append((number, month, weekday))
    return (members for members in groups.values() if len(members) > 1)


def _days_in(month: int) -> int:
    return (datetime.date(_YEAR + month // 12, month % 12 + 1, 1) - datetime.date(_YEAR, month, 1)).days


def _kinds_of_years(years: tuple[int, int]) -> list[tuple[int, int]]:
    """One year of each of the 14 calendars (leap or not, first weekday), and the number of years that share it."""
    kinds: dict[tuple[int, bool], list[int]] = {}
    for year in range(years[0], years[1] + 1):
        start, end = datetime.date(year, 1, 1), datetime.date(year, 12, 31)
        kinds.setdefault((start.weekday(), start.weekday() != end.weekday()), []).append(year)
    return [(members[0], len(members)) for members in kinds.values()]
