"""Documents: the texts that language models learn from, each kept exactly as it stands in its file.

| given | read as |
|---|---|
| a folder | every file below it, sorted by path; hidden files and folders are left out and counted |
| .jsonl, .json | one document a line, in the field `data.columns.text` |
| .csv, .tsv | one document a row, in the column `data.columns.text` |
| anything else | one document a file, or several where `data.separator` cuts it |

Each file may end in .gz or .xz as well, and `data.format` overrides the ending. With `data.separator` a line that
equals it, blanks around it aside, ends a document and belongs to none; an empty separator (or one of line breaks only)
means an empty line. Line ends become LF; nothing else of a text changes. Errors name file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

from heed.config import HubSection
from heed.data.examples import Example
from heed.data.read.findings import BadLine, Findings
from heed.data.read.lines import ending_of, lines_of
from heed.data.read.reader import Reader
from heed.data.read.rows import column_rows, json_rows, text_of
from heed.data.store.splits import Splits, open_splits
from heed.data.store.store import StoredExamples
from heed.errors import ConfigError, DataError
from heed.tasks.language_modelling.near_duplicates import note_near_duplicates

_ENDINGS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"}
_LARGEST = 1 << 29
"""Characters of one document; a corpus in a file has 2 GiB for each, and a character has up to 4 bytes."""
_HELD = 1 << 30
"""Bytes of files, unpacked, from which on documents are kept on disk however few they are."""
_MUCH = 0.4
"""Share of the text that is too much to hold out."""
_NOT_OF_READING = ("context", "end_token", "documents", "held_out")
"""Fields of the `data` section that do not decide what is read, so that the cache serves runs that differ in them."""


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
    """The reader of documents as a `data` section says (its `format`, `columns.text` and `separator`)."""
    form = _Form.of(data)

    def of_row(row: Mapping[str, Any], place: str, findings: Findings) -> Document | BadLine:
        return Document(_line_ends(row["text"], place, findings), place)

    return Reader(Document, lambda files, findings: read_documents(files, form, findings), of_row)


@dataclass(frozen=True)
class _Form:
    """How documents are written: `kind` "auto", "text", "lines", "jsonl", "csv" or "tsv"."""

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

    Where bad lines are skipped, a bad line is left out of its document and counted; of JSON lines and tables it is a
    document.

    Raises:
        DataError: A file is missing, empty, cut off, no text, or changes while it is read; a line is bad and that is
            an error; a document has more than 2 ** 29 characters.
    """
    for path in map(Path, files):
        if path.is_dir():
            for file in _files_below(path, findings):
                yield from _file(file, path, form, findings)
        else:
            yield from _file(path, None, form, findings)


def _files_below(folder: Path, findings: Findings) -> list[Path]:
    """The files of a folder and of the folders in it, in the order of their paths."""
    found: list[Path] = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith("."):
            findings.note("hidden files and folders, left out", folder, path.name, unit="name")
        elif path.is_dir():
            found += _files_below(path, findings)
        elif path.is_file():
            found.append(path)
        else:
            findings.note("no regular file, left out", folder, path.name, unit="file")
    return found


def _file(path: Path, root: Path | None, form: _Form, findings: Findings) -> Iterator[Document]:
    """The documents of one file, perhaps of a folder `root`."""
    kind = _ENDINGS.get(ending_of(path), "text") if form.kind == "auto" else form.kind
    name = path.name if root is None else str(path.relative_to(root))
    if root is not None and not _size(path):
        yield Document("", name)
        return
    readers: dict[str, Callable[[], Iterator[Document]]] = {
        "text": lambda: _texts(path, root, name, form.separator, findings),
        "lines": lambda: _lines(path, root, name, findings),
        "jsonl": lambda: _objects(path, name, str(form.text), findings),
        "csv": lambda: _rows(path, name, form.text, findings, tabs=False),
        "tsv": lambda: _rows(path, name, form.text, findings, tabs=True),
    }
    yield from readers[kind]()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        raise DataError(f"'{path}' vanished while its folder was being read; put it back and start again") from None


def _texts(path: Path, root: Path | None, name: str, separator: str | None, findings: Findings) -> Iterator[Document]:
    """A whole file, or its pieces between separators; a piece without a line is none."""
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
            hint = "data.separator cuts a file into documents, or split the file"
            raise DataError(f"'{path}' line {number}: {what}; {hint}")
    if separator is not None and not cuts:
        what = f"data.separator {separator!r} stands on no line" if separator else "no empty line (data.separator)"
        findings.note(f"{what}, the file is one document", path, 1, unit="file", warning=True)
    if parts or not cuts:
        yield Document("".join(parts), f"{name}:{first}" if cuts else name)


def _lines(path: Path, root: Path | None, name: str, findings: Findings) -> Iterator[Document]:
    for number, line in enumerate(lines_of(path, findings, root), start=1):
        if isinstance(line, BadLine):
            findings.leave_out(line.rule)
        else:
            yield Document(line, f"{name}:{number}")


def _objects(path: Path, name: str, column: str, findings: Findings) -> Iterator[Document]:
    for number, row in json_rows(path, findings, (column,)):
        text = "" if row is None else text_of(row, column, path, number, findings)
        yield from _one(text, f"{name}:{number}", path, findings)


def _rows(path: Path, name: str, column: int | str, findings: Findings, *, tabs: bool) -> Iterator[Document]:
    unnamed = (
        "names no column '{1}'{2}; data.columns.text says which column holds the text, by name or by number from 0, "
        "and data.format=text reads the whole file as one document"
    )
    rows = column_rows(path, {"text": column}, findings, tabs=tabs, expected="the {} in column", unnamed=unnamed)
    for number, cells in rows:
        yield from _one("" if cells is None else cells[0], f"{name}:{number}", path, findings)


