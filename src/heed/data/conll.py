"""Readers of sentences with one word a line and its tag in a column (CoNLL and its relatives).

Columns are separated by tabs, or by blanks where a file has no tabs. A blank line ends a sentence; so does a line whose
first column is -DOCSTART-. Lines before a sentence that begin with # and have another number of columns are comments.
Each file may end in .gz or .xz as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heed.config_tasks import ColumnsData
from heed.data.examples import Sentence
from heed.data.readers import lines_of
from heed.data.tags import OUTSIDE, entities, find_scheme, is_entity_tag, write_tags
from heed.errors import DataError

__all__ = ["ColumnFile", "read_sentences"]

_NAMES = {"bio": "BIO", "iob1": "IOB1", "io": "IO", "bioes": "BIOES"}


@dataclass(frozen=True)
class ColumnFile:
    """A file in columns.

    Attributes:
        path: The file.
        lines: Its lines.
        rows: Per line its columns; None where it holds no word (blank lines, comments, -DOCSTART-).
        tabs: Whether tabs separate the columns.
    """

    path: Path
    lines: list[str]
    rows: list[list[str] | None]
    tabs: bool

    @classmethod
    def read(cls, path: Path) -> ColumnFile:
        """Read a file.

        Raises:
            DataError: It cannot be read, holds no word, or a line has another number of columns than those before it.
        """
        lines = list(lines_of(path))
        first = next((line for line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))), None)
        first = first or next((line for line in lines if line.strip() and not line.startswith("-DOCSTART-")), None)
        if first is None:
            raise DataError(f"'{path}' holds no word; expected one a line, with its tag in another column")
        tabs = "\t" in first
        width = len(_split(first, tabs))
        rows: list[list[str] | None] = []
        for number, line in enumerate(lines, start=1):
            row = _split(line, tabs) if line.strip() else []
            inside = bool(rows) and rows[-1] is not None
            if not row or row[0] == "-DOCSTART-" or (line.startswith("#") and len(row) != width and not inside):
                rows.append(None)
            elif len(row) == width:
                rows.append(row)
            else:
                raise DataError(
                    f"'{path}' line {number} has {len(row)} column{'s' if len(row) != 1 else ''} ({line[:60]!r}), but "
                    f"the lines before it have {width}, separated by {'tabs' if tabs else 'blanks'}"
                )
        return cls(path, lines, rows, tabs)

    def column(self, number: int, field: str) -> int:
        """A column counted from 0.

        Raises:
            DataError: The file has no such column.
        """
        line, row = next((n, row) for n, row in enumerate(self.rows, start=1) if row is not None)
        if not -len(row) <= number < len(row):
            shown = ", ".join(f"{i} {cell!r}" for i, cell in enumerate(row))
            raise DataError(
                f"'{self.path}' line {line} has {len(row)} columns ({shown}), so data.columns.{field} cannot be "
                f"{number}"
            )
        return number % len(row)

    def sentences(self) -> Iterator[tuple[int, list[list[str]]]]:
        """Each sentence: the line it begins at, from 1, and its rows."""
        rows: list[list[str]] = []
        for number, row in enumerate([*self.rows, None], start=1):
            if row is not None:
                rows.append(row)
            elif rows:
                yield number - len(rows), rows
                rows = []


def _split(line: str, tabs: bool) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if tabs else line.split()


def read_sentences(files: Sequence[str | Path], data: ColumnsData, remarks: list[str]) -> list[Sentence]:
    """Read sentences from files, one after the other; tags that mark entities come as BIO.

    Args:
        files: The files of one set.
        data: Where word and tag stand, and how tags are written.
        remarks: What was converted or is illegal is added here.

    Raises:
        DataError: A file is missing or not UTF-8, has ragged columns, or a word or tag is not what it should be; with
            file, line, field and value.
    """
    sentences: list[Sentence] = []
    places: list[tuple[Path, int]] = []
    empty: list[str] = []
    for path in map(Path, files):
        file = ColumnFile.read(path)
        word, label = file.column(data.columns.word, "word"), file.column(data.columns.label, "label")
        for line, rows in file.sentences():
            for number, row in enumerate(rows, start=line):
                if not row[label]:
                    raise DataError(f"'{path}' line {number}: the tag is empty ({file.lines[number - 1]!r})")
                if not row[word]:
                    empty.append(f"{path.name}:{number}")
            words, tags = tuple(row[word] for row in rows), tuple(row[label] for row in rows)
            sentences.append(Sentence(words, tags, origin=f"{path.name}:{line}"))
            places.append((path, line))
    if empty:
        remarks.append(f"{len(empty):,} words are empty, the first at {empty[0]}; each counts as an unknown word")
    scheme = find_scheme(sentence.tags for sentence in sentences) if data.scheme == "auto" else data.scheme
    if scheme == "plain":
        if data.scheme == "auto":
            remarks.append("no tag marks an entity (as B-person does), so tags are taken as they are")
        return sentences
    return _as_bio(sentences, places, scheme, remarks)


def _as_bio(
    sentences: list[Sentence], places: list[tuple[Path, int]], scheme: str, remarks: list[str]
) -> list[Sentence]:
    illegal: list[str] = []
    result = []
    for sentence, (path, line) in zip(sentences, places, strict=True):
        for number, tag in enumerate(sentence.tags, start=line):
            if tag != OUTSIDE and not is_entity_tag(tag):
                raise DataError(
                    f"'{path}' line {number}: '{tag}' is no tag; expected O, or B-, I-, E-, S- and a type "
                    "(data.scheme=plain takes tags as they are; data.columns.label says in which column they stand)"
                )
        found = entities(sentence.tags)
        letters = {tag[0] for tag in sentence.tags}
        if letters & set("LUM"):  # another name for BIOES, compared after renaming
            legal = True
        else:
            legal = write_tags(found, len(sentence.tags), scheme) == list(sentence.tags)
        if not legal:
            illegal.append(f"{path.name}:{line}")
        result.append(Sentence(sentence.words, tuple(write_tags(found, len(sentence.tags))), sentence.origin))
    if scheme != "bio":
        remarks.append(f"tags read as {_NAMES[scheme]} and written as BIO")
    if illegal:
        remarks.append(
            f"{len(illegal):,} sentences have tags that {_NAMES[scheme]} does not allow, the first at {illegal[0]}; "
            "read as seqeval reads them (an entity begins where its type does)"
        )
    return result
