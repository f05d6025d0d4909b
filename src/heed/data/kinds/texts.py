"""Readers of labelled texts; errors name file and line.

| given | read as |
|---|---|
| a folder | one folder per class in it, one text per file |
| .csv | columns separated by commas (or semicolons, tabs, bars), with CSV quoting; by name or by number |
| .tsv | columns separated by tabs, without quoting; by name or by number |
| .jsonl, .json | objects: one a line, or an array, perhaps in the field "data" of an object |
| anything else | lines `label text`; `__label__a __label__b text` names one or several; or columns separated by tabs |

Files may be compressed (.gz, .xz), and `format` overrides the ending. Columns that neither the first line nor the
settings name are recognised from the beginning of the file: a column with repeated values is the label and a column of
long texts the text, whatever their names and order; if several columns qualify, an error lists them and the field to
set. `data.format=lines` makes the first word of each line its label.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from heed.data.columns import NO_LABEL, Column, Facts, Picked, facts_of, pick, pick_text, shown
from heed.data.examples import Text, is_blank
from heed.data.findings import BadLine, Findings
from heed.data.kinds.contents import LABEL_PREFIX, Advice, FirstWords, content_of, is_prefixed, no_advice
from heed.data.kinds.inputs import one_text
from heed.data.readers import HeldTable, HubTable, Reader, label_of, table_reader
from heed.data.tables import CsvTable, Head, JsonTable, Row, Table, characters_of, described, note_header, open_table
from heed.data.text_files import ending_of, lines_of, size_of, unless_bad
from heed.errors import DataError, suggest

_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
_FEW = 4
"""Rows below which nothing is recognised without known labels."""


@dataclass
class TextFormat:
    """Format of labelled texts: `kind` "auto", "csv", "tsv", "jsonl", "lines" or "folders"; columns.

    With `several`, a text may have any number of labels, with `separator` between those of one cell. The `known`
    labels, those of the training set, identify the label column of other files; `advice` names commands for files of
    other kinds. With `second`, an example is a pair of texts (`heed.data.kinds.inputs`). If `trained`, the columns are
    those of a run that reads further files. With `marks`, these columns of 0 and 1 are the labels, instead of `label`.
    """

    kind: str = "auto"
    text: Column = None
    label: Column = None
    several: bool = False
    separator: str = ","
    known: frozenset[str] = frozenset()
    advice: Advice = no_advice
    second: Column = None
    trained: bool = False
    marks: tuple[str, ...] = ()
    last: object = field(default=None, repr=False)  # the columns of the file before, which are not remarked again


def text_reader(form: TextFormat) -> Reader[Text]:
    """The reader of labelled texts, blank ones included, from files, folders, data sets or Python.

    Raises:
        DataError: (while reading) A file is missing, empty, cut off, not text, or changes while it is read; a line is
            bad (not UTF-8, too long, without a text or label) and not skipped; the table looks like something else, or
            which column is which is unclear.
    """

    def example(row: Row) -> Text:
        text = row.text("text")
        if form.second is not None:
            second = row.text("second")
            text = "" if is_blank(text) or is_blank(second) else one_text(text, second)
        marked = form.marks and "label" not in row.table.columns
        labels = () if not text.strip() else _marked(row, form.marks) if marked else labels_of(row)
        return Text(text, labels, origin=row.origin)

    known: dict[str, tuple[str, ...]] = {}  # the labels in cells that were read before

    def labels_of(row: Row) -> tuple[str, ...]:
        value = row.label("label")
        if not isinstance(value, str):
            return _labels_of(value, form, row, row.table.at(row, "label"))
        if value not in known:
            known[value] = _labels_of(value, form, row, row.table.at(row, "label"))
        return known[value]

    def source(path: Path, findings: Findings) -> Table | Iterator[Text]:
        found = _table(path, form, findings)
        if found is None and (form.second is not None or (form.marks and not form.trained)):
            given = f"second is {form.second!r}" if form.second is not None else f"label is {list(form.marks)}"
            raise DataError(f"'{path}' has no columns, but data.columns.{given}; give CSV, TSV or JSON lines")
        in_folders = form.kind == "folders" or (form.kind == "auto" and os.path.isdir(path))
        return (_folders if in_folders else _lines)(path, form, findings) if found is None else found

    def read(files: Sequence[str], findings: Findings) -> Iterator[Text]:
        labels: set[str] = set()
        for text in reader.read(files, findings):
            labels.update(text.labels)
            yield text
        form.known = form.known or frozenset(labels)  # those of the training set, which is read first

    reader = table_reader(Text, lambda table, again: _choose(table, form), example, source)
    return replace(reader, read=read)


def labels_in(cell: str, form: TextFormat) -> tuple[str, ...]:
    """The labels in one cell: one unless several are allowed; none in a blank one."""
    parts = [part.strip() for part in (cell.split(form.separator) if form.several else [cell]) if part.strip()]
    return tuple(dict.fromkeys(part if part in form.known else label_of(part) or "" for part in parts))


def _labels_of(value: Any, form: TextFormat, row: Row, where: str) -> tuple[str, ...]:
    """The labels in a value of any kind of table."""
    if isinstance(value, list):
        if not form.several:
            raise row.bad("several labels", f"{where} is a list, {value!r:.60}; {_SEVERAL}")
        found = [label for one in value for label in _labels_of(one, form, row, where)]
        return tuple(dict.fromkeys(found))
    if value is None:
        if form.several and not isinstance(row.table, JsonTable):
            return ()
        raise row.bad("no label", f"{where} is missing; data.several_labels=true allows that")
    if (label := label_of(value)) is None or (isinstance(value, float) and not value.is_integer()):
        raise row.bad("field is not a label", f"{where} is {described(value)}, expected a label")
    labels = labels_in(characters_of(label, where, row.bad, row.note), form)
    if not labels and not form.several:
        raise row.bad("no label", f"{where} has no label; data.several_labels=true allows that")
    return labels


def _marked(row: Row, marks: Sequence[str]) -> tuple[str, ...]:
    """The labels whose columns have a 1 in a row."""
    chosen: list[str] = []
    for n, name in enumerate(marks):
        value = row.label(f"label[{n}]")
        if (text := (label_of(value) or "").lower()) not in ("0", "1", "false", "true"):
            where = f"{row.where}: {row.table.column_word} '{name}'"
            raise row.bad("neither 0 nor 1", f"{where} is {described(value)}, expected 0 or 1, or false or true")
        chosen += [name] * (text in ("1", "true"))
    return tuple(chosen)


def _table(path: Path, form: TextFormat, findings: Findings) -> Table | None:
    """The table in a file; None for a folder or lines `label text`. What is recognised is remarked.

    Raises:
        DataError: The file looks like something else.
    """
    kind = form.kind
    if kind == "auto":
        kind = "folders" if os.path.isdir(path) else _ENDINGS.get(ending_of(path), "tsv" if form.marks else "lines")
        if kind not in ("folders", "lines") and is_prefixed(Head.of(path, findings, excel=kind == "csv").filled):
            _remark(findings, form, "lines", "lines `__label__LABEL text`")
            return None
        if kind == "lines":
            return _of_lines(path, form, findings)
    if kind in ("folders", "lines"):
        return None
    return open_table(path, findings, (form.text or "text", *(form.marks or [form.label or "label"])), kind)


def _remark(findings: Findings, form: TextFormat, layout: object, said: str) -> None:
    """Remark what was recognised, unless the file before was like that."""
    if said and layout != form.last:
        findings.remark(said)
    form.last = layout


def _choose(table: Table, form: TextFormat) -> None:
    """Set the columns of text and label: those given, those named so, or recognised ones.

    Columns that a table lacks are as if not given if they are those of the training set.

    Raises:
        DataError: The table looks like something else, lacks a column of the run, or which column is which is unclear.
    """
    if form.marks and (table.names or not isinstance(table, HeldTable)):
        _choose_marks(table, form)
        return
    text, label = _given(table, form)
    if form.known and table.names and not table.has(*(one for one in (text, label) if isinstance(one, str))):
        text = label = None
    second = {} if form.second is None else {"second": form.second}
    given = {"text": text, **second, "label": label}
    table.choose(given, guess=None if second else lambda known: _guessed(table, known))
    if isinstance(table, HubTable | JsonTable) and table.has(*(one for one in given.values() if one is not None)):
        _choose_fields(table, text, label, form)
    elif isinstance(table, CsvTable) and table.names:
        _choose_columns(table, text, label, form)


def _choose_marks(table: Table, form: TextFormat) -> None:
    """Set the columns of the text and of labels that are columns of 0 and 1."""
    recorded = {"text": form.text, "second": form.second, **{f"label[{n}]": one for n, one in enumerate(form.marks)}}
    given = {field: column for field, column in recorded.items() if field == "text" or column is not None}
    if form.trained:
        given["text"] = table.of_training(given, {**dict.fromkeys(given, ()), "text": ("text",)})["text"]

    def guess(known: Mapping[str, Column]) -> dict[str, Any] | str:
        text = pick_text([one for one in table.facts() if one.name not in known.values()])
        return text if isinstance(text, str) else {**known, "text": text.name}

    if table.names and not isinstance(table, HeldTable):
        if absent := next((one for one in form.marks if not table.has(one)), ""):
            raise DataError(f"'{table.path}' has no {table.column_word} '{absent}'{suggest(absent, table.names)}")
        if isinstance(table, CsvTable):
            table.header = True
        if given["text"] is None and not table.has("text"):
            found = guess(given)
            if isinstance(found, str):
                raise DataError(f"'{table.path}': {found}")
            given = found
            said = f"{table.column_word}s: text is {shown(found['text'])}, labels are {', '.join(form.marks)}"
            _remark(table.findings, form, said, said)
    table.choose(given, guess=guess)


def _given(table: Table, form: TextFormat) -> tuple[Column, Column]:
    """The columns of text and label that are given, and that a table with a header must have after training."""
    if not form.trained:
        return form.text, form.label
    recorded = {"text": form.text, "second": form.second, "label": form.label}
    found = table.of_training(recorded, {"text": ("text",), "second": (), "label": ("label",)})
    return found["text"], found["label"]


def _guessed(table: Table, known: Mapping[str, str]) -> dict[str, str] | str:
    """The columns of text and label of data in Python, recognised by names and contents as in a file."""
    picked = pick(table.facts(), known.get("text"), known.get("label"))
    return picked.unclear or {field: str(name) for field, name in picked.columns.items()}


def _choose_columns(table: CsvTable, text: Column, label: Column, form: TextFormat) -> None:
    said = ""
    if not all(isinstance(one, str) and one in table.names for one in (table.columns["text"], table.columns["label"])):
        if not table.recognised:
            return
        if text is None or label is None:
            said = _recognised(table, text, label, form)
        elif isinstance(text, int) and isinstance(label, int) and table.has_header:
            note_header(table.names, table.path, "text", table.findings)
    if table.recognised:
        layout = type(table), table.separator, table.header, tuple(table.columns.values())
        _remark(table.findings, form, layout, "; ".join([*table.said, *([said] if said else [])]))


def _recognised(table: CsvTable, text: Column, label: Column, form: TextFormat) -> str:
    """Set the columns of text and label, recognised by content, unless there are too few rows; a remark."""
    given = [one for one in (text, label, form.second) if one is not None]
    header = any(isinstance(one, str) for one in given) or table.has_header
    if len(table.sample) - header < (1 if form.known else _FEW):
        return ""
    by_name = header and table.named and not any(isinstance(one, int) for one in given)
    names: Sequence[int | str] = table.sample[0] if by_name else range(len(table.sample[0]))
    if any(one not in names for one in given):
        return ""  # reading the file reports the missing column
    body = table.sample[1:] if header else table.sample
    columns = [facts for facts in facts_of(body, names, form.known) if facts.name != form.second]
    picked = pick(columns, text, label, table.head.whole)
    if picked.unclear:
        raise DataError(_unclear(table.head, picked, header, form))
    table.header = header
    table.columns |= picked.columns
    second = "" if form.second is None else f", the second text is {shown(form.second)}"
    said = f"columns: text is {shown(table.columns['text'])}{second}, {_counted(picked.label, table.head)}"
    return said if header else f"{said}; the file has no header, so columns are counted from 0"


def _counted(label: Facts | None, head: Head | None) -> str:
    assert label is not None
    return f"label is {label.shown}" + ("" if head is None else f" ({label.counted(head.whole)})")


def _unclear(head: Head, picked: Picked, header: bool, form: TextFormat) -> str:
    content = content_of(head)
    if content is not None and content.kind != "labelled":
        return f"'{head.path}': {content.why}; {NO_LABEL}{form.advice(content.kind, head.path)}"
    which = "" if header else "; columns are counted from 0, because the file has no header"
    return f"'{head.path}': {picked.unclear}{which}"


def _choose_fields(table: HubTable | JsonTable, text: Column, label: Column, form: TextFormat) -> None:
    known = {field: table.columns[field] for field in ("text", "label") if table.columns[field] in table.names}
    if len(known) == 2 or table.judged < (1 if form.known else _FEW):
        return
    head = table.head if isinstance(table, JsonTable) else None
    columns = [facts for facts in table.facts(form.known) if facts.name != form.second]
    picked = pick(columns, known.get("text"), known.get("label"), head is None or head.whole)
    if picked.unclear:
        fields = ", ".join(f"'{column.name}'" for column in columns)
        raise DataError(f"'{table.path}': {picked.unclear} ({table.column_word}s: {fields})")
    table.columns |= picked.columns
    said = f"{table.column_word}s: text is {shown(table.columns['text'])}, {_counted(picked.label, head)}"
    _remark(table.findings, form, tuple(table.columns.values()), said)


def _of_lines(path: Path, form: TextFormat, findings: Findings) -> CsvTable | None:
    """The table of lines with tabs; None for lines `label text`, and anything else is refused."""
    head = Head.of(path, findings)
    if not head.filled or is_prefixed(head.filled):
        return None
    content, first = content_of(head), FirstWords.of(head.filled)
    if content is not None and content.kind == "tagged":
        what = f"{content.why}; expected a text with its label on each line"
        raise DataError(f"'{head.path}': {what}{form.advice(content.kind, head.path)}")
    table = CsvTable(path, findings, "\t", fixed=True)
    if table.is_regular and (said := _of_tabs(table, form)):
        other = "; data.format=lines reads lines `label text`" if first.are_labels else ""
        layout = table.separator, table.header, tuple(table.columns.values())
        _remark(findings, form, layout, said + other)
        return table
    known = sum(line.split(maxsplit=1)[0] in form.known for line in head.filled)
    if first.of_sentences and 2 * known < len(head.filled):
        why = "its lines are plain sentences" if content is None else content.why
        what = (
            f"{why}, and their first words do not look like labels ({first.values:,} different ones in "
            f"{first.lines:,} lines, {first.singles:,} of them only once); expected lines `label text`"
        )
        looks = "" if content is None else form.advice(content.kind, head.path)
        raise DataError(f"'{head.path}': {what}{looks}; data.format=lines uses the first words as labels anyway")
    return None


def _of_tabs(table: CsvTable, form: TextFormat) -> str:
    """Set the columns of lines with tabs, for a remark; "" if they are unclear or `label TAB text`."""
    header, rows, (text, label) = table.has_header, table.sample, _given(table, form)
    columns = facts_of(rows[1:] if header else rows, range(len(rows[0])), form.known)
    label_first = columns[0].repeats and columns[0].words == 1 and not header
    given = text is not None or label is not None
    if not given and (label_first or pick(columns, whole=table.head.whole).unclear):
        return ""
    table.columns = {"text": "text", **({} if form.second is None else {"second": form.second}), "label": "label"}
    return _recognised(table, text, label, form)


_SEVERAL = "data.several_labels=true allows several"
_HEADERS = [["label", "text"], ["label", "sentence"], ["class", "text"], ["text", "label"], ["sentence", "label"]]


def _folders(path: Path, form: TextFormat, findings: Findings) -> Iterator[Text]:
    if not os.path.isdir(path):
        raise DataError(f"'{path}' is not a folder, but data.format is folders")

    def within(folder: Path) -> list[Path]:
        return sorted(inside for inside in folder.iterdir() if not inside.name.startswith("."))

    classes = [folder for folder in within(path) if folder.is_dir()]
    if not classes:
        raise DataError(f"folder '{path}' has no folders in it; expected one for each class, with a file for each text")
    files = (file for folder in classes for file in [one for one in within(folder) if one.is_file()])

    def text(file: Path) -> Text:
        lines = lines_of(file, findings, path) if size_of(file) else ()
        whole = "\n".join([*map(unless_bad, list(lines))])
        return Text(whole, labels_in(file.parent.name, form), origin=f"{file.parent.name}/{file.name}")

    return findings.usable(files, text)


def _lines(path: Path, form: TextFormat, findings: Findings) -> Iterator[Text]:
    first = [line.split(maxsplit=1)[0] for line in Head.of(path, findings).filled if LABEL_PREFIX in line]
    # Commas that follow the labels of some lines only are part of them.
    commas = bool(first) and all("," in word for word in first)

    def text(numbered: tuple[int, str | BadLine]) -> Text:
        number, line = numbered[0], unless_bad(numbered[1])
        words = line.split(maxsplit=1)
        if number == 1 and [word.strip().casefold() for word in words] in _HEADERS:
            note_header(words, path, "text", findings)
        origin = f"{path.name}:{number}"
        if not words:
            return Text("", (), origin=origin)
        if not words[0].startswith(LABEL_PREFIX):
            return Text(words[1] if len(words) > 1 else "", labels_in(words[0], form), origin=origin)
        names, rest = [], line.strip()
        while rest.startswith(LABEL_PREFIX):
            name, *others = re.split(r",\s*|\s+" if commas else r"\s+", rest.removeprefix(LABEL_PREFIX), maxsplit=1)
            rest = others[0] if others else ""
            names.append(label_of(name) or "")
        if commas and re.fullmatch(r'"(?:[^"]|"")*"', rest):
            rest = rest[1:-1].replace('""', '"')
        if len(names) > 1 and not form.several:
            message = f"'{path}' line {number} has {len(names)} labels ({', '.join(names)}); {_SEVERAL}"
            raise findings.bad("several labels", path, number, message)
        return Text(rest, tuple(dict.fromkeys(names)), origin=origin)

    return findings.usable(enumerate(lines_of(path, findings), start=1), text)
