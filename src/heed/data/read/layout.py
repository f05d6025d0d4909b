"""Layout of a file of labelled texts, recognised from its beginning where ending and settings leave it open.

A column with repeated values is the label and a column of long texts the text, whatever their names and order; if
several columns qualify, an error lists them and the field to set. Columns with the expected names, and columns that the
user gives, are used as they are. `data.format=lines` makes the first word of each line its label.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from heed.data.read.columns import (
    NO_LABEL,
    Facts,
    Picked,
    facts_of,
    facts_of_objects,
    has_header,
    pick,
    pick_text,
    shown,
)
from heed.data.read.contents import Advice, FirstWords, content_of, is_prefixed, no_advice
from heed.data.read.findings import Findings
from heed.data.read.head import Head, excel_head, is_regular, note_header, regular_rows
from heed.data.read.lines import ending_of
from heed.data.read.rows import SEPARATORS, Column
from heed.errors import DataError

_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
_FEW = 4
"""Rows below which nothing is recognised without known labels."""


@dataclass
class TextFormat:
    """Format of labelled texts: `kind` "auto", "csv", "tsv", "jsonl", "lines" or "folders"; columns.

    With `several`, a text may have any number of labels, with `separator` between those of one cell. The `known`
    labels, those of the training set, identify the label column of other files; `advice` names commands for files of
    other kinds. With `second`, an example is a pair of texts (`heed.data.read.two_texts`).
    """

    kind: str = "auto"
    text: Column = None
    label: Column = None
    several: bool = False
    separator: str = ","
    known: frozenset[str] = frozenset()
    advice: Advice = no_advice
    second: Column = None
    last: Layout | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Layout:
    """Layout of one file: `kind` of reader, separator of columns, columns of text and label, remark for the user.

    `header` is True if the first line names the columns; None if it does so only where a column is given by name.
    """

    kind: str
    separator: str = "\t"
    text: int | str = "text"
    label: int | str = "label"
    header: bool | None = None
    said: str = ""


def layout_of(path: Path, form: TextFormat, findings: Findings) -> Layout:
    """The layout of a file; a remark is added to the findings where it was recognised.

    Raises:
        DataError: The file looks like something else, or which column is which is unclear.
    """
    kind = form.kind
    if kind == "auto":
        kind = "folders" if path.is_dir() else _ENDINGS.get(ending_of(path), "lines")
    usual = "\t" if kind == "tsv" else ","
    given = Layout(kind, usual, _or(form.text, "text"), _or(form.label, "label"))
    if kind == "folders":
        return given
    head = excel_head(path, findings) if kind == "csv" else Head.of(path, findings)
    if not head.filled:
        return given
    if kind == "lines":
        found = given if form.kind == "lines" else _of_lines(head, given, form)
    elif form.kind == "auto" and is_prefixed(head.filled):
        found = Layout("lines", said="lines `__label__LABEL text`")
    elif kind == "jsonl":
        found = _of_objects(head, given, form)
    else:
        found = _of_columns(head, given, form, findings)
    if found.said and replace(found, said="") != form.last:
        findings.remark(found.said)
    form.last = replace(found, said="")
    return found


def _or(column: Column, default: str) -> int | str:
    return default if column is None else column


def _of_columns(head: Head, given: Layout, form: TextFormat, findings: Findings) -> Layout:
    rows = head.rows(given.separator)
    if rows and _names(rows[0], given):
        return given
    separator = head.separator(given.separator)
    if separator is None:
        return given
    said = "" if separator == given.separator else f"columns separated by {SEPARATORS[separator]}"
    apart = Layout(given.kind, separator, given.text, given.label, said=said)
    rows = head.rows(separator)
    if _names(rows[0], given) or (form.text is not None and form.label is not None):
        if isinstance(form.text, int) and isinstance(form.label, int) and has_header(regular_rows(rows)):
            note_header(rows[0], head.path, "text", findings)
        return apart
    return _recognised(head, regular_rows(rows), apart, form) or apart


def _names(row: Sequence[str], given: Layout) -> bool:
    """True if a first line has the names of both columns."""
    return all(isinstance(column, str) and column in row for column in (given.text, given.label))


def _recognised(head: Head, rows: list[list[str]], given: Layout, form: TextFormat) -> Layout | None:
    """The columns of text and label, recognised by content; None if there are too few rows to tell."""
    named = any(isinstance(column, str) for column in (form.text, form.label, form.second))
    header = named or has_header(rows)
    body = rows[1:] if header else rows
    if len(body) < (1 if form.known else _FEW):
        return None
    names: Sequence[int | str] = range(len(rows[0]))
    plain = len(set(rows[0])) == len(rows[0]) and all(cell == cell.strip() for cell in rows[0])
    if header and plain and not any(isinstance(column, int) for column in (form.text, form.label, form.second)):
        names = rows[0]
    for column in (form.text, form.label, form.second):
        if column is not None and column not in names:
            return None  # reading the file reports the missing column
    columns = [facts for facts in facts_of(body, names, form.known) if facts.name != form.second]
    picked = pick(columns, form.text, form.label, head.whole)
    if picked.unclear:
        raise DataError(_unclear(head, picked, header, form))
    text, label = _both(picked)
    parts = [given.said] if given.said else []
    second = "" if form.second is None else f", the second text is {shown(form.second)}"
    parts.append(f"columns: text is {text.shown}{second}, label is {label.shown} ({label.counted(head.whole)})")
    if not header:
        parts.append("the file has no header, so columns are counted from 0")
    return Layout(given.kind, given.separator, text.name, label.name, header, "; ".join(parts))


def _both(picked: Picked) -> tuple[Facts, Facts]:
    assert picked.text is not None and picked.label is not None, "what is not unclear has both columns"
    return picked.text, picked.label


def _unclear(head: Head, picked: Picked, header: bool, form: TextFormat) -> str:
    content = content_of(head)
    if content is not None and content.kind != "labelled":
        return f"'{head.path}': {content.why}; {NO_LABEL}{form.advice(content.kind, head.path)}"
    which = "" if header else "; columns are counted from 0, because the file has no header"
    return f"'{head.path}': {picked.unclear}{which}"


def _of_objects(head: Head, given: Layout, form: TextFormat) -> Layout:
    objects = [one for one in map(_object, head.filled) if one is not None]
    if len(objects) < (1 if form.known else _FEW):
        return given
    columns = [facts for facts in facts_of_objects(objects, form.known) if facts.name != form.second]
    there = {column.name for column in columns if column.cells >= 0.5 * len(objects)}
    text = given.text if form.text is not None or given.text in there else None
    label = given.label if form.label is not None or given.label in there else None
    if text is not None and label is not None:
        return given
    picked = pick(columns, text, label, head.whole)
    if picked.unclear:
        if all(given.text in one and given.label in one for one in objects):  # named as expected, and blank
            return given
        fields = ", ".join(f"'{column.name}'" for column in columns)
        raise DataError(f"'{head.path}': {picked.unclear} (fields: {fields})")
    if picked.text is None or picked.label is None:
        return given
    of_label = f"label is {picked.label.shown} ({picked.label.counted(head.whole)})"
    said = f"fields: text is {picked.text.shown}, {of_label}"
    return Layout(given.kind, given.separator, picked.text.name, picked.label.name, said=said)


def _object(line: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _of_lines(head: Head, given: Layout, form: TextFormat) -> Layout:
    """Lines `label text`, or columns separated by tabs; anything else is refused."""
    if is_prefixed(head.filled):
        return given
    content, first = content_of(head), FirstWords.of(head.filled)
    if content is not None and content.kind == "tagged":
        what = f"{content.why}; expected a text with its label on each line"
        raise DataError(f"'{head.path}': {what}{form.advice(content.kind, head.path)}")
    rows = head.rows("\t")
    if is_regular(rows) and (found := _of_tabs(head, regular_rows(rows), form)) is not None:
        if first.are_labels:
            other = f"{found.said}; data.format=lines reads lines `label text`"
            return Layout(found.kind, found.separator, found.text, found.label, found.header, other)
        return found
    if first.of_sentences and not (form.known and _known(head.filled, form.known) >= 0.5):
        why = "its lines are plain sentences" if content is None else content.why
        what = (
            f"{why}, and their first words do not look like labels ({first.values:,} different ones in "
            f"{first.lines:,} lines, {first.singles:,} of them only once); expected lines `label text`"
        )
        looks = "" if content is None else form.advice(content.kind, head.path)
        raise DataError(f"'{head.path}': {what}{looks}; data.format=lines uses the first words as labels anyway")
    return given


def _of_tabs(head: Head, rows: list[list[str]], form: TextFormat) -> Layout | None:
    """The columns of lines with tabs; None if they are unclear, or `label TAB text`, which is read as `label text`."""
    header = has_header(rows)
    columns = facts_of(rows[1:] if header else rows, range(len(rows[0])), form.known)
    label_first = columns[0].repeats and columns[0].words == 1 and not header
    given = form.text is not None or form.label is not None
    if not given and (label_first or pick(columns, whole=head.whole).unclear):
        return None
    return _recognised(head, rows, Layout("tsv"), form)


def _known(lines: Sequence[str], known: frozenset[str]) -> float:
    """The share of lines that begin with a known label."""
    return sum(line.split(maxsplit=1)[0] in known for line in lines) / len(lines)


def text_column(path: Path, kind: str, findings: Findings) -> Layout:
    """The column of texts in a file without labels, of kind "csv", "tsv" or "jsonl", that has no column "text".

    Raises:
        DataError: Several columns could contain the texts.
    """
    usual = "\t" if kind == "tsv" else ","
    given = Layout(kind, usual)
    head = excel_head(path, findings) if kind == "csv" else Head.of(path, findings)
    if kind == "jsonl":
        objects = [one for one in map(_object, head.filled[:1_000]) if one is not None]
        if len(objects) < _FEW or any("text" in one for one in objects):
            return given
        columns, header, what = facts_of_objects(objects), True, "field"
    else:
        rows = head.rows(usual)
        if not rows or "text" in rows[0] or (separator := head.separator(usual)) is None:
            return given
        rows = regular_rows(head.rows(separator))
        given, what = Layout(kind, separator), "column"
        header = has_header(rows)
        if len(rows) <= _FEW or (header and "text" in rows[0]):
            return given
        columns = facts_of(rows[header:], rows[0] if header else range(len(rows[0])))
    found = pick_text(columns)
    if isinstance(found, str):
        raise DataError(f"'{path}': {found}")
    said = f"{what}s: text is {found.shown}" + (
        "" if header else "; the file has no header, so columns are counted from 0"
    )
    findings.remark(said)
    return Layout(kind, given.separator, found.name, header=header)
