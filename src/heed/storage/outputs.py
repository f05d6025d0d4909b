"""Files that a user names for results: an old file stays until the new one is whole.

A file is written as `FILE.part` beside it, flushed to the disk, and renamed. What is no regular file (a terminal, a
pipe, /dev/null) is written to directly.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from heed.errors import ConfigError, DiskError, HeedError
from heed.storage.disk import beside, disk_error, error_number, flush

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_WRONG_PATH = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""What systems answer where the path that a user typed is wrong, and not the disk."""
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL}
_OPEN_FILES = ("/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/")
_BLOCK = 2**20


@contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """Open a file for lines of results; it gets its name when it is whole.

    After an error the lines that were written whole stay in `FILE.part`; a note of the error says so.

    Raises:
        ConfigError: The path is wrong: no such folder, or the name of a folder.
        DiskError: The disk is full or refuses; an old file stays.
    """
    if _is_written_directly(path):
        with _explained_device(path), path.open("w", encoding="utf-8") as direct:
            yield direct
        return
    with _explained(path):
        part = _Part(path)
    text = io.TextIOWrapper(io.BufferedWriter(part.raw), encoding="utf-8")
    try:
        with _explained_lines(path):
            yield text
            text.flush()
        with _explained(path):
            part.finish()
    except BaseException as error:
        if not isinstance(error, DiskError):  # after a part of a block was written, all of it would be again
            with suppress(OSError):
                text.flush()
        if left := part.keep_lines():
            error.add_note(left)
        raise
    finally:
        text.close()


def write_outputs(contents: Mapping[Path, str | bytes]) -> None:
    """Write files that belong together: none gets its name before all are whole.

    Line ends are written as they are.

    Raises:
        ConfigError: A path is wrong.
        DiskError: The disk is full or refuses; old files stay.
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
    """Make a folder for results, and those above it; one that is there already is fine.

    Raises:
        ConfigError: The path is wrong: it, or a part of it, is a file.
        DiskError: The disk is full or refuses.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"cannot make folder '{path}': that, or a part of it, is a file") from None
    except OSError as error:
        raise (disk_error(error, path) or error) from None


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
        with suppress(FileNotFoundError):  # what cannot be replaced must not be found out after hours
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
        """Keep the whole lines and say where they are; nothing is kept of less than a line."""
        if self._done:
            return ""
        try:
            count = self._cut()
        except OSError:
            count = 0
        if not count:
            self.discard()
            return ""
        self.raw.close()  # so that nothing that is still buffered can follow
        lines = "the line written before is" if count == 1 else f"the {count:,} lines written before are"
        return f"{lines} in '{self}'"

    def _cut(self) -> int:
        """Shorten the file to its whole lines; how many they are."""
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
        """Close; remove what was not finished."""
        self.raw.close()
        if not self._done:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def __str__(self) -> str:
        """The path as the user would type it."""
        return str(self._path if self.asked.is_symlink() else self.asked.with_name(self._path.name))


def _open(path: str, flags: int) -> int:
    """Open to read and write, made where it is missing; no link is followed, and no pipe waited for."""
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _lock(raw: io.FileIO, part: _Part) -> None:
    """Take a file for this process, where the system has locks; a killed process loses its own."""
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
    """Whether a path is a terminal, a pipe, a device, or a name of an open file, as /dev/stdout."""
    if str(path.absolute()).startswith(_OPEN_FILES):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _explained(path: Path, needed: int | None = None) -> Iterator[None]:
    """Explain errors of the disk and of a wrong path."""
    try:
        yield
    except (HeedError, BrokenPipeError):  # where the reader of a pipe has gone, commands end without a word
        raise
    except Exception as error:
        if (number := error_number(error)) in _WRONG_PATH:
            raise ConfigError(f"cannot write '{path}': {_wrong(path, number)}") from None
        if isinstance(error, PermissionError) and os.access(path, os.W_OK):
            raise DiskError(
                f"cannot write '{path}': its folder takes no new files ({error.strerror}), and the new file is "
                "written beside the old one"
            ) from None
        if (problem := disk_error(error, path, needed)) is not None:
            raise problem from None
        raise


@contextmanager
def _explained_lines(path: Path) -> Iterator[None]:
    """Explain errors of writing lines, but not those of files that were opened meanwhile."""
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
    """Explain errors of what has no content of its own that could be kept, and no free bytes."""
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
        return f"{said}; make the folder '{path.parent}' first"
    return said
