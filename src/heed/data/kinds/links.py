"""Word alignments: one line for each pair of texts, with links between words separated by spaces.

| written | means |
|---|---|
| `3-5` | source word 3 and target word 5 are linked, surely |
| `3p5` | the same, possibly |

This is the Pharaoh format. Words are separated by spaces and include punctuation, as in `text.split()`, and are counted
from 0. A blank line is a pair without links. Files may be compressed (.gz, .xz). `LinkTable` keeps those of a training
corpus as arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from heed.data.examples import Link, Pair, Span
from heed.data.findings import BadLine, Findings
from heed.data.tables import Items, Row
from heed.errors import DataError, counted, whole_number

_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)", re.ASCII)
_WORD = re.compile(r"\S+")
OUT_OF_RANGE = "link to a word that does not exist"
"""The rule under which links beyond the last word are counted."""


class WordLink(NamedTuple):
    """A link between two words, counted from 0; `sure` is False if the annotators marked it as possible."""

    source: int
    target: int
    sure: bool = True

    def written(self) -> str:
        """The link as written in a file."""
        return f"{self.source}{'-' if self.sure else 'p'}{self.target}"


def read_links(path: str | Path, *, findings: Findings | None = None) -> list[list[WordLink]]:
    """The links in a file, one list for each line, empty for a blank line.

    Args:
        path: The file.
        findings: Policy for bad lines, which are errors without it; the list of a skipped line is empty.

    Raises:
        DataError: The file cannot be read, or an entry is not a link; the message names file, line and value.
    """
    return list(iter_links(path, findings=findings))


def iter_links(path: str | Path, *, findings: Findings | None = None) -> Iterator[list[WordLink]]:
    """As `read_links`, line by line."""
    findings = Findings(hint=False) if findings is None else findings
    for row in Items.lines(Path(path), findings).rows():
        try:
            yield _links_in(row)
        except BadLine:
            yield []


def _links_in(row: Row) -> list[WordLink]:
    links: dict[tuple[int, int], bool] = {}
    for written in row.object().split():
        match = _LINK.fullmatch(written)
        if match is None:
            expected = "links between words, separated by spaces: source-target as in 3-5, or 3p5 for a possible link"
            raise row.bad("not a link", f"{row.where} contains {written!r:.60}, expected {expected}")
        source, target = whole_number(match[1]), whole_number(match[3])
        # A repeated link is sure if it is sure once.
        links[source, target] = links.get((source, target), False) or match[2] == "-"
    return [WordLink(source, target, sure) for (source, target), sure in links.items()]


def written_links(links: Iterable[WordLink]) -> str:
    """These links as a line of a file."""
    return " ".join(link.written() for link in links)


def word_spans(text: str) -> list[Span]:
    """The character span `(start, end)` of each word, separated by spaces."""
    return [match.span() for match in _WORD.finditer(text)]


def checked(links: Sequence[WordLink], pair: Pair, path: str | Path, number: int, findings: Findings) -> list[WordLink]:
    """The links between words of the pair; other links are errors, or left out and counted, as the findings say.

    Links were read from line `number` of a file.

    Raises:
        DataError: A link names a word beyond the last, and bad lines are not skipped.
    """
    words = {"source": pair.source.split(), "target": pair.target.split()}
    valid = []
    for link in links:
        side = next((side for side in words if getattr(link, side) >= len(words[side])), None)
        if side is None:
            valid.append(link)
            continue
        word, count = getattr(link, side), len(words[side])
        message = (
            f"'{path}' line {number}: link {link.written()} names {side} word {word}, but the {side}"
            f"{f' ({pair.origin})' if pair.origin else ''} has {counted(count, 'word')}, counted from 0: "
            f"{getattr(pair, side)!r:.80}"
        )
        fix = "if the file counts words from 1, subtract 1 from every number" if word == count else ""
        findings.bad(OUT_OF_RANGE, path, number, message, fix=fix, things="links")
    return valid


def linked(pair: Pair, links: Iterable[WordLink]) -> Pair:
    """The pair with these links between its words, as character spans; all words must exist (see `checked`)."""
    sources, targets = word_spans(pair.source), word_spans(pair.target)
    return replace(pair, links=tuple(Link(target=targets[link.target], source=sources[link.source]) for link in links))


_PLACE = re.compile(r"([:\[])(\d+)\]?$", re.ASCII)
_JUDGED = 20
"""Links below which there is no remark if none names word 0."""


class LinkTable:
    """The links of each pair of a corpus, found by the line number in the pair's origin.

    Args:
        path: The file, one line for each pair.
        possible: True if links that are only possible count.
        findings: Policy for lines and links that cannot be used.
        skipped: Lines at the start of the corpus's file without a pair: the header.

    Raises:
        DataError: The file cannot be read, or an entry is not a link.
    """

    def __init__(self, path: str, possible: bool, findings: Findings, skipped: int = 0) -> None:
        self.path, self._findings, self._skipped = Path(path), findings, skipped
        ends, numbers = [0], []
        for links in iter_links(path, findings=findings):
            numbers += [number for link in links if link.sure or possible for number in (link.source, link.target)]
            ends.append(len(numbers) // 2)
        self._ends = np.array(ends, dtype=np.int64)
        self._links = np.array(numbers, dtype=np.int32).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def _links_of(self, pair: Pair, findings: Findings) -> list[WordLink]:
        """The links of a pair, without those to missing words; from line N of the file for line N of the corpus."""
        match = _PLACE.search(pair.origin)
        assert match is not None, f"{pair.origin!r} names no line"
        line = int(match[2]) + 1 if match[1] == "[" else int(match[2]) - self._skipped
        if line > len(self):
            raise DataError(
                f"pair {pair.origin} has no line in '{self.path}', which has {len(self):,}; texts with line breaks "
                "shift line numbers; give two parallel files"
            )
        start, end = self._ends[line - 1 : line + 1]
        links = [WordLink(source, target) for source, target in self._links[start:end].tolist()]
        return checked(links, pair, self.path, line, findings)

    def of(self, pair: Pair) -> Pair:
        """The pair with its links, except those to missing words."""
        return linked(pair, self._links_of(pair, Findings("skip")))

    def check(self, pairs: Sequence[Pair], read: int, corpus: str, unused: Iterable[Sequence[Pair]] = ()) -> str:
        """Compare the links with the pairs of a corpus, of which `read` were read before some were left out.

        The links of the `unused` pairs (for validation, or not drawn) are not used, but are checked as well: links to
        missing words in the file are reported whichever pairs are chosen.

        Returns:
            Numbers of links and pairs, for people.

        Raises:
            DataError: There are more or fewer lines than pairs, or a link names a missing word.
        """
        if len(self) != read:
            header = " (not counting the header)" if self._skipped else ""
            raise DataError(
                f"'{self.path}' has {counted(len(self), 'line')}, but {corpus} has {counted(read, 'pair')}{header}; "
                "line N must contain the links of pair N, and be blank if it has none"
            )
        sizes = [len(self._links_of(pair, self._findings)) for pair in pairs]
        for pair in chain.from_iterable(unused):
            self._links_of(pair, self._findings)
        count = sum(sizes)
        if not count:
            raise DataError(f"'{self.path}' contains no links of the training pairs of {corpus}")
        doubt = ""
        if len(self._links) >= _JUDGED and self._links.min() > 0:
            doubt = "; no link names word 0; if the file counts words from 1, subtract 1 from every number"
        linked_pairs = f"{sum(map(bool, sizes)):,} of {len(pairs):,} pairs"
        return f"{corpus}: {count:,} links in {linked_pairs} ({self.path.name}){doubt}"
