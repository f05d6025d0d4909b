"""Word alignments in files: one line for each pair of texts, its links between words separated by blanks.

| written | means |
|---|---|
| `3-5` | source word 3 and target word 5 are linked, surely |
| `3p5`, `3?5` | the same, possibly |

A word is what blanks separate, marks included, as in `text.split()`. Words are counted from 0, as most aligners do (the
Pharaoh format), or from 1, as many gold alignments do: nothing in a file says which. A blank line is a pair without
links. Files may end in .gz or .xz.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from heed.data.examples import Link, Pair, Span
from heed.data.read.findings import BadLine, Findings
from heed.data.read.lines import lines_of

_LINK = re.compile(r"([0-9]+)([-p?])([0-9]+)", re.ASCII)
_WORD = re.compile(r"\S+")
OUT_OF_RANGE = "link to a word that is not there"
"""The rule under which links beyond the last word are counted."""


class WordLink(NamedTuple):
    """A link between two words, counted from 0; `sure` is False where the annotators called it possible."""

    source: int
    target: int
    sure: bool = True

    def written(self, base: int = 0) -> str:
        """As in a file that counts words from `base`."""
        return f"{self.source + base}{'-' if self.sure else 'p'}{self.target + base}"


def read_links(path: str | Path, *, base: Literal[0, 1] = 0, findings: Findings | None = None) -> list[list[WordLink]]:
    """The links of a file, one entry for each of its lines, an empty one for a blank line.

    Args:
        path: The file.
        base: What its first word is called.
        findings: What becomes of a bad line; it is an error without them, else its entry is empty.

    Raises:
        DataError: The file cannot be read, or something in it is no link; the message names file, line and value.
    """
    return list(iter_links(path, base=base, findings=findings))


def iter_links(
    path: str | Path, *, base: Literal[0, 1] = 0, findings: Findings | None = None
) -> Iterator[list[WordLink]]:
    """As `read_links`, line by line."""
    findings = Findings(hint=False) if findings is None else findings
    path = Path(path)
    for number, line in enumerate(lines_of(path, findings), start=1):
        links = line if isinstance(line, BadLine) else _links_in(line, path, number, base, findings)
        yield [] if isinstance(links, BadLine) else links


def _links_in(line: str, path: Path, number: int, base: int, findings: Findings) -> list[WordLink] | BadLine:
    links: dict[tuple[int, int], bool] = {}
    for written in line.split():
        found = _LINK.fullmatch(written)
        if found is None:
            message = (
                f"'{path}' line {number} holds {written!r:.60}, expected links between words, separated by spaces: "
                "source-target as 3-5, or 3p5 where the link is only possible"
            )
            return findings.bad("no link", path, number, message)
        source, target = int(found[1]) - base, int(found[3]) - base
        if min(source, target) < 0:
            message = f"'{path}' line {number} links a word 0 ({written}), but words are counted from 1 (base=1)"
            return findings.bad("a word 0 where words are counted from 1", path, number, message)
        # A link that stands there twice is sure if it is sure once.
        links[source, target] = links.get((source, target), False) or found[2] == "-"
    return [WordLink(source, target, sure) for (source, target), sure in links.items()]


def written_links(links: Iterable[WordLink], base: int = 0) -> str:
    """The line of a file that holds these links."""
    return " ".join(link.written(base) for link in links)


def word_spans(text: str) -> list[Span]:
    """The span of characters `(start, end)` of each word that blanks separate."""
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
    """The links between words that the pair has; the others are errors or left out and counted, by the findings.

    Args:
        links: The links of the pair, counted from 0.
        pair: Its texts; words are what blanks separate.
        path: The file that the links were read from.
        number: Their line in it.
        findings: What becomes of a link to a word that is not there.
        base: What the file calls the first word, for messages.
        other_base: How a user says that the first word is 1.

    Raises:
        DataError: A link names a word behind the last one, and that is an error.
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
    """The pair with these links between its words, as spans of characters; all must be there (see `checked`)."""
    sources, targets = word_spans(pair.source), word_spans(pair.target)
    return replace(pair, links=tuple(Link(target=targets[one.target], source=sources[one.source]) for one in links))
