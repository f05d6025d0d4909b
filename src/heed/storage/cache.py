"""What reading, counting and learning from large files gave, kept on disk by content; and what a file's content is.

Everything is under `cache_folder()`: `entries/<key>/`, one folder for each thing kept, and `contents/`, which remembers
the checksums of large files. All of it may be deleted at any time; whoever has an entry open goes on reading it.

An entry is written by one process at a time, as every folder is that must survive a kill (`heed.storage.disk`), and is
held to its checksums whenever it is opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import FileLock

from heed.errors import DataError, DiskError
from heed.storage.disk import checksum, describe_damage, write_folder, write_whole

FORMAT = 2
"""Number of the format of everything kept; what another format wrote is not found."""
_RECORD = "record.json"
_LARGE = 1 << 26
"""Files larger than this many bytes are not read again to know their content where nothing has touched them."""
_IDENTITY = ("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
_SETTLED = 2.0
"""Seconds for which a file must have been left alone before its time stamps are trusted: they may be that coarse."""


class CacheError(DataError):
    """The cache folder cannot be written to, or is full."""


def cache_folder() -> Path:
    """`$HEED_CACHE`, else `heed` under `$XDG_CACHE_HOME` or `~/.cache`."""
    if "HEED_CACHE" in os.environ:
        return Path(os.environ["HEED_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "heed"


@dataclass(frozen=True)
class Entry:
    """A folder of the cache, with what its maker wrote about it and, where there is any, a remark for the user."""

    path: Path
    key: str
    record: Mapping[str, Any]
    remark: str = ""


def key_of(**what: Any) -> str:
    """A key for everything that decides an entry: plain values, compared as JSON; this version of heed is one."""
    what |= {"format": FORMAT, "heed": metadata.version("heed-attention")}
    text = json.dumps(what, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def find_entry(key: str) -> Entry | None:
    """The entry of a key, or None where there is none that is whole."""
    path = cache_folder() / "entries" / key
    if describe_damage(path, content_of):
        return None  # `make_entry` says what is wrong with it
    with suppress(OSError):
        os.utime(path)  # when it was last used
    return Entry(path, key, json.loads((path / _RECORD).read_text(encoding="utf-8")))


def make_entry(key: str, make: Callable[[Path], Mapping[str, Any]]) -> Entry:
    """The entry of a key, made if there is none or a damaged one; other processes that ask for it meanwhile wait.

    `make` writes files into the folder given, and returns what there is to say about them, as JSON.

    Raises:
        CacheError: The cache folder cannot be written to, or is full.
    """
    path = cache_folder() / "entries" / key
    with _writing(), _alone(path):
        if (entry := find_entry(key)) is not None:
            return entry
        damage = describe_damage(path, content_of) if path.exists() else {}
        with write_folder(path) as folder:
            record = make(folder)
            (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
    found = ", ".join(f"{name}: {problem}" for name, problem in damage.items())
    return Entry(path, key, record, f"warning: {path} was damaged ({found}) and has been made again" if found else "")


def temporary_folder() -> Path:
    """A new folder under the cache folder, which its maker removes.

    Raises:
        CacheError: The cache folder cannot be written to.
    """
    with _writing():
        cache_folder().mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="corpus-", dir=cache_folder()))


def content_of(path: Path) -> dict[str, Any]:
    """The checksum of a file (`heed.storage.disk.checksum`).

    A large file that has been left alone since it was last asked for is not read again. "Left alone" means the same
    device, inode, size, and times of modification and of change to the nanosecond; the last of them moves with every
    write and cannot be set by hand.
    """
    stat = path.stat()
    if stat.st_size < _LARGE:
        return checksum(path)
    memory = cache_folder() / "contents" / hashlib.blake2b(str(path.absolute()).encode(), digest_size=16).hexdigest()
    identity = [getattr(stat, name) for name in _IDENTITY]
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(memory.read_text(encoding="utf-8"))
        if known["identity"] == identity:
            return dict(known["content"])
    settled = time.time() - max(stat.st_mtime, stat.st_ctime) > _SETTLED
    content = checksum(path)
    if settled and [getattr(path.stat(), name) for name in _IDENTITY] == identity:
        text = json.dumps({"file": str(path.absolute()), "identity": identity, "content": content})
        with suppress(OSError, DiskError):  # it only saves time
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_whole(memory, lambda part: part.write_text(text, encoding="utf-8"))
    return content


def contents_of(paths: Sequence[str | Path]) -> list[dict[str, Any]] | None:
    """The contents of files; None where one is no file that could be read twice (a pipe, or missing)."""
    files = [Path(path) for path in paths]
    if not all(file.is_file() for file in files):
        return None
    try:
        return [content_of(file) for file in files]
    except OSError:
        return None  # whoever reads the file will say what is wrong with it


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Only one process at a time makes an entry; the lock goes with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock")
    with suppress(OSError):  # no locks on this file system: of two processes the later one replaces the entry
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _writing() -> Iterator[None]:
    """Errors of the cache folder as errors for the user."""
    try:
        yield
    except (OSError, DiskError) as error:
        said = error.strerror or error if isinstance(error, OSError) else error
        raise CacheError(
            f"cannot write to the cache folder {cache_folder()}: {said}; set HEED_CACHE to a folder with room, or "
            "raise data.in_memory to keep more examples in memory"
        ) from None
