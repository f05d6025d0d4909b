"""Memory of libraries that are imported only where a test set is scored."""

from __future__ import annotations

import sys
from collections.abc import Iterable

_SCIKIT = 95 * 2**20
"""What importing scikit-learn and scipy takes."""


def library_memory(splits: Iterable[str]) -> int:
    """Bytes that libraries will take where there is a test set among the splits, and which are not imported yet."""
    return _SCIKIT if set(splits) - {"train", "valid"} and "sklearn" not in sys.modules else 0
