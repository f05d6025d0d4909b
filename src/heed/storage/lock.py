"""One process at a time for a folder: a lock that ends with its process, and a check that the folder still exists.

The file is `.lock`; the operating system releases the lock when the process ends, however it ends. On file systems
without locks, heed checks if the process named in the file is running; if that process ran on another machine and has
ended, the file has to be deleted by hand. A comparison holds a lock on its own folder. If a run folder is deleted,
moved or replaced during training, training stops at the next update.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from heed.errors import DiskError, RunError
from heed.storage.disk import identity_of, make_folder

LOCK = ".lock"
"""The lock file of a folder; hidden, so that it is neither sealed nor listed. Its text names the owner."""
_OWNER = re.compile(r"process ([1-9]\d{0,8}) on ([\w.:-]{1,200}) since [\d: -]{1,30}", re.ASCII)
"""The text that heed writes into a lock file; messages repeat no other."""
_TRIES = 3
"""Number of attempts: the process that held the file may remove it between opening and locking."""


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Context manager that locks a folder; the lock of a process that has ended is taken over.

    Args:
        folder: It must exist.

    Raises:
        RunError: Another process owns it; the message names the process.
        DiskError: The lock file cannot be written.
    """
    path = folder / LOCK
    for _ in range(_TRIES):
        with ExitStack() as stack:
            stack.callback(_release, _locked(folder))
            try:
                text = f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
                with path.open("r+", encoding="utf-8") as file:  # does not create the file
                    file.truncate()
                    file.write(text)
                identity = identity_of(path)
            except FileNotFoundError:  # removed by its last owner; a lock on a removed file has no effect
                continue
            except OSError as error:
                raise DiskError(f"cannot write '{path}': {error.strerror or error}") from None
            try:
                yield
            finally:
                with suppress(OSError):
                    if identity_of(path) == identity:  # not another process's lock, in a folder that was replaced
                        path.unlink()
            return
    raise DiskError(f"cannot lock '{folder}': {path.name} is repeatedly removed by other processes")


class Ownership(ExitStack):
    """Context manager with the folders that this process has locked; it releases them at its end."""

    def __init__(self) -> None:
        super().__init__()
        self._locked: set[Path] = set()

    def take(self, folder: Path, make: bool = False) -> None:
        """Lock a folder like `owned`, unless already locked; `make` it if it is missing.

        Raises:
            RunError: Another process owns it; the message names the process.
            DiskError: The folder or its lock file cannot be written.
        """
        if folder not in self._locked:
            if make:
                make_folder(folder)
            self.enter_context(owned(folder))
            self._locked.add(folder)


def check_not_owned(folder: Path) -> None:
    """Refuse a folder in which another process is training; nothing is written.

    Raises:
        RunError: Another process is training there; the message names it.
    """
    if os.path.isfile(folder / LOCK):  # unlike Path.is_file, False for a name that is too long
        with suppress(DiskError):  # no process can train on a disk that cannot be written to
            _release(_locked(folder))


def _locked(folder: Path) -> FileLock:
    """The acquired lock of a folder; not acquired if the file system has no locks and the last owner has ended."""
    path = folder / LOCK
    owner = _read_owner(path)  # before the attempt, in which some versions of filelock empty the file
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise _refusal(folder, owner) from None
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and not path.is_file():
            raise DiskError(f"cannot write '{path}': {error.strerror or error}") from None
        if owner is not None and not _has_ended(owner):
            raise _refusal(folder, owner, by_name=True) from None
    return lock


def _release(lock: FileLock) -> None:
    with suppress(OSError):
        lock.release()


def _read_owner(path: Path) -> re.Match[str] | None:
    """The text of a lock file: process and machine; None if heed did not write it."""
    with suppress(OSError, ValueError):
        if path.is_file() and path.stat().st_size < 1_000:
            return _OWNER.fullmatch(path.read_text(encoding="utf-8").strip())
    return None


def _has_ended(owner: re.Match[str]) -> bool:
    """True if the process is known to have ended, which only a process of this machine can be."""
    if owner[2] != socket.gethostname():
        return False
    try:
        os.kill(int(owner[1]), 0)
    except OSError as error:  # a PermissionError is of another user's process
        return isinstance(error, ProcessLookupError)
    return False


def _refusal(folder: Path, owner: re.Match[str] | None, by_name: bool = False) -> RunError:
    """The error for a locked folder; `by_name` if only the file, not a lock, shows that the process is running."""
    if owner is None:
        return RunError(f"'{folder}' is already being trained by another process; wait until it ends")
    stop = f"stop it with: kill {owner[1]}" if owner[2] == socket.gethostname() else f"stop it on {owner[2]}"
    hint = f"; if it has ended, delete '{folder / LOCK}'" if by_name or _has_ended(owner) else ""
    return RunError(f"'{folder}' is already being trained by {owner[0]}; wait until it ends, or {stop}{hint}")


class Presence:
    """Check that a folder is still the same one."""

    def __init__(self, folder: Path) -> None:
        """Record the identity of the folder."""
        self._folder = folder
        self._before = identity_of(folder) if folder.is_dir() else None

    def check(self) -> None:
        """Stop if the folder was deleted, moved, or replaced by another of the same name.

        Raises:
            DiskError: It was; the message says which.
        """
        try:
            if self._before in (None, identity_of(self._folder)):
                return
            what = "was replaced by another folder"
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                return  # a temporary failure of the file system; writing will show
            what = "was deleted or moved"
        raise DiskError(
            f"the run folder '{self._folder}' {what} during training; stopping, since nothing more can be saved "
            "there. If it was moved, resume it with: heed train NEW_FOLDER --resume"
        )
