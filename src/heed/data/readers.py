"""Readers of people's own files: pairs of texts, with file and line of everything that is wrong.

| given | read as |
|---|---|
| two files | line N of one belongs to line N of the other |
| .tsv, .txt, or anything else | tab separated, columns by number or by the names of a first line |
| .csv | comma separated, quoted as usual, columns as above |
| .jsonl, .json | one object a line, fields by name |

Each may end in .gz or .xz as well. Text is UTF-8; a byte-order mark at the start is left out; lines end in LF or CRLF.
A blank line is a pair with two blank sides.
"""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, cast

from heed.data.examples import Pair
from heed.errors import DataError, suggest

__all__ = ["Column", "lines_of", "read_pairs"]

Column = int | str | None
"""A column: its number from 0, its name, or None for the default."""

_OPENERS: dict[str, Callable[[Path], IO[bytes]]] = {
    ".gz": lambda path: cast("IO[bytes]", gzip.open(path, "rb")),
    ".xz": lambda path: cast("IO[bytes]", lzma.open(path, "rb")),
}


def read_pairs(files: Sequence[str | Path], source: Column = None, target: Column = None) -> Iterator[Pair]:
    """Read pairs from two parallel files or from one file of columns.

    Args:
        files: Two paths, source first, or one.
        source: Column of the source in one file: 0 by default, "source" in JSON lines.
        target: Column of the target: 1 by default, "target" in JSON lines.

    Yields:
        One pair a line, blank sides included; its origin names file and line.

    Raises:
        DataError: A file is missing, empty, not UTF-8, cut off, or has a line without the column, each with file and
            line; two files have different numbers of lines.
    """
    paths = [Path(f) for f in files]
    if len(paths) == 2:
        yield from _parallel(*paths)
    elif len(paths) == 1:
        kind = _inner_suffix(paths[0])
        read = _json_lines if kind in (".jsonl", ".json") else _columns
        yield from read(paths[0], source, target)
    else:
        raise DataError(
            f"{len(paths)} files were given ({', '.join(map(str, paths))}); expected two parallel files, or one with "
            "both sides"
        )


_SIGNATURES = {
    b"PK\x03\x04": "a zip archive or an Excel file; unpack it, or save the sheet as CSV UTF-8",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file; save it as CSV UTF-8 or as text",
    b"\x1f\x8b": "gzip; name it .gz",
    b"\xfd7zXZ": "xz; name it .xz",
    b"\xff\xfe": "UTF-16; convert it (iconv -f UTF-16 -t UTF-8)",
    b"\xfe\xff": "UTF-16; convert it (iconv -f UTF-16 -t UTF-8)",
}
"""How files begin that are often given instead of text, and what to do with them."""


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text file, compressed or not, without their ends.

    Raises:
        DataError: The file is missing, empty, cut off or not UTF-8; with the line, the byte and its place.
    """
    number = 0
    try:
        with _OPENERS.get(path.suffix, lambda p: p.open("rb"))(path) as file:
            for number, raw in enumerate(file, start=1):
                yield _decode(raw, path, number)
    except FileNotFoundError:
        raise DataError(f"no file '{path}'") from None
    except IsADirectoryError:
        raise DataError(f"'{path}' is a folder; expected a file") from None
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        where = f"after line {number}" if number else "at its start"
        raise DataError(f"'{path}' is cut off or damaged {where}: {error}") from None
    except OSError as error:
        where = f" after line {number}" if number else ""
        raise DataError(f"cannot read '{path}'{where}: {error.strerror or error}") from None
    if number == 0:
        raise DataError(f"'{path}' is empty; expected one text a line")


def _decode(raw: bytes, path: Path, number: int) -> str:
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
        for signature, meaning in _SIGNATURES.items():
            if line.startswith(signature):
                raise DataError(f"'{path}' is not UTF-8 text: it looks like {meaning}")
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        start = error.start
        near = line[max(0, start - 10) : start].decode("utf-8", "replace")
        raise DataError(
            f"'{path}' line {number}: byte 0x{line[start]:02x} at position {start + 1} (after {near!r}) is not UTF-8; "
            "if the file is in another encoding, convert it (iconv -f WINDOWS-1252 -t UTF-8)"
        ) from None


def _inner_suffix(path: Path) -> str:
    """The suffix that tells the format, under a compression suffix if there is one."""
    return Path(path.stem).suffix if path.suffix in _OPENERS else path.suffix


def _parallel(source: Path, target: Path) -> Iterator[Pair]:
    for number, (left, right) in enumerate(zip_longest(lines_of(source), lines_of(target)), start=1):
        if left is None or right is None:
            short, long = (source, target) if left is None else (target, source)
            total = sum(1 for _ in lines_of(long))
            raise DataError(
                f"'{short}' has {number - 1} lines but '{long}' has {total}; "
                "line N of one must belong to line N of the other"
            )
        yield Pair(left, right, origin=f"{source.name}:{number}")


def _columns(path: Path, source: Column, target: Column) -> Iterator[Pair]:
    wanted: tuple[Column, Column] = (0 if source is None else source, 1 if target is None else target)
    header: list[str] | None = None
    for number, row in (_quoted_rows if _inner_suffix(path) == ".csv" else _tabbed_rows)(path):
        if header is None and any(isinstance(column, str) for column in wanted):
            header = row
        elif row in ([], [""]):  # a blank line
            yield Pair("", "", origin=f"{path.name}:{number}")
        else:
            left, right = (_cell(row, column, header, path, number) for column in wanted)
            yield Pair(left, right, origin=f"{path.name}:{number}")


def _tabbed_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines_of(path), start=1):
        yield number, line.split("\t")


def _quoted_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each begins at: a quoted text may hold line breaks."""
    rows = csv.reader((line + "\n" for line in lines_of(path)), strict=True)
    number = 1
    try:
        for row in rows:
            yield number, row
            number = rows.line_num + 1
    except csv.Error as error:
        until = f" (read up to line {rows.line_num})" if rows.line_num > number else ""
        raise DataError(
            f"'{path}' line {number} is not CSV: {error}{until}; "
            'a text that holds a comma, a quote or a line break stands in quotes, and a quote in it is doubled: ""'
        ) from None


