"""Input texts for prediction from a file of columns or JSON lines.

For pairs, the source is used; a remark names the column. Files without columns are read line by line, whatever their
ending.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from heed.data.read.columns import Facts, facts_of, facts_of_objects, has_header, pick, pick_text
from heed.data.read.findings import BadLine, Findings
from heed.data.read.head import Head, excel_head, regular_rows
from heed.data.read.incoming import Numbered, with_gaps
from heed.data.read.lines import ending_of
from heed.data.read.rows import Column, column_rows, flat, json_rows, text_of

_FEW = 4
"""Rows below which a column without a name is not recognised by its content."""


def input_texts(
    path: Path,
    given: Column,
    names: Sequence[str],
    findings: Findings,
    known: Collection[str] = (),
    trained: Sequence[str] = (),
) -> tuple[Iterator[Numbered], str] | None:
    """The texts of a `.csv`, `.tsv` or `.jsonl` file and a remark naming their column; None for plain lines.

    The file may be compressed. A line that the findings skip is a `BadLine`.

    Args:
        path: The file.
        given: The text column of the run's own files, if it was configured.
        names: Possible names of the column, most reliable first.
        findings: Policy for bad lines.
        known: The labels of the training set, which are not texts.
        trained: The training files; if one has the same ending, this file has columns too.

    Raises:
        DataError: The file cannot be read, or a line is bad.
    """
    kind = ending_of(path)
    if kind not in (".csv", ".tsv", ".jsonl") or not path.is_file():
        return None
    head = excel_head(path, findings) if kind == ".csv" else Head.of(path, findings)
    if kind == ".jsonl":
        return _of_objects(head, given, names, findings, known)
    usual = "," if kind == ".csv" else "\t"
    separator = head.separator(usual)
    if separator is None:
        return None
    rows = regular_rows(head.rows(separator))
    wanted = [*([given] if isinstance(given, str) else []), *names]
    named = next((name for name in wanted if name in rows[0]), None)
    header = named is not None or has_header(rows)
    columns = facts_of(rows[1:] if header else rows, rows[0] if header else range(len(rows[0])), known)
    # Commas alone do not show that there are columns: sentences have them too.
    sure = kind == ".tsv" or header or any(ending_of(Path(file)) == kind for file in trained)
    column: int | str | None = named
    if column is None and isinstance(given, int) and given < len(rows[0]) and sure:
        column = given
    if column is None:
        sure = sure or any(facts.known >= 0.5 for facts in columns)
        found = _found(columns) if sure and (header or known or len(rows) >= _FEW) else None
        if found is None:
            return None
        column = found.name
    chosen: dict[str, int | str] = {"text": column}
    cells = with_gaps(column_rows(path, chosen, findings, separator=separator, header=header), findings)
    texts = ((0, row) if isinstance(row, BadLine) else (row[0], row[1][0] if row[1] else "") for row in cells)
    what = f"'{column}'" if isinstance(column, str) else f"{column} (counted from 0)"
    return texts, f"columns: the text is {what}" + ("" if header else "; the file has no header")


def _of_objects(
    head: Head, given: Column, names: Sequence[str], findings: Findings, known: Collection[str]
) -> tuple[Iterator[Numbered], str] | None:
    values = [_parsed(line) for line in head.filled]
    objects = [flat(value) for value in values if isinstance(value, dict)]
    if len(objects) <= len(values) / 2:
        return None
    wanted = [*([given] if isinstance(given, str) else []), *names]
    # A line without the field is a bad line; the objects are still not read as texts.
    having = {name: sum(isinstance(one.get(name), str) for one in objects) for name in wanted}
    name = next((name for name in wanted if having[name] > len(objects) / 2), None)
    if name is None:
        found = _found(facts_of_objects(objects, known))
        if found is None:
            return None
        name = str(found.name)
    return _fields(head.path, name, findings), f"fields: the text is '{name}'"


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _fields(path: Path, name: str, findings: Findings) -> Iterator[Numbered]:
    for row in with_gaps(json_rows(path, findings, (name,)), findings):
        if isinstance(row, BadLine):
            yield 0, row
        else:
            number, value = row
            yield number, "" if value is None else text_of(value, name, path, number, findings)


def _found(columns: Sequence[Facts]) -> Facts | None:
    """The column of texts, recognised by content, with or without a column of labels."""
    picked = pick(columns)
    if picked.text is not None:
        return picked.text
    found = pick_text(columns)
    return None if isinstance(found, str) else found
