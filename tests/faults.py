"""Disk faults: every operation that writes below a folder fails in turn.

After SQLite's tests of I/O errors and crashes (https://sqlite.org/testing.html, sections 3.2 and 3.3): the first
operation fails, then the second, and so on until all succeed. Either only that operation fails, or all from then on
fail, or the machine crashes: nothing more reaches the disk, and no cleanup runs.
"""

import builtins
import errno
import io
import os
import shutil
from itertools import count
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors for lack of space; files can still be renamed and removed."""

WAYS = ("once", "lasting", "crash")


class Crash(BaseException):
    """Simulated crash of the machine: nothing in heed catches it, and cleanup while it propagates changes no file."""


class Disk:
    """Counts the operations below `root`; number `place` fails with errno `number` (None: the machine crashes)."""

    def __init__(self, root):
        self.root = os.path.realpath(root)
        self.reset(None)

    def reset(self, place, number=None, lasting=False):
        self.place, self.number, self.lasting = place, number, lasting
        self.done, self.failed = [], None

    @property
    def crashed(self):
        return self.failed is not None and self.number is None

    def act(self, name, path, new=True):
        """Called before an operation on `path`; `new` if it needs space."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        if os.path.commonpath([os.path.realpath(path), self.root]) != self.root:
            return
        self.done.append(name)
        again = self.crashed or (self.failed is not None and self.lasting and (new or self.number not in FULL))
        if again or len(self.done) == self.place:
            self.failed = self.failed or f"{name} {os.path.relpath(path, self.root)}"
            raise Crash if self.number is None else OSError(self.number, os.strerror(self.number))


def patch(monkeypatch, disk):
    """Patch the writing functions of Python and of libraries to call `disk.act` first."""

    def before(home, name, place=0, new=True):
        real = getattr(home, name)

        def instead(*args, **kwargs):
            if kwargs.get("dir_fd") is None:  # shutil.rmtree uses descriptors; it counts as one operation
                disk.act(name, args[place], new)
            return real(*args, **kwargs)

        monkeypatch.setattr(home, name, instead)

    class Raw(io.FileIO):
        """A failing write writes half of its data; after a crash writes are dropped."""

        def write(self, data):
            if disk.crashed:
                return len(data)
            try:
                disk.act("write", self.fileno())
            except BaseException:
                super().write(memoryview(data)[: len(data) // 2])
                raise
            return super().write(data)

    real_open = io.open

    def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        if not set(mode) & set("wax+") or isinstance(file, int):
            return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        disk.act("open", file)
        raw = Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def serialize(tensors, path, **kwargs):
        """Report errors as the Rust library does."""
        try:
            disk.act("safetensors", path)
        except OSError as error:
            raise SafetensorError(f"I/O error: {error.strerror} (os error {error.errno})") from None
        real_serialize(tensors, path, **kwargs)

    real_serialize = safetensors.torch.serialize_file
    monkeypatch.setattr(safetensors.torch, "serialize_file", serialize)
    monkeypatch.setattr(io, "open", opened)
    monkeypatch.setattr(builtins, "open", opened)
    for name in ("fsync", "mkdir", "truncate"):
        before(os, name)
    before(os, "replace", place=1)
    before(os, "rename", place=1)
    before(os, "chmod", new=False)
    before(os, "unlink", new=False)
    before(os, "rmdir", new=False)
    before(shutil, "rmtree", new=False)


def fail_each(monkeypatch, folder, prepare, act, check, ways=WAYS, each=True):
    """Make each operation of `act` fail in each way.

    Args:
        monkeypatch: Pytest's fixture.
        folder: Recreated for each failure; operations outside it do not count.
        prepare: Fills the folder.
        act: Writes below the folder.
        check: Checks the folder; gets the error of `act` (None for none) and whether removing files failed too.
        ways: Names of the ways to fail. After a crash `act` is called again on a working disk, and `check` gets None.
        each: Whether each operation fails in all these ways, or in one of them in turn.

    Returns:
        The names of the operations.
    """
    disk = Disk(folder)
    refusals = [*FULL, errno.EIO, errno.EROFS]
    for place in count(1):
        number = refusals[place % len(refusals)]
        for way in ways if each else [ways[place % len(ways)]]:
            how = (None, True) if way == "crash" else (number, way == "lasting")
            shutil.rmtree(folder, ignore_errors=True)
            Path(folder).mkdir()
            prepare()
            with monkeypatch.context() as patched:
                patch(patched, disk)
                disk.reset(place, *how)
                error = None
                try:
                    act()
                except (Exception, SystemExit, Crash) as found:
                    error = found
                operations, failed = disk.done, disk.failed
            if failed is None:
                assert error is None, error
                return operations
            stuck = how[1] and number not in FULL  # files can no longer be removed either
            try:
                check(error, stuck)
                if isinstance(error, Crash):
                    act()
                    check(None, False)
            except Exception as wrong:
                wrong.add_note(f"operation {place} of {operations}: {failed}, {way} {number}, then {error!r}")
                raise
