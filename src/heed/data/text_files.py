"""Bytes to lines: line ends, byte-order marks, encodings, compression; errors name file and line.

A line ends at LF or CRLF. A CR alone inside a line is read as a space, so that parallel files stay aligned; it ends a
line only in a file whose beginning has more of them than LFs.

`incoming` gives input lines for prediction in batches, as they arrive: standard input, a pipe or a file. A batch of a
file has the requested number of lines; that of a pipe, the lines that have come 0.02 s after the first, so that no
answer waits for later lines. A line cannot be used if it is not in UTF-8 (nor `data.encoding`), contains a NUL byte,
has more than a million characters (or `data.max_line`, if that is more), lacks the text column, is not JSON where the
others are, has no mask or second text where the run needs one, or is longer than the positions that a model has
learned. The first ten such lines are reported, and all are counted. A truncated compressed file is reported after its
last readable line. An unreadable picture has an empty answer and leads to exit status 4; only `--bad-lines error` stops
there.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import lzma
import os
import stat
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, TypeVar, cast

from heed.data.examples import is_empty
from heed.data.findings import BadLine, Findings
from heed.errors import DataError, HeedError

T = TypeVar("T")
INNER_RETURN = "carriage return inside the line, read as a space"
_CHUNK = 1 << 16
_WAITING = 1 << 12
"""Most lines of a pipe that are read ahead."""
_ENDLESS = 1 << 28
"""Bytes of a line that is too long after which reading stops: a compressed file may have a line without end."""
MARK = "\ufeff"
MARKED = "byte-order mark, left out"
_ZERO_WIDTH_SPACE = "\u200b"
_LF = ord("\n")
_SPECIAL_BYTES = MARK.encode(), _ZERO_WIDTH_SPACE.encode(), b"\r", b"\0"
"""Bytes in a line that are noted or refused."""
_TYPOGRAPHY = "\xa0\xa1\xab\xb0\xb7\xbb\xbf\u2013\u2014\u2018\u2019\u201c\u201d\u201e\u2026\u20ac\xa3\xa7"
_OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open}
_UTF_16 = "UTF-16; convert it (iconv -f UTF-16 -t UTF-8)"
_SIGNATURES = {
    b"PK\x03\x04": "a zip archive or an Office file (.xlsx, .docx); unpack it, or save it as CSV UTF-8 or as text",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file; save it as CSV UTF-8 or as text",
    b"\x1f\x8b": "gzip; name it .gz, or unpack it (gzip -dc)",
    b"\xfd7zXZ": "xz; name it .xz, or unpack it (xz -dc)",
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
}
"""First bytes of files that are often given instead of text, and advice."""
_TMX = (
    "TMX, a translation memory; convert it to columns, the languages in alphabetical order: "
    'python -c "import sys, xml.etree.ElementTree as E; [print(*(t for _, t in sorted(([x for k, x in v.items() if '
    "k.endswith('lang')], ' '.join(''.join(v.find('seg').itertext()).split())) for v in u.iter('tuv'))), sep='\\t') "
    "for u in E.parse(sys.argv[1]).iter('tu')]\""
)
"""Message about a translation memory, with the command that prints its units; the name of the file follows."""


def ending_of(path: Path) -> str:
    """The ending that gives the format: the one before that of a compression, if there is one."""
    return without_compression(path).suffix


def without_compression(path: Path) -> Path:
    """A path without the ending of a compression."""
    return path.with_suffix("") if path.suffix in _OPENERS and path.stem else path


def opened(path: Path) -> Any:
    """The file opened for reading bytes, unpacked if its ending is that of a compression.

    Raises:
        OSError: It cannot be opened.
    """
    try:
        return _OPENERS.get(path.suffix, lambda p: p.open("rb", _CHUNK))(path)
    except ValueError:  # a NUL or half of a surrogate pair
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from None


def good_lines(path: Path, findings: Findings | None = None) -> Iterator[str]:
    """The lines of a file that may have no bad line; `findings` are for errors.

    Raises:
        DataError: The file cannot be read, or has a bad line.
    """
    return cast("Iterator[str]", lines_of(path, findings))


def lines_of(
    path: Path, findings: Findings | None = None, root: Path | None = None, *, exact: bool = False
) -> Generator[str | BadLine]:
    """The lines of a text file, compressed or not, without their ends; a `BadLine` in place of one that is left out.

    Memory use is a few times 64 KiB plus the longest allowed line. Bad lines are errors without `findings`, which list
    them under the file, or under a folder `root`, in which files may be empty. With `exact` the lines joined are the
    text of the file: each ends in LF where it ends in the file, and a CR alone inside a line stays.

    Raises:
        DataError: The file is missing, empty, cut off, not text, or changes while it is read; or a line is bad and the
            findings do not skip bad lines.
    """
    reader = _Lines(path, Findings() if findings is None else findings, root, exact)
    yield from reader.read()
    if reader.number == 0 and root is None:
        raise DataError(f"'{path}' is empty; expected one text a line")


def unless_bad(item: T | BadLine) -> T:
    """The item, if it is not a bad line.

    Raises:
        BadLine: It is.
    """
    if isinstance(item, BadLine):
        raise item
    return item


class _Lines:
    """Reader of one file, or of standard input without a `path`, which has read `number` lines."""

    def __init__(self, path: Path | None, findings: Findings, root: Path | None = None, exact: bool = False) -> None:
        self.number, self.findings, self._exact = 0, findings, exact
        self.name = "stdin" if path is None else f"'{path}'"
        self._is_file, self._path = path is not None, path or Path("stdin")
        self._where = self._path if root is None else root
        self._inside = "" if root is None else f"{self._path.relative_to(root)}:"
        self._max_line = findings.max_line
        self._encoding = findings.encoding
        """The encoding of lines that are not UTF-8."""
        self._returns = False  # True if CR alone ends lines
        self._unended = 0  # lines whose end was not read
        self._crlf = self._first_crlf = 0  # lines that end in CRLF, and the first

    def read(self) -> Iterator[str | BadLine]:
        """The lines; I/O errors become messages about the file.

        Raises:
            DataError: As for `lines_of`, except for an empty file.
        """
        try:
            with opened(self._path) if self._is_file else _standard_input() as file:
                before = os.fstat(file.fileno()) if self._is_file else None
                try:
                    yield from self._lines(file)
                except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
                    where = f"after line {self.number}" if self.number else "at its start"
                    self._refuse_change(before)
                    self.findings.cut_off(
                        self._path, self.number, f"{self.name} is cut off or damaged {where}: {error}"
                    )
                self._refuse_change(before)
        except FileNotFoundError:
            raise DataError(f"no file {self.name}") from None
        except IsADirectoryError:
            raise DataError(f"{self.name} is a folder; expected a file") from None
        except OSError as error:
            where = f" after line {self.number}" if self.number else ""
            raise DataError(f"cannot read {self.name}{where}: {error.strerror or error}") from None
        self._note_ends()

    def _refuse_change(self, before: os.stat_result | None) -> None:
        """Refuse a file that changed since it was opened: its lines could not be read again."""
        if before is None or not stat.S_ISREG(before.st_mode):
            return
        try:
            now = self._path.stat()
        except OSError:
            what = f"vanished while it was being read (after line {self.number:,})"
            raise DataError(f"{self.name} {what}; put it back and start again") from None
        if any(getattr(before, name) != getattr(now, name) for name in ("st_ino", "st_size", "st_mtime_ns")):
            raise DataError(
                f"{self.name} changed while it was being read ({before.st_size:,} bytes at first, {now.st_size:,} now, "
                f"read up to line {self.number:,}); start again when no other program writes to it"
            )

    def _lines(self, file: Any) -> Iterator[str | BadLine]:
        start = file.peek(_CHUNK)
        self._refuse_other_formats(start)
        self._returns = start.count(b"\r") - start.count(b"\r\n") > start.count(b"\n")
        if self._returns:
            file = io.BytesIO(file.read().replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        longest = 4 * self._max_line + 4  # a character has at most 4 bytes
        for self.number, raw in enumerate(iter(partial(file.readline, longest), b""), start=1):
            is_ended = raw[-1] == _LF
            is_plain = is_ended and not any(special in raw for special in _SPECIAL_BYTES)
            if is_plain and (text := _utf_8(raw)) and len(text) <= self._max_line:
                yield text if self._exact else text[:-1]
            elif is_ended or len(raw) < longest:
                yield self._line(raw)
            else:
                self._unended += 1
                yield self._too_long()
                self._skip_line(file, longest)

    def _skip_line(self, file: Any, size: int) -> None:
        """Skip the rest of a line; a compressed file may have a line without end."""
        for _ in range(_ENDLESS // size + 1):
            if file.readline(size)[-1:] in (b"", b"\n"):
                return
        what = f"has more than {_ENDLESS:,} bytes without a line break"
        raise DataError(f"{self.name} line {self.number} {what}; it is not a file of lines")

    def _note_ends(self) -> None:
        """Note line ends of CR alone or of several kinds; and CRLF, if the text should be exactly that of the file."""
        ends = self.number - self._unended
        if self._returns:
            self._note("lines end in CR, read as line breaks", 1, self.number)
        if 0 < self._crlf < ends:
            what = f"mixed line endings ({ends - self._crlf:,} LF and {self._crlf:,} CRLF), all read as line breaks"
            self._note(what, self._first_crlf, self._crlf)
        elif self._exact and self._crlf:
            self._note("lines end in CRLF, read as LF", 1, self._crlf)

    def _note(self, what: str, number: int, count: int = 1) -> None:
        self.findings.note(what, self._where, f"{self._inside}{number}", count=count)

    def _refuse_other_formats(self, chunk: bytes) -> None:
        start = chunk[:4_000].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \r\n")  # in UTF-8 or UTF-16
        if start.startswith(b"<") and b"<tmx" in start:
            raise DataError(f"{self.name} is {_TMX} {self.name} > pairs.tsv")
        for signature, meaning in _SIGNATURES.items():
            if chunk.startswith(signature):
                raise DataError(f"{self.name} is not UTF-8 text: it looks like {meaning}")
        # UTF-16 without a mark: in Latin text every other byte is 0.
        if len(chunk) >= 8 and max(chunk[::2].count(0), chunk[1::2].count(0)) > 0.3 * len(chunk):
            raise DataError(f"{self.name} is not UTF-8 text: it looks like {_UTF_16}")

    def _line(self, raw: bytes) -> str | BadLine:
        """A line, given with its end, that may contain something to be noted or refused."""
        line = raw.removesuffix(b"\n")
        end = len(line) < len(raw)
        self._unended += not end
        if end and line.endswith(b"\r"):
            self._crlf += 1
            self._first_crlf = self._first_crlf or self.number
        line = line.removesuffix(b"\r")
        if _SPECIAL_BYTES[0] in line:
            line = line.replace(_SPECIAL_BYTES[0], b"")
            self._note(MARKED, self.number)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            try:
                text = line.decode(self._encoding)
            except UnicodeError:
                return self._not_text(line, error.start)
            self._note(f"not UTF-8, read as {self._encoding}", self.number)
        if (at := text.find("\0")) >= 0:
            where = f"at position {at + 1} (after {text[max(0, at - 10) : at]!r})"
            message = f"contains a NUL byte {where}; the file is damaged or not a text file"
            return self._bad("NUL byte", message, text=text)
        if len(text) > self._max_line:
            return self._too_long(text)
        if _ZERO_WIDTH_SPACE in text and not self._exact and is_empty(text):
            self._note("only characters without width, read as a blank line", self.number)
            return ""
        if "\r" in text and not self._exact:
            self._note(INNER_RETURN, self.number)
            text = text.replace("\r", " ")
        return text + "\n" * (end and self._exact)

    def _not_text(self, line: bytes, start: int) -> BadLine:
        near = line[max(0, start - 10) : start].decode("utf-8", "replace")
        message = f"byte 0x{line[start]:02x} at position {start + 1} (after {near!r}) is not UTF-8"
        fix, name = "set data.encoding to the encoding of such lines", "ENCODING"
        if not codecs.lookup(self._encoding).name.startswith("utf-8"):
            message, fix = f"{message} and the line is not {self._encoding}", ""
        elif like := as_windows(line):
            message = f"{message}; it looks like Windows-1252 ({like[max(0, start - 10) : start + 10]!r})"
            fix, name = "data.encoding=windows-1252 reads such lines", "WINDOWS-1252"
        message += f"; convert the file (iconv -f {name} -t UTF-8)"
        return self._bad("not UTF-8", message, fix=fix, text=line.decode("utf-8", "replace"), colon=True)

    def _too_long(self, text: str = "") -> BadLine:
        rule = f"more than data.max_line {self._max_line:,} characters"
        return self._bad(rule, f"has {rule}", fix="a larger data.max_line accepts it", text=text)

    def _bad(self, rule: str, message: str, *, fix: str = "", text: str = "", colon: bool = False) -> BadLine:
        message = f"{self.name} line {self.number}{':' if colon else ''} {message}"
        return self.findings.bad(rule, self._where, f"{self._inside}{self.number}", message, fix=fix, text=text)


def _utf_8(line: bytes) -> str:
    """A line as text; "" if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def as_windows(line: bytes) -> str:
    """A line decoded as Windows-1252 if that looks like a language with a few accented letters; else ""."""
    try:
        text = line.decode("windows-1252")
    except UnicodeDecodeError:
        return ""
    letters = [c for c in text if c.isalpha()]
    plausible = all(c.isascii() or c.isalpha() or c in _TYPOGRAPHY for c in text)
    return text if plausible and sum(not c.isascii() for c in letters) <= 0.4 * len(letters) else ""


