"""What the data files of a run held when it began, kept in `data.json`: whether they have changed since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heed.config import RunConfig, data_files
from heed.errors import RunError
from heed.storage.digests import digest_of
from heed.storage.disk import write_whole
from heed.storage.files import MissingFileError, read_object

DATA = "data.json"


def write_digests(config: RunConfig, folder: Path) -> None:
    """Write the digests of all data files that a configuration names into a run folder; no file where it names none."""
    files = {path: {"field": field, **digest} for path, field, digest in _digests(config)}
    if files or (folder / DATA).exists():
        text = json.dumps({"format": 1, "files": files}, indent=1, ensure_ascii=False) + "\n"
        write_whole(folder / DATA, lambda part: part.write_text(text, encoding="utf-8"))


def changed_files(config: RunConfig, folder: Path) -> list[str]:
    """Which data files are not what they were when the run in a folder began, and how, in a sentence each.

    Nothing is said of runs from before such digests were kept, nor of files that are missing now: reading them is an
    error of its own.
    """
    try:
        before = read_object(folder / DATA)["files"]
        known = {path: {name: v for name, v in digest.items() if name != "field"} for path, digest in before.items()}
    except MissingFileError:
        return []
    except (RunError, KeyError, AttributeError):
        return [f"{folder / DATA} is damaged, so that nobody can tell whether the data has changed since the run began"]
    return [
        f"{field}: '{path}' has changed since the run began: {_difference(known[path], digest)}"
        for path, field, digest in _digests(config)
        if known.get(path, digest) != digest
    ]


def _digests(config: RunConfig) -> list[tuple[str, str, dict[str, Any]]]:
    """The path, field and digest of every data file that can be read."""
    made = ((path, field, digest_of(Path(path))) for path, field in data_files(config).items())
    return [(path, field, digest) for path, field, digest in made if digest is not None]


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    for unit in ("files", "bytes"):
        if before.get(unit) != now.get(unit):
            old, new = (f"{one[unit]:,}" if isinstance(one.get(unit), int) else "no" for one in (before, now))
            return f"it had {old} {unit} and has {new}"
    return "it has as many bytes as before, but not the same ones, or not in the same order"
