"""Bytes to lines: line ends, byte-order marks, encodings, compression; errors name file and line.

A line ends at LF or CRLF. A CR alone inside a line is read as a space, so that parallel files stay aligned; it ends a
line only in a file whose beginning has more of them than LFs.

`Incoming` gives input lines for prediction in batches, as they arrive: standard input, a pipe or a file. A batch of a
file has the requested number of lines. Batches of a pipe are sent when nothing more has come for 0.02 s, or after
0.2 s, so that no answer waits for later lines; its first full batches are smaller (4, 16, 64, ... lines). A line cannot
be used if it is not in UTF-8 (nor `data.encoding`), contains a NUL byte, has more than a million characters (or
`data.max_line`, if that is more), lacks the text column, is not JSON where the others are, has no mask or second text
where the run needs one, or is longer than the positions that a model has learned. The first ten such lines are
reported, and all are counted. A truncated compressed file is reported after its last readable line. An unreadable
picture has an empty answer and leads to exit status 4; only `--bad-lines error` stops there.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import lzma
import os
import re
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from heed.data.examples import is_empty
from heed.data.findings import BadLine, Findings
from heed.errors import DataError, HeedError

T = TypeVar("T")
INNER_RETURN = "carriage return inside the line, read as a space"
_CHUNK = 1 << 16
_ENDLESS = 1 << 28
"""Bytes of a line that is too long after which reading stops: a compressed file may have a line without end."""
MARK = "\ufeff"
MARKED = "byte-order mark, left out"
_MARK = MARK.encode()
_UNSEEN = "\u200b".encode()
_UNSEEN_LINE = re.compile(rb"^[ \t\r]*(?:" + _UNSEEN + rb"[ \t\r]*)+$", re.MULTILINE)
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
"""What a translation memory is, with the command that prints its units, to be followed by the name of the file."""


class Chunks(Protocol):
    """Bytes in pieces, as a buffered file gives them."""

    def read1(self, size: int, /) -> bytes | None:
        """The available bytes, at most `size`; none at the end; None if nothing came in time."""


def size_of(path: Path) -> int:
    """The size of a file of a folder that is being read.

    Raises:
        DataError: It vanished.
    """
    try:
        return path.stat().st_size
    except OSError:
        raise DataError(f"'{path}' vanished while its folder was being read; put it back and start again") from None


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
        return _OPENERS.get(path.suffix, lambda p: p.open("rb"))(path)
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

    Memory use is a few times 64 KiB plus the longest allowed line. Bad lines are errors without `findings`, which
    list them under the file, or under a folder `root`. With `exact` the lines joined are the text of the file: each
    ends in LF where it ends in the file, and a CR alone inside a line stays.

    Raises:
        DataError: The file is missing, empty, cut off, not text, or changes while it is read; or a line is bad and the
            findings do not skip bad lines.
    """
    reader = _Lines(path, f"'{path}'", Findings() if findings is None else findings, root, exact)
    # Files do not time out, so no line is None.
    yield from cast("Iterator[str | BadLine]", reader.through(lambda: opened(path)))
    if reader.number == 0:
        raise DataError(f"'{path}' is empty; expected one text a line")


def unless_bad(item: T | BadLine) -> T:
    """A line, or what was made of it.

    Raises:
        BadLine: It cannot be used.
    """
    if isinstance(item, BadLine):
        raise item
    return item


def _refuse_change(path: Path, before: os.stat_result | None, number: int) -> None:
    """Refuse a file that changed since it was opened: the same lines could not be read again."""
    if before is None or not stat.S_ISREG(before.st_mode):
        return
    try:
        now = path.stat()
    except OSError:
        last = f"(after line {number:,})"
        raise DataError(f"'{path}' vanished while it was being read {last}; put it back and start again") from None
    names = ("st_ino", "st_size", "st_mtime_ns")
    if any(getattr(before, name) != getattr(now, name) for name in names):
        raise DataError(
            f"'{path}' changed while it was being read ({before.st_size:,} bytes at first, {now.st_size:,} now, read "
            f"up to line {number:,}); start again when no other program writes to it"
        )


