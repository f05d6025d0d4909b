"""Dates as people write them, in many languages, to ISO: "sábado, 9 de mayo de 1998" -> "1998-05-09".

Generated from CLDR, endless and seeded, with the true alignment of year, month and day. Dates are Gregorian, in ASCII
digits. Unusable formats and strings with two readings are left out and counted in `DateSource.counts`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from heed.data.embedded.catalogue import Catalogue, LocaleFormats, check_languages
from heed.data.embedded.cldr import STYLES, DateFormat, Kind, Style
from heed.data.embedded.generated import SPLITS, PairSource, Split, check_range, check_split, distinct, split_of
from heed.data.embedded.locales import locales
from heed.data.embedded.readings import Readings
from heed.data.examples import Link, Pair, Span
from heed.errors import DataError, suggest

DateSplit = Literal["train", "valid", "test", "unseen"]

LANGUAGES = tuple("ar cs de el en es fa fi fr he hi hu it ja ko nl pl pt ru sv tr vi zh".split())
"""Trained by default: nine scripts, three field orders, two directions."""

UNSEEN = tuple("ca da gl mr uk".split())
"""Held out by default: each is closely related to one of `LANGUAGES`."""

SEPARATOR = "; "
"""Separator of joined dates; no format in use contains its semicolon."""

_TARGET_SPANS: dict[Kind, Span] = {"year": (0, 4), "month": (5, 7), "day": (8, 10)}


@dataclass(frozen=True)
class Counts:
    """Counts of what dates are drawn from, and of what was left out.

    Attributes:
        languages: Number of languages, unseen ones included.
        locales: Number of locales, with different formats within a language.
        left_out: Rule -> the locales ("es_MX") or formats ("es_MX:medium") that it left out.
        strings: Language -> dates times distinct formats.
        ambiguous: Language -> strings left out because they have two readings among all these languages.
    """

    languages: int
    locales: int
    left_out: dict[str, tuple[str, ...]]
    strings: dict[str, int]
    ambiguous: dict[str, int]

    def __str__(self) -> str:
        lines = [f"{self.languages} languages, {self.locales} locales that write dates differently; left out:"]
        lines += [f"  {len(names):6} {rule}" for rule, names in self.left_out.items()]
        total, ambiguous = sum(self.strings.values()), sum(self.ambiguous.values())
        lines.append(f"  {ambiguous} of {total} strings ({ambiguous / total:.1%}) with two readings{self._most()}")
        return "\n".join(lines)

    def _most(self) -> str:
        """The languages with the largest shares of strings with two readings."""
        shares = {language: n / self.strings[language] for language, n in self.ambiguous.items() if n}
        most = sorted(shares, key=lambda language: -shares[language])[:5]
        return ": mostly " + ", ".join(f"{language} {shares[language]:.1%}" for language in most) if most else ""


@dataclass(frozen=True, slots=True)
class _Writer:
    """A locale's format, with its number in the search for second readings."""

    origin: str
    date_format: DateFormat
    number: int


_Writers = dict[str, list[list[_Writer]]]
"""Language -> locales -> styles, drawn in this order, each uniformly."""


