"""Labelled texts, and texts and pairs of texts as inputs for prediction; errors name file and line.

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

Inputs for prediction come from a file of columns or JSON lines, or from Python. A file without columns is read line by
line, whatever its ending. A pair has two fields, `text` and `second`; on one line, it has a tab between its texts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heed.data.columns import NO_LABEL, Column, Facts, label_of, pick, pick_text, shown
from heed.data.examples import Text, is_blank
from heed.data.findings import BadLine, Findings
from heed.data.kinds.contents import LABEL_PREFIX, Advice, FirstWords, content_of, is_prefixed, no_advice
from heed.data.readers import Reader, table_reader
from heed.data.tables import (
    FEW,
    FORMATS,
    CsvTable,
    Field,
    Head,
    Items,
    JsonTable,
    PythonTable,
    Row,
    Table,
    characters_of,
    column_names,
    described,
    note_header,
)
from heed.data.text_files import Numbered, ending_of, lines_of, unless_bad
from heed.errors import ConfigError, DataError, suggest

_SEVERAL = "data.several_labels=true allows several"
_HEADERS = [["label", "text"], ["label", "sentence"], ["class", "text"], ["text", "label"], ["sentence", "label"]]


def text_reader(data: Any, labels: Collection[str] = (), advice: Advice = no_advice) -> Reader[Text]:
    """The reader of labelled texts, blank ones included, from files, folders, data sets or Python.

    Args:
        data: A `data` section with the options of labelled texts.
        labels: Those of the training set, for files that its run reads: they identify the label column, and the columns
            are those of the run. By default the labels of the first files that are read.
        advice: Names commands for files of other kinds.

    Raises:
        DataError: (while reading) A file is missing, empty, cut off, not text, or changes while it is read; a line is
            bad (not UTF-8, too long, without a text or label) and not skipped; the table looks like something else, or
            which column is which is unclear.
    """
    texts = _Texts(data, labels, advice)
    reader = table_reader(Text, texts.choose, texts.example, texts.source)

    def read(files: Sequence[str], findings: Findings) -> Iterator[Text]:
        seen: set[str] = set()
        for text in reader.read(files, findings):
            seen.update(text.labels)
            yield text
        texts.labels = texts.labels or frozenset(seen)

    return replace(reader, read=read)


def labels_in(cell: str, data: Any, labels: Collection[str] = ()) -> tuple[str, ...]:
    """The labels in one cell: one unless several are allowed; none in a blank one."""
    cells = cell.split(data.label_separator) if data.several_labels else [cell]
    parts = [part.strip() for part in cells if part.strip()]
    return tuple(dict.fromkeys(part if part in labels else label_of(part) or "" for part in parts))


class _Texts:
    """The parts of a reader of labelled texts, which get to know the labels."""

    def __init__(self, data: Any, labels: Collection[str], advice: Advice) -> None:
        self.data, self.advice = data, advice
        self.labels, self.trained = frozenset(labels), bool(labels)
        text, self.second, label = data.columns.text, data.columns.second, data.columns.label
        self.marks: Sequence[str] = label if isinstance(label, list) else ()
        """Columns of 0 and 1 that are the labels, instead of one column of labels."""
        second = [] if self.second is None else [Field("second", self.second)]
        self.fields = [Field("text", text), *second, Field("label", None if self.marks else label)]
        self._cells: dict[str, tuple[str, ...]] = {}  # the labels in cells that were read before

    def example(self, row: Row) -> Text:
        """The example in a row."""
        text, second = row.text("text"), None if self.second is None else row.text("second")
        blank = not text.strip() if second is None else is_blank(text) or is_blank(second)
        marked = self.marks and "label" not in row.table.columns
        labels = () if blank else self._marked(row) if marked else self._labels(row.value("label"), row)
        return Text(text, labels, row.origin, second)

    def _labels(self, value: Any, row: Row) -> tuple[str, ...]:
        """The labels in a value of any kind of table."""
        if isinstance(value, str) and value in self._cells:
            return self._cells[value]
        several, where = self.data.several_labels, row.table.at(row, "label")
        if isinstance(value, list):
            if not several:
                raise row.bad("several labels", f"{where} is a list, {value!r:.60}; {_SEVERAL}")
            return tuple(dict.fromkeys(label for item in value for label in self._labels(item, row)))
        if value is None and several and not isinstance(row.table, JsonTable):
            return ()
        if value is None:
            raise row.bad("no label", f"{where} is missing; data.several_labels=true allows that")
        if (label := label_of(value)) is None or (isinstance(value, float) and not value.is_integer()):
            raise row.bad("field is not a label", f"{where} is {described(value)}, expected a label")
        labels = labels_in(characters_of(label, where, row.bad, row.note), self.data, self.labels)
        if not labels and not several:
            raise row.bad("no label", f"{where} has no label; data.several_labels=true allows that")
        if isinstance(value, str):
            self._cells[value] = labels
        return labels

    def _marked(self, row: Row) -> tuple[str, ...]:
        """The labels whose columns have a 1 in a row."""
        chosen: list[str] = []
        for n, name in enumerate(self.marks):
            value = row.value(f"label[{n}]")
            if (text := (label_of(value) or "").lower()) not in ("0", "1", "false", "true"):
                where = f"{row.where}: {row.table.column_word} '{name}'"
                raise row.bad("neither 0 nor 1", f"{where} is {described(value)}, expected 0 or 1, or false or true")
            chosen += [name] * (text in ("1", "true"))
        return tuple(chosen)

    def source(self, path: Path, findings: Findings) -> Table | Iterator[Text]:
        """The table in a file, or its texts if it has no columns; what is recognised is remarked.

        Raises:
            DataError: The file looks like something else.
        """
        kind, auto = self.data.format, self.data.format == "auto"
        if auto:
            usual = FORMATS.get(ending_of(path), "tsv" if self.marks else "lines")
            kind = "folders" if os.path.isdir(path) else usual
        table: Table | None = None
        if kind == "lines" and auto:
            table = self._of_lines(path, findings)
        elif kind in ("csv", "tsv", "jsonl", "parquet"):
            if auto and is_prefixed(Head.of(path, findings).filled):
                findings.remark("lines `__label__LABEL text`")
            else:
                columns = self.data.columns
                expected = columns.text or "text", *(self.marks or [columns.label or "label"])
                table = Table.open(path, findings, expected, kind)
        if table is None and (self.second is not None or (self.marks and not self.trained)):
            specified = f"second is {self.second!r}" if self.second is not None else f"label is {list(self.marks)}"
            raise DataError(f"'{path}' has no columns, but data.columns.{specified}; give CSV, TSV or JSON lines")
        if table is not None:
            return table
        return (self._folders if kind == "folders" else self._lines)(path, findings)

    def choose(self, table: Table, _: bool) -> str:
        """Set the columns of texts and labels: those given, those named so, or recognised ones; a remark on these.

        Raises:
            DataError: The table looks like something else, lacks a column of the run, or which column is which is
                unclear.
        """
        marks, labels = (self.marks if table.names or not isinstance(table, PythonTable) else ()), self.labels
        if isinstance(table, CsvTable) and marks:
            table.header = True

        def recognise(facts: Sequence[Facts], columns: Mapping[str, Column]) -> Mapping[str, int | str] | str:
            candidates = [column for column in facts if column.name not in (columns.get("second"), *marks)]
            if marks:
                text = pick_text(candidates)
                return text if isinstance(text, str) else {"text": text.name}
            picked = pick(candidates, columns["text"], columns["label"], table.whole)
            content = content_of(table.head) if picked.unclear and isinstance(table, CsvTable) else None
            if content is not None and content.kind != "labelled":
                advice = self.advice(content.kind, Path(table.path))
                raise DataError(f"{table.called}: {content.why}; {NO_LABEL}{advice}")
            return picked.unclear or {field: getattr(picked, field).name for field in ("text", "label")}

        fields, minimum_rows = (self.fields[:-1], 1) if marks else (self.fields, 1 if labels else FEW)
        rule = None if self.second is not None and isinstance(table, PythonTable) and not marks else recognise
        trained = self.trained or (bool(labels) and not marks)
        remark = table.choose(fields, rule, trained=trained, labels=labels, minimum_rows=minimum_rows)
        if self.trained and marks:
            table.of_training([Field(f"label[{n}]", name) for n, name in enumerate(marks)])
        for n, mark in enumerate(marks):
            if mark not in table.names:
                raise DataError(f"{table.called} has no {table.column_word} '{mark}'{suggest(mark, table.names)}")
            table.columns[f"label[{n}]"] = mark
        return f"{remark}, labels are {', '.join(marks)}" if remark and marks else remark

    def _of_lines(self, path: Path, findings: Findings) -> CsvTable | None:
        """The table of lines with tabs; None for lines `label text`, and anything else is refused."""
        head = Head.of(path, findings)
        if not head.filled or is_prefixed(head.filled):
            return None
        content, first = content_of(head), FirstWords.of(head.filled)
        advice = "" if content is None else self.advice(content.kind, head.path)
        if content is not None and content.kind == "tagged":
            raise DataError(f"'{path}': {content.why}; expected a text with its label on each line{advice}")
        table = CsvTable(path, findings, "\t", fixed=True)
        columns = table.specified(self.fields, self.trained).values()
        specified = [column for column in columns if column not in (None, self.second)]
        few = table.judged < (1 if self.labels else FEW)
        facts = table.facts(self.labels, specified) if table.is_regular and not few else []
        # Lines `label TAB text` are read as lines `label text`.
        unclear = not facts or (facts[0].repeats and facts[0].words == 1 and not table.header)
        if facts and (specified or not (unclear or pick(facts, whole=table.whole).unclear)):
            table.other = "; data.format=lines reads lines `label text`" if first.are_labels else ""
            return table
        num_labelled = sum(line.split(maxsplit=1)[0] in self.labels for line in head.filled)
        if first.of_sentences and 2 * num_labelled < len(head.filled):
            raise DataError(
                f"'{path}': {'its lines are plain sentences' if content is None else content.why}, and their first "
                f"words do not look like labels ({first.values:,} different ones in {first.lines:,} lines, "
                f"{first.singles:,} of them only once); expected lines `label text`{advice}; data.format=lines uses "
                "the first words as labels anyway"
            )
        return None

    def _folders(self, path: Path, findings: Findings) -> Iterator[Text]:
        if not os.path.isdir(path):
            raise DataError(f"'{path}' is not a folder, but data.format is folders")

        def within(folder: Path) -> list[Path]:
            return sorted(inside for inside in folder.iterdir() if not inside.name.startswith("."))

        classes = [folder for folder in within(path) if folder.is_dir()]
        if not classes:
            what = "expected one for each class, with a file for each text"
            raise DataError(f"folder '{path}' has no folders in it; {what}")

        def text(file: Path) -> Text:
            lines = lines_of(file, findings, path)
            labels = labels_in(file.parent.name, self.data, self.labels)
            return Text("\n".join([*map(unless_bad, [*lines])]), labels, f"{file.parent.name}/{file.name}")

        # The files of a folder are listed at once, so that one that vanishes meanwhile is an error.
        files = (file for folder in classes for file in [path for path in within(folder) if path.is_file()])
        return findings.usable(files, text)

    def _lines(self, path: Path, findings: Findings) -> Iterator[Text]:
        first = [line.split(maxsplit=1)[0] for line in Head.of(path, findings).filled if LABEL_PREFIX in line]
        # Commas that follow the labels of some lines only are part of them.
        commas = bool(first) and all("," in word for word in first)
        label = re.compile(LABEL_PREFIX + (r"([^,\s]*)(?:,\s*|\s+|$)" if commas else r"(\S*)(?:\s+|$)"))

        def text(row: Row) -> Text:
            line: str = row.object()
            word, text, *_ = *line.split(maxsplit=1), "", ""
            if row.number == 1 and [word.casefold(), text.strip().casefold()] in _HEADERS:
                note_header([word, text], path, findings)
            if not word.startswith(LABEL_PREFIX):
                return Text(text, labels_in(word, self.data, self.labels), row.origin)
            names, text = [], line.strip()
            while match := label.match(text):
                names.append(label_of(match[1]) or "")
                text = text[match.end() :]
            if commas and re.fullmatch(r'"(?:[^"]|"")*"', text):
                text = text[1:-1].replace('""', '"')
            if len(names) > 1 and not self.data.several_labels:
                has = f"{len(names)} labels ({', '.join(names)})"
                raise row.bad("several labels", f"{row.where} has {has}; {_SEVERAL}")
            return Text(text, tuple(dict.fromkeys(names)), row.origin)

        return Items.lines(path, findings).usable(text)


# Inputs for prediction

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
