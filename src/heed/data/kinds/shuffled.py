"""Sentences with shuffled words: the target is the sentence as in the file, the source is made from it.

Words are separated by spaces and kept unchanged. Punctuation that ends a sentence stays at the end of the source, and
punctuation that opens it (Spanish) at its start, so that it does not reveal the last or the first word:

    What time is it now?   ->   it time What now is?

A capital letter still reveals the first word if no other word has one; `tokenizer.lowercase: source` hides it.

The order is drawn by (`data.shuffle_seed`, sentence). All orders but the sentence's own are equally likely; its own is
used only if there is no other (one word, or one word several times). In scripts without spaces a line is one word, and
nothing is shuffled. In .csv and .tsv the first column is read, in JSON lines the field `text`; `data.columns.target`
selects another. A line of a plain text file with several columns is a bad line, since its column is not given. Holding
out, `data.duplicates` and `data.overlap` compare sentences; the same words in two orders are two sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from heed.config import Columns
from heed.data.columns import Column
from heed.data.examples import Pair
from heed.data.findings import BadLine, Findings
from heed.data.memory import HeldTable
from heed.data.readers import HubTable, Reader
from heed.data.tables import CsvTable, Row, Table, open_table
from heed.data.text_files import ending_of

_OPENING = re.compile(r"[\u00a1\u00bf]+")
_CLOSING = re.compile(r"[.!?\u2026\u061f\u06d4\u0964\u3002\uff01\uff1f]+[\"')\]\u00bb\u2019\u201d]*$")


@dataclass(frozen=True, slots=True)
class ShuffledPair(Pair):
    """A sentence as the target and its words in another order as the source; the sentence decides the split."""

    unit = "sentence"
    # Only the sentence is checked: the source has the same words.
    sides = ("target",)  # type: ignore[assignment]  # one side where a pair has two

    @property
    def fields(self) -> tuple[str, ...]:
        return self.target, self.source

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> ShuffledPair:
        return cls(fields[1], fields[0], origin=origin)

    @property
    def blank(self) -> str:
        return "" if self.target.strip() else "blank"


def words_of(sentence: str) -> tuple[str, list[str], str]:
    """The words of a sentence, and its opening and closing punctuation.

    Returns:
        The opening punctuation, the words, and the closing punctuation; joined with spaces between the words they are
        the sentence, except for spacing.
    """
    text = " ".join(sentence.split())
    opening = found[0] if (found := _OPENING.match(text)) else ""
    closing = found[0] if (found := _CLOSING.search(text, len(opening))) else ""
    return opening, text[len(opening) : len(text) - len(closing)].split(), closing


def shuffle_words(sentence: str, seed: int) -> str:
    """The words of a sentence in an order drawn by (seed, sentence); all orders but the sentence's are equally likely.

    The sentence's own order is used only if there is no other: one word, or one word repeated.
    """
    opening, words, closing = words_of(sentence)
    drawn = list(words)
    if len(set(words)) > 1:
        rng = Random(f"{seed}:{sentence}")
        while drawn == words:
            rng.shuffle(drawn)
    return opening + " ".join(drawn) + closing


def sentence_reader(columns: Columns, seed: int, again: bool = False) -> Reader[ShuffledPair]:
    """The reader of sentences from files or data sets, which shuffles the words of each.

    With `again`, the column is that of a training set, which other files may lack.
    """
    read: dict[str, int | str] = {"target": 0} if again else {}

    def of_table(table: Table) -> Iterator[ShuffledPair]:
        _choose(table, columns.target, again=bool(read))
        read.update(read or table.columns)
        return table.made(lambda row: pair(row.text("target"), row.origin))

    def pair(sentence: str, place: str) -> ShuffledPair:
        return ShuffledPair(shuffle_words(sentence, seed), sentence, origin=place)

    def of_files(files: Sequence[str], findings: Findings) -> Iterator[ShuffledPair]:
        for sentence, place in read_sentences(files, columns.target, findings, read):
            yield pair(sentence, place)

    settings = {"columns": columns.target, "shuffled": [1, seed]}
    return Reader(ShuffledPair, of_files, of_table, settings, columns=read)


def _choose(table: Table, column: Column, again: bool = False) -> None:
    """Set the column of the sentences: the one given, else "text", or the first in .csv and .tsv."""
    if again and isinstance(column, str) and table.names and column not in table.names:
        column = None
    if isinstance(table, HeldTable):
        table.choose({"target": column}, {"target": ("text",)})
    else:
        table.columns = {"target": column if column is not None else 0 if isinstance(table, CsvTable) else "text"}
    if isinstance(table, HubTable):
        table.refuse_missing(("target",))


def read_sentences(
    files: Sequence[str | Path],
    column: Column = None,
    findings: Findings | None = None,
    columns: dict[str, int | str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Read sentences, one a line, or from a column: "text" by default in JSON lines, the first in .csv and .tsv.

    The column of the first table is recorded in `columns`.

    Yields:
        Each sentence, blank ones included, and its file and line.

    Raises:
        DataError: A file cannot be read, or a line is bad (for example, has several columns with none selected) and
            not skipped.
    """
    findings = Findings() if findings is None else findings
    for path in map(Path, files):
        kind = ending_of(path)
        if kind in (".jsonl", ".json"):
            table: Table = open_table(path, findings)
        else:
            table = CsvTable(path, findings, "," if kind == ".csv" else "\t", fixed=True)
        _choose(table, column, again=bool(columns))
        if column is None and kind not in (".csv", ".tsv", ".jsonl", ".json"):
            yield from table.made(_whole_line)
        else:
            if columns is not None:
                columns.update(columns or table.columns)
            yield from table.made(lambda row: (row.text("target"), row.origin))


def _whole_line(row: Row) -> tuple[str, str]:
    if not row.blank and not isinstance(row.cells, BadLine) and len(row.cells) > 1:
        raise row.bad(
            "several columns",
            f"{row.where} has {len(row.cells)} columns ({' | '.join(row.cells)[:40]!r}), expected one sentence; "
            "data.columns.target=0 reads the first column",
        )
    return row.text("target"), row.origin
