"""Conversion of command-line options to fields of a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def fields(given: dict[str, Any]) -> list[str]:
    """Options as `section.key=value` words."""
    return [f"{name}={json.dumps(value)}" for name, value in given.items() if value is not None]


def split_files(files: list[str] | None) -> list[str] | None:
    """The files of an option; `--valid a --valid b` and `--valid a,b` are the same."""
    if files is None:
        return None
    return [name for given in files for name in ([given] if Path(given).exists() else given.split(","))]


def held_out(files: list[str] | None) -> list[str] | int | None:
    """Validation files, or the number of examples to hold out."""
    names = split_files(files)
    is_number = names is not None and len(names) == 1 and names[0].isdecimal() and not Path(names[0]).exists()
    return int(names[0]) if names and is_number else names
