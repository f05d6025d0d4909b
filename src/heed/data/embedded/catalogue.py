"""Languages, locales and formats that give fair examples, and the rules that leave others out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heed.data.embedded.cldr import DateFormat, Style, UnusableError, has_month_names, read_format
from heed.data.embedded.locales import locales
from heed.errors import DataError, suggest


class LocaleFormats(NamedTuple):
    """The date formats of one locale."""

    locale: str
    formats: dict[Style, DateFormat]


class Catalogue:
    """The locales of the requested languages, with `left_out`: rule -> the locales or formats it left out.

    A locale is "es_MX", a format "es_MX:medium". Of a language's locales with the same formats, only the plainest is
    kept: 124 of CLDR's 1,082 locales are English, and most of them write dates like another one.
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
                self._leave_out("no month names in this locale (CLDR falls back to 'M05')", locale)
            elif formats := self._read_locale(locale, known):
                if tuple(formats.items()) in kept:
                    self._leave_out("same formats as another locale of the language", locale)
                else:
                    kept[tuple(formats.items())] = LocaleFormats(locale, formats)
        return tuple(kept.values())

    def require(self, language: str, known: frozenset[DateFormat] = frozenset()) -> tuple[LocaleFormats, ...]:
        """As `read`, for a language that the user gave; at least one locale.

        Raises:
            DataError: Rules left out all locales; the message names the rules.
        """
        found = self.read(language, known)
        if not found:
            own = set(locales()[language])
            rules = [rule for rule, names in self.left_out.items() if own & {name.split(":")[0] for name in names}]
            raise DataError(f"language '{language}' has no usable date format: {'; '.join(rules)}")
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
                self._leave_out("a format of an unseen language that a trained language shares", f"{locale}:{style}")
            else:
                formats[style] = date_format
        return formats

    def _leave_out(self, rule: str, name: str) -> None:
        self.left_out.setdefault(rule, []).append(name)


def check_languages(field: str, codes: Sequence[str]) -> None:
    """Refuse languages, the value of a field, that are not in CLDR or are repeated.

    Raises:
        DataError: The message names the code and the most similar one in CLDR.
    """
    for code in codes:
        if code not in locales():
            head = code.replace("-", "_").split("_")[0].lower()  # "es-MX" and "ES" mean "es"
            raise DataError(f"{field}: CLDR has no language '{code}'{suggest(head, locales())}")
        if list(codes).count(code) > 1:
            raise DataError(f"{field}: '{code}' occurs twice")
