"""Data sets that come with heed; here what they share: splits decided by a hash, endless samples with few repeats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, Literal, TypeVar

from heed.data.examples import Pair
from heed.errors import DataError, suggest

Split = Literal["train", "valid", "test"]

SPLITS: tuple[Split, ...] = ("train", "valid", "test")

_HELD_OUT = 0.05
"""Share of the examples in `valid`, and the same in `test`."""
_TRIES = 20
"""Draws for a new example before a repeat is used."""
_REMEMBERED = 1_000_000
"""Number of sources after which the set of drawn sources is cleared."""

Choice = TypeVar("Choice")


class PairSource(ABC):
    """Endless pairs, drawn by a seed."""

    @abstractmethod
    def stream(self, split: Any) -> Iterator[Pair]:
        """The pairs of a split, one by one."""

    def sample(self, split: str, count: int) -> list[Pair]:
        """The first pairs of a split, the same each time; a smaller sample is the beginning of a larger one."""
        return list(islice(self.stream(split), count))


def split_of(text: str) -> Split:
    """The split of an example, by a hash of the text that identifies it: 90 % train, 5 % valid, 5 % test.

    The split does not depend on the seed, so no run trains on another run's test examples.
    """
    place = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
    if place < _HELD_OUT:
        return "test"
    return "valid" if place < 2 * _HELD_OUT else "train"


def distinct(choose: Callable[[], Choice], draw: Callable[[Choice], Pair]) -> Iterator[Pair]:
    """Draw pairs endlessly; a source repeats only if 20 draws found no new one, or after a million others.

    A choice is kept while `draw` is repeated: what must be uniform (the language, the length) belongs in `choose`,
    since the search for new sources would otherwise favour choices that have many.
    """
    seen: set[str] = set()
    while True:
        choice = choose()
        for _ in range(_TRIES):
            pair = draw(choice)
            if pair.source not in seen:
                break
        if len(seen) == _REMEMBERED:
            seen.clear()
        seen.add(pair.source)
        yield pair


def check_split(split: str, valid: tuple[str, ...] = SPLITS) -> None:
    """Refuse an unknown split.

    Raises:
        DataError: The split is unknown; the message names the valid ones.
    """
    if split not in valid:
        raise DataError(f"unknown split '{split}'{suggest(split, valid)}")


def check_range(name: str, value: tuple[int, int], minimum: int, maximum: int | None = None) -> None:
    """Refuse a range `(min, max)`, the value of a field, that is not `least <= min <= max <= most`.

    Raises:
        DataError: The range is invalid; the message names the field.
    """
    first, last = value
    if not minimum <= first <= last or (maximum is not None and last > maximum):
        bound = f"min <= max <= {maximum}" if maximum is not None else "min <= max"
        raise DataError(f"{name} is ({first}, {last}), expected (min, max) with {minimum} <= {bound}")
