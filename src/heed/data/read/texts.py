"""Readers of labelled texts; errors name file and line.

| given | read as |
|---|---|
| a folder | one folder per class in it, one text per file |
| .csv | columns separated by commas (or semicolons, tabs, bars), with CSV quoting; by name or by number |
| .tsv | columns separated by tabs, without quoting; by name or by number |
| .jsonl, .json | one object a line |
| anything else | lines `label text`; `__label__a __label__b text` names one or several; or columns separated by tabs |

Files may be compressed (.gz, .xz), and `format` overrides the ending. Columns that neither the first line nor the
settings name are recognised (`heed.data.read.layout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.data.examples import Text
from heed.data.read.contents import LABEL_PREFIX
from heed.data.read.findings import BadLine, Findings
from heed.data.read.head import note_header
from heed.data.read.layout import Layout, TextFormat, layout_of
from heed.data.read.lines import lines_of
from heed.data.read.memory import text_at
from heed.data.read.reader import Reader
from heed.data.read.rows import characters_of, column_rows, json_rows, text_of
from heed.data.read.sentences import is_blank
from heed.data.read.two_texts import joined
from heed.data.read.values import described
from heed.errors import DataError

_SEVERAL = "data.several_labels=true allows several"
_HEADERS = [["label", "text"], ["label", "sentence"], ["class", "text"], ["text", "label"], ["sentence", "label"]]
Labels = tuple[str, ...] | BadLine


def labels_in(
    cell: str, form: TextFormat, where: str, path: Path | str, place: str | int, findings: Findings
) -> Labels:
    """The labels in one cell: exactly one unless several are allowed; `where` is the line's name in messages."""
    if form.several:
        return tuple(dict.fromkeys(part.strip() for part in cell.split(form.separator) if part.strip()))
    if not cell.strip():
        return findings.bad("no label", path, place, f"{where} has no label; data.several_labels=true allows that")
    return (cell.strip(),)


def text_reader(form: TextFormat) -> Reader[Text]:
    """The reader of labelled texts from files, folders or data sets."""

    def of_row(row: Mapping[str, Any], place: str, findings: Findings) -> Text | BadLine:
        hub, colon, where = place.partition(":")
        path: Path | str = Path(hub) if colon else ""
        labels: Labels = ()
        if row["text"].strip() and not (form.several and row["label"] is None):
            column = "label" if form.label is None else form.label
            called = f"{place}: column '{column}'" if colon else f"{place}: the label"
            labels = _labels_of(row["label"], form, called, path, where or place, findings)
        text = row["text"]
        if form.second is not None:
            text = _pair(text, text_at(row["second"], f"{place}: the second text", place, findings))
        if isinstance(labels, BadLine) or isinstance(text, BadLine):
            return labels if isinstance(labels, BadLine) else text
        return Text(text, labels, origin=place)

    def read(files: Sequence[str], findings: Findings) -> Iterator[Text]:
        labels: set[str] = set()
        for text in read_texts(files, form, findings):
            labels.update(text.labels)
            yield text
        form.known = form.known or frozenset(labels)  # those of the training set, which is read first

    return Reader(Text, read, of_row)


def read_texts(files: Sequence[str | Path], form: TextFormat, findings: Findings | None = None) -> Iterator[Text]:
    """Read labelled texts, blank ones included, from files or folders; bad lines are errors without `findings`.

    Raises:
        DataError: A file is missing, empty, cut off, not text, or changes while it is read; a line is bad (not UTF-8,
            too long, without a text or label) and the findings do not skip bad lines.
    """
    findings = Findings() if findings is None else findings
    for path in map(Path, files):
        layout = layout_of(path, form, findings)
        if form.second is not None and layout.kind in ("lines", "folders"):
            raise DataError(
                f"'{path}' has no columns, but data.columns.second is {form.second!r}; give pairs of texts as CSV, TSV "
                "or JSON lines"
            )
        if layout.kind in ("csv", "tsv"):
            yield from _columns(path, layout, form, findings)
        elif layout.kind == "jsonl":
            yield from _objects(path, layout, form, findings)
        else:
            yield from (_folders if layout.kind == "folders" else _lines)(path, form, findings)


def _folders(path: Path, form: TextFormat, findings: Findings) -> Iterator[Text]:
    if not path.is_dir():
        raise DataError(f"'{path}' is not a folder, but data.format is folders")
    classes = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise DataError(f"folder '{path}' has no folders in it; expected one for each class, with a file for each text")
    for folder in classes:
        for file in sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")):
            origin = f"{folder.name}/{file.name}"
            labels = labels_in(folder.name, form, f"folder '{folder}'", path, origin, findings)
            yield from _text(_whole(file, path, findings), labels, origin, findings)


def _whole(file: Path, root: Path, findings: Findings) -> str | BadLine:
    """The text of a file, or its first bad line."""
    try:
        empty = not file.stat().st_size
    except OSError:
        raise DataError(f"'{file}' vanished while its folder was being read; put it back and start again") from None
    lines = [] if empty else list(lines_of(file, findings, root))
    bad = next((line for line in lines if isinstance(line, BadLine)), None)
    return "\n".join(line for line in lines if isinstance(line, str)) if bad is None else bad