Numbered = tuple[int, Any]
"""The number of a line, from 1, and its input (a text, or a pair of texts) or a `BadLine`."""

_QUIET = 0.02
"""Seconds that the first line of a batch from a pipe waits for others."""
MAX_LINE = 1_000_000
"""Characters that a line may always have, even if `data.max_line` is lower: each line is read by itself."""
_MAX_REPORTED = 10
"""Number of bad inputs that are reported one by one."""


def _standard_input() -> Any:
    """The bytes of standard input, opened anew: a thread may wait for them when the program ends."""
    try:
        return open(sys.stdin.buffer.fileno(), "rb", closefd=False)
    except OSError:  # it was replaced by an object without a descriptor
        return io.BufferedReader(io.BytesIO(sys.stdin.buffer.read()))


def incoming(path: Path | None, findings: Findings, size: int) -> Iterator[list[Numbered]]:
    """The numbered lines of a file or, without a `path`, of standard input, in batches of at most `size` lines.

    The findings are the policy for lines that cannot be used.

    Raises:
        DataError: As for `lines_of`, after the lines before the error; an empty file is none.
    """
    lines = enumerate(_Lines(path, findings).read(), start=1)
    try:
        is_file = stat.S_ISREG(os.stat(path or sys.stdin.buffer.fileno()).st_mode)
    except OSError:  # reading reports a missing file
        is_file = True
    return in_batches(lines, size) if is_file else _as_they_arrive(lines, size)


