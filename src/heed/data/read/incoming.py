"""Input lines for prediction in batches, as they arrive: standard input, a pipe or a file, compressed or not.

A batch of a file has the requested number of lines. A batch of a pipe has the lines that have arrived when no more
follow for a moment, so that no answer waits for later lines.

Batches of a pipe are sent when nothing more has come for 0.02 s, or after 0.2 s; its first full batches are smaller (4,
16, 64, ... lines). A line cannot be used if it is not in UTF-8 (nor `data.encoding`), contains a NUL byte, has more
than a million characters (or `data.max_line`, if that is more), lacks the text column, is not JSON where the others
are, has no mask or second text where the run needs one, or is longer than the positions that a model has learned. The
first ten such lines are reported, and all are counted. A truncated compressed file is reported after its last readable
line. An unreadable picture has an empty answer and leads to exit status 4; only `--bad-lines error` stops there.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from heed.data.read.findings import BadLine, Findings
from heed.data.read.lines import Chunks, incoming_lines, opened
from heed.errors import DataError, HeedError

T = TypeVar("T")
Numbered = tuple[int, str | BadLine]
"""The number of a line, from 1, and its text or a `BadLine`."""

_QUIET = 0.02
"""Seconds without a further line after which a batch is complete."""
_LONGEST = 0.2
"""Longest time in seconds that a line waits for others."""
_FIRST, _GROWTH = 4, 4
"""Lines in the first full batch of a pipe, and the growth factor of batches: the first answers are quick."""
MAX_LINE = 1_000_000
"""Characters that a line may always have, even if `data.max_line` is lower: each line is read by itself."""
_TOLD = 10
"""Number of bad inputs that are reported one by one."""


class _Arriving:
    """Bytes of a file descriptor as they arrive, and None if nothing arrived until `until`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.until: float | None = None
        """Deadline of the next read, by `time.monotonic`; None waits without limit."""

    def read1(self, size: int, /) -> bytes | None:
        if self.until is not None and not self._ready(min(_QUIET, self.until - time.monotonic())):
            return None
        return os.read(self._descriptor, size)

    def _ready(self, seconds: float) -> bool:
        try:
            return seconds > 0 and bool(select.select([self._descriptor], [], [], seconds)[0])
        except OSError:  # this system cannot poll pipes
            return False