def _cell(row: list[str], column: Column, header: list[str] | None, path: Path, number: int) -> str:
    if isinstance(column, str):
        assert header is not None
        if column not in header:
            raise DataError(f"'{path}' line 1 has no column '{column}'{suggest(column, header)}")
        column = header.index(column)
    assert column is not None
    if not 0 <= column < len(row):
        shown = row[0][:40] if row else ""
        by = "commas" if _inner_suffix(path) == ".csv" else "tabs"
        hint = f"; {by} separate columns; or give two parallel files" if len(row) < 2 else ""
        raise DataError(
            f"'{path}' line {number} has {len(row)} column{'s' if len(row) != 1 else ''} ({shown!r}), "
            f"expected column {column} (counted from 0){hint}"
        )
    return row[column]


def _json_lines(path: Path, source: Column, target: Column) -> Iterator[Pair]:
    names = ("source" if source is None else str(source), "target" if target is None else str(target))
    for number, line in enumerate(lines_of(path), start=1):
        if not line.strip():
            yield Pair("", "", origin=f"{path.name}:{number}")
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            what = f"{error.msg} at position {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(
                f"'{path}' line {number} is not JSON: {what} ({line[:40]!r}); expected one object a line, as "
                f'{{"{names[0]}": "...", "{names[1]}": "..."}}'
            ) from None
        if not isinstance(values, dict):
            raise DataError(
                f"'{path}' line {number} holds a {type(values).__name__}, expected an object with the fields "
                f"'{names[0]}' and '{names[1]}'"
            )
        sides = []
        for name in names:
            if name not in values:
                raise DataError(f"'{path}' line {number} has no field '{name}'{suggest(name, values)}")
            if not isinstance(values[name], str):
                found = f"{type(values[name]).__name__} {values[name]!r:.40}"
                raise DataError(f"'{path}' line {number}: field '{name}' is {found}, expected text")
            if any("\ud800" <= c <= "\udfff" for c in values[name]):
                raise DataError(
                    f"'{path}' line {number}: field '{name}' holds half a surrogate pair ({values[name]!a:.40}), "
                    "which is no character"
                )
            sides.append(values[name])
        yield Pair(sides[0], sides[1], origin=f"{path.name}:{number}")
