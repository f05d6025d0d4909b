"""Output files named by the user: an old file stays until the new one is complete.

A file is written as `FILE.part` in the same folder, flushed to the disk, and renamed. A path that is not a regular file
(a terminal, a pipe, /dev/null) is written to directly.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from heed.errors import ConfigError, DiskError, HeedError
from heed.storage.disk import beside, disk_error, error_number, flush

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_WRONG_PATH = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Error numbers of a wrong path, as opposed to a problem with the disk."""
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL}
_OPEN_FILES = ("/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/")
_BLOCK = 2**20


@contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """Open a file for lines of results; it gets its name when it is complete.

    After an error the complete lines stay in `FILE.part`; a note of the error says so.

    Raises:
        ConfigError: The path is wrong: its folder is missing, or it is the name of a folder.
        DiskError: The disk is full or writing fails; an old file stays.
    """
    if _is_written_directly(path):
        with _explained_device(path), path.open("w", encoding="utf-8") as direct:
            yield direct
        return
    with _explained(path):
        part = _Part(path)
    text = io.TextIOWrapper(io.BufferedWriter(_Once(part.raw)), encoding="utf-8")
    try:
        with _explained_lines(path):
            yield text
            text.flush()
        with _explained(path):
            part.finish()
    except BaseException as error:
        with suppress(OSError):
            text.flush()
        if left := part.keep_lines():
            error.add_note(left)
        raise
    finally:
        text.close()


def write_outputs(contents: Mapping[Path, str | bytes]) -> None:
    """Write files that belong together: none gets its name before all are complete.

    Line ends are not converted.

    Raises:
        ConfigError: A path is wrong.
        DiskError: The disk is full or writing fails; old files stay.
    """
    parts: list[_Part] = []
    try:
        for path, content in contents.items():
            data = content.encode("utf-8") if isinstance(content, str) else content
            if _is_written_directly(path):
                with _explained_device(path):
                    path.write_bytes(data)
                continue
            with _explained(path, len(data)):
                parts.append(_Part(path))
                parts[-1].write(data)
        for part in parts:
            with _explained(part.asked):
                part.finish()
    finally:
        for part in parts:
            part.raw.close()
        for part in parts:
            part.discard()


