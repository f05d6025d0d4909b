"""The switch of this package between fast forms and torch's own operations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_enabled = os.environ.get("HEED_PLAIN", "") in ("", "0")


def enabled() -> bool:
    """Whether fast forms may be used; HEED_PLAIN=1 in the environment, read at import, turns them off."""
    return _enabled


@contextmanager
def plain() -> Iterator[None]:
    """Context manager within which the whole process uses torch's public operations only."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before
