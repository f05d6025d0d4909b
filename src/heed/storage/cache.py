"""Results of reading, counting and learning from large files, cached on disk by the content of the files.

Under `cache_folder()`: `entries/<key>/`, a folder per result, and `contents/`, the checksums of large files. All of it
may be deleted at any time. One process at a time writes an entry, and its checksums are verified when it is opened.

The key is the content of the files, every setting that decides the result, and the version of heed: a file that changed
is read again, and a changed setting causes what depends on it to be made again. The content of a file is not read again
in this process (of a large file, in any) if device, inode, size and both its times are unchanged. A damaged entry is
reported and rebuilt. heed never removes entries; a run in training has its files open and continues if the folder is
removed.

`digest_of` computes digests of data files and folders, cheap enough for every start: of a folder, names and sizes of
all files and the contents of at most 2,000. Files that a file names (the pictures of a table) are not compared.
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
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, cast

from filelock import FileLock

from heed.errors import DataError, DiskError
from heed.storage.disk import write_folder, write_whole
from heed.storage.files import Content, cache_folder, checksum, describe_damage

FORMAT = 3
"""Format of entries; entries of another format are ignored."""
_RECORD = "record.json"
_LARGE = 1 << 26  # bytes; the checksums of files from this size on are remembered
_IDENTITY = ("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
_SETTLED = 2.0  # seconds without a change after which time stamps of whole seconds, and perhaps two, are trusted
_FINE = 0.05  # the same for time stamps with a fraction


class CacheError(DataError):
    """The cache folder cannot be written to, or is full."""


class Entry(NamedTuple):
    """A cached folder, the JSON record its maker returned, and a remark for the user or ""."""

    path: Path
    key: str
    record: Mapping[str, Any]
    remark: str = ""


def key_of(**what: Any) -> str:
    """The key of an entry: a hash of everything it depends on, as JSON, and of this version of heed."""
    what |= {"format": FORMAT, "heed": metadata.version("heed-attention")}
    text = json.dumps(what, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def find_entry(key: str) -> Entry | None:
    """The entry of a key; None if it is missing or damaged."""
    path = cache_folder() / "entries" / key
    if describe_damage(path, content_of):
        return None
    with suppress(OSError):
        os.utime(path)  # records the time of last use
    return Entry(path, key, json.loads((path / _RECORD).read_text(encoding="utf-8")))


def make_entry(key: str, make: Callable[[Path], Mapping[str, Any]]) -> Entry:
    """Return the entry of a key; if missing or damaged, `make` writes its files into a folder and returns its record.

    Other processes that ask for the same entry wait meanwhile.

    Raises:
        CacheError: The cache folder cannot be written to, or is full.
    """
    path = cache_folder() / "entries" / key
    with _writing(), _locked(path):
        if (entry := find_entry(key)) is not None:
            return entry
        damage = describe_damage(path, content_of) if path.exists() else {}
        with write_folder(path) as folder:
            record = make(folder)
            (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
    problems = ", ".join(f"{name}: {problem}" for name, problem in damage.items())
    remark = f"warning: {path} was damaged ({problems}) and has been rebuilt" if problems else ""
    return Entry(path, key, record, remark)


def temporary_entry(make: Callable[[Path], Mapping[str, Any]]) -> Entry:
    """An entry without a key, in a temporary folder that its user removes.

    Raises:
        CacheError: The cache folder cannot be written to.
    """
    with _writing():
        cache_folder().mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="corpus-", dir=cache_folder()))
    try:
        return Entry(folder, "", make(folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def content_of(path: Path) -> Content:
    """The checksum of a file, which is not read again while its inode, size and time stamps stay the same.

    That holds within a process, for a large file also after it. The time of change (ctime) is updated by every write
    and cannot be set by hand.
    """
    stat = path.stat()
    age = time.time() - max(stat.st_mtime, stat.st_ctime)
    if age <= (_FINE if stat.st_ctime_ns % 1_000_000_000 else _SETTLED):
        return checksum(path)
    return _settled_content(path.absolute(), tuple(getattr(stat, name) for name in _IDENTITY))


@lru_cache(maxsize=256)
def _settled_content(path: Path, identity: tuple[int, ...]) -> Content:
    """The checksum of a file that has not changed for a while."""
    record = cache_folder() / "contents" / hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
    large = path.stat().st_size >= _LARGE
    with suppress(OSError, ValueError, KeyError, TypeError):
        remembered = json.loads(record.read_text(encoding="utf-8")) if large else {}
        if tuple(remembered["identity"]) == identity:
            return cast(Content, remembered["content"])
    content = checksum(path)
    if large and tuple(getattr(path.stat(), name) for name in _IDENTITY) == identity:
        text = json.dumps({"file": str(path), "identity": identity, "content": content})
        with suppress(OSError, DiskError):  # it only saves time
            record.parent.mkdir(parents=True, exist_ok=True)
            write_whole(record, lambda part: part.write_text(text, encoding="utf-8"))
    return content


def contents_of(paths: Sequence[str | Path]) -> list[Any] | None:
    """The checksums of files; for a folder, those of all files in it by name.

    None if one is missing, unreadable or a pipe (reading it reports the error).
    """
    with suppress(OSError):
        contents: list[Any] = []
        for path in map(Path, paths):
            if path.is_dir():
                files = [file for file in sorted(path.rglob("*")) if not file.is_dir()]
                within = contents_of(files)
                if within is None:
                    return None
                contents.append(dict(zip((str(file.relative_to(path)) for file in files), within, strict=True)))
            elif path.is_file():
                contents.append(content_of(path))
            else:
                return None
        return contents
    return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Context manager that holds the lock of an entry; the lock ends with the process."""
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
    """Context manager that turns errors of the cache folder into `CacheError`."""
    try:
        yield
    except (OSError, DiskError) as error:
        problem = f"cannot write to the cache folder {cache_folder()}: {getattr(error, 'strerror', None) or error}"
        raise CacheError(f"{problem}; set HEED_CACHE to a folder with room") from None


_FILES = 2_000
"""Files of a folder whose contents are read, spread evenly over their names; of the others only names and sizes."""


def digest_of(path: Path) -> dict[str, Any] | None:
    """The size and a hash of a file or folder, to detect changes.

    Args:
        path: A regular file; or a folder, by the names and sizes of all its files and the contents of at most 2,000.

    Returns:
        Plain values; None if it is missing, unreadable, or a pipe or device, which can be read only once.
    """
    with suppress(OSError):
        if path.is_file():
            return dict(content_of(path))
        if path.is_dir():
            files = {file.relative_to(path).as_posix(): file for file in _visible(path)}
            hashed, every = hashlib.blake2b(digest_size=20), -(-len(files) // _FILES)
            total = 0
            for number, (name, file) in enumerate(sorted(files.items())):
                size = file.stat().st_size
                total += size
                hashed.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
                if number % every == 0:
                    hashed.update(content_of(file)["blake2b"].encode())
            return {"files": len(files), "bytes": total, "blake2b": hashed.hexdigest()}
    return None


def _visible(folder: Path) -> Iterator[Path]:
    """Every file below a folder that is not hidden; links to folders, which may lead back, are not followed."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (path for name in names if not name.startswith(".") and (path := Path(place, name)).is_file())