class DateSource(PairSource):
    """Endless pairs of written dates and their ISO form, linked field by field.

    A language is drawn first, uniformly; then one of its locales with different formats (124 of CLDR's 1,082 locales
    are English, so drawing locales would favour English); then a style; then the dates.

    Splits are decided by a hash of the date, so that no date of `valid` or `test` is ever trained on, with any
    seed. `unseen` has the test dates in languages that are not trained, in formats that no trained language shares.
    """

    def __init__(
        self,
        languages: Sequence[str] | Literal["all"] = LANGUAGES,
        unseen: Sequence[str] | None = None,
        styles: Sequence[Style] = STYLES,
        joined: int | tuple[int, int] = (1, 1),
        years: tuple[int, int] = (1900, 2099),
        seed: int = 1,
    ) -> None:
        """Read the formats and find all strings with two readings.

        Args:
            languages: CLDR codes such as "es", one such code, or "all" for every language of CLDR except the unseen.
            unseen: Codes that are held out; None for `UNSEEN` except those in `languages`.
            styles: Any of "medium" (9 may 1998), "long" (9 de mayo de 1998), "full" (sábado, 9 de mayo de 1998).
            joined: Dates in one example, all of one locale and style: a number or `(min, max)`, uniform.
            years: First and last year, within 1000 to 9999.
            seed: Decides which examples are drawn, but not the split of a date.

        Raises:
            DataError: A language or style is unknown, repeated or has no usable format; a language is both trained
                and unseen; or a range is empty.
        """
        self.joined = (joined, joined) if isinstance(joined, int) else joined
        check_range("joined", self.joined, least=1)
        check_range("years", years, least=1000, most=9999)
        self.styles, self.years, self.seed = _check_styles(styles), years, seed
        catalogue = Catalogue(self.styles, SEPARATOR)
        trained, held_out = _read_languages(catalogue, languages, unseen)
        self.languages, self.unseen = tuple(trained), tuple(held_out)
        self._readings = Readings(_formats(trained | held_out))
        self._writers = {"trained": self._number(trained), "unseen": self._number(held_out)}
        self._dates = _split_dates(years)
        self.counts = self._count(trained | held_out, catalogue)

    def stream(self, split: DateSplit) -> Iterator[Pair]:
        """The pairs of "train", "valid", "test" or "unseen"; sources are distinct if there are enough.

        Raises:
            DataError: The split is unknown, has no languages, or has a language all of whose dates are ambiguous.
        """
        check_split(split, (*SPLITS, "unseen"))
        if split == "unseen" and not self.unseen:
            raise DataError("split 'unseen' is empty: no languages are held out; list some in 'unseen'")
        dates = self._dates["test" if split == "unseen" else split]
        writers = self._usable(self._writers["unseen" if split == "unseen" else "trained"], dates, split)
        languages = list(writers)
        rng = Random(f"{self.seed}:{split}")
        return distinct(lambda: rng.choice(languages), lambda language: self._draw(rng, writers[language], dates))

    def example(self, language: str, style: Style, date: datetime.date) -> Pair:
        """The linked pair of a date in the plain locale of any language of CLDR ("es", not "es_MX").

        Its source may have a second reading.

        Raises:
            DataError: The language or style is unknown, the year before 1000, or the language has no usable format.
        """
        check_languages("language", [language])
        _check_styles([style])
        check_range("years", (date.year, date.year), least=1000, most=9999)
        found = Catalogue([style], SEPARATOR).require(language)[0]
        return _join([_write(found.formats[style], date)], f"dates:{found.locale}:{style}")

    def _draw(self, rng: Random, by_locale: list[list[_Writer]], dates: Sequence[datetime.date]) -> Pair:
        writer = rng.choice(rng.choice(by_locale))
        written = []
        for _ in range(rng.randint(*self.joined)):
            date = rng.choice(dates)
            while self._readings.ambiguous(writer.number, date):
                date = rng.choice(dates)
            written.append(_write(writer.date_format, date))
        return _join(written, writer.origin)

    def _usable(self, writers: _Writers, dates: Sequence[datetime.date], split: DateSplit) -> _Writers:
        """Keep the writers for which at least one of the dates has no second reading."""
        usable: _Writers = {}
        for language, by_locale in writers.items():
            kept = [
                [writer for writer in by_style if not all(self._readings.ambiguous(writer.number, d) for d in dates)]
                for by_style in by_locale
            ]
            usable[language] = [by_style for by_style in kept if by_style]
            if not usable[language]:
                problem = f"each of the {len(dates)} dates of split '{split}' has two readings"
                hint = f"in language '{language}'; allow more years or styles"
                raise DataError(f"years {self.years}: {problem} {hint}")
        return usable

    def _number(self, found: _Found) -> _Writers:
        def writer(locale: str, style: Style, date_format: DateFormat) -> _Writer:
            return _Writer(f"dates:{locale}:{style}", date_format, self._readings.number(date_format))

        return {
            language: [[writer(locale, *one) for one in formats.items()] for locale, formats in by_locale]
            for language, by_locale in found.items()
        }

    def _count(self, found: _Found, catalogue: Catalogue) -> Counts:
        number = self._readings.number
        numbers = {language: set(map(number, _formats({language: own}))) for language, own in found.items()}
        num_dates = sum(map(len, self._dates.values()))
        return Counts(
            languages=len(found),
            locales=sum(len(by_locale) for by_locale in found.values()),
            left_out={rule: tuple(names) for rule, names in catalogue.left_out.items()},
            strings={language: num_dates * len(own) for language, own in numbers.items()},
            ambiguous={
                language: sum(self._readings.count(one, self.years) for one in own) for language, own in numbers.items()
            },
        )


