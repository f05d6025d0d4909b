"""Which languages, locales and formats give fair examples, and which rule left the others out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heed.data.embedded.cldr import DateFormat, Style, UnusableError, has_month_names, read_format
from heed.data.embedded.locales import locales
from heed.errors import DataError, suggest


class LocaleFormats(NamedTuple):
    """How one locale writes dates."""

    locale: str
    formats: dict[Style, DateFormat]


class Catalogue:
    """The locales of the languages asked for, with `left_out`: rule -> the locales or formats it left out.

    A locale is "es_MX", a format "es_MX:medium". Of locales that write alike within a language one is kept, the
    plainest: 124 of CLDR's 1,082 locales are English, and most of them write dates as another does.
    """

    def __init__(self, styles: Sequence[Style], separator: str) -> None:
        """A catalogue of these styles; formats that contain the separator of dates are left out."""
        self.left_out: dict[str, list[str]] = {}
        self._styles, self._separator = styles, separator.strip()

    def read(self, language: str, known: frozenset[DateFormat] = frozenset()) -> tuple[LocaleFormats, ...]:
        """The locales of a language (CLDR code) that write dates differently, without the `known` formats."""
        kept: dict[tuple[tuple[Style, DateFormat], ...], LocaleFormats] = {}
        for locale in locales()[language]:
            if not has_month_names(locale):
                self._leave_out("no month names of its own (CLDR falls back to 'M05')", locale)
            elif formats := self._read_locale(locale, known):
                if tuple(formats.items()) in kept:
                    self._leave_out("writes as another locale of its language does", locale)
                else:
                    kept[tuple(formats.items())] = LocaleFormats(locale, formats)
        return tuple(kept.values())

    def require(self, language: str, known: frozenset[DateFormat] = frozenset()) -> tuple[LocaleFormats, ...]:
        """As `read`, for a language that the user named; at least one locale.

        Raises:
            DataError: Rules left out all of them; the message says which.
        """
        found = self.read(language, known)
        if not found:
            own = set(locales()[language])
            rules = [rule for rule, names in self.left_out.items() if own & {name.split(":")[0] for name in names}]
            raise DataError(f"language '{language}' has no date format to use: {'; '.join(rules)}")
        return found

    def _read_locale(self, locale: str, known: frozenset[DateFormat]) -> dict[Style, DateFormat]:
        formats: dict[Style, DateFormat] = {}
        for style in self._styles:
            try:
                date_format = read_format(locale, style)
            except UnusableError as unusable:
                self._leave_out(str(unusable), f"{locale}:{style}")
                continue
            if any(self._separator in text for _, _, text in date_format.texts()):
                self._leave_out(f"contains the separator '{self._separator}'", f"{locale}:{style}")
            elif date_format in known:
                self._leave_out("an unseen language's format that a trained one shares", f"{locale}:{style}")
            else:
                formats[style] = date_format
        return formats

    def _leave_out(self, rule: str, name: str) -> None:
        self.left_out.setdefault(rule, []).append(name)


def check_languages(field: str, codes: Sequence[str]) -> None:
    """Refuse languages, the value of a field, that CLDR does not have or that are named twice.

    Raises:
        DataError: Naming the code, and the nearest that exists.
    """
    for code in codes:
        if code not in locales():
            head = code.replace("-", "_").split("_")[0].lower()  # "es-MX" and "ES" mean "es"
            raise DataError(f"{field}: CLDR has no language '{code}'{suggest(head, locales())}")
        if list(codes).count(code) > 1:
            raise DataError(f"{field}: '{code}' is named twice")
