"""Digit strings to copy or to reverse, sentences of a small grammar, dates to write in ISO form: pairs with links.

Copying digits needs a diagonal attention map, reversing them an anti-diagonal one, at any length.

The sentences are 9,400 in English with their Spanish, in `grammar.tsv.bz2`: the first that examples/data/grammar.py
draws. The noun that "it" refers to decides the adjective in Spanish (cansado, congestionada).

Dates are those that people write in 28 languages: "sábado, 9 de mayo de 1998" -> "1998-05-09", Gregorian, in ASCII
digits, in the formats of CLDR (`dates.json.bz2`, which examples/data/date_formats.py writes). A string such as
"05/06/1998" is the 5th of June in one country and the 6th of May in another; without the language it has no right
answer, so it is not used as an example.

Source: Unicode CLDR, https://cldr.unicode.org; pattern letters in UTS #35, "Date Field Symbol Table".
"""

from __future__ import annotations

import bz2
import datetime
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from heed.data.embedded import SPLITS, PairSource, Split, check_range, check_split, distinct, split_of
from heed.data.examples import Link, Pair, Span
from heed.errors import DataError, suggest

Order = Literal["copy", "reverse"]


class DigitSource(PairSource):
    """Endless digit strings with their copy or their reverse, each digit linked to its source digit.

    Lengths are uniform. The splits are disjoint by a hash of the source string, the same for both kinds.
    """

    def __init__(self, kind: Order = "copy", length: tuple[int, int] = (5, 10), seed: int = 1) -> None:
        """Strings of `length` (fewest, most) digits, drawn by a seed, which does not decide their split.

        Raises:
            DataError: The kind is unknown, or not `1 <= min <= max` for the length.
        """
        if kind not in ("copy", "reverse"):
            raise DataError(f"unknown kind '{kind}' of digit strings{suggest(kind, ('copy', 'reverse'))}")
        check_range("length", length, minimum=1)
        self.kind, self.length, self.seed = kind, length, seed

    def stream(self, split: Split) -> Iterator[Pair]:
        """The pairs of "train", "valid" or "test".

        Raises:
            DataError: The split is unknown, or has no string of these lengths.
        """
        check_split(split)
        first, last = self.length
        lengths = [length for length in range(first, last + 1) if split in _SPLITS_OF_SHORT.get(length, SPLITS)]
        if not lengths:
            problem = f"split '{split}' has no strings of these lengths; allow longer ones"
            raise DataError(f"length ({first}, {last}): {problem}")
        rng = Random(f"{self.seed}:{split}")
        return distinct(lambda: rng.choice(lengths), lambda length: self._draw(rng, split, length))

    def _draw(self, rng: Random, split: Split, length: int) -> Pair:
        while True:
            digits = f"{rng.randrange(10**length):0{length}d}"
            if split_of(digits) == split:
                return self._pair(digits)

    def _pair(self, digits: str) -> Pair:
        last = len(digits) - 1
        come_from = range(len(digits)) if self.kind == "copy" else range(last, -1, -1)
        links = tuple(Link(target=(i, i + 1), source=(j, j + 1)) for i, j in enumerate(come_from))
        target = "".join(digits[j] for j in come_from)
        return Pair(digits, target, links, origin=f"digits:{self.kind}:{len(digits)}")


_SPLITS_OF_SHORT = {length: {split_of(f"{number:0{length}d}") for number in range(10**length)} for length in (1, 2)}
"""The splits that contain strings of one digit (ten strings) and of two (a hundred); longer ones are in all."""


_WORD = re.compile(r"[.,?¿]|[^\s.,?¿]+")


class GrammarSource(PairSource):
    """The sentences of the small grammar, each Spanish word linked to the run of English words that it translates."""

    def stream(self, split: Split) -> Iterator[Pair]:
        """The pairs of "train", "valid" or "test", by a hash of the English: 8,000, 400 and 1,000."""
        table = bz2.decompress((Path(__file__).parent / "grammar.tsv.bz2").read_bytes()).decode()
        for line in table.splitlines():
            source, target, linked = line.split("\t")
            if split_of(source) == split:
                read, written = ([word.span() for word in _WORD.finditer(text)] for text in (source, target))
                runs = ([read[int(place)] for place in run.split(":")] for run in linked.split())
                links = (Link(span, (run[0][0], run[-1][1])) for span, run in zip(written, runs, strict=True))
                yield Pair(source, target, tuple(links), origin="grammar:es")