def make_folder(path: Path) -> None:
    """Make a folder for results, and its parents; it may already exist.

    Raises:
        ConfigError: The path is wrong: it, or one of its parents, is a file.
        DiskError: The disk is full or writing fails.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"cannot create folder '{path}': it, or one of its parents, is a file") from None
    except OSError as error:
        raise (disk_error(error, path) or error) from None


class _Once(io.RawIOBase):
    """A file that refuses all writes after a failed one: data that a buffer retries may be partly written already."""

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        self._refused: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._refused is not None:
            raise self._refused
        try:
            return self._raw.write(data)
        except OSError as error:
            self._refused = error
            raise

    @property
    def closed(self) -> bool:
        return self._raw.closed

    def close(self) -> None:
        self._raw.close()


class _Part:
    """`FILE.part`, open for this process alone.

    Attributes:
        asked: The file as the user named it.
        raw: The open file, unbuffered.
    """

    def __init__(self, asked: Path) -> None:
        self.asked = asked
        self._final = Path(os.path.realpath(asked))  # a link stays a link
        self._path = beside(self._final, "", "part")
        self._done = False
        with suppress(FileNotFoundError):  # an unwritable file must be reported now, not after hours of work
            mode = self._final.stat().st_mode
            if stat.S_ISDIR(mode):
                raise ConfigError(f"cannot write '{asked}': it is a folder; name a file in it")
            if not os.access(self._final, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        self.raw = self._opened()
        try:
            with suppress(FileNotFoundError):
                self._path.chmod(stat.S_IMODE(self._final.stat().st_mode))
        except BaseException:
            self.discard()
            raise

    def _opened(self) -> io.FileIO:
        while True:
            raw = open(self._path, "r+b", buffering=0, opener=_open)
            try:
                if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
                    raise ConfigError(f"cannot write '{self.asked}': '{self._path}' is in the way; remove it")
                _lock(raw, self)
                with suppress(FileNotFoundError):  # another process may have renamed it before it was locked
                    if os.path.samestat(os.fstat(raw.fileno()), self._path.stat()):
                        raw.truncate(0)
                        return raw
            except BaseException:
                raw.close()
                raise
            raw.close()

    def write(self, data: bytes) -> None:
        """Write all, and flush it to the disk."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.raw.write(rest) :]
        os.fsync(self.raw.fileno())

    def finish(self) -> None:
        """Flush to the disk and rename."""
        os.fsync(self.raw.fileno())
        os.replace(self._path, self._final)
        self._done = True
        flush(self._final.parent)

    def keep_lines(self) -> str:
        """Keep the complete lines and return a message that says where they are; "" if there is none."""
        if self._done:
            return ""
        try:
            count = self._cut()
        except OSError:
            count = 0
        if not count:
            self.discard()
            return ""
        self.raw.close()  # so that no buffered data can follow
        lines = "the line written before is" if count == 1 else f"the {count:,} lines written before are"
        return f"{lines} in '{self}'"

    def _cut(self) -> int:
        """Truncate the file to its complete lines and return their number."""
        self.raw.seek(0)
        count = position = end = 0
        while block := self.raw.read(_BLOCK):
            count += block.count(b"\n")
            if (last := block.rfind(b"\n")) >= 0:
                end = position + last + 1
            position += len(block)
        self.raw.truncate(end)
        return count

    def discard(self) -> None:
        """Close, and remove an unfinished file."""
        self.raw.close()
        if not self._done:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def __str__(self) -> str:
        """The path as the user would type it."""
        return str(self._path if self.asked.is_symlink() else self.asked.with_name(self._path.name))


def _open(path: str, flags: int) -> int:
    """Open for reading and writing, creating the file if it is missing; links are not followed, pipes do not block."""
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _lock(raw: io.FileIO, part: _Part) -> None:
    """Lock a file for this process, where the system has locks; the lock ends with the process."""
    if fcntl is None:
        return
    try:
        fcntl.flock(raw.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"cannot write '{part.asked}': another process is writing '{part}'") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _is_written_directly(path: Path) -> bool:
    """True for a terminal, a pipe, a device, or the name of an open file such as /dev/stdout."""
    if str(path.absolute()).startswith(_OPEN_FILES):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _explained(path: Path, needed: int | None = None) -> Iterator[None]:
    """Context manager that explains errors of the disk and of a wrong path."""
    try:
        yield
    except (HeedError, BrokenPipeError):  # when the reader of a pipe has gone, commands end silently
        raise
    except Exception as error:
        if (number := error_number(error)) in _WRONG_PATH:
            raise ConfigError(f"cannot write '{path}': {_wrong(path, number)}") from None
        if isinstance(error, PermissionError) and os.access(path, os.W_OK):
            raise DiskError(
                f"cannot write '{path}': no file can be created in its folder ({error.strerror}), where the new file "
                "is written before it replaces the old one"
            ) from None
        if (problem := disk_error(error, path, needed)) is not None:
            raise problem from None
        raise


@contextmanager
def _explained_lines(path: Path) -> Iterator[None]:
    """Context manager that explains errors of writing lines, but not those of other files opened meanwhile."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None and (problem := disk_error(error, path)) is not None:
            raise problem from None
        raise


@contextmanager
def _explained_device(path: Path) -> Iterator[None]:
    """Context manager that explains errors of pipes and devices, which have no old content and no free space."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None or Path(error.filename) == path:
            raise DiskError(f"cannot write '{path}': {error.strerror}") from None
        raise


def _wrong(path: Path, number: int | None) -> str:
    assert number is not None
    said = os.strerror(number)
    if number == errno.ENOENT:
        return f"{said}; create the folder '{path.parent}' first"
    return said
