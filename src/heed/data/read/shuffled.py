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
from heed.data.examples import Pair
from heed.data.read.findings import BadLine, Findings
from heed.data.read.lines import ending_of
from heed.data.read.reader import Reader
from heed.data.read.rows import Column, column_rows, json_rows, tabbed_rows, text_of

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
        """The sentence, then its shuffled words."""
        return self.target, self.source

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> ShuffledPair:
        """The pair of a sentence and its shuffled words."""
        return cls(fields[1], fields[0], origin=origin)

    @property
    def blank(self) -> str:
        """As in `Example`: a rule if the sentence is blank."""
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


def sentence_reader(columns: Columns, seed: int) -> Reader[ShuffledPair]:
    """The reader of sentences from files or data sets, which shuffles the words of each."""

    def pair(sentence: str, place: str) -> ShuffledPair:
        return ShuffledPair(shuffle_words(sentence, seed), sentence, origin=place)

    def read(files: Sequence[str], findings: Findings) -> Iterator[ShuffledPair]:
        for sentence, place in read_sentences(files, columns.target, findings):
            yield pair(sentence, place)

    settings = {"columns": columns.model_dump(mode="json"), "shuffled": [1, seed]}
    return Reader(ShuffledPair, read, lambda row, place, findings: pair(row["target"], place), settings)


def read_sentences(
    files: Sequence[str | Path], column: Column = None, findings: Findings | None = None
) -> Iterator[tuple[str, str]]:
    """Read sentences, one a line, or from a column: "text" by default in JSON lines, the first in .csv and .tsv.

    Yields:
        Each sentence, blank ones included, and its file and line.

    Raises:
        DataError: A file cannot be read, or a line is bad (for example, has several columns with none selected) and
            not skipped.
    """
    findings = Findings() if findings is None else findings
    for path in map(Path, files):
        for number, sentence in _lines(path, column, findings):
            if isinstance(sentence, BadLine):
                findings.leave_out(sentence.rule)
            else:
                yield sentence, f"{path.name}:{number}"


def _lines(path: Path, column: Column, findings: Findings) -> Iterator[tuple[int, str | BadLine]]:
    ending = ending_of(path)
    if ending in (".jsonl", ".json"):
        name = "text" if column is None else str(column)
        for number, row in json_rows(path, findings, (name,)):
            yield number, "" if row is None else text_of(row, name, path, number, findings)
    elif ending in (".csv", ".tsv") or column is not None:
        wanted = {"target": 0 if column is None else column}
        for number, cells in column_rows(path, wanted, findings, separator="," if ending == ".csv" else "\t"):
            yield number, "" if cells is None else cells[0]
    else:
        for number, parts in tabbed_rows(path, findings):
            yield number, parts[0] if len(parts) == 1 else _several(parts, path, number, findings)


def _several(row: list[str], path: Path, number: int, findings: Findings) -> BadLine:
    message = (
        f"'{path}' line {number} has {len(row)} columns ({' | '.join(row)[:40]!r}), expected one sentence; "
        "data.columns.target=0 reads the first column"
    )
    return findings.bad("several columns", path, number, message)
