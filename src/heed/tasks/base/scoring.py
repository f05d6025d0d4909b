"""Memory of libraries that are imported only when a test set is scored."""

from __future__ import annotations

import sys
from collections.abc import Iterable

_SCIKIT = 95 * 2**20
"""Bytes that importing scikit-learn and scipy takes."""


def library_memory(splits: Iterable[str]) -> int:
    """Bytes that libraries not yet imported will take, if the splits include a test set."""
    return _SCIKIT if set(splits) - {"train", "valid"} and "sklearn" not in sys.modules else 0
