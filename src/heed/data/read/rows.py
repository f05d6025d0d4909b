"""Rows of CSV, TSV and JSON lines, each with the number of its first line; bad rows are left out or raised."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from heed.data.read.findings import BadLine, Findings
from heed.data.read.lines import lines_of
from heed.data.read.objects import load_json
from heed.data.read.values import described, kind_of
from heed.errors import DataError, suggest

Column = int | str | None
"""A column: its number from 0, its name, or None for the default."""

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Separators of columns, as messages name them."""
_FIELD = 2**17
"""Characters that a quoted text may always have; beyond the limit, an unclosed quote is an error."""


def tabbed_rows(path: Path, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    """Rows with columns separated by tabs; quotes have no meaning."""
    for number, line in enumerate(lines_of(path, findings), start=1):
        if isinstance(line, BadLine):
            findings.leave_out(line.rule)
        else:
            yield number, line.split("\t")


def quoted_rows(path: Path, findings: Findings, separator: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Rows with columns separated by commas or another character; a quoted text may contain line breaks.

    Raises:
        DataError: A quote is never closed, so that the end of its row is unknown.
    """
    bad: list[BadLine] = []  # of the row that is being read
    largest = max(_FIELD, findings.max_line)
    with closing(lines_of(path, findings)) as lines:
        rows = csv.reader(_whole_lines(lines, bad), strict=True, delimiter=separator)
        number = 1
        while True:
            others = csv.field_size_limit(largest)  # global: other libraries set it too
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                until = f" (read up to line {rows.line_num})" if rows.line_num > number else ""
                message = (
                    f"'{path}' line {number} is not CSV: {error}{until}; put a text with a comma, a quote or a line "
                    'break in quotes, and double each quote in it: ""'
                )
                if "expected after" not in str(error):  # the end of the row is unknown
                    raise DataError(message) from None
                if not bad:
                    bad.append(findings.bad("not CSV", path, number, message))
                row = []
            finally:
                csv.field_size_limit(others)
            if bad:
                findings.leave_out(bad[0].rule)
            else:
                yield number, row
            bad.clear()
            number = rows.line_num + 1


def _whole_lines(lines: Iterable[str | BadLine], bad: list[BadLine]) -> Iterator[str]:
    """Lines with their ends, bad ones included, since their quotes decide where a row ends."""
    for line in lines:
        if isinstance(line, BadLine):
            bad.append(line)
        yield (line.text if isinstance(line, BadLine) else line) + "\n"


def json_rows(path: Path, findings: Findings, names: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Objects, one a line, that have all fields; None for a blank line."""
    for number, line in enumerate(lines_of(path, findings), start=1):
        value: dict[str, Any] | BadLine | None = line if isinstance(line, BadLine) else None
        if isinstance(line, str) and line.strip():
            value = _object(line, path, number, findings, names)
        if isinstance(value, BadLine):
            findings.leave_out(value.rule)
        else:
            yield number, value


def _object(line: str, path: Path, number: int, findings: Findings, names: tuple[str, ...]) -> dict[str, Any] | BadLine:
    where = f"'{path}' line {number}"
    try:
        value: Any = load_json(line)
    except (ValueError, RecursionError) as error:
        what = f"{error.msg} at position {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        shape = "{" + ", ".join(f'"{name}": "..."' for name in names) + "}"
        message = f"{where} is not JSON: {what} ({line[:40]!r}); expected one object a line, such as {shape}"
        return findings.bad("not JSON", path, number, message)
    if not isinstance(value, dict):
        listing = " and ".join(f"'{name}'" for name in names)
        fields = f"an object with the field{'s' if len(names) > 1 else ''} {listing}"
        message = f"{where} is {kind_of(value)}, expected {fields}"
        return findings.bad("not a JSON object", path, number, message)
    row: dict[str, Any] = value
    if any("." in name and name not in row for name in names):
        row = flat(row)
    for name in names:
        if name not in row:
            message = f"{where} has no field '{name}'{suggest(name, row)}"
            return findings.bad(f"no field '{name}'", path, number, message)
    return row


def flat(value: dict[str, Any]) -> dict[str, Any]:
    """An object with its own fields and those of nested objects, named as in "translation.en"."""
    inside = {f"{name}.{part}": v for name, one in value.items() if isinstance(one, dict) for part, v in one.items()}
    return {**value, **inside}


def text_of(row: dict[str, Any], name: str, path: Path, number: int, findings: Findings) -> str | BadLine:
    """A field of an object, which must be text."""
    value, where = row[name], f"'{path}' line {number}: field '{name}'"
    if not isinstance(value, str):
        message = f"{where} is {'null' if value is None else described(value)}, expected text"
        return findings.bad(f"field '{name}' is not text", path, number, message)
    return characters_of(value, where, path, number, findings)


def characters_of(text: str, where: str, path: Path | str, number: str | int, findings: Findings) -> str | BadLine:
    """A text from JSON; escaped characters that are not text make it a bad line."""
    if "\0" in text:
        message = f"{where} contains a NUL character ({text!a:.40}), which is not text"
        return findings.bad("NUL byte", path, number, message)
    if any("\ud800" <= c <= "\udfff" for c in text):
        message = f"{where} contains half a surrogate pair ({text!a:.40}), which is not a character"
        return findings.bad("half a surrogate pair", path, number, message)
    return text


def column_rows(
    path: Path,
    wanted: Mapping[str, int | str],
    findings: Findings,
    *,
    separator: str,
    header: bool | None = None,
    expected: str = "column",
    unnamed: str = "has no column '{1}'{2}",
    hint: str = "",
) -> Iterator[tuple[int, list[str | BadLine] | None]]:
    """The columns of some fields, by number from 0 or by the names in the first line; None for a blank line.

    The first line is left out if it is a `header`; by default it is one if a column is given by name. `expected` and
    `unnamed` (with field, column and suggestion) are parts of messages about missing columns; `hint` ends those about
    lines of one column.

    Raises:
        DataError: The first line should name the columns, but is a bad line or does not.
    """
    by_name = any(isinstance(column, str) for column in wanted.values())
    places = None if by_name else [int(column) for column in wanted.values()]

    def missing(row: list[str], number: int, field: str, place: int) -> BadLine:
        shown = f"{len(row)} column{'s' if len(row) != 1 else ''} ({' | '.join(row)[:40]!r})"
        what = f"{expected.format(field)} {place} (counted from 0) is missing"
        least = f"expected at least {place + 1}: {what}" if place >= 0 else what
        message = f"'{path}' line {number} has {shown}, {least}; "
        message += f"columns are separated by {SEPARATORS[separator]}{hint if len(row) < 2 else ''}"
        return findings.bad(f"no column {place}", path, number, message)

    tabs = separator == "\t"
    for number, row in tabbed_rows(path, findings) if tabs else quoted_rows(path, findings, separator):
        if number == 1 and header and places is not None:
            continue
        if places is None:
            if number != 1:
                message = "should name the columns, but is a bad line; columns can also be given by number"
                raise DataError(f"'{path}' line 1 {message}")
            absent = [(field, name) for field, name in wanted.items() if isinstance(name, str) and name not in row]
            if absent:
                field, name = min(absent, key=lambda one: one[0] == one[1])  # a name the user gave before a usual one
                raise DataError(f"'{path}' line 1 {unnamed.format(field, name, suggest(name, row))}")
            for column in wanted.values():
                if isinstance(column, str) and row.count(column) > 1:
                    twins = [n for n, name in enumerate(row) if name == column]
                    raise DataError(
                        f"'{path}' line 1 names two columns '{column}' ({twins[0]} and {twins[1]}, counted from 0); "
                        "rename one, or give the column by number"
                    )
            places = [row.index(column) if isinstance(column, str) else column for column in wanted.values()]
        elif row in ([], [""]):
            yield number, None
        else:
            columns = zip(wanted, places, strict=True)
            yield number, [row[n] if 0 <= n < len(row) else missing(row, number, field, n) for field, n in columns]
