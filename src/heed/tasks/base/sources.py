"""Digests of a run's data files, kept in `data.json` to detect changes since the run began."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heed.config import RunConfig, data_files
from heed.errors import RunError
from heed.storage.cache import digest_of
from heed.storage.disk import write_whole
from heed.storage.files import MissingFileError, read_object

DATA = "data.json"


def write_digests(config: RunConfig, folder: Path) -> None:
    """Write the digests of all data files that a configuration names into a run folder; nothing if it names none."""
    files = {path: {"field": field, **digest} for path, field, digest in _digests(config)}
    if files or (folder / DATA).exists():
        text = json.dumps({"format": 1, "files": files}, indent=1, ensure_ascii=False) + "\n"
        write_whole(folder / DATA, lambda part: part.write_text(text, encoding="utf-8"))


def changed_files(config: RunConfig, folder: Path) -> list[str]:
    """Describe each data file that has changed since the run in a folder began, in one sentence.

    Files of runs older than `data.json` and missing files are left out; reading a missing file raises its own error.
    """
    try:
        before = read_object(folder / DATA)["files"]
        known = {path: {name: v for name, v in digest.items() if name != "field"} for path, digest in before.items()}
    except MissingFileError:
        return []
    except (RunError, KeyError, AttributeError):
        return [f"{folder / DATA} is damaged, so changes to the data since the run began cannot be detected"]
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
            return f"it had {old} {unit} and now has {new}"
    return "it has the same number of bytes, but different content"
