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

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from heed.data.examples import Text
from heed.data.readers import lines_of
from heed.errors import DataError, suggest

__all__ = ["TextFormat", "read_texts"]

_PREFIX = "__label__"
_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
Column = int | str | None


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

    def labels(self, cell: str, where: str) -> tuple[str, ...]:
        """The labels in one cell.

        Raises:
            DataError: There is none where there must be one.
        """
        if self.several:
            return tuple(dict.fromkeys(part.strip() for part in cell.split(self.separator) if part.strip()))
        if not cell.strip():
            raise DataError(f"{where} has no label; data.several_labels=true allows that")
        return (cell.strip(),)


def read_texts(files: Sequence[str | Path], form: TextFormat) -> Iterator[Text]:
    """Read labelled texts from files or folders, one after the other.

    Yields:
        Texts, blank ones included; the origin names file and line.

    Raises:
        DataError: A file is missing, empty or not UTF-8, a line has no text or label where they should be, each with
            file, line, field and value.
    """
    readers: dict[str, Callable[[Path, TextFormat], Iterator[Text]]] = {
        "csv": _columns,
        "tsv": _columns,
        "jsonl": _json_lines,
        "lines": _lines,
        "folders": _folders,
    }
    for path in map(Path, files):
        kind = form.kind
        if kind == "auto":
            kind = "folders" if path.is_dir() else _ENDINGS.get(_ending(path), "lines")
        yield from readers[kind](path, form)


def _folders(path: Path, form: TextFormat) -> Iterator[Text]:
    if not path.is_dir():
        raise DataError(f"'{path}' is not a folder; data.format is folders")
    classes = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise DataError(f"folder '{path}' has no folders in it; expected one for each class, with a file for each text")
    for folder in classes:
        for file in sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")):
            text = "\n".join(lines_of(file)) if file.stat().st_size else ""
            yield Text(text, form.labels(folder.name, f"folder '{folder}'"), origin=f"{folder.name}/{file.name}")


def _lines(path: Path, form: TextFormat) -> Iterator[Text]:
    for number, line in enumerate(lines_of(path), start=1):
        where = f"'{path}' line {number}"
        words = line.split(maxsplit=1)
        if not words:
            yield Text("", (), origin=f"{path.name}:{number}")
            continue
        if words[0].startswith(_PREFIX):
            names, text = [], line.strip()
            while text.startswith(_PREFIX):
                name, _, text = text.removeprefix(_PREFIX).partition(" ")
                names.append(name)
            if len(names) > 1 and not form.several:
                raise DataError(f"{where} has {len(names)} labels ({', '.join(names)}); {_SEVERAL}")
            labels = tuple(dict.fromkeys(names))
        else:
            labels, text = form.labels(words[0], where), words[1] if len(words) > 1 else ""
        yield Text(text, labels, origin=f"{path.name}:{number}")


_SEVERAL = "data.several_labels=true reads several"


def _columns(path: Path, form: TextFormat) -> Iterator[Text]:
    tabs = form.kind == "tsv" or (form.kind == "auto" and _ending(path) == ".tsv")
    rows = _tabbed(path) if tabs else _quoted(path)
    wanted = {"text": form.text, "label": form.label}
    header: list[str] | None = None
    for number, row in rows:
        if header is None and any(isinstance(column, str) for column in wanted.values()):
            header = row
            for field, column in wanted.items():
                if isinstance(column, str) and column not in header:
                    raise DataError(
                        f"'{path}' line 1 names no column '{column}'{suggest(column, header)}; "
                        f"data.columns.{field} says which column holds the {field}, by name or by number from 0"
                    )
            continue
        if row in ([], [""]):
            yield Text("", (), origin=f"{path.name}:{number}")
            continue
        cells = {}
        for field, column in wanted.items():
            assert header is not None or isinstance(column, int)
            place = column if isinstance(column, int) else (header or []).index(column)
            if not 0 <= place < len(row):
                raise DataError(
                    f"'{path}' line {number} has {len(row)} column{'s' if len(row) != 1 else ''} "
                    f"({' | '.join(row)[:60]!r}), expected the {field} in column {place} (counted from 0); "
                    f"{'tabs' if tabs else 'commas'} separate columns"
                )
            cells[field] = row[place]
        labels = form.labels(cells["label"], f"'{path}' line {number}") if cells["text"].strip() else ()
        yield Text(cells["text"], labels, origin=f"{path.name}:{number}")


def _ending(path: Path) -> str:
    """The ending that tells the format, under that of a compression if there is one."""
    return Path(path.stem).suffix if path.suffix in (".gz", ".xz") else path.suffix


def _tabbed(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines_of(path), start=1):
        yield number, line.split("\t")


def _quoted(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each begins at: a quoted text may hold line breaks."""
    rows = csv.reader((line + "\n" for line in lines_of(path)), strict=True)
    number = 1
    try:
        for row in rows:
            yield number, row
            number = rows.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"'{path}' line {number} is not CSV: {error} (read up to line {rows.line_num}); a text that holds a comma, "
            'a quote or a line break stands in quotes, and a quote in it is doubled: ""'
        ) from None


def _json_lines(path: Path, form: TextFormat) -> Iterator[Text]:
    text_name, label_name = str(form.text), str(form.label)
    for number, line in enumerate(lines_of(path), start=1):
        where = f"'{path}' line {number}"
        if not line.strip():
            yield Text("", (), origin=f"{path.name}:{number}")
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{where} is not JSON: {error} ({line[:40]!r}); expected one object a line, as "
                f'{{"{text_name}": "...", "{label_name}": "..."}}'
            ) from None
        if not isinstance(values, dict):
            raise DataError(f"{where} holds a {type(values).__name__}, expected an object")
        for name in (text_name, label_name):
            if name not in values:
                raise DataError(f"{where} has no field '{name}'{suggest(name, values)}")
        text = values[text_name]
        if not isinstance(text, str):
            raise DataError(f"{where}: field '{text_name}' is {type(text).__name__} {text!r:.40}, expected text")
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise DataError(f"{where}: field '{text_name}' holds half a surrogate pair, which is no character")
        labels = _json_labels(values[label_name], form, f"{where}: field '{label_name}'") if text.strip() else ()
        yield Text(text, labels, origin=f"{path.name}:{number}")


def _json_labels(value: Any, form: TextFormat, where: str) -> tuple[str, ...]:
    if isinstance(value, list):
        if not form.several:
            raise DataError(f"{where} is a list, {value!r:.60}; {_SEVERAL}")
        return tuple(dict.fromkeys(label for one in value for label in _json_labels(one, form, where)))
    if isinstance(value, bool):
        return (str(value).lower(),)
    if isinstance(value, str | int):
        return form.labels(str(value), where)
    raise DataError(f"{where} is {type(value).__name__} {value!r:.40}, expected a label")
