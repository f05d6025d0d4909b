"""Sentences whose words are shuffled: the source is made from the target, the sentence as it stands in the file.

Words are what blanks separate, kept as they are. The marks that end a sentence stay at the end of the source and those
that open it (Spanish) at its start, so that they do not tell which word is the last or the first:

    What time is it now?   ->   it time What now is?

A capital letter still tells the first word where no other word has one; `tokenizer.lowercase: source` hides it.

The order is drawn by (`data.shuffle_seed`, sentence). All orders but the sentence's own are equally likely; its own is
used only where there is no other (one word, or one word several times). In scripts without spaces a line is one word,
and nothing is shuffled. Of .csv and .tsv the first column is read, of JSON lines the field `text`;
`data.columns.target` names another. A line of a plain text file with several columns is a bad line, since nobody can
know which is meant. What is held out, `data.duplicates` and `data.overlap` go by the sentence; two sentences of the
same words in two orders are two sentences.
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
    # What there is to check: the source has the same words.
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
        """Whether the sentence is blank."""
        return "" if self.target.strip() else "blank"


def words_of(sentence: str) -> tuple[str, list[str], str]:
    """The words of a sentence, and the marks that open and end it.

    Returns:
        The opening marks, the words, and the closing marks; joined with blanks between the words they are the sentence
        (blanks that are not one space aside).
    """
    text = " ".join(sentence.split())
    opening = found[0] if (found := _OPENING.match(text)) else ""
    closing = found[0] if (found := _CLOSING.search(text, len(opening))) else ""
    return opening, text[len(opening) : len(text) - len(closing)].split(), closing


def shuffle_words(sentence: str, seed: int) -> str:
    """The words of a sentence in an order drawn by (seed, sentence), all other orders being equally likely.

    It is the order of the sentence only where no other exists: one word, or one word repeated.
    """
    opening, words, closing = words_of(sentence)
    drawn = list(words)
    if len(set(words)) > 1:
        rng = Random(f"{seed}:{sentence}")
        while drawn == words:
            rng.shuffle(drawn)
    return opening + " ".join(drawn) + closing


def sentence_reader(columns: Columns, seed: int) -> Reader[ShuffledPair]:
    """Reads sentences from files or data sets, and shuffles the words of each."""

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
        DataError: A file cannot be read, or a line is bad and that is an error: it has several columns, and none is
            named.
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
