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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from heed.data.columns import Column, pick_text
from heed.data.examples import Example
from heed.data.findings import BadLine, Findings
from heed.data.readers import HeldTable, HubTable, Reader
from heed.data.tables import CsvTable, JsonTable, Row, Table, open_table
from heed.data.text_files import ending_of, lines_of
from heed.errors import DataError

_ENDINGS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"}
_FEW = 4
"""Rows below which the column of texts is not recognised."""
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
        return (self.text,)

    @property
    def truth(self) -> str:
        """The length of the text: there is no other output."""
        return f"{len(self.text):,} characters, {len(self.text.encode()):,} bytes"

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Self:
        return cls(fields[0], origin)


def document_reader(data: Any) -> Reader[Document]:
    """The reader of documents for a `data` section (its `format`, `columns.text` and `separator`)."""
    form = _Form.of(data)

    columns: dict[str, int | str] = {}

    def of_table(table: Table) -> Iterator[Document]:
        choose_text(table, form.text, again=bool(columns))
        columns.update(columns or table.columns)
        return table.made(_document)

    def read(files: Sequence[str], findings: Findings) -> Iterator[Document]:
        return read_documents(files, form, findings, of_table)

    return Reader(Document, read, of_table, columns=columns)


def _document(row: Row) -> Document:
    return Document(_line_ends(row.text("text"), row), row.origin)


def choose_text(table: Table, given: Column, again: bool = False) -> None:
    """Set the column of texts: the one given, the one named "text", or a recognised one, which is remarked.

    A column that a table lacks is as if not given if it is that of the training set (`again`).

    Raises:
        DataError: Several columns could contain the texts.
    """
    if again and table.names and isinstance(given, str) and given not in table.names:
        given = None
    table.columns = {"text": "text" if given is None else given}
    if isinstance(table, HeldTable):
        table.choose({"text": given})
    elif given is None and "text" not in table.names:
        what = "field" if isinstance(table, JsonTable) else "column"
        if isinstance(table, CsvTable):
            if not table.recognised or len(table.sample) <= _FEW:
                return
            table.header = table.has_header
        elif isinstance(table, JsonTable) and len(table.objects) < _FEW:
            return
        facts = [one for one in table.facts() if not isinstance(table, HubTable) or one.name in table.texts]
        found = pick_text(facts)
        if isinstance(found, str):
            raise DataError(f"'{table.path}': {found}")
        table.columns = {"text": found.name}
        numbered = "; the file has no header, so columns are counted from 0" if isinstance(found.name, int) else ""
        table.findings.remark(f"{what}s: text is {found.shown}{numbered}")
    if isinstance(table, HubTable):
        table.refuse_missing(("text",))


@dataclass(frozen=True)
class _Form:
    """Format of documents: `kind` "auto", "text", "lines", "jsonl", "csv" or "tsv"."""

    kind: str
    text: Column
    separator: str | None  # "" for an empty line

    @classmethod
    def of(cls, data: Any) -> _Form:
        separator = getattr(data, "separator", None)
        return cls(
            getattr(data, "format", "auto"),
            getattr(getattr(data, "columns", None), "text", None),
            None if separator is None else separator.strip(),
        )


def read_documents(
    files: Sequence[str | Path], form: _Form, findings: Findings, of_table: Callable[[Table], Iterator[Document]]
) -> Iterator[Document]:
    """Read documents, blank ones included, from files and folders.

    If bad lines are skipped, each is left out of its document and counted; in JSON lines and tables, the document is.

    Raises:
        DataError: A file is missing, empty, cut off, not text, or changes while it is read; a line is bad and not
            skipped; a document has more than 2 ** 29 characters.
    """
    for path in map(Path, files):
        if path.is_dir():
            for file in _files_below(path, findings):
                yield from _file(file, path, form, findings, of_table)
        else:
            yield from _file(path, None, form, findings, of_table)


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


def _file(
    path: Path, root: Path | None, form: _Form, findings: Findings, of_table: Callable[[Table], Iterator[Document]]
) -> Iterator[Document]:
    """The documents of one file, of the folder `root` unless that is None."""
    kind = _ENDINGS.get(ending_of(path), "text") if form.kind == "auto" else form.kind
    name = path.name if root is None else str(path.relative_to(root))
    if root is not None and not _size(path):
        yield Document("", name)
    elif kind == "text":
        yield from _texts(path, root, name, form.separator, findings)
    elif kind == "lines":
        yield from _lines(path, root, name, findings)
    else:
        table = open_table(path, findings, ("text" if form.text is None else form.text,), kind)
        table.name, table.hint = name, "; data.format=text reads the whole file as one document"
        yield from of_table(table)


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


def _line_ends(text: str, row: Row) -> str:
    """A text with CRLF replaced by LF, which is noted."""
    if "\r\n" in text:
        what, table = "lines of the text end in CRLF, read as LF", row.table
        table.findings.note(what, table.path, row.origin, unit="document")
        text = text.replace("\r\n", "\n")
    return text
