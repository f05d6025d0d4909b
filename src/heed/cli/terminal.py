"""What the commands share about terminals."""

from __future__ import annotations

import os
import shutil
import sys


def use_color() -> bool:
    """Whether stdout is a terminal that wants colour (NO_COLOR and pipes do not)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def interactive() -> bool:
    """Whether a person can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def width() -> int:
    """Columns of the terminal; 100 in a pipe."""
    return shutil.get_terminal_size((100, 24)).columns
