"""Input texts for prediction from a file of columns or JSON lines.

For pairs, the source is used; a remark names the column. Files without columns are read line by line, whatever their
ending.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from heed.data.columns import Column, Facts, facts_of, pick, pick_text
from heed.data.findings import BadLine, Findings
from heed.data.tables import JsonTable, Row, Table, open_table
from heed.data.text_files import Numbered, ending_of

KINDS = (".csv", ".tsv", ".jsonl")
"""Endings of files with columns."""
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
        given: The text column that the run was trained on, if its data has columns.
        names: Possible names of the column, most reliable first.
        findings: Policy for bad lines.
        known: The labels of the training set, which are not texts.
        trained: The training files; if one has the same ending, this file has columns too.

    Raises:
        DataError: The file cannot be read, or a line is bad.
    """
    kind = ending_of(path)
    if kind not in KINDS or not path.is_file():
        return None
    table = open_table(path, findings)
    wanted = [*([given] if isinstance(given, str) else []), *names]
    column: int | str | None
    if isinstance(table, JsonTable):
        if len(table.objects) <= len(table.head.filled) / 2:
            return None
        # A line without the field is a bad line; the objects are still not read as texts.
        having = {name: sum(isinstance(one.get(name), str) for one in table.objects) for name in wanted}
        column = next((name for name in wanted if having[name] > len(table.objects) / 2), None)
        if column is None and (found := _found(table.facts(known))) is not None:
            column = found.name
        said = f"fields: the text is '{column}'"
    else:
        if not table.recognised:
            return None
        rows = table.sample
        column = next((name for name in wanted if name in table.names), None)
        table.header = column is not None or table.has_header
        # Commas alone do not show that there are columns: sentences have them too.
        sure = kind == ".tsv" or table.header or any(ending_of(Path(file)) == kind for file in trained)
        if column is None and isinstance(given, int) and given < len(rows[0]) and sure:
            column = given
        if column is None:
            first: Sequence[int | str] = rows[0] if table.header else range(len(rows[0]))
            columns = facts_of(rows[1:] if table.header else rows, first, known)
            sure = sure or any(facts.known >= 0.5 for facts in columns)
            found = _found(columns) if sure and (table.header or known or len(rows) >= _FEW) else None
            column = None if found is None else found.name
        shown = f"'{column}'" if isinstance(column, str) else f"{column} (counted from 0)"
        said = f"columns: the text is {shown}" + ("" if table.header else "; the file has no header")
    if column is None:
        return None
    table.columns = {"text": column}
    return numbered(table, lambda row: row.text("text")), said


def numbered(table: Table, text: Callable[[Row], str]) -> Iterator[Numbered]:
    """The text of each row, or its `BadLine`, with the number of its line."""
    for row in table.rows():
        try:
            yield row.number, text(row)
        except BadLine as bad:
            yield row.number, bad


def _found(columns: Sequence[Facts]) -> Facts | None:
    """The column of texts, recognised by content, with or without a column of labels."""
    picked = pick(columns)
    if picked.text is not None:
        return picked.text
    found = pick_text(columns)
    return None if isinstance(found, str) else found
