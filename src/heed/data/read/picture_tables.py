"""Tables of picture paths and labels, and recognition of their columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from heed.data.pictures.names import is_picture
from heed.data.read.columns import LABEL_NAMES, Facts, facts_of, shown
from heed.data.read.contents import Advice, content_of
from heed.data.read.findings import BadLine, Findings
from heed.data.read.head import Head, excel_head, regular_rows
from heed.data.read.lines import ending_of
from heed.data.read.picture_folders import Entry
from heed.data.read.rows import column_rows
from heed.errors import DataError

PATH_NAMES = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "img", "picture", "image_path")
"""Usual names of columns with paths of pictures."""


def table_entries(path: Path, columns: Any, findings: Findings, advice: Advice) -> Iterator[Entry]:
    """The pictures named in the rows of a table, with paths relative to its folder.

    Raises:
        DataError: The columns are unclear, or a line is bad and not skipped.
    """
    usual = "\t" if ending_of(path) == ".tsv" else ","
    head = excel_head(path, findings) if usual == "," else Head.of(path, findings)
    separator = head.separator(usual) or usual
    of_path, of_label, header = _columns(head, separator, columns, findings, advice)
    wanted = {"path": of_path, "label": of_label}
    rows = column_rows(path, wanted, findings, separator=separator, header=header, expected="the {} in column")
    for number, cells in rows:
        if cells is None:
            continue
        cell, label = cells
        where = f"'{path}' line {number}"
        if isinstance(cell, str) and not cell.strip():
            cell = findings.bad("no path", path, number, f"{where} has no path in column {shown(of_path)}")
        if isinstance(label, str) and not label.strip():
            label = findings.bad("no label", path, number, f"{where} has no label in column {shown(of_label)}")
        if isinstance(cell, BadLine) or isinstance(label, BadLine):
            findings.leave_out((cell if isinstance(cell, BadLine) else label).rule)  # type: ignore[union-attr]
            continue
        place = os.path.join(path.parent, cell.strip())
        if not os.path.exists(place):
            message = f"{where} names '{cell.strip()}', but there is no file '{place}'; paths are relative to the table"
            findings.leave_out(findings.bad("missing file", path, number, message).rule)
            continue
        yield Entry(label.strip(), place, f"{path.name}:{number}")


def _columns(
    head: Head, separator: str, given: Any, findings: Findings, advice: Advice
) -> tuple[int | str, int | str, bool | None]:
    """The columns of path and label, and True if the first line names them."""
    rows = regular_rows(head.rows(separator)) if head.filled else []
    if not rows:
        raise DataError(f"'{head.path}' has no rows; expected a path and a label in each")
    first = [cell.strip() for cell in rows[0]]
    by_name = isinstance(given.path, str) or isinstance(given.label, str)
    known = [cell for cell in first if cell.casefold() in PATH_NAMES]
    header = by_name or bool(known) or (len(rows) > 1 and not any(map(is_picture, first)))
    body = rows[1:] if header else rows
    names: Sequence[int | str] = rows[0] if header else range(len(first))
    facts = facts_of(body, names)
    of_path = given.path
    if of_path is None:
        found = [facts[first.index(known[0])]] if known else [one for one in facts if _names_pictures(one)]
        if not found:
            content = content_of(head)
            why = "" if content is None else f": {content.why}"
            other = "" if content is None else advice(content.kind, head.path)
            raise DataError(
                f"'{head.path}': no column contains picture paths{why}; data.columns.path selects the column, by name "
                f"or by number{other}"
            )
        of_path = found[0].name
    of_label = _label(facts, of_path, head) if given.label is None else given.label
    if given.path is None or given.label is None:
        end = "" if header else "; the file has no header, so columns are counted from 0"
        findings.remark(f"columns: the picture is {shown(of_path)}, the label is {shown(of_label)}{end}")
    numbers = isinstance(of_path, int) and isinstance(of_label, int)
    return of_path, of_label, header if numbers else None


def _names_pictures(column: Facts) -> bool:
    return bool(column.first) and all(map(is_picture, column.first))


def _label(facts: Sequence[Facts], path: int | str, head: Head) -> int | str:
    others = [one for one in facts if one.name != path]
    named = [one for name in LABEL_NAMES for one in others if str(one.name).strip().casefold() == name]
    repeating = [one for one in others if one.repeats]
    for found in (named[:1], others if len(others) == 1 else [], repeating if len(repeating) == 1 else []):
        if found:
            return found[0].name
    which = ", ".join(shown(one.name) for one in others) or "there is no other column"
    raise DataError(
        f"'{head.path}': the label column is unclear ({which}); data.columns.label selects it, by name or by number "
        "from 0"
    )
