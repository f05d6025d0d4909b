"""Writing that survives a kill and a full disk: whole files under their names, flushed to the disk, with checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heed.errors import DiskError

CHECKSUMS = "checksums.json"
_NOT_FOR_FOLDERS = {errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
"""What systems answer that cannot flush a folder."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_whole(path: Path, write: Callable[[Path], object], needed: int | None = None) -> None:
    """Write a file so that its name always holds a whole one, the old or the new; `write` gets a temporary path.

    Raises:
        DiskError: The disk is full (the message has the bytes `needed`, if known) or refuses; an old file stays.
    """
    part = path.with_name(f".{path.name}.part")
    with _explained(path, needed, part):
        write(part)
        _flush(part)
        os.replace(part, path)
        _flush(path.parent)


@contextmanager
def write_folder(final: Path, needed: int | None = None) -> Iterator[Path]:
    """Write a folder that has its name only when all its files are whole and on the disk; an old one is replaced.

    Yields:
        The temporary folder to write into; afterwards checksums of its files are added and it is renamed.

    Raises:
        DiskError: The disk is full or refuses; the temporary folder is removed.
    """
    part = final.with_name(f".{final.name}.part")
    with _explained(final, needed, part):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        files = sorted(path for path in part.rglob("*") if path.is_file())
        for path in files:
            _flush(path)
        write_checksums(part, [path.relative_to(part).as_posix() for path in files])
        _flush(part)
        if final.exists():  # a folder cannot be replaced by one step
            remove_folder(final)
        os.replace(part, final)
        _flush(final.parent)


def remove_folder(path: Path) -> None:
    """Delete a folder; one that was deleted by half does not keep its name."""
    gone = path.with_name(f".{path.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    try:
        os.replace(path, gone)
    except FileNotFoundError:
        return
    except OSError:
        gone = path  # a full disk may refuse even a new name; freeing space matters more
    shutil.rmtree(gone, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Delete what killed writes and removals left in a folder."""
    for path in (*folder.glob(".*.part"), *folder.glob(".*.gone")):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def checksum(path: Path) -> dict[str, Any]:
    """Size and BLAKE2b hash of a file."""
    with path.open("rb") as file:
        hashed = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=20))
    return {"bytes": path.stat().st_size, "blake2b": hashed.hexdigest()}


def write_checksums(folder: Path, names: list[str]) -> None:
    """Write `checksums.json`: which files a folder holds, with size and hash."""
    text = json.dumps({name: checksum(folder / name) for name in names}, indent=1) + "\n"
    write_whole(folder / CHECKSUMS, lambda path: path.write_text(text, encoding="utf-8"))


def _flush(path: Path) -> None:
    """Have the system write a file or a folder's names to the disk now."""
    try:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        if not (path.is_dir() and error.errno in _NOT_FOR_FOLDERS):
            raise


@contextmanager
def _explained(path: Path, needed: int | None, part: Path) -> Iterator[None]:
    """On any error remove the temporary file or folder; explain those of the disk."""
    try:
        yield
    except BaseException as error:
        _remove(part)
        if _is_full(error):
            wanted = "" if needed is None else f"{_mib(needed)} are needed, "
            room = f"({wanted}{_mib(_free(path.parent))} are free)"
            kept = "what was there before is still there"
            raise DiskError(f"the disk is full: '{path}' could not be written {room}; {kept}") from None
        if isinstance(error, OSError):
            raise DiskError(f"cannot write '{path}': {error.strerror or error}") from None
        raise


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _FULL
    return type(error).__name__ == "SafetensorError" and f"os error {errno.ENOSPC}" in str(error)


def _free(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _mib(count: int) -> str:
    return f"{count:,} bytes ({count / 2**20:,.1f} MiB)"
