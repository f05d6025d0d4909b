"""Layout of a file of numbers, recognised from its beginning: separator, decimal comma, header, label column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from heed.data.read.columns import DECIMAL_COMMA, LABEL_NAMES, Facts, facts_of, is_number
from heed.data.read.findings import Findings
from heed.data.read.head import excel_head, regular_rows, some
from heed.data.read.lines import ending_of
from heed.data.read.rows import SEPARATORS
from heed.errors import DataError

_LABELS = (*LABEL_NAMES, "species", "quality", "outcome", "diagnosis", "variety")
_DEFAULT = "label"
"""Default name of the column of labels."""
_ROWS = 4
"""Rows below which the column of labels is not recognised without known labels."""
_FEW = 20
"""Most distinct numbers of a column of labels."""


@dataclass(frozen=True)
class NumberLayout:
    """Layout of one file: `label` is the column of labels, `said` the remarks for the user."""

    separator: str
    decimal_comma: bool = False
    header: bool = True
    label: int | str | None = None
    said: tuple[str, ...] = ()


def number_layout(
    path: Path,
    wanted: Sequence[int | str] | None,
    label: int | str | None,
    findings: Findings,
    known: Collection[str] = (),
) -> NumberLayout:
    """The layout of a file of numbers.

    Args:
        path: The file.
        wanted: The columns that will be read, if they are known.
        label: The column of labels; if no column is named "label", the default, it is recognised by content.
        findings: Records a recognised encoding.
        known: The labels of the training set.

    Raises:
        DataError: The label column is unclear.
    """
    usual = "\t" if ending_of(path) == ".tsv" else ","
    head = excel_head(path, findings)
    separator = head.separator(usual) or usual
    rows = head.rows(separator)
    if not rows:
        return NumberLayout(usual, label=label)
    said = [] if separator == usual else [f"columns separated by {SEPARATORS[separator]}"]
    rows = regular_rows(rows) if separator != usual or len(rows[0]) > 1 else rows
    comma = separator != "," and any(DECIMAL_COMMA.fullmatch(cell.strip()) for row in rows[1:] for cell in row)
    if comma:
        said.append("numbers have a decimal comma")
    first = [cell.strip() for cell in rows[0]]
    needed = [column for column in (*(wanted or ()), label) if column is not None]
    header = not (
        needed
        and any(map(is_number, first))
        and not any(column in first for column in needed)
        and all(is_number(cell) or not _numeric(rows, n) for n, cell in enumerate(first))
    )
    if not header:
        said.append("the file has no header, so columns are counted from 0")
    elif len(rows) > 1 and all(map(is_number, first)):
        what = f"line 1 contains only numbers ({some(first)}) and was read as column names"
        said.append(f"warning: {what}; if the file has no header, add one")
    if label == _DEFAULT and _DEFAULT not in first and len(rows) > (1 if known else _ROWS):
        names: Sequence[int | str] = first if header else range(len(first))
        found = _label(facts_of(rows[header:], names, known), path)
        if found is None:
            return NumberLayout(separator, comma, header, label, tuple(said))
        label = found.name
        said.append(f"columns: label is {found.shown} ({found.counted(head.whole)})")
    return NumberLayout(separator, comma, header, label, tuple(said))


def _numeric(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(is_number(row[column]) for row in rows[1:] if column < len(row))


def _label(columns: Sequence[Facts], path: Path) -> Facts | None:
    """The column of labels: repeated words, a known name, or the only one with few distinct numbers; else None."""
    if known := [column for column in columns if column.known >= 0.9]:
        words = [column for column in known if column.is_text]
        if len(found := words or known) == 1:
            return found[0]
    named = [c for c in columns if str(c.name).casefold() in _LABELS and (c.repeats or c.known)]
    words = [column for column in columns if column.is_text and column.repeats]
    few = [column for column in columns if not column.is_text and 1 < column.values <= _FEW and column.repeats]
    for able in (named, words, few):
        if len(able) == 1:
            return able[0]
        if len(able) > 1:
            which = ", ".join(f"{c.shown} ({c.values:,} values: {some(c.first)})" for c in able)
            raise DataError(
                f"'{path}': several columns could be the label: {which}; data.columns.label={able[-1].name} chooses "
                "the last"
            )
    return None
