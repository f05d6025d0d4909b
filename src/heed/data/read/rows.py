"""Lines of columns and of JSON as rows, each with the line it begins at; bad ones are left out or raised."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from heed.data.read.findings import BadLine, Findings
from heed.data.read.lines import lines_of
from heed.errors import DataError, suggest

Column = int | str | None
"""A column: its number from 0, its name, or None for the default."""

_FIELD = 2**17
"""Characters that a quoted text may at least have: a quote that is never closed is noticed after as many."""


def tabbed_rows(path: Path, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    """Rows whose columns tabs separate; quotes mean nothing."""
    for number, line in enumerate(lines_of(path, findings), start=1):
        if isinstance(line, BadLine):
            findings.leave_out(line.rule)
        else:
            yield number, line.split("\t")


def quoted_rows(path: Path, findings: Findings) -> Iterator[tuple[int, list[str]]]:
    """Comma separated rows; a quoted text may hold line breaks.

    Raises:
        DataError: A quote is never closed, which takes in all that follows; or quotes stand where they mean nothing.
    """
    bad: list[BadLine] = []  # of the row that is being read
    largest = max(_FIELD, findings.max_line)
    with closing(lines_of(path, findings)) as lines:
        rows = csv.reader(_whole_lines(lines, bad), strict=True)
        number = 1
        while True:
            others = csv.field_size_limit(largest)  # is the whole process's, and other libraries set it too
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                until = f" (read up to line {rows.line_num})" if rows.line_num > number else ""
                message = (
                    f"'{path}' line {number} is not CSV: {error}{until}; a text that holds a comma, a quote or a line "
                    'break stands in quotes, and a quote in it is doubled: ""'
                )
                if "expected after" not in str(error):  # where the row ends is unknown
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
    """Lines with their ends; of bad ones the quotes count, so that one knows where the row ends."""
    for line in lines:
        if isinstance(line, BadLine):
            bad.append(line)
            yield line.text + "\n"
        else:
            yield line + "\n"


def json_rows(path: Path, findings: Findings, names: tuple[str, str]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Objects, one a line, that have both fields; None for a blank line."""
    for number, line in enumerate(lines_of(path, findings), start=1):
        if isinstance(line, BadLine):
            findings.leave_out(line.rule)
        elif not line.strip():
            yield number, None
        else:
            value = _object(line, path, number, findings, names)
            if isinstance(value, BadLine):
                findings.leave_out(value.rule)
            else:
                yield number, value


def _object(line: str, path: Path, number: int, findings: Findings, names: tuple[str, str]) -> dict[str, Any] | BadLine:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = f"{error.msg} at position {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        return findings.bad(
            "not JSON",
            path,
            number,
            f"'{path}' line {number} is not JSON: {what} ({line[:40]!r}); expected one object a line, as "
            f'{{"{names[0]}": "...", "{names[1]}": "..."}}',
        )
    if not isinstance(value, dict):
        return findings.bad(
            "no JSON object",
            path,
            number,
            f"'{path}' line {number} holds a {type(value).__name__}, expected an object with the fields "
            f"'{names[0]}' and '{names[1]}'",
        )
    for name in names:
        if name not in value:
            message = f"'{path}' line {number} has no field '{name}'{suggest(name, value)}"
            return findings.bad(f"no field '{name}'", path, number, message)
    return value


def text_of(row: dict[str, Any], name: str, path: Path, number: int, findings: Findings) -> str | BadLine:
    """A field of an object, which must be text."""
    value, where = row[name], f"'{path}' line {number}: field '{name}'"
    if not isinstance(value, str):
        message = f"{where} is {type(value).__name__} {value!r:.40}, expected text"
        return findings.bad(f"field '{name}' is no text", path, number, message)
    return characters_of(value, where, path, number, findings)


def characters_of(text: str, where: str, path: Path, number: str | int, findings: Findings) -> str | BadLine:
    """A text whose characters JSON may have spelled out: all must be such as can be written down again."""
    if "\0" in text:
        return findings.bad("NUL byte", path, number, f"{where} holds a NUL character ({text!a:.40}), which is no text")
    if any("\ud800" <= c <= "\udfff" for c in text):
        message = f"{where} holds half a surrogate pair ({text!a:.40}), which is no character"
        return findings.bad("half a surrogate pair", path, number, message)
    return text


def require_names(path: Path, number: int) -> None:
    """The first row names the columns, so that it must be the first line.

    Raises:
        DataError: The first line was left out.
    """
    if number != 1:
        raise DataError(f"'{path}' line 1 should name the columns, but is a bad line; columns by number need no names")


def cell(
    row: list[str], place: int, path: Path, number: int, findings: Findings, *, what: str, by: str, hint: str = ""
) -> str | BadLine:
    """The text in a column.

    Args:
        row: The columns.
        place: Which, from 0.
        path: The file.
        number: The line.
        findings: What becomes of a row that has no such column.
        what: What messages call the column: "column", "the label in column".
        by: What separates columns: "tabs" or "commas".
        hint: What else may be wrong where there is only one column.
    """
    if 0 <= place < len(row):
        return row[place]
    shown = " | ".join(row)[:40]
    return findings.bad(
        f"no column {place}",
        path,
        number,
        f"'{path}' line {number} has {len(row)} column{'s' if len(row) != 1 else ''} ({shown!r}), expected {what} "
        f"{place} (counted from 0); {by} separate columns{hint if len(row) < 2 else ''}",
    )
