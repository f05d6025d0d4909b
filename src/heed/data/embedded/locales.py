"""Babel's locales, each with its own copy of the tables, so that names do not depend on earlier look-ups.

In Babel up to 2.18 at least (python-babel/babel issue 1234), a locale that inherits a table shares that dict with its
parent, and Babel stores resolved names in it: after a look-up of the months of 'ann', 'ar' writes "9 M05 1998" for the
rest of the process. Data generated from a seed must not depend on that.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from babel import Locale, localedata

_TABLES = ("date_formats", "months", "days", "eras")
"""Tables of a locale that are needed to write dates; only these are copied."""

_unresolved: dict[str, Any] = {}
"""Babel's data as in its files: no name is ever looked up in it, so nothing is stored in it."""


@cache
def locales() -> dict[str, tuple[str, ...]]:
    """The locales of each language, the plain language first: `{"es": ("es", "es_419", "es_AR", ...)}`."""
    found: dict[str, list[str]] = {}
    for identifier in sorted(localedata.locale_identifiers()):
        found.setdefault(identifier.split("_")[0], []).append(identifier)
    return {language: tuple(identifiers) for language, identifiers in found.items()}


def isolated(identifier: str) -> Locale:
    """A locale such as "es_MX" for use with `babel.dates`, with its own copy of the tables that dates need."""
    locale = _IsolatedLocale.parse(identifier)
    assert str(locale) == identifier, f"Babel opens {locale} for {identifier}"
    return locale


class _IsolatedLocale(Locale):
    """A Babel locale that uses its own copy of the data instead of the shared cache."""

    _own: localedata.LocaleDataDict | None = None

    @property
    def _data(self) -> localedata.LocaleDataDict:
        if self._own is None:
            shared = _load_unresolved(str(self))
            self._own = localedata.LocaleDataDict({table: _copy(shared[table]) for table in _TABLES})
        return self._own


def _load_unresolved(identifier: str) -> dict[str, Any]:
    """Load a locale's data without Babel's cache, in which other look-ups have resolved names."""
    with localedata._cache_lock:
        shared = localedata._cache
        localedata._cache = _unresolved
        try:
            return localedata.load(identifier)
        finally:
            localedata._cache = shared


def _copy(data: Any) -> Any:
    """Copy nested tables; their entries (names, patterns, aliases) never change and are shared."""
    if isinstance(data, dict):
        return {key: _copy(value) for key, value in data.items()}
    if isinstance(data, tuple):  # Babel's (alias, overriding values)
        return tuple(_copy(value) for value in data)
    return data
