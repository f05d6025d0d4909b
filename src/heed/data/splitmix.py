"""Numbers that look random, as hashes of other numbers.

Source: Steele et al. 2014, Fast splittable pseudorandom number generators (SplitMix64: its step and its finaliser).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STEP = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without a pattern in its bits."""
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number; arithmetic is modulo 2 ** 64."""
    values = (values ^ (values >> np.uint64(30))) * _FACTORS[0]
    values = (values ^ (values >> np.uint64(27))) * _FACTORS[1]
    return values ^ (values >> np.uint64(31))
