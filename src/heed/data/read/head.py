"""The beginning of a file, from which its layout is recognised; counts nothing and raises nothing.

At most 10,000 lines or 4 million characters are read; pipes are not read.

Recognition (`layout.py`, `pair_layout.py`, `number_layout.py`) decides, before a file is read, only what ending, first
line and settings leave open, so files that can be read without it are read as they would be. The specifications of
tasks (`takes`) list which of the contents in `contents.py` a command reads, so that readers name no task.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from heed.data.read.findings import Findings
from heed.data.read.lines import as_windows, ending_of, lines_of, opened
from heed.data.read.rows import SEPARATORS
from heed.errors import DataError

_LINES = 10_000
_CHARACTERS = 1 << 22
_BYTES = 1 << 20
_REGULAR = 0.95
"""Share of the rows that must have the same number of columns."""


@dataclass(frozen=True)
class Head:
    """The first readable lines of a file, at most 10,000 lines or 4 million characters."""

    path: Path
    lines: tuple[str, ...]
    whole: bool  # True if the file has no further lines
    odd: int = 0  # unreadable lines among them, not in `lines`

    @classmethod
    def of(cls, path: Path, findings: Findings) -> Head:
        """The head of a regular file; empty for a pipe, a folder or an unreadable file."""
        if not path.is_file():
            return cls(path, (), True)
        own, size, lines = Findings("skip", findings.encoding_of(path), findings.max_line), 0, list[str]()
        odd = 0
        try:
            with closing(lines_of(path, own)) as every:
                for line in every:
                    if len(lines) == _LINES or size > _CHARACTERS:
                        return cls(path, tuple(lines), False, odd)
                    if isinstance(line, str):
                        lines.append(line)
                        size += len(line)
                    else:
                        odd += 1
        except DataError:
            pass  # reading the whole file reports why
        return cls(path, tuple(lines), True, odd)

    @cached_property
    def filled(self) -> tuple[str, ...]:
        """The lines that are not blank."""
        return tuple(line for line in self.lines if line.strip())

    def rows(self, separator: str) -> list[list[str]]:
        """The lines as rows; quotes have no meaning in tab-separated ones."""
        return rows_of(self.lines, separator)

    def separator(self, usual: str) -> str | None:
        """The separator that gives all rows equally many columns (two or more), `usual` if possible, or None."""
        for separator in dict.fromkeys((usual, *SEPARATORS)):
            rows = self.rows(separator)
            if is_regular(rows) and len(rows[0]) == len(regular_rows(rows)[0]):
                return separator
        return None

    @property
    def is_windows(self) -> bool:
        """True if the file begins with text in Windows-1252: lines that are not UTF-8, and none that needs UTF-8."""
        with opened(self.path) as file:
            lines = file.read(_BYTES).split(b"\n")[:-1]
        odd = [line.removesuffix(b"\r") for line in lines if not line.isascii()]
        return bool(odd) and all(not _is_utf8(line) and as_windows(line) for line in odd)


def excel_head(path: Path, findings: Findings) -> Head:
    """The head of a CSV file, read as Windows-1252 if it is separated by semicolons and not UTF-8 (Excel's export)."""
    head = Head.of(path, findings)
    if head.odd and head.is_windows:
        wide = Head.of(path, Findings("skip", "windows-1252", findings.max_line))
        if wide.separator(",") == ";":
            findings.recognise_encoding(path, "windows-1252")
            return Head.of(path, findings)
    return head


def rows_of(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Rows of lines, without blank ones."""
    if separator == "\t":
        return [line.split("\t") for line in lines if line.strip()]
    rows: list[list[str]] = []
    try:
        rows += (row for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=separator) if row)
    except csv.Error:
        pass  # use the rows before the error
    return rows


def is_regular(rows: Sequence[Sequence[str]]) -> bool:
    """True if nearly all rows have the same number of columns, two at least."""
    if not rows:
        return False
    widths = [len(row) for row in rows]
    usual = max(set(widths), key=widths.count)
    return usual > 1 and widths.count(usual) >= _REGULAR * len(rows)


def regular_rows(rows: Sequence[list[str]]) -> list[list[str]]:
    """The rows that have the usual number of columns."""
    widths = [len(row) for row in rows]
    usual = max(set(widths), key=widths.count)
    return [row for row in rows if len(row) == usual]


def is_table(path: Path) -> bool:
    """True if the file's ending is .csv or .tsv, perhaps before that of a compression."""
    return ending_of(path) in (".csv", ".tsv")


def note_header(row: Sequence[str], path: Path, unit: str, findings: Findings, fix: str = "delete it") -> None:
    """Remark that the first line of a file looks like names of columns, but is read as an example."""
    names = " | ".join(row)[:40]
    findings.remark(f"warning: line 1 of {path.name} looks like a header ({names}) but is read as a {unit}; {fix}")


def some(values: Iterable[str], most: int = 3) -> str:
    """The first few values, for messages."""
    listed = list(dict.fromkeys(values))
    shown = ", ".join(value if len(value) <= 20 else value[:18] + "..." for value in listed[:most])
    return shown + (", ..." if len(listed) > most else "")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
