"""Readers of labelled texts; errors name file and line.

| given | read as |
|---|---|
| a folder | one folder per class in it, one text per file |
| .csv | comma separated, quoted as usual; columns named by the first line, or by number |
| .tsv | tab separated, the same |
| .jsonl, .json | one object a line |
| anything else | lines `label text`; `__label__a __label__b text` names one or several |

Each file may end in .gz or .xz as well, and `format` overrides the ending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.data.examples import Text
from heed.data.read.findings import BadLine, Findings
from heed.data.read.lines import ending_of, lines_of
from heed.data.read.reader import Reader
from heed.data.read.rows import Column, characters_of, column_rows, json_rows, text_of
from heed.errors import DataError

_PREFIX = "__label__"
_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
_SEVERAL = "data.several_labels=true reads several"
Labels = tuple[str, ...] | BadLine


class TextFormat:
    """How labelled texts are written: `kind` "auto", "csv", "tsv", "jsonl", "lines" or "folders"; columns.

    With `several`, a text may have any number of labels, with `separator` between those of one cell.
    """

    def __init__(
        self, kind: str = "auto", text: Column = None, label: Column = None, several: bool = False, separator: str = ","
    ) -> None:
        self.kind, self.several, self.separator = kind, several, separator
        self.text: int | str = "text" if text is None else text
        self.label: int | str = "label" if label is None else label

    def labels(self, cell: str, where: str, path: Path | str, place: str | int, findings: Findings) -> Labels:
        """The labels in one cell: exactly one unless there may be several; messages call the line `where`."""
        if self.several:
            return tuple(dict.fromkeys(part.strip() for part in cell.split(self.separator) if part.strip()))
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
            called = f"{place}: column '{form.label}'" if colon else f"{place}: the label"
            labels = _labels_of(row["label"], form, called, path, where or place, findings)
        return labels if isinstance(labels, BadLine) else Text(row["text"], labels, origin=place)

    return Reader(Text, lambda files, findings: read_texts(files, form, findings), of_row)


def read_texts(files: Sequence[str | Path], form: TextFormat, findings: Findings | None = None) -> Iterator[Text]:
    """Read labelled texts, blank ones included, from files or folders; bad lines are errors without `findings`.

    Raises:
        DataError: A file is missing, empty, cut off, no text, or changes while it is read; a line is bad (not UTF-8,
            too long, without a text or label where they should be) and that is an error.
    """
    findings = Findings() if findings is None else findings
    readers: dict[str, Callable[[Path, TextFormat, Findings], Iterator[Text]]]
    readers = {"csv": _columns, "tsv": _columns, "jsonl": _objects, "lines": _lines, "folders": _folders}
    for path in map(Path, files):
        kind = form.kind
        if kind == "auto":
            kind = "folders" if path.is_dir() else _ENDINGS.get(ending_of(path), "lines")
        yield from readers[kind](path, form, findings)


def _folders(path: Path, form: TextFormat, findings: Findings) -> Iterator[Text]:
    if not path.is_dir():
        raise DataError(f"'{path}' is not a folder; data.format is folders")
    classes = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise DataError(f"folder '{path}' has no folders in it; expected one for each class, with a file for each text")
    for folder in classes:
        for file in sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")):
            origin = f"{folder.name}/{file.name}"
            labels = form.labels(folder.name, f"folder '{folder}'", path, origin, findings)
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
        labels: Labels
        if not words:
            yield Text("", (), origin=origin)
            continue
        if words[0].startswith(_PREFIX):
            names, text = [], line.strip()
            while text.startswith(_PREFIX):
                name, _, text = text.removeprefix(_PREFIX).partition(" ")
                names.append(name)
            labels = tuple(dict.fromkeys(names))
            if len(names) > 1 and not form.several:
                message = f"{where} has {len(names)} labels ({', '.join(names)}); {_SEVERAL}"
                labels = findings.bad("several labels", path, number, message)
        else:
            labels = form.labels(words[0], where, path, number, findings)
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


def _columns(path: Path, form: TextFormat, findings: Findings) -> Iterator[Text]:
    tabs = form.kind == "tsv" or (form.kind == "auto" and ending_of(path) == ".tsv")
    which = "data.columns.{0} says which column holds the {0}, by name or by number from 0"
    unnamed, wanted = "names no column '{1}'{2}; " + which, {"text": form.text, "label": form.label}
    rows = column_rows(path, wanted, findings, tabs=tabs, expected="the {} in column", unnamed=unnamed)
    for number, cells in rows:
        text, label = cells or ("", "")
        labels: Labels = label if isinstance(label, BadLine) else ()
        if isinstance(text, str) and text.strip() and isinstance(label, str):
            labels = form.labels(label, f"'{path}' line {number}", path, number, findings)
        yield from _text(text, labels, f"{path.name}:{number}", findings)


def _objects(path: Path, form: TextFormat, findings: Findings) -> Iterator[Text]:
    text_name, label_name = str(form.text), str(form.label)
    for number, row in json_rows(path, findings, (text_name, label_name)):
        text = "" if row is None else text_of(row, text_name, path, number, findings)
        labels: Labels = ()
        if row is not None and isinstance(text, str) and text.strip():
            where = f"'{path}' line {number}: field '{label_name}'"
            labels = _labels_of(row[label_name], form, where, path, number, findings)
        yield from _text(text, labels, f"{path.name}:{number}", findings)


def _labels_of(
    value: Any, form: TextFormat, where: str, path: Path | str, place: str | int, findings: Findings
) -> Labels:
    """The labels that a value of JSON or of a data set is."""
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
        return text if isinstance(text, BadLine) else form.labels(text, where, path, place, findings)
    message = f"{where} is {type(value).__name__} {value!r:.40}, expected a label"
    return findings.bad("field is no label", path, place, message)