def _one(text: str | BadLine, origin: str, path: Path, findings: Findings) -> Iterator[Document]:
    if isinstance(text, BadLine):
        findings.leave_out(text.rule)
    else:
        yield Document(_line_ends(text, origin, findings, path), origin)


def _line_ends(text: str, origin: str, findings: Findings, where: Path | str = "") -> str:
    """A text whose line ends are LF."""
    if "\r\n" in text:
        findings.note("lines of the text end in CRLF, read as LF", where, origin, unit="document")
        text = text.replace("\r\n", "\n")
    return text


def open_documents(data: Any, given: Mapping[str, Sequence[Document]] | None = None) -> Splits[Document]:
    """The documents of every split, as a `data` section says or as `given`.

    Validation documents are held out by a hash of their text. Where all training data is one document and nothing says
    how to validate, its last share `data.held_out` is cut off for that, at character int(n * (1 - held_out)).
    Near-duplicates of training documents in the other sets are noted; `data.overlap` drop leaves them out of training.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on or to validate on.
        ConfigError: Documents are to be held out of one document.
    """
    splits = _open(data, given)
    if splits.stream is None:
        splits.remarks += _large_share(splits) if not isinstance(data.valid, list) and given is None else []
        note_near_duplicates(splits, getattr(data, "overlap", "keep") == "drop")
    return splits


def _open(data: Any, given: Mapping[str, Sequence[Document]] | None) -> Splits[Document]:
    reader, held_out = document_reader(data), getattr(data, "held_out", 0.1)
    fields = type(data).model_fields
    plain = {name: fields[name].get_default(call_default_factory=True) for name in _NOT_OF_READING if name in fields}
    data = data.model_copy(update=plain)
    if given is not None:
        return _open_given(data, reader, held_out, given)
    if isinstance(data, HubSection) or getattr(data, "stream", False):
        return open_splits(data, reader)
    if _bytes_of(data.train) > _HELD and hasattr(data, "in_memory"):
        data = data.model_copy(update={"in_memory": 0})
    whole = None
    if not isinstance(data.valid, list) and all(_is_there(Path(file)) for file in data.train):
        whole = _only(reader.read(data.train, Findings.of(data)))
    if whole is None:
        return open_splits(data, reader)
    _refuse_number(data, whole)
    cut = int(len(whole.text) * (1 - held_out))
    last = [f"{whole.origin} from character {cut + 1:,} on"]

    def read(files: Sequence[str], findings: Findings) -> Iterable[Document]:
        if files == last:
            return [replace(whole, text=whole.text[cut:])]
        documents = reader.read(files, findings)
        return (
            (replace(d, text=d.text[:cut]) if d == whole else d for d in documents)
            if files == data.train
            else documents
        )

    shares = replace(reader, read=read, settings={**reader.settings, "first": cut})
    splits = open_splits(data.model_copy(update={"valid": last}), shares)
    return _stated(splits, whole, held_out, cut)


def _open_given(
    data: Any, reader: Reader[Document], held_out: float, given: Mapping[str, Sequence[Document]]
) -> Splits[Document]:
    """Splits of documents in memory."""
    whole = None if "valid" in given else _only(given["train"])
    if whole is None:
        return open_splits(data, reader, given)
    _refuse_number(data, whole)
    cut = int(len(whole.text) * (1 - held_out))
    parts = {"train": [replace(whole, text=whole.text[:cut])], "valid": [replace(whole, text=whole.text[cut:])]}
    return _stated(open_splits(data, reader, {**given, **parts}), whole, held_out, cut)


def _large_share(splits: Splits[Document]) -> list[str]:
    """A warning where few documents of very different length were held out, and they are much of the text."""
    held = _num_bytes(splits.examples["valid"])
    total = held + _num_bytes(splits.examples["train"])
    if held <= _MUCH * total:
        return []
    what = f"{len(splits.examples['valid']):,} held-out documents hold {held / total:.0%} of the text"
    return [f"warning: the {what}; name validation files, or cut long files with data.separator"]


def _num_bytes(documents: Sequence[Document]) -> int:
    if isinstance(documents, StoredExamples):
        return documents.num_bytes
    return sum(len(document.text.encode()) for document in documents)


def _only(documents: Iterable[Document]) -> Document | None:
    """The one document that is not blank; None where there are several or none."""
    found = list(islice((document for document in documents if not document.blank), 2))
    return found[0] if len(found) == 1 else None


def _refuse_number(data: Any, whole: Document) -> None:
    if data.valid is not None:
        raise ConfigError(
            f"data.valid is {data.valid}, documents to hold out, but {', '.join(data.train)} holds one document "
            f"({len(whole.text):,} characters); leave data.valid out (the last data.held_out of it then validates), "
            "name validation files, or cut it into documents with data.separator"
        )


def _stated(splits: Splits[Document], whole: Document, held_out: float, cut: int) -> Splits[Document]:
    """The splits of one document, with a remark that says where it was cut."""
    total = len(whole.text)
    splits.remarks.append(
        f"{whole.origin or 'the text'} is one document: its last {held_out:.0%} ({total - cut:,} of {total:,} "
        f"characters, from character {cut + 1:,} on) is the validation set"
    )
    return splits


def _is_there(path: Path) -> bool:
    """Whether a path can be read twice (a pipe cannot); a missing one is reported by its reader."""
    return path.is_file() or path.is_dir() or not path.exists()


def _bytes_of(paths: Iterable[str | Path]) -> int:
    """About how many bytes of text files hold, unpacked."""
    total = 0
    for path in map(Path, paths):
        if path.is_dir():
            total += _bytes_of(path.iterdir())
        elif path.is_file():
            total += path.stat().st_size * (4 if path.suffix in (".gz", ".xz") else 1)
    return total