DateSplit = Literal["train", "valid", "test", "unseen"]
LANGUAGES = tuple("ar cs de el en es fa fi fr he hi hu it ja ko nl pl pt ru sv tr vi zh".split())
"""Trained by default: nine scripts, three field orders, two directions."""
UNSEEN = tuple("ca da gl mr uk".split())
"""Held out by default: each is closely related to one of `LANGUAGES`."""
SEPARATOR = "; "
"""Separator of joined dates; no format contains its semicolon."""
Style = Literal["medium", "long", "full"]
STYLES: tuple[Style, ...] = ("medium", "long", "full")
"""Usable styles; "short" of CLDR is left out, since a third of the short formats have no four-digit year."""
Kind = Literal["year", "month", "day", "weekday"]

_TARGET_SPANS: dict[Kind, Span] = {"year": (0, 4), "month": (5, 7), "day": (8, 10)}


class Field(NamedTuple):
    """A field of a date; `texts` are its forms from January, the 1st or Monday on (empty for a year: its digits)."""

    kind: Kind
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class DateFormat:
    """A way of writing a date: literals and fields in order. Equal formats write equal strings."""

    pieces: tuple[str | Field, ...]

    @classmethod
    def of(cls, pieces: Iterable[Any]) -> DateFormat:
        """From the table of formats, with its lists."""
        return cls(tuple(piece if isinstance(piece, str) else Field(piece[0], tuple(piece[1])) for piece in pieces))

    @property
    def is_numeric(self) -> bool:
        """True if the month is written in digits alone."""
        months = [piece for piece in self.pieces if isinstance(piece, Field) and piece.kind == "month"]
        return all(text.isdecimal() for field in months for text in field.texts)

    def write(self, date: datetime.date) -> tuple[str, dict[Kind, Span]]:
        """The text of a date with a four-digit year, and the span of each field in it."""
        index = {"month": date.month - 1, "day": date.day - 1, "weekday": date.weekday()}
        text, spans = "", dict[Kind, Span]()
        for piece in self.pieces:
            if isinstance(piece, str):
                text += piece
            else:
                start = len(text)
                text += str(date.year) if piece.kind == "year" else piece.texts[index[piece.kind]]
                spans[piece.kind] = (start, len(text))
        return text, spans


@cache
def formats() -> dict[str, dict[str, DateFormat]]:
    """The formats of each locale such as "es_MX", by style; equal to the output of `babel.dates.format_date`.

    CLDR has no month names for some locales, and then no format.
    """
    table = json.loads(bz2.decompress((Path(__file__).parent / "dates.json.bz2").read_bytes()))
    return {locale: {style: DateFormat.of(pieces) for style, pieces in each.items()} for locale, each in table.items()}


class _Writer(NamedTuple):
    origin: str
    date_format: DateFormat


_Writers = dict[str, list[list[_Writer]]]
"""Language -> locales -> styles, drawn in this order, each uniformly."""


