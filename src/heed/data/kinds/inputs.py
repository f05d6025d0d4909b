"""Inputs for prediction: texts and pairs of texts, from a file of columns or JSON lines, or passed in Python.

A file without columns is read line by line, whatever its ending. A pair has two fields, `text` and `second`; on one
line, it has a tab between its texts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heed.data.columns import Column, Facts, pick, pick_text, shown
from heed.data.findings import BadLine, Findings
from heed.data.tables import FEW, FORMATS, CsvTable, Field, JsonTable, PythonTable, Row, Table, column_names, described
from heed.data.text_files import Numbered, ending_of
from heed.errors import ConfigError, DataError

TextPair = tuple[str, str]
Input = str | TextPair


def pair_fields(text: Column, second: Column) -> list[Field]:
    """The fields of a pair of texts, by their columns."""
    return [Field("text", text), Field("second", second)]


def inputs_in(
    path: Path,
    fields: Sequence[Field],
    findings: Findings,
    labels: Collection[str] = (),
    trained: Sequence[str] = (),
    default: int | None = None,
) -> tuple[Iterator[Numbered], str] | None:
    """The inputs in a `.csv`, `.tsv` or JSON file, and a remark naming their columns; None for plain lines.

    The file may be compressed. A line that the findings skip is a `BadLine`.

    Args:
        path: The file.
        fields: The field of the text, or those of a pair, with the columns that the run was trained on.
        findings: Policy for bad lines.
        labels: Those of the training set, which are not texts.
        trained: The training files; if one has the same ending, this file has columns too.
        default: The column of a file without a header, if the run was trained on a named one.

    Raises:
        DataError: The file cannot be read, its header lacks a column, or a line is bad.
    """
    kind = ending_of(path)
    if kind not in FORMATS or not os.path.isfile(path):
        return None
    table, single = Table.open(path, findings), len(fields) == 1
    number, sure, comma = None, True, ""
    if isinstance(table, JsonTable) and table.items is None and 2 * len(table.objects) <= len(table.head.filled):
        return None
    columns = table.specified(fields, trained=True)
    if isinstance(table, CsvTable):
        named = all(any(name in table.names for name in (columns[field.name], *field.names)) for field in fields)
        # The only column: a comma outside quotes is part of the text.
        if not table.recognised and table.names == [columns["text"]]:
            comma = table.separator
        elif not table.recognised:
            return None
        table.header = named or table.has_header
        # Commas alone do not show that there are columns: sentences have them too.
        sure = kind == ".tsv" or table.header or any(ending_of(Path(file)) == kind for file in trained)
        by_number = fields[0].column if isinstance(fields[0].column, int) else default
        if sure and not named and by_number is not None and by_number < len(table.sample[0]):
            number = by_number

    def recognise(facts: Sequence[Facts], columns: Mapping[str, Column]) -> dict[str, int | str] | str:
        if not single:
            return _in_order(facts, columns)
        text = pick(facts).text or pick_text(facts)
        unsure = not sure and all(column.labels < 0.5 for column in facts)
        return {} if unsure or isinstance(text, str) else {"text": text.name}

    if single:
        by_name = number is None and isinstance(fields[0].column, str)
        fields = [fields[0] if by_name else replace(fields[0], column=number)]
    minimum_rows = FEW if single and not table.header and not labels else 1
    table.choose(fields, recognise, trained=True, labels=labels, minimum_rows=minimum_rows)
    if single and isinstance(column := table.columns["text"], str) and column not in table.names:
        return None
    counted = " (counted from 0)" * any(isinstance(column, int) for column in table.columns.values())
    listed = " and ".join(map(shown, table.columns.values())) + counted
    remark = f"{table.column_word}s: the {'text is' if single else 'texts are'} {listed}"

    def inputs() -> Iterator[Numbered]:
        for row in table.rows():
            try:
                yield row.number, comma.join(row.object() or ()) if comma else _input(row)
            except BadLine as bad:
                yield row.number, bad

    return inputs(), remark + ("" if table.header else "; the file has no header")


def _input(row: Row) -> Input:
    return (row.text("text"), row.text("second")) if "second" in row.table.columns else row.text("text")


def _in_order(facts: Sequence[Facts], columns: Mapping[str, Column]) -> dict[str, int | str] | str:
    """The columns of a pair in a table that does not name both of them: its only two."""
    names = [column.name for column in facts]
    why = f"it has {len(names)} columns instead of two"
    return dict(zip(columns, names, strict=True)) if len(names) == 2 else why


def texts_of(text: Input) -> Sequence[str]:
    """The text, or both texts of a pair."""
    return (text,) if isinstance(text, str) else text


def is_pair(value: Any) -> bool:
    """True for a tuple of two texts."""
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(text, str) for text in value)


def pair_of(value: Any, where: str) -> TextPair:
    """A pair from a tuple of two texts, or from a line with a tab between them; a blank line is two blank texts.

    Raises:
        DataError: The value is neither; the message begins with `where`.
    """
    if isinstance(value, str) and ("\t" in value or not value.strip()):
        value = value.partition("\t")[::2]
    if is_pair(pair := tuple(value) if isinstance(value, list) else value):
        return pair
    raise DataError(f"{where} is {described(value)}, expected two texts: (first, second), or both with a tab between")


def pairs_typed(texts: Sequence[str], what: str) -> list[TextPair]:
    """The pairs given as arguments of a command: two for each, or one with a tab.

    Raises:
        ConfigError: A second text is missing; the message begins with `what` reads pairs.
    """
    if all("\t" in text for text in texts):
        return [pair_of(text, "the text") for text in texts]
    if len(texts) % 2:
        number = "1 text was" if len(texts) == 1 else f"{len(texts)} texts were"
        raise ConfigError(f"{what} pairs of texts, but {number} given; give two for each pair: 'FIRST' 'SECOND'")
    return list(zip(texts[::2], texts[1::2], strict=True))


def pairs_of(data: Any, what: str, fields: Sequence[Field]) -> list[TextPair]:
    """Pairs passed in Python: a list of `pair_of`, or a data frame or dicts; messages call the data `what`.

    Raises:
        DataError: An item is not a pair; the message names its position.
    """
    are_dicts = isinstance(data, Sequence) and data and isinstance(data[0], Mapping)
    if not are_dicts and column_names(data) is None:
        return [pair_of(value, f"{what}[{i}]") for i, value in enumerate(data)]
    table = PythonTable(data, what, [field.name for field in fields], Findings(hint=False))
    if not all(field.column in table.names for field in fields):
        fields = [replace(field, column=None) for field in fields]
    table.choose(fields, _in_order, trained=True)
    first, second = (field.name for field in fields)
    return [(row.text(first), row.text(second)) for row in table.rows()]
