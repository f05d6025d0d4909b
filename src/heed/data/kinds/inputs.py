"""Input texts and pairs of texts for prediction, from a file of columns or JSON lines or passed in Python.

A pair is handled as one text with a tab between both.

For pairs, the source is used; a remark names the column. Files without columns are read line by line, whatever their
ending.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.data.columns import Column, Facts, pick, pick_text
from heed.data.columns import shown as shown_column
from heed.data.findings import BadLine, Findings
from heed.data.readers import are_dicts, text_in
from heed.data.tables import FEW, CsvTable, Field, JsonTable, Row, Table, column_names, described
from heed.data.text_files import Numbered, ending_of
from heed.errors import DataError

KINDS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
"""Endings of files with columns."""


def input_texts(
    path: Path,
    given: Column,
    names: Sequence[str],
    findings: Findings,
    known: Collection[str] = (),
    trained: Sequence[str] = (),
    default: Column = None,
) -> tuple[Iterator[Numbered], str] | None:
    """The texts of a `.csv`, `.tsv` or JSON file and a remark naming their column; None for plain lines.

    The file may be compressed. A line that the findings skip is a `BadLine`.

    Args:
        path: The file.
        given: The text column that the run was trained on, if its data has columns.
        names: Possible names of the column, most reliable first.
        findings: Policy for bad lines.
        known: The labels of the training set, which are not texts.
        trained: The training files; if one has the same ending, this file has columns too.
        default: The column of a file without a header, if `given` is a name.

    Raises:
        DataError: The file cannot be read, its header lacks the column, or a line is bad.
    """
    kind = ending_of(path)
    if kind not in KINDS or not os.path.isfile(path):
        return None
    table = Table.open(path, findings)
    if isinstance(table, JsonTable) and table.items is None and len(table.objects) <= len(table.head.filled) / 2:
        return None
    column = table.of_training([Field("text", given, names)])["text"] if isinstance(given, str) else None
    if isinstance(table, CsvTable) and not table.recognised:
        if column is None or len(table.names) > 1:
            return None
        table.columns = {"text": column}  # the only one: a comma outside quotes is part of the text
        lines = numbered(table, lambda row: table.separator.join(row.object() or ()))
        return lines, f"columns: the text is '{column}'"
    # A line without the field is a bad line; the objects are still not read as texts.
    column = column or next((name for name in names if name in table.names), None)
    sure = isinstance(table, JsonTable)
    if isinstance(table, CsvTable):
        table.header = column is not None or table.has_header
        # Commas alone do not show that there are columns: sentences have them too.
        sure = kind == ".tsv" or table.header or any(ending_of(Path(file)) == kind for file in trained)
        number = default if isinstance(given, str) else given
        if column is None and isinstance(number, int) and number < len(table.sample[0]) and sure:
            column = number
    if column is None and (table.header or known or table.judged >= FEW):
        columns = table.facts(known)
        column = _found(columns) if sure or any(facts.known >= 0.5 for facts in columns) else None
    if column is None:
        return None
    shown = f"'{column}'" if isinstance(column, str) else f"{column} (counted from 0)"
    said = f"{table.column_word}s: the text is {shown}" + ("" if table.header else "; the file has no header")
    table.columns = {"text": column}
    return numbered(table, lambda row: row.text("text")), said


def numbered(table: Table, text: Callable[[Row], str]) -> Iterator[Numbered]:
    """The text of each row, or its `BadLine`, with the number of its line."""
    for row in table.rows():
        try:
            yield row.number, text(row)
        except BadLine as bad:
            yield row.number, bad


def _found(columns: Sequence[Facts]) -> Column:
    """The column of texts, recognised by content, with or without a column of labels."""
    found = pick(columns).text or pick_text(columns)
    return None if isinstance(found, str) else found.name


BETWEEN = "\t"
"""Separator of the two texts of a pair."""


def one_text(first: str, second: str) -> str:
    """Two texts as one; tabs inside them become spaces."""
    return BETWEEN.join(text.replace(BETWEEN, " ") for text in (first, second))


def parted(text: str, strip: bool = True) -> tuple[str, str]:
    """The two texts of a pair, stripped unless told otherwise; the second is empty if there is no tab."""
    first, _, second = text.partition(BETWEEN)
    second = second.replace(BETWEEN, " ")
    return (first.strip(), second.strip()) if strip else (first, second)


def pairs_of(data: Any, what: str, columns: Sequence[Column]) -> list[str]:
    """Pairs passed in Python, each as one text: tuples of two, texts with a tab, or a data frame or dicts by columns.

    `columns` are those of the run's own data; messages call the data `what`.

    Raises:
        DataError: An item is not a pair; the message names its position.
    """
    wanted = ["text" if column is None else column for column in columns]
    if are_dicts(data):
        fields = list(data[0]) if len(data[0]) == 2 and wanted[0] not in data[0] else wanted
        rows = [[text_in(row, f"{what}[{i}]", name) for name in fields] for i, row in enumerate(data)]
        return [one_text(*row) for row in rows]
    names = column_names(data)
    if names is not None:
        chosen = wanted if all(column in names for column in wanted) else names
        if len(chosen) != 2:
            shown = ", ".join(map(str, names))
            raise DataError(f"{what} has the columns {shown}; give only the two with the texts of a pair")
        data = list(zip(*(list(data[name]) for name in chosen), strict=True))
    return [_pair_at(value, f"{what}[{i}]") for i, value in enumerate(data)]


def one_pair(value: Any) -> str:
    """One pair, a tuple of two texts or a text with a tab, as one text.

    Raises:
        DataError: The value is not a pair.
    """
    return _pair_at(value, "the input")


def is_pair(value: Any) -> bool:
    """True if a value is one pair: a tuple of two texts that are not pairs themselves, or a text."""
    if isinstance(value, str):
        return True
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, str) and BETWEEN not in v for v in value)


def _pair_at(value: Any, where: str) -> str:
    if isinstance(value, str) and (BETWEEN in value or not value.strip()):
        return value
    if isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(v, str) for v in value):
        return one_text(*value)
    raise DataError(f"{where} is {described(value)}, expected two texts: (first, second), or both with a tab between")


def pair_lines(path: Path, columns: Sequence[Column], findings: Findings) -> tuple[Iterator[Numbered], str] | None:
    """The pairs of a `.csv`, `.tsv` or JSON file and a remark naming their columns; None for plain lines.

    The file may be compressed. A line that the findings skip is a `BadLine`. A file that does not name both columns
    must have only two.

    Raises:
        DataError: The file cannot be read, or has other columns.
    """
    if ending_of(path) not in KINDS or not os.path.isfile(path):
        return None
    table = Table.open(path, findings)
    if isinstance(table, CsvTable):
        if not table.recognised:
            return None
        table.header = table.has(*columns) or table.has_header

    def both(facts: Sequence[Facts], known: Mapping[str, Column]) -> dict[str, int | str] | str:
        names = [one.name for one in facts]
        why = f"it has {len(names)} columns instead of two"
        return dict(zip(known, names, strict=True)) if len(names) == 2 else why

    table.choose([Field("text", columns[0]), Field("second", columns[1])], both, trained=True, least=1)
    unnamed = "" if table.header else "; the file has no header"
    called = " and ".join(shown_column(column) for column in table.columns.values())
    said = f"{table.column_word}s: the texts are {called}{unnamed}"
    return numbered(table, _both), said


def _both(row: Row) -> str:
    """Both texts as one; blank if there are none."""
    first, second = row.text("text"), row.text("second")
    return one_text(first, second) if first.strip() or second.strip() else ""
