"""Word links of a training corpus, read from a file and kept as arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from heed.data.examples import Pair
from heed.data.read.findings import Findings
from heed.data.read.links import WordLink, checked, iter_links, linked
from heed.data.sequences import in_turn
from heed.errors import DataError

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
