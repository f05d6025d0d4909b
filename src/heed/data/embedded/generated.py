"""What the generated data sets share: splits decided by a hash, and endless samples without needless repeats."""

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
"""Share of the examples that goes to `valid`, and as much again to `test`."""

_TRIES = 20
"""Draws that are spent on finding an example not seen before; then a repeat is let through."""

_REMEMBERED = 1_000_000
"""Sources after which the memory of what was drawn starts anew, so that an endless stream stays small."""

Choice = TypeVar("Choice")


class PairSource(ABC):
    """Pairs that are drawn by a seed, without end."""

    @abstractmethod
    def stream(self, split: Any) -> Iterator[Pair]:
        """The pairs of a split, one by one."""

    def sample(self, split: str, count: int) -> list[Pair]:
        """The first pairs of a split: the same each time; a smaller sample is the beginning of a larger one."""
        return list(islice(self.stream(split), count))


def split_of(text: str) -> Split:
    """Which split an example belongs to, by the text that identifies it: 90 % train, 5 % valid, 5 % test.

    It is a hash of the text alone, not of any seed, so that no choice of seed can put into training
    what another run was tested on.
    """
    place = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
    if place < _HELD_OUT:
        return "test"
    return "valid" if place < 2 * _HELD_OUT else "train"


def distinct(choose: Callable[[], Choice], draw: Callable[[Choice], Pair]) -> Iterator[Pair]:
    """Draw pairs without end, avoiding a source that was drawn before.

    A choice is made once per pair and kept while `draw` is repeated: what is to be uniform (the language,
    the length) belongs there, or looking for new sources would favour the choices that have many. Sources repeat only
    where 20 draws found none that is new, or after a million others.
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
    """Refuse a split that is none of those there are.

    Raises:
        DataError: It names them.
    """
    if split not in valid:
        raise DataError(f"unknown split '{split}'{suggest(split, valid)}")


def check_range(name: str, value: tuple[int, int], least: int, most: int | None = None) -> None:
    """Refuse a range `(min, max)`, the value of a field, that is not `least <= min <= max <= most`.

    Raises:
        DataError: It names the field.
    """
    first, last = value
    if not least <= first <= last or (most is not None and last > most):
        bound = f"min <= max <= {most}" if most is not None else "min <= max"
        raise DataError(f"{name} is ({first}, {last}), expected (min, max) with {least} <= {bound}")
