"""Writing that survives a kill and a full disk: whole files and folders under their names, and outputs of commands.

Everything is written under a temporary name, flushed to the disk, and renamed.
"""

from __future__ import annotations

import errno
import glob
import io
import json
import mmap
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TextIO

from heed.errors import ConfigError, DiskError, HeedError, RunError
from heed.storage.files import CHECKSUMS, checksum

_NOT_FOR_FOLDERS = {errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
"""Error numbers of systems that cannot flush a folder."""
_WRONG_PATH = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Error numbers of a wrong path, as opposed to a problem with the disk."""
_NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "the file would be too large for the file system or ulimit -f",
}
_OPEN_FILES = ("/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/")
_STALE = 86_400
"""Seconds after which the temporary folder of another process counts as left by a kill."""
_LONGEST_NAME = 255
"""Longest file name, in bytes, on nearly every file system."""


def write_whole(path: Path, write: Callable[[Path], object], *, replace: bool = True) -> None:
    """Replace a file atomically: `write` writes to a temporary path, which is then renamed.

    Raises:
        DiskError: The disk is full or writing fails; an old file stays.
        RunError: The file exists, and `replace` is False.
    """
    part = hidden(path, "part") if replace else _part(path)
    with _explained(path, None, left := [part]):
        _remove(part)
        part.touch(exist_ok=False)  # O_EXCL: no link is followed
        write(part)
        flush(part)
        if replace:
            os.replace(part, path)
        else:
            with _refuses_existing(path):
                path.touch(exist_ok=False)
            left.append(path)
            os.replace(part, path)
        flush(path.parent)


@contextmanager
def write_folder(
    final: Path, needed: int | None = None, *, checksums: bool = True, replace: bool = True
) -> Iterator[Path]:
    """Write a folder that gets its name only when all its files are complete and on the disk; an old one is replaced.

    Args:
        final: The folder.
        needed: Bytes that it will take, if known.
        checksums: Write `checksums.json` too.
        replace: Replace an old folder with files.

    Yields:
        The temporary folder to write into; afterwards it is renamed.

    Raises:
        ConfigError: The name of the folder is not UTF-8.
        DiskError: The disk is full or writing fails; the temporary folder is removed, and an old folder stays.
        RunError: The folder has files, and `replace` is False.
    """
    refuse_not_utf8(final)
    part, old = hidden(final, "part") if replace else _part(final), hidden(final, "old")
    with _explained(final, needed, [part]):
        _restore(old, final)
        for left in final.parent.glob(f".{glob.escape(final.name)}.*part"):
            if time.time() - left.lstat().st_mtime > _STALE:
                _remove(left)
        shutil.rmtree(part, ignore_errors=True)
        _remove(part)
        _mkdir(part, exist_ok=False)
        yield part
        files = sorted(path for path in part.rglob("*") if path.is_file())
        for path in files:
            flush(path)
        if checksums:
            write_checksums(part, [path.relative_to(part).as_posix() for path in files])
        flush(part)
        if not replace:
            with suppress(OSError):
                final.rmdir()  # only if empty
        elif final.exists():  # a folder cannot be replaced in one step
            os.replace(final, old)
        try:
            with nullcontext() if replace else _refuses_existing(final):
                os.replace(part, final)  # replaces a folder only if it is empty
        except BaseException:
            _restore(old, final)
            raise
        flush(final.parent)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _refuses_existing(path: Path) -> Iterator[None]:
    """Context manager that explains why a file or folder cannot be renamed to an existing name."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise already_exists(path) from None
        raise


def already_exists(path: Path) -> RunError:
    """The error for an output that exists."""
    return RunError(f"'{path}' already exists and is never overwritten; give another --out")


def write_outputs(contents: Mapping[Path, str | bytes]) -> None:
    """Write files that belong together and that the user named: none gets its name before all are complete.

    Raises:
        ConfigError: A path is wrong.
        DiskError: The disk is full or writing fails; old files stay.
    """
    with ExitStack() as stack:
        files = {path: stack.enter_context(_open_output(path, keeps_lines=False)) for path in contents}
        for path, content in contents.items():
            data = content.encode("utf-8") if isinstance(content, str) else content
            with _explained_output(path, needed=len(data)):
                files[path].buffer.write(data)
                files[path].flush()
                if not _is_written_directly(path):
                    os.fsync(files[path].fileno())


def open_output(path: Path) -> AbstractContextManager[TextIO]:
    """Open a file for lines of results that the user named; it gets its name when it is complete.

    It is written as `FILE.part` in the same folder. After an error the complete lines stay there; a note of the error
    says so. Of two programs that write the same file, the last one to end wins. A path that is not a regular file (a
    terminal, a pipe, /dev/null) is written to directly.

    Raises:
        ConfigError: The path is wrong: its folder is missing, or it is the name of a folder.
        DiskError: The disk is full or writing fails; an old file stays.
    """
    return _open_output(path, keeps_lines=True)


def check_output(path: Path | None) -> None:
    """Refuse a path at which no output can be written, before the work that it is for.

    Raises:
        ConfigError: The path is wrong.
        DiskError: Nothing can be written there.
    """
    if path is None or _is_written_directly(path):
        return
    final = Path(os.path.realpath(path))
    trial = temporary_name(final, ".", f"{os.getpid()}.part")
    with _explained_output(path, final, trial):
        _mode_of_output(path, final, trial)
        trial.touch(exist_ok=False)
        trial.unlink()


@contextmanager
def _open_output(path: Path, keeps_lines: bool) -> Iterator[TextIO]:
    if _is_written_directly(path):
        with _explained_output(path), path.open("w", encoding="utf-8") as direct:
            yield direct
        return
    final = Path(os.path.realpath(path))  # a link stays a link
    part = temporary_name(final, "", "part")
    with _explained_output(path, final, part):
        mode = _mode_of_output(path, final, part)
        raw = open(part, "x+b", buffering=0)
    stopping = _FailedWritesStop(raw)
    text = io.TextIOWrapper(io.BufferedWriter(stopping), encoding="utf-8")
    try:
        with _explained_output(path, part):
            if mode is not None:
                os.chmod(part, mode)
        with _explained_output(path):
            yield text
            text.flush()
        with _explained_output(path, final, part):
            os.fsync(raw.fileno())
            if _is_open_as(raw, part):
                os.replace(part, final)
                flush(final.parent)
            else:  # another program has begun to write the same output
                raw.seek(0)
                write_whole(final, lambda again: again.write_bytes(raw.readall()))
    except BaseException as error:
        with suppress(OSError):
            text.flush()
        count = _cut_to_lines(raw) if keeps_lines else 0
        if _is_open_as(raw, part):
            if count:
                shown = part if path.is_symlink() else path.with_name(part.name)
                lines = "the line written before is" if count == 1 else f"the {count:,} lines written before are"
                error.add_note(f"{lines} in '{shown}'")
            else:
                with suppress(OSError):
                    part.unlink()
        raise
    finally:
        stopping.close()  # so that no buffered data can follow


class _FailedWritesStop(io.RawIOBase):
    """A file that refuses all writes after a failed one: data that a buffer retries may be partly written already."""

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        self._refused: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def write(self, data: Any) -> int:
        if self._refused is not None:
            raise self._refused
        try:
            return self._raw.write(data)
        except OSError as error:
            self._refused = error
            raise

    def close(self) -> None:
        super().close()
        self._raw.close()


def _mode_of_output(path: Path, final: Path, part: Path) -> int | None:
    """The permissions of the old output, if there is one; removes the part that a killed program has left."""
    mode = None
    with suppress(FileNotFoundError):
        mode = final.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(f"cannot write '{path}': it is a folder; name a file in it")
        if not os.access(final, os.W_OK):  # it must be reported now, not after hours of work
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if part.exists() and not part.is_file():
        raise ConfigError(f"cannot write '{path}': '{part}' is in the way; remove it")
    part.unlink(missing_ok=True)
    return None if mode is None else stat.S_IMODE(mode)


def _is_open_as(raw: io.FileIO, path: Path) -> bool:
    """True if a path still is the open file."""
    try:
        return os.path.samestat(os.fstat(raw.fileno()), path.stat())
    except OSError:
        return False


def _cut_to_lines(raw: io.FileIO) -> int:
    """Truncate a file to its complete lines and return their number."""
    with suppress(OSError, ValueError):  # an empty file cannot be mapped
        with mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content:
            end = content.rfind(b"\n") + 1
            count = sum(1 for _ in iter(content.readline, b"")) - (end < len(content))
        raw.truncate(end)
        return count
    return 0


def _is_written_directly(path: Path) -> bool:
    """True for a terminal, a pipe, a device, or the name of an open file such as /dev/stdout."""
    _refuse_impossible(path)
    is_special = os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))
    return is_special or str(path.absolute()).startswith(_OPEN_FILES)


