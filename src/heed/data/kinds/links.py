"""Word alignments: one line for each pair of texts, with links between words separated by spaces.

| written | means |
|---|---|
| `3-5` | source word 3 and target word 5 are linked, surely |
| `3p5` | the same, possibly |

Words are separated by spaces and include punctuation, as in `text.split()`. They are counted from 0, as in the output
of most aligners (the Pharaoh format), or from 1, as in many gold alignments; the file does not say which. A blank line
is a pair without links. Files may be compressed (.gz, .xz). `LinkTable` keeps those of a training corpus as arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from heed.data.examples import Link, Pair, Span, in_turn
from heed.data.findings import BadLine, Findings
from heed.data.text_files import lines_of, unless_bad
from heed.errors import DataError, whole_number

_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)", re.ASCII)
_WORD = re.compile(r"\S+")
OUT_OF_RANGE = "link to a word that does not exist"
"""The rule under which links beyond the last word are counted."""


class WordLink(NamedTuple):
    """A link between two words, counted from 0; `sure` is False if the annotators marked it as possible."""

    source: int
    target: int
    sure: bool = True

    def written(self, base: int = 0) -> str:
        """The link as written in a file that counts words from `base`."""
        return f"{self.source + base}{'-' if self.sure else 'p'}{self.target + base}"


def read_links(path: str | Path, *, base: Literal[0, 1] = 0, findings: Findings | None = None) -> list[list[WordLink]]:
    """The links in a file, one list for each line, empty for a blank line.

    Args:
        path: The file.
        base: Number of the first word in the file.
        findings: Policy for bad lines, which are errors without it; the list of a skipped line is empty.

    Raises:
        DataError: The file cannot be read, or an entry is not a link; the message names file, line and value.
    """
    return list(iter_links(path, base=base, findings=findings))


def iter_links(
    path: str | Path, *, base: Literal[0, 1] = 0, findings: Findings | None = None
) -> Iterator[list[WordLink]]:
    """As `read_links`, line by line."""
    findings = Findings(hint=False) if findings is None else findings
    path = Path(path)
    for number, line in enumerate(lines_of(path, findings), start=1):
        try:
            yield _links_in(unless_bad(line), path, number, base, findings)
        except BadLine:
            yield []


def _links_in(line: str, path: Path, number: int, base: int, findings: Findings) -> list[WordLink]:
    links: dict[tuple[int, int], bool] = {}
    for written in line.split():
        found = _LINK.fullmatch(written)
        if found is None:
            message = (
                f"'{path}' line {number} contains {written!r:.60}, expected links between words, separated by spaces: "
                "source-target as in 3-5, or 3p5 for a possible link"
            )
            raise findings.bad("not a link", path, number, message)
        source, target = whole_number(found[1]) - base, whole_number(found[3]) - base
        if min(source, target) < 0:
            message = f"'{path}' line {number} links word 0 ({written}), but words are counted from 1 (base=1)"
            raise findings.bad("word 0 although words are counted from 1", path, number, message)
        # A repeated link is sure if it is sure once.
        links[source, target] = links.get((source, target), False) or found[2] == "-"
    return [WordLink(source, target, sure) for (source, target), sure in links.items()]


def written_links(links: Iterable[WordLink], base: int = 0) -> str:
    """These links as a line of a file."""
    return " ".join(link.written(base) for link in links)


def word_spans(text: str) -> list[Span]:
    """The character span `(start, end)` of each word, separated by spaces."""
    return [found.span() for found in _WORD.finditer(text)]


def checked(
    links: Sequence[WordLink],
    pair: Pair,
    path: str | Path,
    number: int,
    findings: Findings,
    *,
    base: int = 0,
    other_base: str = "base 1",
) -> list[WordLink]:
    """The links between words of the pair; other links are errors, or left out and counted, as the findings say.

    Links are counted from 0, and were read from line `number` of a file whose first word is `base`; `other_base` is the
    setting for files that count from 1, for messages.

    Raises:
        DataError: A link names a word beyond the last, and bad lines are not skipped.
    """
    lengths = {side: len(text.split()) for side, text in (("source", pair.source), ("target", pair.target))}
    kept = []
    for link in links:
        side = "source" if link.source >= lengths["source"] else "target"
        if (word := link.source if side == "source" else link.target) < lengths[side]:
            kept.append(link)
            continue
        count, text = lengths[side], pair.source if side == "source" else pair.target
        message = (
            f"'{path}' line {number}: link {link.written(base)} names {side} word {word + base}, but the {side}"
            f"{f' ({pair.origin})' if pair.origin else ''} has {count} word{'' if count == 1 else 's'}, counted from "
            f"{base}: {text!r:.80}"
        )
        one_off = base == 0 and word == count
        fix = f"if the file counts words from 1, give {other_base}" if one_off else ""
        findings.bad(OUT_OF_RANGE, path, number, message, fix=fix, things="links")
    return kept


def linked(pair: Pair, links: Iterable[WordLink]) -> Pair:
    """The pair with these links between its words, as character spans; all words must exist (see `checked`)."""
    sources, targets = word_spans(pair.source), word_spans(pair.target)
    return replace(pair, links=tuple(Link(target=targets[one.target], source=sources[one.source]) for one in links))


_PLACE = re.compile(r"([:\[])(\d+)\]?$", re.ASCII)
_ONE = "training.alignment.base=1"
_JUDGED = 20
"""Links below which there is no remark if none names word 0."""


class LinkTable:
    """The links of each pair of a corpus, found by the line number in the pair's origin.

    Args:
        path: The file, one line for each pair.
        base: Number of the first word in the file.
        possible: True if links that are only possible count.
        findings: Policy for lines and links that cannot be used.
        skipped: Lines at the start of the corpus's file without a pair: the header.

    Raises:
        DataError: The file cannot be read, or an entry is not a link.
    """

    def __init__(self, path: str, base: Literal[0, 1], possible: bool, findings: Findings, skipped: int = 0) -> None:
        self.path, self._base, self._findings, self._skipped = Path(path), base, findings, skipped
        ends, numbers = [0], []
        for links in iter_links(path, base=base, findings=findings):
            numbers += [number for link in links if link.sure or possible for number in (link.source, link.target)]
            ends.append(len(numbers) // 2)
        self._ends = np.array(ends, dtype=np.int64)
        self._links = np.array(numbers, dtype=np.int32).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def _line(self, pair: Pair) -> int:
        """The line of a pair's links, counted from 1."""
        found = _PLACE.search(pair.origin)
        assert found is not None, f"{pair.origin!r} names no line"
        return int(found[2]) + 1 if found[1] == "[" else int(found[2]) - self._skipped

    def _at(self, line: int) -> list[WordLink]:
        start, end = self._ends[line - 1 : line + 1]
        return [WordLink(source, target) for source, target in self._links[start:end].tolist()]

    def of(self, pair: Pair) -> Pair:
        """The pair with its links, except those to missing words."""
        line = self._line(pair)
        return linked(pair, checked(self._at(line), pair, self.path, line, Findings("skip"), base=self._base))

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
                f"'{self.path}' has {len(self):,} line{'' if len(self) == 1 else 's'}, but {corpus} has {read:,} "
                f"pair{'' if read == 1 else 's'}{header}; line N must contain the links of pair N, and be blank if it "
                "has none"
            )
        count = with_links = 0
        for pair, line in self._lines(pairs, corpus):
            kept = checked(self._at(line), pair, self.path, line, self._findings, base=self._base, other_base=_ONE)
            count, with_links = count + len(kept), with_links + bool(kept)
        for some in unused:
            for pair, line in self._lines(some, corpus):
                checked(self._at(line), pair, self.path, line, self._findings, base=self._base, other_base=_ONE)
        if not count:
            raise DataError(f"'{self.path}' contains no links of the training pairs of {corpus}")
        doubt = ""
        if self._base == 0 and len(self._links) >= _JUDGED and self._links.min() > 0:
            doubt = "; no link names word 0; if words are counted from 1, set training.alignment.base=1"
        return f"{corpus}: {count:,} links in {with_links:,} of {len(pairs):,} pairs ({self.path.name}){doubt}"

    def _lines(self, pairs: Sequence[Pair], corpus: str) -> Iterator[tuple[Pair, int]]:
        for chunk in in_turn(pairs):
            for pair in chunk:
                line = self._line(pair)
                if line > len(self):
                    raise DataError(
                        f"pair {pair.origin} of {corpus} has no line in '{self.path}', which has {len(self):,}; texts "
                        "with line breaks shift line numbers; give two parallel files"
                    )
                yield pair, line
