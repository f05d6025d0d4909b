"""Random numbers that depend on (seed, pass, example) only, for a whole batch at once.

Each number is a hash of what it depends on, so neither the order of drawing, nor threads, nor the other examples of the
batch matter, and no generator is needed for each picture.

Source: Steele et al. 2014, Fast splittable pseudorandom number generators (the finaliser of SplitMix64).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Draws:
    """The random numbers of some examples in one pass; each named use has separate numbers."""

    def __init__(self, seed: int, epoch: int, indices: Sequence[int] | NDArray[np.int64]) -> None:
        digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8).digest()
        start = np.frombuffer(digest, dtype=np.uint64)
        self._states = _mixed(_mixed(np.asarray(indices, dtype=np.uint64) * _STEP + start) + start)

    def __len__(self) -> int:
        return len(self._states)

    def of(self, places: NDArray[np.int64]) -> Draws:
        """The random numbers of some of the examples."""
        part = Draws.__new__(Draws)
        part._states = self._states[places]
        return part

    def bits(self, use: str) -> NDArray[np.uint64]:
        """64 random bits for each example."""
        return _mixed(self._states ^ np.frombuffer(hashlib.blake2b(use.encode(), digest_size=8).digest(), np.uint64))

    def uniform(self, use: str, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
        """A number in [`low`, `high`) for each example."""
        return low + (high - low) * (self.bits(use) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, use: str, counts: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """A whole number from 0 to `counts` - 1 for each example."""
        return (self.uniform(use) * counts).astype(np.int64)

    def chance(self, use: str, probability: float) -> NDArray[np.bool_]:
        """True for each example with this probability."""
        return self.uniform(use) < probability

    def noise(self, use: str, example: int, count: int) -> NDArray[np.uint8]:
        """`count` random bytes for one example."""
        words = np.arange(-(-count // 8), dtype=np.uint64) * _STEP + self.bits(use)[example : example + 1]
        return _mixed(words).view(np.uint8)[:count]


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number; arithmetic is modulo 2 ** 64."""
    values = (values ^ (values >> np.uint64(30))) * _FACTORS[0]
    values = (values ^ (values >> np.uint64(27))) * _FACTORS[1]
    return values ^ (values >> np.uint64(31))
