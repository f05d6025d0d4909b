"""The formats of dates that `data.name=dates` is written with, from Babel's copy of CLDR (Gregorian, in ASCII digits).

    python examples/data/date_formats.py src/heed/data/embedded/dates.json.bz2

Needs Babel 2.18 (CLDR 47): pip install babel. The table has the styles of each locale of the 28 languages; a format is
a list of literals and of fields, each with its name and all its texts, from January, the 1st or Monday on (none for a
year: its digits).
"""

from __future__ import annotations

import bz2
import datetime
import json
import re
import sys
from pathlib import Path

from babel import Locale, localedata
from babel.dates import DateTimeFormat, tokenize_pattern

from heed.data.embedded.pairs import LANGUAGES, STYLES, UNSEEN, Style

FIELDS = {"y": "year", "M": "month", "L": "month", "d": "day", "E": "weekday", "e": "weekday", "c": "weekday"}
SAMPLES = {
    "month": [datetime.date(2000, month, 1) for month in range(1, 13)],
    "day": [datetime.date(2000, 1, day) for day in range(1, 32)],
    "weekday": [datetime.date(2001, 1, day) for day in range(1, 8)],  # 2001 began on a Monday
}
"""Dates for which a field prints all its texts, in order."""


def read_format(locale: Locale, style: Style) -> list[str | list[object]] | None:
    """The pieces of a format; None if CLDR has no month names for the locale ("M05" in their place)."""
    pieces: list[str | list[object]] = []
    for _, value in tokenize_pattern(locale.date_formats[style].pattern):
        if isinstance(value, str):
            pieces.append(value)
        elif value[0] == "G":  # these dates have one era, so its name never changes
            pieces.append(DateTimeFormat(datetime.date(2000, 1, 1), locale)["G" * value[1]])
        else:
            letter, width = value
            dates = SAMPLES.get(FIELDS[letter], [])
            texts = [DateTimeFormat(date, locale)[letter * width] for date in dates]
            if any(re.fullmatch(r"M\d\d", text) for text in texts):
                return None
            pieces.append([FIELDS[letter], texts])
    return pieces


def read_formats() -> dict[str, dict[str, list[str | list[object]]]]:
    """The formats of each locale by style."""
    names = [name for name in localedata.locale_identifiers() if name.split("_")[0] in (*LANGUAGES, *UNSEEN)]
    every = {name: {style: read_format(Locale.parse(name), style) for style in STYLES} for name in sorted(names)}
    return {name: {style: pieces for style, pieces in of.items() if pieces} for name, of in every.items()}


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(bz2.compress(json.dumps(read_formats(), ensure_ascii=False).encode()))
