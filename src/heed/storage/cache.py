"""What reading, counting and learning from large files gave, kept on disk by content; and what a file's content is.

Everything is under `cache_folder()`: `entries/<key>/`, one folder for each thing kept, and `contents/`, which remembers
the contents of large files. All of it may be deleted at any time; whoever has an entry open goes on reading it.

An entry is written into a temporary folder and renamed when it is whole, by one process at a time. Its `entry.json`
names every file with its content, and is held to it whenever the entry is opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: two processes may both write an entry; the second throws its own away
    fcntl = None  # type: ignore[assignment]

from heed.errors import DataError

__all__ = [
    "FORMAT",
    "CacheError",
    "Entry",
    "cache_folder",
    "contents_of",
    "find_entry",
    "key_of",
    "make_entry",
    "temporary_folder",
]

FORMAT = 1
"""Number of the format of everything kept; what another format wrote is not found."""
_MANIFEST = "entry.json"
_LARGE = 1 << 26
"""Files larger than this many bytes are not read again to know their content where nothing has touched them."""
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
    """A folder of the cache.

    Attributes:
        path: The folder.
        key: What it is known by.
        record: What its maker wrote about it.
        remark: What a user should know of it, or nothing.
    """

    path: Path
    key: str
    record: Mapping[str, Any]
    remark: str = ""


def key_of(**what: Any) -> str:
    """A key for everything that decides an entry: plain values, compared as JSON; this version of heed is one."""
    text = json.dumps(
        {"format": FORMAT, "heed": metadata.version("heed-attention"), **what}, sort_keys=True, ensure_ascii=False
    )
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def find_entry(key: str) -> Entry | None:
    """The entry of a key, or None where there is none that is whole."""
    path = cache_folder() / "entries" / key
    try:
        entry = Entry(path, key, _check(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # `make_entry` says what is wrong with it
    with suppress(OSError):
        os.utime(path)  # when it was last used
    return entry


def make_entry(key: str, make: Callable[[Path], Mapping[str, Any]]) -> Entry:
    """The entry of a key, made if there is none or a damaged one; other processes that ask for it meanwhile wait.

    Args:
        key: From `key_of`.
        make: Writes files into the folder given, and returns what there is to say about them, as JSON.

    Raises:
        CacheError: The cache folder cannot be written to, or is full.
    """
    with _alone(key):
        entry = find_entry(key)
        if entry is not None:
            return entry
        path = cache_folder() / "entries" / key
        with _writing(), _temporary(path) as folder:
            remark = _remove_damaged(path)
            record = make(folder)
            files = {file.name: _digest(file) for file in sorted(folder.iterdir())}
            (folder / _MANIFEST).write_text(json.dumps({"files": files, "record": record}), encoding="utf-8")
            for written in (*folder.iterdir(), folder):
                _sync(written)
            try:
                folder.rename(path)
            except OSError:  # another process was faster, where files cannot be locked
                if not path.is_dir():
                    raise
            _sync(path.parent)
    return Entry(path, key, record, remark)


def _check(path: Path) -> Mapping[str, Any]:
    """The record of an entry whose files are all as they were written."""
    manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
    for name, content in manifest["files"].items():
        if content_of(path / name) != content:
            raise ValueError(f"{name} is not what was written")
    record: Mapping[str, Any] = manifest["record"]
    return record


def _remove_damaged(path: Path) -> str:
    """Remove what is left of an entry, and say what was wrong with it."""
    if not path.exists():
        return ""
    try:
        _check(path)
    except FileNotFoundError as error:
        problem = f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = str(error)
    shutil.rmtree(path)
    return f"warning: {path} was damaged ({problem}) and has been made again"


def temporary_folder() -> Path:
    """A new folder under the cache folder, which its maker removes.

    Raises:
        CacheError: The cache folder cannot be written to.
    """
    with _writing():
        cache_folder().mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="corpus-", dir=cache_folder()))


def content_of(path: Path) -> str:
    """A digest of the whole content of a file.

    A large file that has been left alone since it was last asked for is not read again. "Left alone" means the same
    device, inode, size, and times of modification and of change to the nanosecond; the last of them moves with every
    write and cannot be set by hand.
    """
    stat = path.stat()
    if stat.st_size < _LARGE:
        return _digest(path)
    memory = cache_folder() / "contents" / hashlib.blake2b(str(path.absolute()).encode(), digest_size=16).hexdigest()
    identity = _identity(path)
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(memory.read_text(encoding="utf-8"))
        if known["identity"] == identity:
            return str(known["content"])
    settled = time.time() - max(stat.st_mtime, stat.st_ctime) > _SETTLED
    content = _digest(path)
    if settled and _identity(path) == identity:
        with suppress(OSError):  # it only saves time
            memory.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=memory.parent, delete=False, encoding="utf-8") as file:
                json.dump({"file": str(path.absolute()), "identity": identity, "content": content}, file)
            os.replace(file.name, memory)
    return content


def contents_of(paths: Sequence[str | Path]) -> list[str] | None:
    """The contents of files; None where one is no file that could be read twice (a pipe, or missing)."""
    files = [Path(path) for path in paths]
    if not all(file.is_file() for file in files):
        return None
    try:
        return [content_of(file) for file in files]
    except OSError:
        return None  # whoever reads the file will say what is wrong with it


def _identity(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _sync(path: Path) -> None:
    """Make sure that a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some file systems cannot do that to a folder
        if path.is_file():
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _alone(key: str) -> Iterator[None]:
    """Only one process at a time for each key, where files can be locked; the lock goes with the process."""
    with _writing():
        folder = cache_folder() / "entries"
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"{key}.lock").open("w")
    with file:
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _temporary(entry: Path) -> Iterator[Path]:
    """A folder beside an entry, to be renamed into it."""
    if fcntl is not None:  # nobody else is at it, so these were left by processes that were killed
        for left in entry.parent.glob(f"{entry.name}.making-*"):
            shutil.rmtree(left, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=f"{entry.name}.making-", dir=entry.parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)  # gone already where it was renamed


@contextmanager
def _writing() -> Iterator[None]:
    """Errors of the cache folder as errors for the user."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"cannot write to the cache folder {cache_folder()}: {error.strerror or error}; set HEED_CACHE to a folder "
            "with room, or raise data.in_memory to keep more pairs in memory"
        ) from None
