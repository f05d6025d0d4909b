"""Conversion of command-line options to fields of a configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
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


def read_as_texts(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Texts that are names of files, which people give in place of `--input`; each with a line that says so."""
    for text in texts:
        if os.path.isfile(text):  # unlike Path.is_file, False for a text too long for a name
            yield text, f"'{text}' is the name of a file, but was read as a text"