class _Lines:
    """Reader of one file, which has read `number` lines."""

    def __init__(self, path: Path, name: str, findings: Findings, root: Path | None, exact: bool) -> None:
        self.number, self.findings, self._path, self._name, self._exact = 0, findings, path, name, exact
        self._where = path if root is None else root
        self._inside = "" if root is None else f"{path.relative_to(root)}:"
        self._most = findings.max_line
        other = findings.encoding_of(path)
        self._other = None if codecs.lookup(other).name.startswith("utf-8") else other
        self._ends = {"LF": 0, "CRLF": 0}
        self._returns = False  # True if CR alone ends a line
        self._first_end = ""
        self._first_odd = 0  # the first line that ends in another way

    def through(self, source: Callable[[], AbstractContextManager[Any]]) -> Iterator[str | BadLine | None]:
        """The lines of a source, None when one is late; I/O errors become messages about the file.

        Raises:
            DataError: As for `lines_of`, except for an empty source.
        """
        name = self._name
        try:
            with source() as file:
                named = hasattr(file, "fileno") and file is not getattr(sys.stdin, "buffer", None)
                before = os.fstat(file.fileno()) if named else None
                try:
                    yield from self._read(file)
                except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
                    where = f"after line {self.number}" if self.number else "at its start"
                    _refuse_change(self._path, before, self.number)
                    self.findings.cut_off(self._path, self.number, f"{name} is cut off or damaged {where}: {error}")
                _refuse_change(self._path, before, self.number)
        except FileNotFoundError:
            raise DataError(f"no file {name}") from None
        except IsADirectoryError:
            raise DataError(f"{name} is a folder; expected a file") from None
        except OSError as error:
            where = f" after line {self.number}" if self.number else ""
            raise DataError(f"cannot read {name}{where}: {error.strerror or error}") from None
        self._note_ends()

    def _read(self, file: Chunks) -> Iterator[str | BadLine | None]:
        for block in self._blocks(file):
            if block is None or isinstance(block, BadLine):
                yield block
            elif (texts := self._unremarkable(block)) is not None:
                for text in texts:
                    self.number += 1
                    yield text
            else:
                *whole, last = block.split(b"\n")
                for raw in whole:
                    self._count_ends("CRLF" if raw.endswith(b"\r") else "LF")
                    line = self._line(raw)
                    yield line + "\n" if self._exact and isinstance(line, str) else line
                if last:
                    yield self._line(last)

    def _note_ends(self) -> None:
        """Note line ends of CR alone or of several kinds; and CRLF, if the text should be exactly that of the file."""
        if self._returns:
            self._note("lines end in CR, read as line breaks", 1, self.number)
        if all(self._ends.values()):
            what = " and ".join(f"{count:,} {end}" for end, count in self._ends.items())
            odd = sum(self._ends.values()) - self._ends[self._first_end]
            self._note(f"mixed line endings ({what}), all read as line breaks", self._first_odd, odd)
        elif self._exact and self._ends["CRLF"]:
            self._note("lines end in CRLF, read as LF", 1, self._ends["CRLF"])

    def _note(self, what: str, number: int, count: int = 1) -> None:
        self.findings.note(what, self._where, f"{self._inside}{number}", count=count)

    def _blocks(self, file: Chunks) -> Iterator[bytes | BadLine | None]:
        """Blocks of whole lines with their ends; a `BadLine` in place of each line that is too long."""
        rest, held, begun = bytearray(), b"", b""  # adding to a bytearray copies only what is added
        returns = dropping = False
        dropped = 0
        first = True
        while (chunk := file.read1(_CHUNK)) != b"" or begun:
            if chunk is None:
                yield None
                continue
            if first:
                begun += chunk
                if chunk and b"\n" not in chunk and len(begun) < _CHUNK:
                    continue  # too little to tell what ends its lines
                first, chunk, begun = False, begun, b""
                self._refuse_what_is_no_text(chunk)
                alone = chunk.count(b"\r") - chunk.count(b"\r\n")
                returns = self._returns = alone > chunk.count(b"\n")
            if returns:
                chunk, held = held + chunk, b""
                if chunk.endswith(b"\r"):  # perhaps the first half of CRLF
                    chunk, held = chunk[:-1], b"\r"
                chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            end = chunk.rfind(b"\n") + 1
            if dropping:
                dropped += len(chunk)
                if dropped > _ENDLESS:
                    what = f"has more than {_ENDLESS:,} bytes without a line break"
                    raise DataError(f"{self._name} line {self.number} {what}; it is not a file of lines")
                if not end:
                    continue
                dropping, start = False, chunk.index(b"\n") + 1
                if start < end:
                    yield chunk[start:end]
                rest[:] = chunk[end:]
            elif end:
                yield bytes(rest) + chunk[:end]
                rest[:] = chunk[end:]
            else:
                rest += chunk
            if len(rest) > 4 * self._most + 4:  # no character has more than 4 bytes
                rest.clear()
                dropping, dropped = True, 0
                self.number += 1
                yield self._too_long()
        if not dropping and (rest or held):
            yield bytes(rest) + held.replace(b"\r", b"\n")

    def _refuse_what_is_no_text(self, chunk: bytes) -> None:
        start = chunk[:4_000].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \r\n")  # in UTF-8 or UTF-16
        if start.startswith(b"<") and b"<tmx" in start:
            raise DataError(f"{self._name} is {_TMX} {self._name} > pairs.tsv")
        for signature, meaning in _SIGNATURES.items():
            if chunk.startswith(signature):
                raise DataError(f"{self._name} is not UTF-8 text: it looks like {meaning}")
        # UTF-16 without a mark: in Latin text every other byte is 0.
        if len(chunk) >= 8 and max(chunk[::2].count(0), chunk[1::2].count(0)) > 0.3 * len(chunk):
            raise DataError(f"{self._name} is not UTF-8 text: it looks like {_UTF_16}")

    def _unremarkable(self, block: bytes) -> list[str] | None:
        """The lines of a block without special cases, else None."""
        if b"\r" in block or b"\0" in block or _MARK in block:
            return None
        if _UNSEEN in block and not self._exact and _UNSEEN_LINE.search(block):
            return None
        try:
            texts = block.decode("utf-8").split("\n")
        except UnicodeDecodeError:
            return None
        if len(block) > self._most and max(map(len, texts)) > self._most:
            return None
        if ended := block.count(b"\n"):
            self._count_ends("LF", ended)
        if self._exact:
            texts[:-1] = [text + "\n" for text in texts[:-1]]
        if not texts[-1]:
            texts.pop()
        return texts

    def _count_ends(self, end: str, count: int = 1) -> None:
        """Count the ends of the next lines."""
        self._first_end = self._first_end or end
        if end != self._first_end and not self._first_odd:
            self._first_odd = self.number + 1
        self._ends[end] += count

    def _line(self, raw: bytes) -> str | BadLine:
        """One line, given without its LF."""
        self.number += 1
        line = raw.removesuffix(b"\r")
        if _MARK in line:
            line = line.replace(_MARK, b"")
            self._note(MARKED, self.number)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            if self._other is None:
                return self._not_text(line, error.start)
            try:
                text = line.decode(self._other)
            except UnicodeError:
                return self._not_text(line, error.start)
            self._note(f"not UTF-8, read as {self._other}", self.number)
        if "\0" in text:
            at = text.index("\0")
            where = f"at position {at + 1} (after {text[max(0, at - 10) : at]!r})"
            message = f"contains a NUL byte {where}; the file is damaged or not a text file"
            return self._bad("NUL byte", message, text=text)
        if len(text) > self._most:
            return self._too_long(text)
        if _UNSEEN in line and not self._exact and is_empty(text):
            self._note("only characters without width, read as a blank line", self.number)
            return ""
        if "\r" in text and not self._exact:
            self._note(INNER_RETURN, self.number)
            text = text.replace("\r", " ")
        return text

    def _not_text(self, line: bytes, start: int) -> BadLine:
        near = line[max(0, start - 10) : start].decode("utf-8", "replace")
        message = f"byte 0x{line[start]:02x} at position {start + 1} (after {near!r}) is not UTF-8"
        fix, name = "set data.encoding to the encoding of such lines", "ENCODING"
        if self._other is not None:
            message, fix = f"{message} and the line is not {self._other}", ""
        elif like := as_windows(line):
            message = f"{message}; it looks like Windows-1252 ({like[max(0, start - 10) : start + 10]!r})"
            fix, name = "data.encoding=windows-1252 reads such lines", "WINDOWS-1252"
        message += f"; convert the file (iconv -f {name} -t UTF-8)"
        return self._bad("not UTF-8", message, fix=fix, text=line.decode("utf-8", "replace"), colon=True)

    def _too_long(self, text: str = "") -> BadLine:
        rule = f"more than data.max_line {self._most:,} characters"
        return self._bad(rule, f"has {rule}", fix="a larger data.max_line accepts it", text=text)

    def _bad(self, rule: str, message: str, *, fix: str = "", text: str = "", colon: bool = False) -> BadLine:
        message = f"{self._name} line {self.number}{':' if colon else ''} {message}"
        return self.findings.bad(rule, self._where, f"{self._inside}{self.number}", message, fix=fix, text=text)


