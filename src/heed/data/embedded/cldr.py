"""How languages write dates, read from Babel's copy of CLDR and laid open piece by piece.

`babel.dates.format_date` gives a string. Here its pattern is cut into literals and fields by Babel's own
tokenizer, and each field keeps everything it can print, so that the place of each field in the string is known.
Source: Unicode CLDR, https://cldr.unicode.org; pattern letters in UTS #35, "Date Field Symbol Table".
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from babel import Locale
from babel.dates import DateTimeFormat, format_date, tokenize_pattern

from heed.data.embedded.locales import isolated
from heed.data.examples import Span

Style = Literal["medium", "long", "full"]

STYLES: tuple[Style, ...] = ("medium", "long", "full")
"""CLDR's "short" is not among them: a third of the short formats have no four-digit year."""

Kind = Literal["year", "month", "day", "weekday"]

_KINDS: dict[str, Kind] = {
    "y": "year",
    "M": "month",
    "L": "month",
    "d": "day",
    "E": "weekday",
    "e": "weekday",
    "c": "weekday",
}
_ERA = "G"
_SAMPLES: dict[Kind, list[datetime.date]] = {
    "month": [datetime.date(2000, month, 1) for month in range(1, 13)],
    "day": [datetime.date(2000, 1, day) for day in range(1, 32)],
    "weekday": [datetime.date(2001, 1, day) for day in range(1, 8)],  # 2001 began on a Monday
}
"""Dates that make a field print all it can, in order."""


class UnusableError(Exception):
    """A format that cannot serve as an example; the message is the rule that it breaks, for the counts."""


class Field(NamedTuple):
    """A part of a date's text that changes with the date.

    `texts` holds what it prints for January, the 1st or Monday onwards; the year prints its four digits.
    """

    kind: Kind
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class DateFormat:
    """One way of writing a date: literals and fields in their order. Equal formats write equal strings."""

    pieces: tuple[str | Field, ...]

    @property
    def has_weekday(self) -> bool:
        """Whether the weekday is written."""
        return any(isinstance(piece, Field) and piece.kind == "weekday" for piece in self.pieces)

    def write(self, year: int, month: int, day: int, weekday: int) -> tuple[str, dict[Kind, Span]]:
        """Write a date and say where each field stands.

        The weekday is given rather than computed, so that it can be asked what *would* be written.

        Args:
            year: Four digits, 1000 to 9999.
            month: 1 to 12.
            day: 1 to 31.
            weekday: 0 (Monday) to 6, as `datetime.date.weekday`.

        Returns:
            The text, and the span of characters of each field in it.
        """
        index: dict[Kind, int] = {"month": month - 1, "day": day - 1, "weekday": weekday}
        text = ""
        spans: dict[Kind, Span] = {}
        for piece in self.pieces:
            if isinstance(piece, str):
                text += piece
                continue
            start = len(text)
            text += str(year) if piece.kind == "year" else piece.texts[index[piece.kind]]
            spans[piece.kind] = (start, len(text))
        return text, spans

    def texts(self, year: int = 2000, day: int = 28) -> Iterator[tuple[int, int, str]]:
        """Write a day of each month as if it fell on each weekday.

        Args:
            year: Four digits.
            day: 1 to 31; nobody asks whether the month has it.

        Yields:
            Month 1 to 12, weekday 0 to 6, and the text; where no weekday is written, only weekday 0.
        """
        weekdays = range(7) if self.has_weekday else range(1)
        for month in range(1, 13):
            for weekday in weekdays:
                yield month, weekday, self.write(year, month, day, weekday)[0]


def has_month_names(locale: str) -> bool:
    """Say whether a locale names its months; where it does not, CLDR falls back to "M05".

    Args:
        locale: Identifier such as "es_MX".

    Returns:
        True if neither the wide nor the abbreviated names are the fallback.
    """
    months = isolated(locale).months["format"]
    return not any(re.fullmatch(r"M\d\d", months[width][m]) for width in ("wide", "abbreviated") for m in range(1, 13))


@cache
def read_format(locale: str, style: Style) -> DateFormat:
    """Read how a locale writes dates.

    Args:
        locale: Identifier such as "es_MX".
        style: "medium", "long" or "full".

    Returns:
        The format; it writes what `babel.dates.format_date` writes.

    Raises:
        UnusableError: The year does not have four digits of its own, a field is missing, said twice or unknown.
    """
    babel_locale = isolated(locale)
    pattern = babel_locale.date_formats[style].pattern
    date_format = DateFormat(tuple(_pieces(pattern, babel_locale)))
    _require_each_field_once(date_format)
    _require_year_apart(date_format)
    probe = datetime.date(1998, 11, 29)
    ours, _ = date_format.write(1998, 11, 29, probe.weekday())
    babels = format_date(probe, style, babel_locale)
    assert ours == babels, f"{locale}:{style} writes {ours!r}, Babel {babels!r}"
    return date_format


def _pieces(pattern: str, locale: Locale) -> Iterator[str | Field]:
    """Cut a pattern into literals and fields."""
    for _, value in tokenize_pattern(pattern):
        if isinstance(value, str):
            yield value
            continue
        letter, width = value
        if letter == _ERA:  # these dates have one era, so its name never changes
            yield DateTimeFormat(datetime.date(2000, 1, 1), locale)[letter * width]
        elif letter not in _KINDS:
            raise UnusableError("a field other than year, month, day, weekday and era")
        elif letter == "y" and width == 2:
            raise UnusableError("no four-digit year")
        else:
            dates = _SAMPLES.get(_KINDS[letter], [])
            texts = tuple(DateTimeFormat(date, locale)[letter * width] for date in dates)
            yield Field(_KINDS[letter], texts)


def _require_each_field_once(date_format: DateFormat) -> None:
    """Refuse a format in which the year, the month or the day is missing or said twice."""
    kinds = [piece.kind for piece in date_format.pieces if isinstance(piece, Field)]
    if any(kinds.count(kind) != 1 for kind in ("year", "month", "day")):
        raise UnusableError("a field is missing or said twice")


def _require_year_apart(date_format: DateFormat) -> None:
    """Refuse a format whose year could touch other digits: the year must be the only run of four.

    Searching for strings with two readings builds on this (see readings.py).
    """
    if any(re.findall(r"\d{3,}", text) != ["2000"] for _, _, text in date_format.texts(year=2000, day=28)):
        raise UnusableError("the year's digits do not stand apart")
