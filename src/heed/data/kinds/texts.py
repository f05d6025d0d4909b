"""Readers of labelled texts; errors name file and line.

| given | read as |
|---|---|
| a folder | one folder per class in it, one text per file |
| .csv | columns separated by commas (or semicolons, tabs, bars), with CSV quoting; by name or by number |
| .tsv | columns separated by tabs, without quoting; by name or by number |
| .jsonl, .json | objects: one a line, or an array, perhaps in the field "data" of an object |
| .parquet | columns by name (with pyarrow installed) |
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heed.data.columns import NO_LABEL, Column, Facts, label_of, pick, pick_text
from heed.data.examples import Text, is_blank
from heed.data.findings import BadLine, Findings
from heed.data.kinds.contents import LABEL_PREFIX, Advice, FirstWords, content_of, is_prefixed, no_advice
from heed.data.kinds.inputs import one_text
from heed.data.readers import Reader, table_reader
from heed.data.tables import (
    FEW,
    CsvTable,
    Field,
    Head,
    HeldTable,
    JsonTable,
    Row,
    Table,
    characters_of,
    described,
    note_header,
)
from heed.data.text_files import ending_of, lines_of, size_of, unless_bad
from heed.errors import DataError, suggest

_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}


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

    @property
    def fields(self) -> list[Field]:
        """The fields of an example that are chosen by columns."""
        second = [] if self.second is None else [Field("second", self.second)]
        return [Field("text", self.text), *second, Field("label", self.label)]


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
        value = row.value("label")
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
        value = row.value(f"label[{n}]")
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
            findings.remark("lines `__label__LABEL text`")
            return None
        if kind == "lines":
            return _of_lines(path, form, findings)
    if kind in ("folders", "lines"):
        return None
    return Table.open(path, findings, (form.text or "text", *(form.marks or [form.label or "label"])), kind)


def _choose(table: Table, form: TextFormat) -> str:
    """Set the columns of text and label: those given, those named so, or recognised ones; a remark on these.

    Raises:
        DataError: The table looks like something else, lacks a column of the run, or which column is which is unclear.
    """
    if form.marks and (table.names or not isinstance(table, HeldTable)):
        return _choose_marks(table, form)

    def recognise(facts: Sequence[Facts], known: Mapping[str, Column]) -> Mapping[str, int | str] | str:
        able = [one for one in facts if one.name != known.get("second")]
        picked = pick(able, known["text"], known["label"], table.whole)
        content = content_of(table.head) if picked.unclear and isinstance(table, CsvTable) else None
        if content is not None and content.kind != "labelled":
            raise DataError(f"{table.called}: {content.why}; {NO_LABEL}{form.advice(content.kind, Path(table.path))}")
        return picked.unclear or picked.columns

    least, given = 1 if form.known else FEW, (form.text, form.label)
    if isinstance(table, CsvTable) and all(isinstance(one, int) for one in given) and table.has_header:
        note_header(table.names, table.path, "text", table.findings)
    rule = None if form.second is not None and isinstance(table, HeldTable) else recognise
    again = bool(form.known)
    return table.choose(form.fields, rule, again=again, trained=form.trained, known=form.known, least=least)


def _choose_marks(table: Table, form: TextFormat) -> str:
    """Set the columns of the text and of labels that are columns of 0 and 1."""
    if isinstance(table, CsvTable):
        table.header = True

    def recognise(facts: Sequence[Facts], known: Mapping[str, Column]) -> dict[str, int | str] | str:
        text = pick_text([one for one in facts if one.name not in (known.get("second"), *form.marks)])
        return text if isinstance(text, str) else {"text": text.name}

    said = table.choose(form.fields[:-1], recognise, trained=form.trained, least=1)
    if form.trained:
        table.of_training([Field(f"label[{n}]", one) for n, one in enumerate(form.marks)])
    for n, mark in enumerate(form.marks):
        if not table.has(mark):
            raise DataError(f"{table.called} has no {table.column_word} '{mark}'{suggest(mark, table.names)}")
        table.columns[f"label[{n}]"] = mark
    return said and f"{said}, labels are {', '.join(form.marks)}"


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
    if table.is_regular and _is_clear(table, form):
        table.other = "; data.format=lines reads lines `label text`" if first.are_labels else ""
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


def _is_clear(table: CsvTable, form: TextFormat) -> bool:
    """True if columns of lines with tabs are given, or clear and not `label TAB text`."""
    given = [one for one in table.given(form.fields, False, form.trained).values() if one is not None]
    columns = table.facts(form.known, given)
    if table.judged < (1 if form.known else FEW) or not {*given} <= {one.name for one in columns}:
        return False
    label_first = columns[0].repeats and columns[0].words == 1 and not table.header
    return any(one != form.second for one in given) or not (label_first or pick(columns, whole=table.whole).unclear)


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
