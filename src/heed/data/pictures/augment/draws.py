"""Random numbers that depend on (seed, pass, example) only, for a whole batch at once.

Each number is a hash of what it depends on, so neither the order of drawing, nor threads, nor the other examples of the
batch matter, and no generator is needed for each picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heed.data.splitmix import STEP, mixed


class Draws:
    """The random numbers of some examples in one pass; each named use has separate numbers."""

    def __init__(self, seed: int, epoch: int, indices: Sequence[int] | NDArray[np.int64]) -> None:
        digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8).digest()
        start = np.frombuffer(digest, dtype=np.uint64)
        self._states = mixed(mixed(np.asarray(indices, dtype=np.uint64) * STEP + start) + start)

    def __len__(self) -> int:
        return len(self._states)

    def of(self, places: NDArray[np.int64]) -> Draws:
        """The random numbers of some of the examples."""
        part = Draws.__new__(Draws)
        part._states = self._states[places]
        return part

    def bits(self, use: str) -> NDArray[np.uint64]:
        """64 random bits for each example."""
        return mixed(self._states ^ np.frombuffer(hashlib.blake2b(use.encode(), digest_size=8).digest(), np.uint64))

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
        words = np.arange(-(-count // 8), dtype=np.uint64) * STEP + self.bits(use)[example : example + 1]
        return mixed(words).view(np.uint8)[:count]
