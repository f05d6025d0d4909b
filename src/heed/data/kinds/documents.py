"""Documents: the texts that language models learn from, each kept exactly as in its file.

| given | read as |
|---|---|
| a folder | every file below it, sorted by path; hidden files and folders are left out and counted |
| .jsonl, .json | one document a line, in the field `data.columns.text` |
| .csv, .tsv, .parquet | one document a row, in the column `data.columns.text` |
| anything else | one document a file, or several separated by `data.separator` |

Files may be compressed (.gz, .xz), and `data.format` overrides the ending. With `data.separator`, a line that equals it
(apart from spaces around it) ends a document and belongs to none; an empty separator (or one of line breaks only) means
an empty line. Line ends become LF; nothing else of a text changes. Errors name file and line.

There is a warning if no line equals the separator. Byte-order marks and blank documents are left
out. With `data.bad_lines=skip`, a bad line is left out of its document; in JSON lines and tables, the document is.

Validation documents are held out by a hash of their text; of a single document, its end is held out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from heed.config import Source
from heed.data.columns import Column, Facts, pick_text
from heed.data.corpus import StoredExamples, bytes_of, corpus_of
from heed.data.examples import Example, Role
from heed.data.findings import BadLine, Findings
from heed.data.readers import Reader, table_reader
from heed.data.splits import Splits, open_splits
from heed.data.tables import FORMATS, Field, PythonTable, Row, Table
from heed.data.text_files import ending_of, lines_of, unless_bad
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError

_LARGEST = 1 << 29
"""Most characters of one document: a corpus file has 2 GiB for each, and a character up to 4 bytes."""
_IN_MEMORY = 1 << 30
"""Bytes of files, unpacked, above which documents are kept on disk, however few they are."""
_MUCH = 0.4
"""Held-out share of the text above which there is a warning."""


@dataclass(frozen=True, slots=True)
class Document(Example):
    """One text."""

    unit, groups = "document", "text"
    roles: ClassVar = {"text": Role("text")}

    text: str
    origin: str = field(default="", compare=False)

    @property
    def truth(self) -> str:
        """The length of the text: there is no other output."""
        return f"{len(self.text):,} characters, {len(self.text.encode()):,} bytes"


def document_reader(data: Any) -> Reader[Document]:
    """The reader of documents, blank ones included, for a `data` section (its `format`, `columns.text`, `separator`).

    If bad lines are skipped, each is left out of its document and counted; in JSON lines and tables, the document is.

    Raises:
        DataError: (while reading) A file is missing, empty, cut off, not text, or changes while it is read; a line is
            bad and not skipped; a document has more than 2 ** 29 characters; or several columns could be the texts.
    """
    column = getattr(getattr(data, "columns", None), "text", None)
    kind, separator = getattr(data, "format", "auto"), getattr(data, "separator", None)
    separator = None if separator is None else separator.strip()  # "" for an empty line

    def text_of(facts: Sequence[Facts], columns: Mapping[str, Column]) -> dict[str, int | str] | str:
        column = pick_text(facts)
        return column if isinstance(column, str) else {"text": column.name}

    def source(path: Path, findings: Findings) -> Iterator[Table | Document]:
        root = path if os.path.isdir(path) else None
        for file in [path] if root is None else _files_below(root, findings):
            form = FORMATS.get(ending_of(file), "text") if kind == "auto" else kind
            name = file.name if root is None else str(file.relative_to(root))
            if root is not None and os.path.isfile(file) and not os.path.getsize(file):
                yield Document("", name)
            elif form == "text":
                yield from _texts(file, root, name, separator, findings)
            elif form == "lines":
                yield from _lines(file, root, name, findings)
            else:
                table = Table.open(file, findings, ("text" if column is None else column,), form)
                table.name, table.hint = name, "; data.format=text reads the whole file as one document"
                yield table

    def choose(table: Table, again: bool) -> str:
        return table.choose([Field("text", column)], None if isinstance(table, PythonTable) else text_of, trained=again)

    return table_reader(Document, choose, _document, source)


def _document(row: Row) -> Document:
    """The text of a row, with CRLF replaced by LF, which is noted."""
    text = row.text("text")
    if "\r\n" in text:
        what, table = "lines of the text end in CRLF, read as LF", row.table
        table.findings.note(what, table.path, row.origin, unit="document")
        text = text.replace("\r\n", "\n")
    return Document(text, row.origin)


def _files_below(folder: Path, findings: Findings) -> list[Path]:
    """The files of a folder and its subfolders, sorted by path."""
    files: list[Path] = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith("."):
            findings.note("hidden files and folders, left out", folder, path.name, unit="name")
        elif os.path.isdir(path):
            files += _files_below(path, findings)
        elif os.path.isfile(path):
            files.append(path)
        else:
            findings.note("not a regular file, left out", folder, path.name, unit="file")
    return files


def _texts(path: Path, root: Path | None, name: str, separator: str | None, findings: Findings) -> Iterator[Document]:
    """A whole file, or its non-empty pieces between separators."""
    parts: list[str] = []
    first = size = cuts = 0
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
    lines = enumerate(lines_of(path, findings, root), start=1)
    return findings.usable(lines, lambda numbered: Document(unless_bad(numbered[1]), f"{name}:{numbered[0]}"))


def open_documents(data: Any, examples: Mapping[str, Sequence[Document]] | None = None) -> Splits[Document]:
    """The documents of every split, from a `data` section or as `examples`.

    If all training data is one document and `data.valid` is not given, the last share `data.held_out` of it is the
    validation set, from character int(n * (1 - held_out)).

    Raises:
        DataError: A file cannot be read, or nothing is left to train on or to validate on.
        ConfigError: `data.valid` is a number of documents, and there is only one document.
    """
    # Fields that do not decide what is read are set to defaults, so that runs that differ in them share the cache.
    reading = {*Source.model_fields, "format", "columns", "separator", "in_memory"}
    fields = type(data).model_fields.items()
    plain = {name: field.get_default(call_default_factory=True) for name, field in fields if name not in reading}
    section = data.model_copy(update=plain)
    is_hub = examples is None and data.origin == "hub"
    if examples is None and not is_hub and bytes_of(data.train) > _IN_MEMORY and hasattr(data, "in_memory"):
        section = section.model_copy(update={"in_memory": 0})

    def halve(whole: Document) -> tuple[Document, Document, str]:
        total = len(whole.text)
        if data.valid is not None:
            raise ConfigError(
                f"data.valid is {data.valid} (documents to hold out), but {', '.join(data.train)} is one document "
                f"({total:,} characters); remove data.valid (then the last data.held_out of the text is "
                "the validation set), name validation files, or cut the text into documents with data.separator"
            )
        held_out = getattr(data, "held_out", 0.1)
        cut = int(total * (1 - held_out))
        remark = (
            f"{whole.origin or 'the text'} is one document: its last {held_out:.0%} ({total - cut:,} of {total:,} "
            f"characters, from character {cut + 1:,} on) is the validation set"
        )
        return replace(whole, text=whole.text[:cut]), replace(whole, text=whole.text[cut:]), remark

    splits = open_splits(section, document_reader(section), examples, None if is_hub else halve)
    num_valid, num_train = (_num_bytes(splits.examples[split]) for split in ("valid", "train"))
    if examples is None and not isinstance(data.valid, list) and num_valid > _MUCH * (num_valid + num_train):
        share = f"{num_valid / (num_valid + num_train):.0%}"
        what = f"{len(splits.examples['valid']):,} held-out documents contain {share} of the text"
        splits.remarks.append(f"warning: the {what}; name validation files, or cut long files with data.separator")
    return splits


def _num_bytes(documents: Sequence[Document]) -> int:
    if isinstance(documents, StoredExamples):
        return documents.num_bytes
    return sum(len(document.text.encode()) for document in documents)


# Documents as numbers

_CHUNK_CHARACTERS = 1 << 22
"""Characters that are encoded at once, or one document."""


class EncodedDocuments:
    """The tokens of all documents, concatenated."""

    ids: NDArray[Any]  # `(tokens,)` uint16 or int32, in memory or memory-mapped
    # `(documents + 1,)` int64, where each document begins in `ids`; the last is the number of tokens
    starts: NDArray[np.int64]
    end_token: bool = False  # True if each document ends with END, which counts as its last token

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.ids)

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The tokens of each document, without end tokens, `(documents, 1)`."""
        lengths: NDArray[np.int64] = np.diff(self.starts)[:, None] - self.end_token
        return lengths

    def counts(self, row: int, size: int, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """How often each number below `size` is among all tokens, without end tokens; as `Corpus.counts`."""
        counts: NDArray[np.int64] = np.bincount(self.ids, minlength=size)
        if self.end_token:
            counts[self.ids[-1]] -= self.num_documents
        return counts

    def document_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the document that the token at each place belongs to."""
        return np.searchsorted(self.starts, places, side="right") - 1


def encode_documents(
    documents: Sequence[Document],
    tokenizer: TextTokenizer,
    encode: Callable[[list[str]], Iterable[tuple[NDArray[Any], ...]]],
    further: Sequence[str],
    **settings: Any,
) -> tuple[NDArray[Any], ...]:
    """Encode documents; the tokens of documents on disk, or of many, are stored on disk too, in the cache.

    Args:
        documents: The documents.
        tokenizer: Decides the type of the tokens.
        encode: Encodes some texts; yields the tokens of each, and arrays of the same length.
        further: The type of each of these arrays.
        settings: What the result depends on besides the documents and the tokenizer.

    Returns:
        Where each document begins, and the concatenated arrays, the tokens first.

    Raises:
        CacheError: The cache folder cannot be written to, for a corpus that is not held in memory.
    """
    kinds = ["<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4", *further]

    def encoded() -> Iterator[list[Any]]:
        texts, size = [], 0
        for document in documents:
            texts.append(document.text)
            size += len(document.text)
            if size > _CHUNK_CHARACTERS:
                yield rows(texts)
                texts, size = [], 0
        if texts:
            yield rows(texts)

    def rows(texts: list[str]) -> list[Any]:
        return [[part.astype(kind) for part, kind in zip(parts, kinds, strict=True)] for parts in encode(texts)]

    cacheable = tokenizer.unit not in ("character", "byte")
    settings["tokenizer"] = tokenizer.text
    corpus = corpus_of(documents, encoded, kinds, lambda rows: rows, cacheable, **settings)
    return np.array(corpus.offsets[:, 0]), *corpus.values