@contextmanager
def _explained_output(path: Path, *temporary: Path, needed: int | None = None) -> Iterator[None]:
    """Context manager that explains errors of the disk and of a wrong path, but not those of other files."""
    earlier = _version(path)
    try:
        yield
    except BrokenPipeError:  # the reader closed the pipe: commands end silently
        raise
    except OSError as error:
        if error.filename is not None and Path(error.filename) not in (path, *temporary):
            raise
        if _is_written_directly(path):  # it has no old content and no free space
            raise DiskError(f"cannot write '{path}': {error.strerror}") from None
        if error.errno in _WRONG_PATH:
            hint = f"; create the folder '{path.parent}' first" if error.errno == errno.ENOENT else ""
            raise ConfigError(f"cannot write '{path}': {os.strerror(error.errno)}{hint}") from None
        raise (disk_error(error, path, needed, earlier) or error) from None


def make_folder(path: Path, exist_ok: bool = True) -> bool:
    """Make a folder and its parents; False if it already exists and `exist_ok` is False.

    Raises:
        ConfigError: The path is wrong: it, or one of its parents, is a file.
        DiskError: The disk is full or writing fails.
    """
    _refuse_impossible(path)
    try:
        _mkdir(path, exist_ok)
    except (FileExistsError, NotADirectoryError) as error:
        if isinstance(error, FileExistsError) and not exist_ok:
            return False
        raise ConfigError(f"cannot create folder '{path}': it, or one of its parents, is a file") from None
    except OSError as error:
        raise (disk_error(error, path) or error) from None
    return True


