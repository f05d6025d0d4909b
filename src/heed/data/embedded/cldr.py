"""Date formats of languages, from Babel's copy of CLDR, as literals and fields.

Babel's tokenizer cuts a pattern; each field has all texts it can print, so that its span in a written date is known.
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
"""Usable styles; CLDR's "short" is left out, since a third of the short formats have no four-digit year."""

Kind = Literal["year", "month", "day", "weekday"]

_LETTERS: dict[Kind, str] = {"year": "y", "month": "ML", "day": "d", "weekday": "Eec"}
_KINDS = {letter: kind for kind, letters in _LETTERS.items() for letter in letters}
_ERA = "G"
_SAMPLES: dict[Kind, list[datetime.date]] = {
    "month": [datetime.date(2000, month, 1) for month in range(1, 13)],
    "day": [datetime.date(2000, 1, day) for day in range(1, 32)],
    "weekday": [datetime.date(2001, 1, day) for day in range(1, 8)],  # 2001 began on a Monday
}
"""Dates for which a field prints all its texts, in order."""


class UnusableError(Exception):
    """A format is not usable for examples; the message is the rule that it breaks, for the counts."""


class Field(NamedTuple):
    """A field of a date; `texts` are its forms from January, the 1st or Monday on (empty for a year: its digits)."""

    kind: Kind
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class DateFormat:
    """A way of writing a date: literals and fields in order. Equal formats write equal strings."""

    pieces: tuple[str | Field, ...]

    @property
    def has_weekday(self) -> bool:
        """True if the weekday is written."""
        return any(isinstance(piece, Field) and piece.kind == "weekday" for piece in self.pieces)

    def write(self, year: int, month: int, day: int, weekday: int) -> tuple[str, dict[Kind, Span]]:
        """The text of a date with a four-digit year, and the span of each field in it.

        The weekday (0 is Monday) is an argument rather than computed, so that any combination can be written.
        """
        index: dict[Kind, int] = {"month": month - 1, "day": day - 1, "weekday": weekday}
        text = ""
        spans: dict[Kind, Span] = {}
        for piece in self.pieces:
            if isinstance(piece, str):
                text += piece
            else:
                start = len(text)
                text += str(year) if piece.kind == "year" else piece.texts[index[piece.kind]]
                spans[piece.kind] = (start, len(text))
        return text, spans

    def texts(self, year: int = 2000, day: int = 28) -> Iterator[tuple[int, int, str]]:
        """Month, weekday and text of a day of each month, as if it fell on each weekday (on 0 if none is written)."""
        weekdays = range(7) if self.has_weekday else range(1)
        for month in range(1, 13):
            for weekday in weekdays:
                yield month, weekday, self.write(year, month, day, weekday)[0]


def has_month_names(locale: str) -> bool:
    """True if a locale such as "es_MX" has month names; otherwise CLDR falls back to "M05"."""
    months = isolated(locale).months["format"]
    return not any(re.fullmatch(r"M\d\d", months[width][m]) for width in ("wide", "abbreviated") for m in range(1, 13))


@cache
def read_format(locale: str, style: Style) -> DateFormat:
    """The format of a locale such as "es_MX", with the same output as `babel.dates.format_date`.

    Raises:
        UnusableError: The year's four digits are not separate, or a field is missing, repeated or unknown.
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
    """Refuse a format in which the year, the month or the day is missing or repeated."""
    kinds = [piece.kind for piece in date_format.pieces if isinstance(piece, Field)]
    if any(kinds.count(kind) != 1 for kind in ("year", "month", "day")):
        raise UnusableError("a field is missing or repeated")


def _require_year_apart(date_format: DateFormat) -> None:
    """Refuse a format whose year could touch other digits: the year must be the only run of four digits.

    The search for strings with two readings relies on this (see readings.py).
    """
    if any(re.findall(r"\d{3,}", text) != ["2000"] for _, _, text in date_format.texts(year=2000, day=28)):
        raise UnusableError("the year's digits are not separate from others")
