"""The data files of a run: those that a run cannot read, and their changes since it began."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from heed.config import RunConfig, data_files
from heed.data.kinds.contents import picture_in
from heed.errors import DataError, RunError
from heed.storage.cache import digest_of
from heed.storage.disk import write_whole
from heed.storage.files import MissingFileError, kind_of, read_object
from heed.tasks import spec_of, suggest_task

DATA = "data.json"
"""Digests of a run's data files, kept to detect changes since the run began."""


def refuse_pipes(config: RunConfig) -> None:
    """Refuse to read the data of a run from anything but files and folders: a pipe can be read only once."""
    for path, field in data_files(config).items():
        try:
            kind = kind_of(os.stat(path))
        except (OSError, ValueError):  # reported when it is read
            continue
        if kind and not os.path.isdir(path):
            raise DataError(f"{field}: '{path}' is {kind}, but a run reads its data again later; save it to a file")


def refuse_left_behind(config: RunConfig) -> None:
    """Refuse to look for the data of a packed run, which knows only the names of its files, unless they are here."""
    paths = () if config.data.origin == "hub" else data_files(config)
    if path := next((name for name in paths if not os.path.isabs(name) and not os.path.exists(name)), None):
        what = f"no file '{path}' in this folder: a packed run does not contain its data"
        raise DataError(f"{what}; copy it here, or give files, as in heed evaluate RUN FILE")


def write_digests(config: RunConfig, folder: Path) -> None:
    """Write the digests of all data files that a configuration names into a run folder; nothing if it names none."""
    files = {path: {"field": field, **digest} for path, field, digest in _digests(config)}
    if files or (folder / DATA).exists():
        text = json.dumps({"format": 1, "files": files}, indent=1, ensure_ascii=False) + "\n"
        write_whole(folder / DATA, lambda part: part.write_text(text, encoding="utf-8"))


def judged_by(config: RunConfig, folder: Path) -> str:
    """A hash of all settings except those of training, and of the data files: validations may depend on them."""
    hashed = hashlib.blake2b(config.model_dump_json(exclude={"training"}).encode(), digest_size=16)
    with suppress(FileNotFoundError):
        hashed.update((folder / DATA).read_bytes())
    return hashed.hexdigest()


def changed_files(config: RunConfig, folder: Path) -> list[str]:
    """Describe each data file that has changed since the run in a folder began, in one sentence.

    Files of runs older than `data.json` and missing files are left out; reading a missing file raises its own error.
    """
    try:
        before = read_object(folder / DATA)["files"]
        digests = {path: {name: v for name, v in digest.items() if name != "field"} for path, digest in before.items()}
    except MissingFileError:
        return []
    except (RunError, KeyError, AttributeError):
        return [f"{folder / DATA} is damaged, so changes to the data since the run began cannot be detected"]
    return [
        f"{field}: '{path}' has changed since the run began: {_difference(digests[path], digest)}"
        for path, field, digest in _digests(config)
        if digests.get(path, digest) != digest
    ]


def _digests(config: RunConfig) -> list[tuple[str, str, dict[str, Any]]]:
    """The path, field and digest of every data file that can be read."""
    digests = ((path, field, digest_of(Path(path))) for path, field in data_files(config).items())
    # The folder that `data.folder` names may have much else in it, such as runs.
    return [(path, field, digest) for path, field, digest in digests if digest is not None and field != "data.folder"]


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    for unit in ("files", "bytes"):
        if before.get(unit) != now.get(unit):
            old, new = (f"{digest[unit]:,}" if isinstance(digest.get(unit), int) else "no" for digest in (before, now))
            return f"it had {old} {unit} and now has {new}"
    return "it has the same number of bytes, but different content"


def refuse_pictures(config: Any) -> None:
    """Refuse training files that contain pictures, unless the task reads pictures.

    Raises:
        DataError: The message names the command that can use the files.
    """
    takes = (content for content, _ in spec_of(config.task).takes)
    files = getattr(config.data, "train", None)
    if not isinstance(files, list) or config.data.origin != "files" or "pictures" in takes:
        return
    for file in files:
        if picture := picture_in(Path(file)):
            unit, remedy = spec_of(config.task).unit, suggest_task("pictures", Path(file))
            raise DataError(f"'{picture}' is a picture or an idx file; {config.task} reads {unit}s{remedy}")