def refuse_not_utf8(path: Path) -> None:
    """Refuse a name that is not UTF-8 for a folder of tensors, whose library cannot open it (ConfigError)."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"the name of folder {str(path)!a} is not UTF-8; give another --out") from None


def _refuse_impossible(path: Path) -> None:
    """Refuse a path with a NUL or half of a surrogate pair that stands for no byte."""
    try:
        os.lstat(path)
    except OSError:
        pass
    except ValueError:
        raise ConfigError(f"cannot write {str(path)!a}: no file or folder can have this name") from None


def _mkdir(path: Path, exist_ok: bool) -> None:
    """Make a folder and its parents, none of which stays if that fails (`OSError`)."""
    missing = [folder for folder in path.parents if not os.path.exists(folder)]
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except OSError:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def _restore(old: Path, final: Path) -> None:
    """Move an old folder back if the new one that was to replace it was never completed."""
    if not os.path.lexists(old):
        return
    if final.exists() or not old.is_dir() or old.is_symlink():
        _remove(old)
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
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
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


def write_checksums(folder: Path, names: Collection[str], keep: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Write `checksums.json` for some files of a folder; `keep` has recorded values to reuse without reading files."""
    contents = {name: (keep or {}).get(name) or checksum(folder / name) for name in sorted(names)}
    text = json.dumps(contents, indent=1) + "\n"
    write_whole(folder / CHECKSUMS, lambda part: part.write_text(text, encoding="utf-8"))


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
    return temporary_name(path, ".", ending)


def _part(path: Path) -> Path:
    """An unpredictable name of a file or folder while it is written, so that nobody can put a link there."""
    return hidden(path, f"{secrets.token_hex(8)}.part")


def temporary_name(path: Path, before: str, ending: str) -> Path:
    """The path `BEFORE NAME.ENDING` (without blanks) in the same folder; NAME is cut if the whole is too long.

    Raises:
        ConfigError: No file can have this name.
    """
    _refuse_impossible(path)
    name = path.name
    while len(os.fsencode(temporary := f"{before}{name}.{ending}")) > _LONGEST_NAME:
        name = name[:-1]
    return path.with_name(temporary)


@contextmanager
def _explained(path: Path, needed: int | None, left: Sequence[Path]) -> Iterator[None]:
    """Context manager that removes temporary files or folders on any error and explains errors of the disk."""
    earlier = _version(path)
    try:
        yield
    except BaseException as error:
        for part in left:
            with suppress(OSError):
                _remove(part)
        if (problem := disk_error(error, path, needed, earlier)) is not None:
            raise problem from None
        raise


def _version(path: Path) -> tuple[int, int] | None:
    """Identity of the file or folder at a path; None if there is none, or only an empty folder."""
    try:
        return None if path.is_dir() and not os.listdir(path) else identity_of(path)
    except OSError:
        return None


def identity_of(path: Path) -> tuple[int, int]:
    """Device and inode of a file or folder."""
    status = path.stat()
    return status.st_dev, status.st_ino


def disk_error(
    error: BaseException, path: Path, needed: int | None = None, earlier: tuple[int, int] | None = None
) -> DiskError | None:
    """The error for a file or folder that could not be written; None for errors that are not of the disk.

    Args:
        error: Raised while writing.
        path: The file or folder to be written.
        needed: Its bytes, if known.
        earlier: The `_version` at the path before writing began.
    """
    if isinstance(error, HeedError) or (number := error_number(error)) is None:
        return None
    if number not in _NO_ROOM:
        return DiskError(f"cannot write '{path}': {os.strerror(number)}")
    system = os.statvfs(next(folder for folder in path.parents if folder.exists()))
    names = "" if system.f_favail or not system.f_files else ", but no inode for another file"
    requirement = "" if needed is None else f"{_mib(needed)} and room for names and blocks are needed, "
    unchanged = "; an earlier version of it is unchanged" * (earlier is not None and _version(path) == earlier)
    room = f"{requirement}{_mib(system.f_bavail * system.f_frsize)} are free{names}"
    return DiskError(f"{_NO_ROOM[number]}: '{path}' could not be written ({room}){unchanged}")


def error_number(error: BaseException) -> int | None:
    """The errno of an error; libraries written in Rust put it into their message."""
    if isinstance(error, OSError):
        return error.errno or errno.EIO
    match = re.search(r"\(os error (\d+)\)", str(error)) if isinstance(error, Exception) else None
    return None if match is None else int(match[1])


def _mib(count: int) -> str:
    return f"{count:,} bytes ({count / 2**20:,.1f} MiB)"
