"""Rows and columns by number or by name, and the names a message calls them by."""

from __future__ import annotations

from collections.abc import Sequence

from heed.errors import ConfigError, suggest


def find(place: int | str, labels: Sequence[str], where: str) -> int:
    """The number of a row or column, given as a number from 0, a token, or a number written as text.

    Raises:
        ConfigError: No such token or number, or several tokens of that name; `where` is the place in messages.
    """
    if isinstance(place, str) and place not in labels and place.isdecimal():
        place = int(place)
    if isinstance(place, int):
        if not 0 <= place < len(labels):
            raise ConfigError(f"{where}: there is no {place}; numbers go from 0 to {len(labels) - 1}")
        return place
    found = [i for i, label in enumerate(labels) if label == place]
    if not found:
        raise ConfigError(f"{where}: no token '{place}'{suggest(place, labels)}")
    if len(found) > 1:
        raise ConfigError(f"{where}: '{place}' stands at {_and(found)}; give the number")
    return found[0]


def name_of(index: int, labels: Sequence[str]) -> str:
    """A token as a message names it, with its number where another token is called the same."""
    return f"{labels[index]} ({index})" if labels.count(labels[index]) > 1 else labels[index]


def count(number: int, what: str) -> str:
    """A number of things: "1 row", "2 rows"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _and(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
