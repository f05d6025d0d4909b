"""Digit strings to copy or to reverse: the smallest task with one right answer for attention.

Copying needs a diagonal attention map, reversing an anti-diagonal one, at any length.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal

from heed.data.embedded.generated import SPLITS, PairSource, Split, check_range, check_split, distinct, split_of
from heed.data.examples import Link, Pair
from heed.errors import DataError, suggest

Kind = Literal["copy", "reverse"]


class DigitSource(PairSource):
    """Endless digit strings with their copy or their reverse, each digit linked to its source digit.

    Lengths are uniform. The splits are disjoint by a hash of the source string, the same for both kinds.
    """

    def __init__(self, kind: Kind = "copy", length: tuple[int, int] = (5, 10), seed: int = 1) -> None:
        """Strings of `length` (fewest, most) digits, drawn by a seed, which does not decide their split.

        Raises:
            DataError: The kind is unknown, or not `1 <= min <= max` for the length.
        """
        if kind not in ("copy", "reverse"):
            raise DataError(f"unknown kind '{kind}' of digit strings{suggest(kind, ('copy', 'reverse'))}")
        check_range("length", length, least=1)
        self.kind, self.length, self.seed = kind, length, seed

    def stream(self, split: Split) -> Iterator[Pair]:
        """The pairs of "train", "valid" or "test".

        Raises:
            DataError: The split is unknown, or has no string of these lengths.
        """
        check_split(split)
        first, last = self.length
        lengths = [length for length in range(first, last + 1) if _occurs(length, split)]
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
"""The splits that contain strings of one digit (ten strings) and of two (a hundred)."""


def _occurs(length: int, split: Split) -> bool:
    """True if a split contains a string of this length; from three digits on all splits do."""
    return split in _SPLITS_OF_SHORT.get(length, SPLITS)
