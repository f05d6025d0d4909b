"""Lazy sequences, whose items are made on access, several at once more cheaply than one by one; hashes of numbers."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
TOGETHER = 1_000
"""Items made at once when iterating."""


class Lazy(Sequence[T]):
    """A sequence whose items are made on access."""

    @abstractmethod
    def take(self, indices: Sequence[int]) -> list[T]:
        """The items at these indices (not negative)."""

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Sequence[T]:
        """The items at these indices as a sequence, lazy where possible."""
        return self.take(indices)  # type: ignore[arg-type]  # an array of integers does as well

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        places = range(len(self))[index]
        return self.take([places])[0] if isinstance(places, int) else self.take(places)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(in_turn(self))


class Joined(Lazy[T]):
    """Concatenation of sequences, without a copy."""

    def __init__(self, parts: Sequence[Sequence[T]]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def part_of(self, index: int) -> int:
        """Index of the sequence that contains an item."""
        return bisect_right(self._ends, index)

    def take(self, indices: Sequence[int]) -> list[T]:
        owners = [self.part_of(index) for index in indices]
        found: dict[int, T] = {}
        for part in set(owners):
            places = [n for n, owner in enumerate(owners) if owner == part]
            start = self._ends[part - 1] if part else 0
            found.update(zip(places, take(self._parts[part], [indices[n] - start for n in places]), strict=True))
        return [found[n] for n in range(len(indices))]


def take(items: Sequence[T], indices: Sequence[int]) -> list[T]:
    """The items at these indices, made together if lazy."""
    return items.take(indices) if isinstance(items, Lazy) else [items[i] for i in indices]


def select(items: Sequence[T], indices: Sequence[int] | NDArray[Any]) -> Sequence[T]:
    """The items at these indices as a sequence; stored ones stay on disk."""
    return items.select(indices) if isinstance(items, Lazy) else [items[i] for i in indices]


def in_turn(items: Sequence[T], together: int | None = None) -> Iterator[list[T]]:
    """All items in chunks of `together`."""
    step = together or TOGETHER
    return (take(items, range(start, min(start + step, len(items)))) for start in range(0, len(items), step))


STEP = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without a pattern in its bits."""
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number; arithmetic is modulo 2 ** 64.

    Source: Steele et al. 2014, Fast splittable pseudorandom number generators (SplitMix64: its step and its finaliser).
    """
    values = (values ^ (values >> np.uint64(30))) * _FACTORS[0]
    values = (values ^ (values >> np.uint64(27))) * _FACTORS[1]
    return values ^ (values >> np.uint64(31))
