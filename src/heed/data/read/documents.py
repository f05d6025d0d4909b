"""Documents: the texts that language models learn from, each kept exactly as in its file.

| given | read as |
|---|---|
| a folder | every file below it, sorted by path; hidden files and folders are left out and counted |
| .jsonl, .json | one document a line, in the field `data.columns.text` |
| .csv, .tsv | one document a row, in the column `data.columns.text` |
| anything else | one document a file, or several separated by `data.separator` |

Files may be compressed (.gz, .xz), and `data.format` overrides the ending. With `data.separator`, a line that equals it
(apart from spaces around it) ends a document and belongs to none; an empty separator (or one of line breaks only) means
an empty line. Line ends become LF; nothing else of a text changes. Errors name file and line.

There is a warning if no line equals the separator. Byte-order marks at the start of a line and blank documents are left
out. With `data.bad_lines=skip`, a bad line is left out of its document; in JSON lines and tables, the document is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from heed.data.examples import Example
from heed.data.read.findings import BadLine, Findings
from heed.data.read.layout import Layout, text_column
from heed.data.read.lines import ending_of, lines_of
from heed.data.read.reader import Reader
from heed.data.read.rows import column_rows, json_rows, text_of
from heed.errors import DataError

_ENDINGS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"}
_LARGEST = 1 << 29
"""Most characters of one document: a corpus file has 2 GiB for each, and a character up to 4 bytes."""


@dataclass(frozen=True, slots=True)
class Document(Example):
    """One text."""

    unit = "document"
    sides = ("text",)

    text: str
    origin: str = field(default="", compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        """The text."""
        return (self.text,)

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        """The document with this text."""
        return cls(fields[0], origin)


def document_reader(data: Any) -> Reader[Document]:
    """The reader of documents for a `data` section (its `format`, `columns.text` and `separator`)."""
    form = _Form.of(data)

    def of_row(row: Mapping[str, Any], place: str, findings: Findings) -> Document | BadLine:
        return Document(_line_ends(row["text"], place, findings), place)

    return Reader(Document, lambda files, findings: read_documents(files, form, findings), of_row)


@dataclass(frozen=True)
class _Form:
    """Format of documents: `kind` "auto", "text", "lines", "jsonl", "csv" or "tsv"."""

    kind: str
    text: int | str
    separator: str | None  # "" for an empty line

    @classmethod
    def of(cls, data: Any) -> _Form:
        column = getattr(getattr(data, "columns", None), "text", None)
        separator = getattr(data, "separator", None)
        return cls(
            getattr(data, "format", "auto"),
            "text" if column is None else column,
            None if separator is None else separator.strip(),
        )


def read_documents(files: Sequence[str | Path], form: _Form, findings: Findings) -> Iterator[Document]:
    """Read documents, blank ones included, from files and folders.

    If bad lines are skipped, each is left out of its document and counted; in JSON lines and tables, the document is.

    Raises:
        DataError: A file is missing, empty, cut off, not text, or changes while it is read; a line is bad and not
            skipped; a document has more than 2 ** 29 characters.
    """
    for path in map(Path, files):
        if path.is_dir():
            for file in _files_below(path, findings):
                yield from _file(file, path, form, findings)
        else:
            yield from _file(path, None, form, findings)


def _files_below(folder: Path, findings: Findings) -> list[Path]:
    """The files of a folder and its subfolders, sorted by path."""
    found: list[Path] = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith("."):
            findings.note("hidden files and folders, left out", folder, path.name, unit="name")
        elif path.is_dir():
            found += _files_below(path, findings)
        elif path.is_file():
            found.append(path)
        else:
            findings.note("not a regular file, left out", folder, path.name, unit="file")
    return found


def _file(path: Path, root: Path | None, form: _Form, findings: Findings) -> Iterator[Document]:
    """The documents of one file, of the folder `root` unless that is None."""
    kind = _ENDINGS.get(ending_of(path), "text") if form.kind == "auto" else form.kind
    name = path.name if root is None else str(path.relative_to(root))
    if root is not None and not _size(path):
        yield Document("", name)
        return
    readers: dict[str, Callable[[], Iterator[Document]]] = {
        "text": lambda: _texts(path, root, name, form.separator, findings),
        "lines": lambda: _lines(path, root, name, findings),
        "jsonl": lambda: _objects(path, name, layout, findings),
        "csv": lambda: _rows(path, name, layout, findings),
        "tsv": lambda: _rows(path, name, layout, findings),
    }
    if form.text != "text" or kind not in ("csv", "tsv", "jsonl"):
        layout = Layout(kind, "," if kind == "csv" else "\t", form.text)
    else:
        layout = text_column(path, kind, findings)
    yield from readers[kind]()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        raise DataError(f"'{path}' vanished while its folder was being read; put it back and start again") from None


def _texts(path: Path, root: Path | None, name: str, separator: str | None, findings: Findings) -> Iterator[Document]:
    """A whole file, or its non-empty pieces between separators."""
    parts: list[str] = []
    first = size = cuts = 0
    number = 0
    for number, line in enumerate(lines_of(path, findings, root, exact=True), start=1):
        if isinstance(line, BadLine):
            continue
        if separator is not None and line.strip() == separator:
            cuts += 1
            if parts:
                yield Document("".join(parts), f"{name}:{first}")
            parts, size = [], 0
            continue
        if not parts:
            first = number
        parts.append(line)
        size += len(line)
        if size > _LARGEST:
            what = f"the document that begins at line {first} has more than {_LARGEST:,} characters"
            hint = "set data.separator to cut the file into documents, or split it"
            raise DataError(f"'{path}' line {number}: {what}; {hint}")
    if separator is not None and not cuts:
        what = f"no line equals data.separator {separator!r}" if separator else "no empty line (data.separator)"
        findings.note(f"{what}, the file is one document", path, 1, unit="file", warning=True)
    if parts or not cuts:
        yield Document("".join(parts), f"{name}:{first}" if cuts else name)


def _lines(path: Path, root: Path | None, name: str, findings: Findings) -> Iterator[Document]:
    for number, line in enumerate(lines_of(path, findings, root), start=1):
        if isinstance(line, BadLine):
            findings.leave_out(line.rule)
        else:
            yield Document(line, f"{name}:{number}")


def _objects(path: Path, name: str, layout: Layout, findings: Findings) -> Iterator[Document]:
    column = str(layout.text)
    for number, row in json_rows(path, findings, (column,)):
        text = "" if row is None else text_of(row, column, path, number, findings)
        yield from _one(text, f"{name}:{number}", path, findings)


def _rows(path: Path, name: str, layout: Layout, findings: Findings) -> Iterator[Document]:
    unnamed = (
        "names no column '{1}'{2}; data.columns.text selects the text column, by name or by number from 0, "
        "and data.format=text reads the whole file as one document"
    )
    wanted, apart, header = {"text": layout.text}, layout.separator, layout.header
    rows = column_rows(
        path, wanted, findings, separator=apart, header=header, expected="the {} in column", unnamed=unnamed
    )
    for number, cells in rows:
        yield from _one("" if cells is None else cells[0], f"{name}:{number}", path, findings)


def _one(text: str | BadLine, origin: str, path: Path, findings: Findings) -> Iterator[Document]:
    if isinstance(text, BadLine):
        findings.leave_out(text.rule)
    else:
        yield Document(_line_ends(text, origin, findings, path), origin)


def _line_ends(text: str, origin: str, findings: Findings, where: Path | str = "") -> str:
    """A text with CRLF replaced by LF, which is noted."""
    if "\r\n" in text:
        findings.note("lines of the text end in CRLF, read as LF", where, origin, unit="document")
        text = text.replace("\r\n", "\n")
    return text