def _lines(path: Path, form: TextFormat, findings: Findings) -> Iterator[Text]:
    for number, line in enumerate(lines_of(path, findings), start=1):
        origin, where = f"{path.name}:{number}", f"'{path}' line {number}"
        if isinstance(line, BadLine):
            findings.leave_out(line.rule)
            continue
        words = line.split(maxsplit=1)
        if number == 1 and [word.strip().casefold() for word in words] in _HEADERS:
            note_header(words, path, "text", findings)
        labels: Labels
        if not words:
            yield Text("", (), origin=origin)
            continue
        if words[0].startswith(LABEL_PREFIX):
            names, text = [], line.strip()
            while text.startswith(LABEL_PREFIX):
                name, *rest = text.removeprefix(LABEL_PREFIX).split(maxsplit=1)
                text = rest[0] if rest else ""
                names.append(name)
            labels = tuple(dict.fromkeys(names))
            if len(names) > 1 and not form.several:
                message = f"{where} has {len(names)} labels ({', '.join(names)}); {_SEVERAL}"
                labels = findings.bad("several labels", path, number, message)
        else:
            labels = labels_in(words[0], form, where, path, number, findings)
            text = words[1] if len(words) > 1 else ""
        yield from _text(text, labels, origin, findings)


def _text(text: str | BadLine, labels: Labels, origin: str, findings: Findings) -> Iterator[Text]:
    """The text with its labels, unless one is bad."""
    if isinstance(text, BadLine):
        findings.leave_out(text.rule)
    elif isinstance(labels, BadLine):
        findings.leave_out(labels.rule)
    else:
        yield Text(text, labels, origin=origin)


def _pair(first: str | BadLine, second: str | BadLine) -> str | BadLine:
    """Both texts of a pair as one, blank if either is; or the first bad one."""
    if isinstance(first, BadLine) or isinstance(second, BadLine):
        return first if isinstance(first, BadLine) else second
    return "" if is_blank(first) or is_blank(second) else joined(first, second)


def _columns(path: Path, layout: Layout, form: TextFormat, findings: Findings) -> Iterator[Text]:
    which = "data.columns.{0} selects the {0} column, by name or by number from 0"
    unnamed, wanted = "names no column '{1}'{2}; " + which, {"text": layout.text, "label": layout.label}
    if form.second is not None:
        wanted["second"] = form.second
    rows = column_rows(
        path,
        wanted,
        findings,
        separator=layout.separator,
        header=layout.header,
        expected="the {} in column",
        unnamed=unnamed,
    )
    for number, cells in rows:
        text, label, *others = cells or ("", "")
        text = _pair(text, others[0]) if others else text
        labels: Labels = label if isinstance(label, BadLine) else ()
        if isinstance(text, str) and text.strip() and isinstance(label, str):
            labels = labels_in(label, form, f"'{path}' line {number}", path, number, findings)
        yield from _text(text, labels, f"{path.name}:{number}", findings)


def _objects(path: Path, layout: Layout, form: TextFormat, findings: Findings) -> Iterator[Text]:
    text_name, label_name = str(layout.text), str(layout.label)
    second = () if form.second is None else (str(form.second),)
    names = (text_name, *second, label_name)
    names = tuple(sorted(names, key=("text", "label").__contains__))  # names the user gave are missed first
    for number, row in json_rows(path, findings, names):
        text = "" if row is None else text_of(row, text_name, path, number, findings)
        if row is not None and second:
            text = _pair(text, text_of(row, second[0], path, number, findings))
        labels: Labels = ()
        if row is not None and isinstance(text, str) and text.strip():
            where = f"'{path}' line {number}: field '{label_name}'"
            labels = _labels_of(row[label_name], form, where, path, number, findings)
        yield from _text(text, labels, f"{path.name}:{number}", findings)


def _labels_of(
    value: Any, form: TextFormat, where: str, path: Path | str, place: str | int, findings: Findings
) -> Labels:
    """The labels in a value of JSON or of a data set."""
    if isinstance(value, list):
        if not form.several:
            return findings.bad("several labels", path, place, f"{where} is a list, {value!r:.60}; {_SEVERAL}")
        found: list[str] = []
        for one in value:
            labels = _labels_of(one, form, where, path, place, findings)
            if isinstance(labels, BadLine):
                return labels
            found += labels
        return tuple(dict.fromkeys(found))
    if value is None:
        return findings.bad("no label", path, place, f"{where} is missing; data.several_labels=true allows that")
    if isinstance(value, bool):
        return (str(value).lower(),)
    if isinstance(value, str | int):
        text = characters_of(str(value), where, path, place, findings)
        return text if isinstance(text, BadLine) else labels_in(text, form, where, path, place, findings)
    message = f"{where} is {described(value)}, expected a label"
    return findings.bad("field is not a label", path, place, message)