_Found = dict[str, tuple[LocaleFormats, ...]]
"""Language -> its locales with different formats."""


def _read_languages(
    catalogue: Catalogue, languages: Sequence[str], unseen: Sequence[str] | None
) -> tuple[_Found, _Found]:
    """The trained and the unseen languages, checked."""
    everything = languages == "all"
    wanted = list(locales()) if everything else [languages] if isinstance(languages, str) else list(languages)
    if not wanted:
        raise DataError("languages is empty; list some, or use 'all'")
    check_languages("languages", wanted)
    if unseen is None:
        held_out = [code for code in UNSEEN if everything or code not in wanted]
    else:
        held_out = [unseen] if isinstance(unseen, str) else list(unseen)
        check_languages("unseen", held_out)
    if everything:
        wanted = [code for code in wanted if code not in held_out]
    both = [code for code in wanted if code in held_out]
    if both:
        raise DataError(f"language '{both[0]}' is in both 'languages' and 'unseen'")
    if everything:
        trained = {code: found for code in wanted if (found := catalogue.read(code))}
    else:
        trained = {code: catalogue.require(code) for code in wanted}
    known = frozenset(_formats(trained))
    return trained, {code: catalogue.require(code, known) for code in held_out}


def _formats(found: _Found) -> Iterator[DateFormat]:
    return (date_format for by_locale in found.values() for _, formats in by_locale for date_format in formats.values())


def _check_styles(styles: Sequence[Style]) -> tuple[Style, ...]:
    if not styles:
        raise DataError(f"styles is empty; valid: {', '.join(STYLES)}")
    for style in styles:
        if style not in STYLES:
            raise DataError(f"unknown style '{style}'{suggest(style, STYLES)}")
        if list(styles).count(style) > 1:
            raise DataError(f"style '{style}' occurs twice")
    return tuple(styles)


def _split_dates(years: tuple[int, int]) -> dict[Split, list[datetime.date]]:
    """All dates of the years, by split."""
    dates: dict[Split, list[datetime.date]] = {split: [] for split in SPLITS}
    first, last = datetime.date(years[0], 1, 1), datetime.date(years[1], 12, 31)
    for date in map(datetime.date.fromordinal, range(first.toordinal(), last.toordinal() + 1)):
        dates[split_of(date.isoformat())].append(date)
    return dates


def _write(date_format: DateFormat, date: datetime.date) -> Pair:
    """Write one date, linking each field of its ISO form to its span in the text."""
    text, spans = date_format.write(date.year, date.month, date.day, date.weekday())
    links = tuple(Link(target, spans[kind]) for kind, target in _TARGET_SPANS.items())
    return Pair(text, date.isoformat(), links)


def _join(pairs: Sequence[Pair], origin: str) -> Pair:
    """Join pairs, and their links, into one."""
    links: list[Link] = []
    at_source = at_target = 0
    for pair in pairs:
        for link in pair.links or ():
            links.append(Link(_move(link.target, at_target), _move(link.source, at_source)))
        at_source += len(pair.source) + len(SEPARATOR)
        at_target += len(pair.target) + len(SEPARATOR)
    source = SEPARATOR.join(pair.source for pair in pairs)
    return Pair(source, SEPARATOR.join(pair.target for pair in pairs), tuple(links), origin)


def _move(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by
