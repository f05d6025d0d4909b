"""Comparing the files of a folder with its `checksums.json`, which has the size and hash of each when written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from heed.errors import RunError
from heed.storage.disk import CHECKSUMS, checksum, write_whole
from heed.storage.files import MissingFileError, check_regular, damaged, read_object

Content = Mapping[str, Any]
"""Size ("bytes") and hash ("blake2b") of a file."""


def recorded(folder: Path) -> dict[str, Content] | None:
    """The size and hash of each file in `checksums.json`, by name; None if there is no `checksums.json`.

    Raises:
        RunError: It cannot be read, or lists a file outside the folder.
    """
    path = folder / CHECKSUMS
    try:
        values = read_object(path)
    except MissingFileError:
        return None
    for name, content in values.items():
        if not _is_inside(name):
            raise damaged(path, f"it names {name!r}, which is not a file of the folder")
        if not (
            isinstance(content, dict) and type(content.get("bytes")) is int and isinstance(content.get("blake2b"), str)
        ):
            raise damaged(path, f"it has no size and hash of {name!r}")
    if not values:
        raise damaged(path, "it names no file")
    return values


def listed(folder: Path) -> list[str]:
    """The files listed in a folder's checksums; none if they cannot be read."""
    try:
        return list(recorded(folder) or ())
    except RunError:
        return []


def describe_damage(
    folder: Path,
    checksum: Callable[[Path], Content] = checksum,
    names: Collection[str] | None = None,
) -> dict[str, str]:
    """Damaged files of a folder and their problems ("missing", "altered: ..."); empty for a whole folder.

    Args:
        folder: A folder with `checksums.json`.
        checksum: Function that returns size and hash of a file.
        names: Only these files are read; all by default. Names that the checksums lack are ignored.
    """
    try:
        wanted = recorded(folder)
    except RunError as error:
        return {CHECKSUMS: f"not readable: {_problem(error, folder / CHECKSUMS)}"}
    if wanted is None:
        return {CHECKSUMS: "missing"}
    chosen = wanted if names is None else {name: wanted[name] for name in wanted if name in names}
    found = {name: difference(folder / name, content, checksum) for name, content in chosen.items()}
    return {name: problem for name, problem in found.items() if problem}


def difference(path: Path, content: Content, checksum: Callable[[Path], Content] = checksum) -> str:
    """How a file differs from its recorded size and hash: "missing" or "altered: ..."; empty if it does not."""
    try:
        size = check_regular(path).st_size
        if size != content["bytes"]:
            return f"altered: it has {size:,} byte{'' if size == 1 else 's'}, but {content['bytes']:,} were written"
        found = checksum(path)
    except (MissingFileError, FileNotFoundError):
        return "missing"
    except RunError as error:
        return _problem(error, path)
    except OSError as error:
        return f"not readable: {error.strerror}"
    return "" if found["blake2b"] == content["blake2b"] else "altered: its checksum is not the one that was written"


def record(folder: Path, names: Collection[str], keep: Mapping[str, Content] | None = None) -> None:
    """Write `checksums.json` for some files of a folder; `keep` has recorded values to reuse without reading files."""
    contents = {name: (keep or {}).get(name) or checksum(folder / name) for name in sorted(names)}
    text = json.dumps(contents, indent=1) + "\n"
    write_whole(folder / CHECKSUMS, lambda part: part.write_text(text, encoding="utf-8"))


def _is_inside(name: str) -> bool:
    """True if a name such as `model.safetensors` or `folder/file` is of a file inside the folder."""
    parts = name.split("/")
    return not os.path.isabs(name) and "\0" not in name and "\\" not in name and not {"", ".", ".."} & {*parts}


def _problem(error: RunError, path: Path) -> str:
    """The message of an error about a file, without the file's name and the remedy."""
    return str(error).removeprefix(f"{path} is ").removeprefix("damaged: ").rpartition("; ")[0] or str(error)