class DateSource(PairSource):
    """Endless pairs of written dates and their ISO form, linked field by field.

    A language is drawn first, uniformly; then one of its locales with different formats (124 of CLDR's locales are
    English, so drawing locales would favour English); then a style; then the dates.

    Splits are decided by a hash of the date, so that no date of `valid` or `test` is ever trained on, with any
    seed. `unseen` has the test dates in languages that are not trained, in formats that no trained language shares.
    """

    def __init__(
        self,
        languages: Sequence[str] = LANGUAGES,
        unseen: Sequence[str] | None = None,
        styles: Sequence[Style] = STYLES,
        joined: int | tuple[int, int] = (1, 1),
        years: tuple[int, int] = (1900, 2099),
        seed: int = 1,
    ) -> None:
        """Read the formats.

        Args:
            languages: Codes of `LANGUAGES` and `UNSEEN`, such as "es".
            unseen: Codes that are held out; None for `UNSEEN` except those in `languages`.
            styles: Any of "medium" (9 may 1998), "long" (9 de mayo de 1998), "full" (sábado, 9 de mayo de 1998).
            joined: Dates in one example, all of one locale and style: a number or `(min, max)`, uniform.
            years: First and last year, within 1000 to 9999.
            seed: Decides which examples are drawn, but not the split of a date.

        Raises:
            DataError: A language or style is unknown or repeated; a language is both trained and unseen; or a range is
                empty.
        """
        self.joined = (joined, joined) if isinstance(joined, int) else joined
        check_range("joined", self.joined, minimum=1)
        check_range("years", years, minimum=1000, maximum=9999)
        _check("styles", styles, "style", STYLES)
        _check("languages", languages, "language", (*LANGUAGES, *UNSEEN))
        self.unseen = tuple(code for code in UNSEEN if code not in languages) if unseen is None else tuple(unseen)
        if self.unseen:
            _check("unseen", self.unseen, "language", (*LANGUAGES, *UNSEEN))
        if both := [code for code in languages if code in self.unseen]:
            raise DataError(f"language '{both[0]}' is in both 'languages' and 'unseen'")
        self.languages, self.styles, self.years, self.seed = tuple(languages), tuple(styles), years, seed
        trained = {code: self._read(code) for code in languages}
        formats_trained = {writer.date_format for writer in _writers(trained)}
        self._trained, self._held_out = trained, {code: self._read(code, formats_trained) for code in self.unseen}
        every = {writer.date_format for writers in (self._trained, self._held_out) for writer in _writers(writers)}
        self._numeric = [date_format for date_format in every if date_format.is_numeric]
        self._dates: dict[Split, list[datetime.date]] = {split: [] for split in SPLITS}
        first, last = datetime.date(years[0], 1, 1), datetime.date(years[1], 12, 31)
        for date in map(datetime.date.fromordinal, range(first.toordinal(), last.toordinal() + 1)):
            self._dates[split_of(date.isoformat())].append(date)

    def __str__(self) -> str:
        locales = sum(map(len, (*self._trained.values(), *self._held_out.values())))
        return f"{len(self.languages) + len(self.unseen)} languages, {locales} locales that write dates differently"

    def stream(self, split: DateSplit) -> Iterator[Pair]:
        """The pairs of "train", "valid", "test" or "unseen"; sources are distinct if there are enough.

        Raises:
            DataError: The split is unknown or has no languages.
        """
        check_split(split, (*SPLITS, "unseen"))
        if split == "unseen" and not self.unseen:
            raise DataError("split 'unseen' is empty: no languages are held out; list some in 'unseen'")
        dates = self._dates["test" if split == "unseen" else split]
        writers = self._held_out if split == "unseen" else self._trained
        languages, rng = list(writers), Random(f"{self.seed}:{split}")
        return distinct(lambda: rng.choice(languages), lambda language: self._draw(rng, writers[language], dates))

    def is_ambiguous(self, date_format: DateFormat, date: datetime.date) -> bool:
        """True if another date, in any of the formats, has the same text: day and month exchanged, both in digits."""
        if date.day > 12 or date.day == date.month or not date_format.is_numeric:
            return False
        text, other = date_format.write(date)[0], date.replace(month=date.day, day=date.month)
        return any(numeric.write(other)[0] == text for numeric in self._numeric)

    def _draw(self, rng: Random, by_locale: list[list[_Writer]], dates: Sequence[datetime.date]) -> Pair:
        writer = rng.choice(rng.choice(by_locale))
        source = target = ""
        links: list[Link] = []
        for _ in range(rng.randint(*self.joined)):
            date = rng.choice(dates)
            while self.is_ambiguous(writer.date_format, date):
                date = rng.choice(dates)
            text, spans = writer.date_format.write(date)
            source, target = source and source + SEPARATOR, target and target + SEPARATOR
            for kind, place in _TARGET_SPANS.items():  # each field of an ISO form is linked to its span in the text
                links.append(Link(_moved(place, len(target)), _moved(spans[kind], len(source))))
            source, target = source + text, target + date.isoformat()
        return Pair(source, target, tuple(links), writer.origin)

    def _read(self, language: str, excluded: Iterable[DateFormat] = ()) -> list[list[_Writer]]:
        """The locales of a language that write dates differently, the plain one first, without `excluded` formats."""
        writers: dict[tuple[tuple[Style, DateFormat], ...], list[_Writer]] = {}
        for locale, each in formats().items():
            if locale.split("_")[0] == language:
                usable = [style for style in self.styles if style in each and each[style] not in excluded]
                new = tuple((style, each[style]) for style in usable)
                if new:
                    writers.setdefault(new, [_Writer(f"dates:{locale}:{style}", written) for style, written in new])
        return list(writers.values())


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def _writers(writers: _Writers) -> Iterator[_Writer]:
    return (writer for by_locale in writers.values() for by_style in by_locale for writer in by_style)


def _check(field: str, values: Sequence[str], what: str, valid: Sequence[str]) -> None:
    """Refuse an empty value of a field, one with unknown entries, and one with an entry twice."""
    if not values:
        raise DataError(f"{field} is empty; valid: {', '.join(valid)}")
    for value in values:
        if value not in valid:
            head = value.replace("-", "_").split("_")[0].lower()  # "es-MX" and "ES" mean "es"
            raise DataError(f"{field}: there is no {what} '{value}'{suggest(head, valid)}")
        if list(values).count(value) > 1:
            raise DataError(f"{field}: '{value}' occurs twice")