def _as_they_arrive(lines: Iterable[Numbered], size: int) -> Iterator[list[Numbered]]:
    """The lines that have come, read by a thread, in batches."""
    arrived: Queue[Any] = Queue(_WAITING)

    def read() -> None:
        try:
            for line in lines:
                arrived.put(line)
            arrived.put(StopIteration())
        except BaseException as error:
            arrived.put(error)

    Thread(target=read, name="heed-lines", daemon=True).start()
    while True:
        batch = [arrived.get()]
        time.sleep(_QUIET)
        while len(batch) < size and not arrived.empty():
            batch.append(arrived.get())
        end = batch.pop() if isinstance(batch[-1], BaseException) else None
        if batch:
            yield batch
        if isinstance(end, StopIteration):
            return
        if end is not None:
            raise end


def in_batches(lines: Iterable[Numbered], size: int) -> Iterator[list[Numbered]]:
    """Batches of at most `size` lines; lines before an error come before it."""
    batch: list[Numbered] = []
    try:
        for line in lines:
            batch.append(line)
            if len(batch) == size:
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
    before = findings.left_out.total()
    for item in chain(items, [None]):
        yield from (BadLine("left out") for _ in range(findings.left_out.total() - before))
        before = findings.left_out.total()
        if item is not None:
            yield item


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
        policy = Findings.of(data, strict=True)
        super().__init__("skip" if skip else "error", policy.encoding, max(policy.max_line, MAX_LINE), hint=False)
        self._tell, self._stops = tell, hint
        self.num_bad = 0
        self.bad_places: list[str] = []
        """Places of the first bad inputs."""

    def refuse(self, error: HeedError, place: str | int) -> None:
        # With the hint, and of the same class.
        if not self.skips:
            raise type(error)(f"{error}; {self._stops}" if self._stops else str(error))
        self.count(str(error), place)

    def count(self, message: str, place: str | int) -> None:
        """Report and count an input that cannot be used."""
        self.num_bad += 1
        if len(self.bad_places) < _MAX_REPORTED:
            self.bad_places.append(str(place))
            self._tell(message)
