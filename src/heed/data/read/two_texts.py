"""Pairs of texts, handled as one text with a tab between both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from heed.data.read.columns import has_header
from heed.data.read.columns import shown as shown_column
from heed.data.read.findings import BadLine, Findings
from heed.data.read.head import Head, excel_head
from heed.data.read.incoming import Numbered, with_gaps
from heed.data.read.lines import ending_of
from heed.data.read.memory import column_names
from heed.data.read.rows import Column, column_rows, json_rows, text_of
from heed.data.read.values import described
from heed.errors import DataError

BETWEEN = "\t"
"""Separator of the two texts of a pair."""


def joined(first: str, second: str) -> str:
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
        return joined(*value)
    raise DataError(f"{where} is {described(value)}, expected two texts: (first, second), or both with a tab between")


def pair_lines(path: Path, columns: Sequence[Column], findings: Findings) -> tuple[Iterator[Numbered], str] | None:
    """The pairs of a `.csv`, `.tsv` or `.jsonl` file and a remark naming their columns; None for plain lines.

    The file may be compressed. A line that the findings skip is a `BadLine`. A file that does not name both columns
    must have only two.

    Raises:
        DataError: The file cannot be read, or has other columns.
    """
    kind = ending_of(path)
    if kind not in (".csv", ".tsv", ".jsonl") or not path.is_file():
        return None
    first, second = ("text" if columns[0] is None else columns[0]), columns[1]
    if kind == ".jsonl":
        names = str(first), str(second)
        return _fields(path, names, findings), f"fields: the texts are '{names[0]}' and '{names[1]}'"
    head = excel_head(path, findings) if kind == ".csv" else Head.of(path, findings)
    separator = head.separator("," if kind == ".csv" else "\t")
    if separator is None:
        return None
    sample = head.rows(separator)
    wanted: dict[str, int | str] = {"text": first, "second": second if second is not None else 1}
    header = all(column in sample[0] for column in wanted.values())
    if not header:
        numbered = isinstance(first, int) and isinstance(second, int)
        if not numbered and len(sample[0]) != 2:
            shown = " and ".join(map(repr, wanted.values()))
            raise DataError(
                f"'{path}' line 1 does not name the columns {shown}, and has {len(sample[0])} columns instead of two"
            )
        header = has_header(sample)
        wanted = wanted if numbered else {"text": 0, "second": 1}
    rows = with_gaps(column_rows(path, wanted, findings, separator=separator, header=header), findings)
    found = ((0, row) if isinstance(row, BadLine) else (row[0], _line(row[1] or "")) for row in rows)
    called = " and ".join(shown_column(column) for column in wanted.values())
    return found, f"columns: the texts are {called}" + ("" if header else "; the file has no header")


def _fields(path: Path, names: tuple[str, str], findings: Findings) -> Iterator[Numbered]:
    for row in with_gaps(json_rows(path, findings, names), findings):
        if isinstance(row, BadLine):
            yield 0, row
        else:
            number, value = row
            yield number, _line([text_of(value, name, path, number, findings) for name in names] if value else "")


def _line(cells: Sequence[str | BadLine]) -> str | BadLine:
    """Two cells as one text; blank if there are none."""
    first, second = cells or ("", "")
    if isinstance(first, BadLine) or isinstance(second, BadLine):
        return first if isinstance(first, BadLine) else second
    return joined(first, second) if first.strip() or second.strip() else ""
