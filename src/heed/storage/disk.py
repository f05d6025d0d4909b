"""Writing that survives a kill and a full disk: whole files under their names, flushed to the disk, with checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from heed.errors import DiskError, HeedError, RunError
from heed.storage.files import kind_of

CHECKSUMS = "checksums.json"
_NOT_FOR_FOLDERS = {errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
"""Error numbers of systems that cannot flush a folder."""
_LONGEST_NAME = 255
"""Longest file name, in bytes, on nearly every file system."""


def write_whole(path: Path, write: Callable[[Path], object], needed: int | None = None) -> None:
    """Replace a file atomically: `write` writes to a temporary path, which is then renamed.

    Raises:
        DiskError: The disk is full (the message has the bytes `needed`, if known) or writing fails; an old file stays.
    """
    part = hidden(path, "part")
    with _explained(path, needed, part):
        write(part)
        flush(part)
        os.replace(part, path)
        flush(path.parent)


@contextmanager
def write_folder(final: Path, needed: int | None = None, *, checksums: bool = True) -> Iterator[Path]:
    """Write a folder that gets its name only when all its files are complete and on the disk; an old one is replaced.

    Args:
        final: The folder.
        needed: Bytes that it will take, if known.
        checksums: Write `checksums.json` too.

    Yields:
        The temporary folder to write into; afterwards it is renamed.

    Raises:
        DiskError: The disk is full or writing fails; the temporary folder is removed, and an old folder stays.
    """
    part, old = hidden(final, "part"), hidden(final, "old")
    with _explained(final, needed, part):
        _restore(old, final)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        files = sorted(path for path in part.rglob("*") if path.is_file())
        for path in files:
            flush(path)
        if checksums:
            write_checksums(part, [path.relative_to(part).as_posix() for path in files])
        flush(part)
        if final.exists():  # a folder cannot be replaced in one step
            os.replace(final, old)
        try:
            os.replace(part, final)
        except BaseException:
            _restore(old, final)
            raise
        flush(final.parent)
        shutil.rmtree(old, ignore_errors=True)


def _restore(old: Path, final: Path) -> None:
    """Move an old folder back if the new one that was to replace it was never completed."""
    if not old.exists():
        return
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(old, final)


def remove_folder(path: Path) -> None:
    """Delete a folder; it is renamed first, so that a half-deleted folder does not keep the name."""
    gone = hidden(path, "gone")
    shutil.rmtree(gone, ignore_errors=True)
    try:
        os.replace(path, gone)
    except FileNotFoundError:
        return
    except OSError:
        gone = path  # a full disk may refuse even a new name; freeing space matters more
    shutil.rmtree(gone, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Delete leftovers of killed writes and removals in a folder; move back old folders that were not replaced."""
    for path in folder.glob(".*.old"):
        _restore(path, path.with_name(path.name.removeprefix(".").removesuffix(".old")))
    for pattern in (".*.part", ".*.gone", ".tmp??????"):  # the last is safetensors' name for a file being written
        for path in folder.glob(pattern):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_file(path: Path) -> None:
    """Delete a file, if it is there.

    Raises:
        DiskError: It cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DiskError(f"cannot remove '{path}': {error.strerror}") from None


def checksum(path: Path) -> dict[str, Any]:
    """Size and BLAKE2b hash of a regular file.

    Raises:
        RunError: It is a folder, a pipe, a device or a socket; reading a pipe or device might never end.
    """
    found = path.stat()
    if kind := kind_of(found):
        raise RunError(f"{path} is {kind}, expected a file")
    with path.open("rb") as file:
        hashed = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=20))
    return {"bytes": found.st_size, "blake2b": hashed.hexdigest()}


def write_checksums(folder: Path, names: list[str]) -> None:
    """Write `checksums.json`: the files of a folder with size and hash."""
    text = json.dumps({name: checksum(folder / name) for name in names}, indent=1) + "\n"
    write_whole(folder / CHECKSUMS, lambda path: path.write_text(text, encoding="utf-8"))


def flush(path: Path) -> None:
    """Flush a file, or the file names of a folder, to the disk."""
    try:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        if not (path.is_dir() and error.errno in _NOT_FOR_FOLDERS):
            raise


def hidden(path: Path, ending: str) -> Path:
    """The name of a file or folder while it is written or removed: `.NAME.ENDING`."""
    return beside(path, ".", ending)


def beside(path: Path, before: str, ending: str) -> Path:
    """The path `BEFORE NAME.ENDING` (without blanks) in the same folder; NAME is cut if the whole is too long."""
    name = path.name
    while len(os.fsencode(f"{before}{name}.{ending}")) > _LONGEST_NAME:
        name = name[:-1]
    return path.with_name(f"{before}{name}.{ending}")


@contextmanager
def _explained(path: Path, needed: int | None, part: Path) -> Iterator[None]:
    """Context manager that removes the temporary file or folder on any error and explains errors of the disk."""
    try:
        yield
    except BaseException as error:
        with suppress(OSError):
            _remove(part)
        if (problem := disk_error(error, path, needed)) is not None:
            raise problem from None
        raise


def disk_error(error: BaseException, path: Path, needed: int | None = None) -> DiskError | None:
    """The error for a file or folder that could not be written; None for errors that are not of the disk.

    Args:
        error: Raised while writing.
        path: The file or folder to be written.
        needed: Its bytes, if known.
    """
    if isinstance(error, HeedError) or (number := error_number(error)) is None:
        return None
    wanted = "" if needed is None else f"{_mib(needed)} are needed, "
    kept = "an earlier version of it is unchanged"
    if number == errno.ENOSPC:
        full, room = "the disk is full", f"{wanted}{_mib(_free(path.parent))} are free"
        if _has_no_names(path.parent):
            full, room = "the disk has no room for more files", "each file takes an inode, and none is free"
        return DiskError(f"{full}: '{path}' could not be written ({room}); {kept}")
    needs = f" ({_mib(needed)} are needed)" if needed is not None else ""
    if number == errno.EDQUOT:
        return DiskError(f"your disk quota is used up: '{path}' could not be written{needs}; {kept}")
    if number == errno.EFBIG:
        limit = _largest_file()
        largest = "the file system allows no file so large" if limit is None else f"ulimit -f allows {_mib(limit)}"
        return DiskError(f"the file would be too large: '{path}' could not be written ({wanted}{largest}); {kept}")
    return DiskError(f"cannot write '{path}': {os.strerror(number)}")


def error_number(error: BaseException) -> int | None:
    """The errno of an error; libraries written in Rust put it into their message."""
    if isinstance(error, OSError):
        return error.errno or errno.EIO
    found = re.search(r"\(os error (\d+)\)", str(error)) if isinstance(error, Exception) else None
    return None if found is None else int(found[1])


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _free(folder: Path) -> int:
    return shutil.disk_usage(_existing(folder)).free


def _has_no_names(folder: Path) -> bool:
    """True if a file system has no inode for another file."""
    if not hasattr(os, "statvfs"):
        return False
    found = os.statvfs(_existing(folder))
    return found.f_files > 0 and found.f_favail == 0


def _largest_file() -> int | None:
    """Largest file in bytes that this process may write; None for no limit."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _mib(count: int) -> str:
    return f"{count:,} bytes ({count / 2**20:,.1f} MiB)"