class _Buffered:
    """Bytes of standard input that are available without waiting."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file = file

    def read1(self, size: int, /) -> bytes:
        return self._file.read1(size)


class Incoming:
    """The numbered lines of a file or of standard input, in `batches`."""

    def __init__(self, path: Path | None, findings: Findings) -> None:
        """Open nothing yet.

        Args:
            path: The file; None for standard input.
            findings: Policy for lines that cannot be used.
        """
        self.name = "stdin" if path is None else f"'{path}'"
        self._path, self._findings = path, findings
        self._arriving: _Arriving | None = None

    def batches(self, most: int) -> Iterator[list[Numbered]]:
        """Batches of at most `most` lines.

        Raises:
            DataError: As for `heed.data.read.lines.lines_of`, after the lines before the error; an empty file is none.
        """
        lines = self._lines()
        batch: list[Numbered] = []
        size = 0
        while True:
            try:
                line = next(lines)
            except StopIteration:
                break
            except DataError:
                if batch:
                    yield batch
                raise
            if line is not None:
                batch.append(line)
                size = size or (most if self._arriving is None else min(_FIRST, most))
                if len(batch) == 1 and self._arriving is not None:
                    self._arriving.until = time.monotonic() + _LONGEST
            if batch and (line is None or len(batch) == size):
                if self._arriving is not None:
                    self._arriving.until = None
                if len(batch) == size:
                    size = min(_GROWTH * size, most)
                yield batch
                batch = []
        if batch:
            yield batch

    def _lines(self) -> Generator[Numbered | None]:
        number = 0
        for line in incoming_lines(self._path or Path("stdin"), self.name, self._findings, self._opened):
            if line is None:
                yield None
            else:
                number += 1
                yield number, line

    def _opened(self) -> AbstractContextManager[Chunks]:
        if self._path is None:
            return nullcontext(self._standard_input())
        if stat.S_ISREG(os.stat(self._path).st_mode) or self._path.suffix in (".gz", ".xz"):
            return opened(self._path)  # type: ignore[no-any-return]
        return self._pipe(self._path)

    def _standard_input(self) -> Chunks:
        buffer = sys.stdin.buffer
        try:
            descriptor = buffer.fileno()
        except OSError:  # sys.stdin was replaced by an object without a descriptor
            return _Buffered(buffer)  # type: ignore[arg-type]
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return _Buffered(buffer)  # type: ignore[arg-type]
        self._arriving = _Arriving(descriptor)
        return self._arriving

    @contextmanager
    def _pipe(self, path: Path) -> Iterator[Chunks]:
        with path.open("rb", buffering=0) as file:
            self._arriving = _Arriving(file.fileno())
            yield self._arriving


def in_batches(lines: Iterable[Numbered], most: int) -> Iterator[list[Numbered]]:
    """Batches of `most` lines, for sources that are never waited for; lines before an error come before it."""
    batch: list[Numbered] = []
    try:
        for line in lines:
            batch.append(line)
            if len(batch) == most:
                yield batch
                batch = []
    except DataError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def with_gaps(items: Iterable[T], findings: Findings) -> Iterator[T | BadLine]:
    """The items of a reader, with a `BadLine` for each item that it left out according to the findings."""
    left_out = findings.left_out.total()
    for item in items:
        yield from _gaps(findings.left_out.total() - left_out)
        left_out = findings.left_out.total()
        yield item
    yield from _gaps(findings.left_out.total() - left_out)


def _gaps(count: int) -> Iterator[BadLine]:
    return (BadLine("left out") for _ in range(count))


class InputFindings(Findings):
    """Policy for unusable inputs: an error, or reported at once, counted and answered with an empty answer."""

    def __init__(self, data: object, skip: bool, tell: Callable[[str], None], hint: str) -> None:
        """Allow long lines, since each is read by itself.

        Args:
            data: The `data` section of the run, which gives the encoding.
            skip: True if bad inputs are skipped, False if they are errors.
            tell: Called with the message about a skipped input.
            hint: End of the message about an input that is an error.
        """
        own = Findings.of(data, strict=True)
        super().__init__("skip" if skip else "error", own.encoding, max(own.max_line, MAX_LINE), hint=False)
        self._tell, self._stops = tell, hint
        self.num_bad = 0
        self.bad_places: list[str] = []
        """Places of the first bad inputs."""

    def bad(
        self,
        rule: str,
        where: Path | str,
        place: str | int,
        message: str,
        *,
        fix: str = "",
        text: str = "",
        things: str = "lines",
    ) -> BadLine:
        """Raise for a line that cannot be used, or report and count it.

        Raises:
            DataError: Bad lines are not skipped.
        """
        self.refuse(DataError(message), place)
        return BadLine(rule, text)

    def refuse(self, error: HeedError, place: str | int) -> None:
        """Raise the error about an input, or report and count it.

        Raises:
            HeedError: The error, of the same class, with the hint.
        """
        if not self.skips:
            raise type(error)(f"{error}; {self._stops}" if self._stops else str(error))
        self.count(str(error), place)

    def count(self, message: str, place: str | int) -> None:
        """Report and count an input that cannot be used."""
        self.num_bad += 1
        if len(self.bad_places) < _TOLD:
            self.bad_places.append(str(place))
            self._tell(message)

    def cut_off(self, path: Path, number: int, message: str) -> None:
        """Raise for a compressed file that ends too soon, or report it.

        Raises:
            DataError: Bad lines are not skipped, or nothing could be read.
        """
        if not number:
            raise DataError(message)
        self.refuse(DataError(message), f"after {number}")