def as_windows(line: bytes) -> str:
    """A line decoded as Windows-1252 if that looks like a language with a few accented letters; else ""."""
    try:
        text = line.decode("windows-1252")
    except UnicodeDecodeError:
        return ""
    letters = [c for c in text if c.isalpha()]
    odd = [c for c in text if not c.isascii()]
    plausible = all(c.isalpha() or c in _TYPOGRAPHY for c in odd)
    return text if plausible and sum(not c.isascii() for c in letters) <= 0.4 * len(letters) else ""


Numbered = tuple[int, Any]
"""The number of a line, from 1, and its input (a text, or a pair of texts) or a `BadLine`."""

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
        self.arriving: _Arriving | None = None
        """The pipe that is read, if it is one."""

    def batches(self, most: int) -> Iterator[list[Numbered]]:
        """Batches of at most `most` lines.

        Raises:
            DataError: As for `heed.data.text_files.lines_of`, after the lines before the error; an empty file is none.
        """
        return in_batches(self._lines(), most, self)

    def _lines(self) -> Generator[Numbered | None]:
        reader = _Lines(self._path or Path("stdin"), self.name, self._findings, None, False)
        number = 0
        for line in reader.through(self._opened):
            number += line is not None
            yield None if line is None else (number, line)

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
            return buffer  # type: ignore[return-value]
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return buffer  # type: ignore[return-value]
        self.arriving = _Arriving(descriptor)
        return self.arriving

    @contextmanager
    def _pipe(self, path: Path) -> Iterator[Chunks]:
        with path.open("rb", buffering=0) as file:
            self.arriving = _Arriving(file.fileno())
            yield self.arriving


def in_batches(lines: Iterable[Numbered | None], most: int, pipe: Incoming | None = None) -> Iterator[list[Numbered]]:
    """Batches of at most `most` lines; lines before an error come before it.

    The batches of a pipe grow, and end at None, when no line has come for a while.
    """
    batch: list[Numbered] = []
    size = 0
    rest = iter(lines)
    while True:
        try:
            line = next(rest, ...)
        except DataError:
            if batch:
                yield batch
            raise
        arriving = None if pipe is None else pipe.arriving
        if isinstance(line, tuple):
            batch.append(line)
            size = size or (most if arriving is None else min(_FIRST, most))
            if len(batch) == 1 and arriving is not None:
                arriving.until = time.monotonic() + _LONGEST
        if batch and (not isinstance(line, tuple) or len(batch) == size):
            if arriving is not None:
                arriving.until = None
            if len(batch) == size:
                size = min(_GROWTH * size, most)
            yield batch
            batch = []
        if line is ...:
            return


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
        own = Findings.of(data, strict=True)
        super().__init__("skip" if skip else "error", own.encoding, max(own.max_line, MAX_LINE), hint=False)
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
        if len(self.bad_places) < _TOLD:
            self.bad_places.append(str(place))
            self._tell(message)
