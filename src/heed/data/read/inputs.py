"""Texts to predict from a file of columns or JSON lines, where a file of lines was expected."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from heed.data.read.columns import Facts, facts_of, facts_of_objects, has_header, pick, pick_text
from heed.data.read.findings import Findings
from heed.data.read.head import Head, excel_head, regular_rows
from heed.data.read.rows import Column, column_rows, flat, json_rows, text_of

_FEW = 4
"""Rows from which on a column without a name is recognised by what it holds."""


def input_texts(
    path: Path,
    given: Column,
    names: Sequence[str],
    findings: Findings,
    known: Collection[str] = (),
    trained: Sequence[str] = (),
) -> tuple[list[str], str] | None:
    """The texts of a `.csv`, `.tsv` or `.jsonl` file and a remark that says where they stand; None for plain lines.

    Args:
        path: The file.
        given: The column that the run's own files have them in, if it was said.
        names: What it may be called, the surest first; a number is a column of files without names.
        findings: Of the run's settings.
        known: The labels of the training set, which are no texts.
        trained: The training files; one with the same ending had columns too.

    Raises:
        DataError: The file cannot be read, or a line is bad.
    """
    kind = path.suffix
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
    # Commas alone are no sign of columns: sentences have them too.
    sure = kind == ".tsv" or header or any(Path(file).suffix == kind for file in trained)
    column: int | str | None = named
    if column is None and isinstance(given, int) and given < len(rows[0]) and sure:
        column = given
    if column is None:
        sure = sure or any(facts.known >= 0.5 for facts in columns)
        found = _found(columns) if sure and (header or known or len(rows) >= _FEW) else None
        if found is None:
            return None
        column = found.name
    texts = [
        "" if cells is None else str(cells[0])
        for _, cells in column_rows(path, {"text": column}, findings, separator=separator, header=header)
    ]
    what = f"'{column}'" if isinstance(column, str) else f"{column} (counted from 0)"
    return texts, f"columns: the text is {what}" + ("" if header else "; the file has no header")


def _of_objects(
    head: Head, given: Column, names: Sequence[str], findings: Findings, known: Collection[str]
) -> tuple[list[str], str] | None:
    objects = []
    for line in head.filled:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        objects.append(flat(value))
    if not objects:
        return None
    wanted = [*([given] if isinstance(given, str) else []), *names]
    name = next((name for name in wanted if all(isinstance(one.get(name), str) for one in objects)), None)
    if name is None:
        found = _found(facts_of_objects(objects, known))
        if found is None:
            return None
        name = str(found.name)
    texts = []
    for number, row in json_rows(head.path, findings, (name,)):
        text = "" if row is None else text_of(row, name, head.path, number, findings)
        texts.append(text if isinstance(text, str) else "")
    return texts, f"fields: the text is '{name}'"


def _found(columns: Sequence[Facts]) -> Facts | None:
    """The column of texts by what it holds, beside one of labels or alone."""
    picked = pick(columns)
    if picked.text is not None:
        return picked.text
    found = pick_text(columns)
    return None if isinstance(found, str) else found
