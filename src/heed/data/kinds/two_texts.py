"""Pairs of texts, handled as one text with a tab between both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from heed.data.columns import Column
from heed.data.columns import shown as shown_column
from heed.data.findings import Findings
from heed.data.kinds.inputs import KINDS, numbered
from heed.data.memory import column_names
from heed.data.tables import CsvTable, Row, described, open_table
from heed.data.text_files import Numbered, ending_of
from heed.errors import DataError

BETWEEN = "\t"
"""Separator of the two texts of a pair."""


def one_text(first: str, second: str) -> str:
    """Two texts as one; tabs inside them become spaces."""
    return BETWEEN.join(text.replace(BETWEEN, " ") for text in (first, second))


def parted(text: str) -> tuple[str, str]:
    """The two texts of a pair, stripped; the second is empty if there is no tab."""
    first, _, second = text.partition(BETWEEN)
    return first.strip(), second.replace(BETWEEN, " ").strip()


def pairs_of(data: Any, what: str, columns: Sequence[Column]) -> list[str]:
    """Pairs passed in Python, each as one text.

    Args:
        data: Tuples of two texts, texts with a tab between both, or a data frame with both columns.
        what: Name of the data in messages.
        columns: The columns of both texts in the run's own data.

    Raises:
        DataError: An item is not a pair; the message names its position.
    """
    names = column_names(data)
    if names is not None:
        wanted = ["text" if column is None else column for column in columns]
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
    """The pairs of a `.csv`, `.tsv` or `.jsonl` file and a remark naming their columns; None for plain lines.

    The file may be compressed. A line that the findings skip is a `BadLine`. A file that does not name both columns
    must have only two.

    Raises:
        DataError: The file cannot be read, or has other columns.
    """
    if ending_of(path) not in KINDS or not path.is_file():
        return None
    table = open_table(path, findings)
    both = "text" if columns[0] is None else columns[0], 1 if columns[1] is None else columns[1]
    table.columns = dict(zip(("text", "second"), both, strict=True))
    if isinstance(table, CsvTable):
        if not table.recognised:
            return None
        wanted, width = table.columns.values(), len(table.names)
        table.header = table.has(*wanted)
        if not table.header:
            by_number = all(isinstance(column, int) for column in wanted)
            if not by_number and width != 2:
                shown = " and ".join(map(repr, wanted))
                raise DataError(
                    f"'{path}' line 1 does not name the columns {shown}, and has {width} columns instead of two"
                )
            table.header = table.has_header
            table.columns = table.columns if by_number else {"text": 0, "second": 1}
        called = " and ".join(shown_column(column) for column in table.columns.values())
        said = f"columns: the texts are {called}" + ("" if table.header else "; the file has no header")
    else:
        said = "fields: the texts are " + " and ".join(f"'{column}'" for column in table.columns.values())
    return numbered(table, _both), said


def _both(row: Row) -> str:
    """Both texts as one; blank if there are none."""
    first, second = row.text("text"), row.text("second")
    return one_text(first, second) if first.strip() or second.strip() else ""
