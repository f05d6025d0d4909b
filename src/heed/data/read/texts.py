"""Readers of labelled texts, with file and line of everything that is wrong.

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
from heed.data.read.rows import (
    Column,
    cell,
    characters_of,
    json_rows,
    quoted_rows,
    require_names,
    tabbed_rows,
    text_of,
)
from heed.errors import DataError, suggest

_PREFIX = "__label__"
_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
Labels = tuple[str, ...] | BadLine


class TextFormat:
    """How labelled texts are written; made from the fields of a configuration's `data` section.

    Attributes:
        kind: "auto", "csv", "tsv", "jsonl", "lines" or "folders".
        text: Column of the text, None for "text".
        label: Column of the label, None for "label".
        several: Whether a text may have several labels, or none.
        separator: What stands between the labels of one cell.
    """

    def __init__(
        self,
        kind: str = "auto",
        text: Column = None,
        label: Column = None,
        several: bool = False,
        separator: str = ",",
    ) -> None:
        self.kind = kind
        self.text: int | str = "text" if text is None else text
        self.label: int | str = "label" if label is None else label
        self.several = several
        self.separator = separator

    def labels(self, cell: str, where: str, path: Path, place: str | int, findings: Findings) -> Labels:
        """The labels in one cell, which must be one unless there may be several.

        Args:
            cell: What stands there.
            where: What messages call the line.
            path: What findings are listed under.
            place: The line.
            findings: What becomes of a line without a label.
        """
        if self.several:
            return tuple(dict.fromkeys(part.strip() for part in cell.split(self.separator) if part.strip()))
        if not cell.strip():
            return findings.bad("no label", path, place, f"{where} has no label; data.several_labels=true allows that")
        return (cell.strip(),)


def text_reader(form: TextFormat) -> Reader[Text]:
    """Reads labelled texts from files, folders or data sets."""

    def of_row(row: Mapping[str, Any], place: str, findings: Findings) -> Text | BadLine:
        hub, _, where = place.partition(":")
        labels: Labels = ()
        if row["text"].strip():
            labels = _labels_of(row["label"], form, f"{place}: column '{form.label}'", Path(hub), where, findings)
        return labels if isinstance(labels, BadLine) else Text(row["text"], labels, origin=place)

    return Reader(Text, lambda files, findings: read_texts(files, form, findings), of_row)


def read_texts(files: Sequence[str | Path], form: TextFormat, findings: Findings | None = None) -> Iterator[Text]:
    """Read labelled texts from files or folders, one after the other.

    Args:
        files: Files and folders.
        form: How they are written.
        findings: What becomes of bad lines, and where what is found and left out is counted; by default they are
            errors.

    Yields:
        Texts, blank ones included; the origin names file and line.

    Raises:
        DataError: A file is missing, empty, cut off, no text, or changes while it is read; a line is bad (not UTF-8,
            too long, without a text or label where they should be) and that is an error.
    """
    findings = Findings() if findings is None else findings
    readers: dict[str, Callable[[Path, TextFormat, Findings], Iterator[Text]]] = {
        "csv": _columns,
        "tsv": _columns,
        "jsonl": _objects,
        "lines": _lines,
        "folders": _folders,
    }
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
    """The text of a file, unless a line of it is bad."""
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


_SEVERAL = "data.several_labels=true reads several"


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
    wanted = {"text": form.text, "label": form.label}
    by_name = any(isinstance(column, str) for column in wanted.values())
    places: dict[str, int] | None = None if by_name else {name: int(column) for name, column in wanted.items()}
    for number, row in (tabbed_rows if tabs else quoted_rows)(path, findings):
        origin = f"{path.name}:{number}"
        if places is None:
            require_names(path, number)
            places = {field: _place(field, column, row, path) for field, column in wanted.items()}
        elif row in ([], [""]):
            yield Text("", (), origin=origin)
        else:
            by = "tabs" if tabs else "commas"
            text, label = (
                cell(row, place, path, number, findings, what=f"the {field} in column", by=by)
                for field, place in places.items()
            )
            labels: Labels = label if isinstance(label, BadLine) else ()
            if isinstance(text, str) and text.strip() and isinstance(label, str):
                labels = form.labels(label, f"'{path}' line {number}", path, number, findings)
            yield from _text(text, labels, origin, findings)


def _place(field: str, column: int | str, header: list[str], path: Path) -> int:
    if isinstance(column, int):
        return column
    if column not in header:
        raise DataError(
            f"'{path}' line 1 names no column '{column}'{suggest(column, header)}; "
            f"data.columns.{field} says which column holds the {field}, by name or by number from 0"
        )
    return header.index(column)


def _objects(path: Path, form: TextFormat, findings: Findings) -> Iterator[Text]:
    text_name, label_name = str(form.text), str(form.label)
    for number, row in json_rows(path, findings, (text_name, label_name)):
        origin = f"{path.name}:{number}"
        if row is None:
            yield Text("", (), origin=origin)
            continue
        text = text_of(row, text_name, path, number, findings)
        labels: Labels = ()
        if isinstance(text, str) and text.strip():
            where = f"'{path}' line {number}: field '{label_name}'"
            labels = _labels_of(row[label_name], form, where, path, number, findings)
        yield from _text(text, labels, origin, findings)


def _labels_of(value: Any, form: TextFormat, where: str, path: Path, place: str | int, findings: Findings) -> Labels:
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
    if isinstance(value, bool):
        return (str(value).lower(),)
    if isinstance(value, str | int):
        text = characters_of(str(value), where, path, place, findings)
        return text if isinstance(text, BadLine) else form.labels(text, where, path, place, findings)
    message = f"{where} is {type(value).__name__} {value!r:.40}, expected a label"
    return findings.bad("field is no label", path, place, message)
