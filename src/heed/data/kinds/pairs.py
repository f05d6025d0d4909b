"""Pairs of texts, and links between their words; errors name file and line.

| given | read as |
|---|---|
| two files | line N of one belongs to line N of the other |
| .tsv, .txt, or anything else | columns separated by tabs, by number or by header name |
| .csv | columns separated by commas (or semicolons, tabs, bars), with CSV quoting; by number or name |
| .jsonl, .json | one object a line, fields by name, or its only two texts |
| .parquet | columns by name, or its only two with texts (with pyarrow installed) |

Files may be compressed (.gz, .xz). A blank line is a pair with two blank sides. Columns that are not given are
recognised from the beginning of the file; other kinds of data are refused.

Word alignments have one line for each pair, with links between words separated by spaces, in the Pharaoh format:

| written | means |
|---|---|
| `3-5` | source word 3 and target word 5 are linked, surely |
| `3p5` | the same, possibly |

Words are separated by spaces and include punctuation, as in `text.split()`, and are counted from 0. A blank line is a
pair without links. `LinkTable` has those of a training corpus as arrays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heed.config import Columns
from heed.data.columns import HEADER_NAMES, Column, Facts, listing
from heed.data.examples import Link, Pair, Span
from heed.data.findings import CUT_OFF, BadLine, Findings
from heed.data.kinds.contents import Advice, content_of, no_advice
from heed.data.readers import Reader, table_reader
from heed.data.tables import FEW, CsvTable, Field, Items, PythonTable, Row, Table, note_header
from heed.data.text_files import INNER_RETURN, ending_of, lines_of, unless_bad
from heed.errors import DataError, counted, whole_number

COPY = "the model can only learn to copy"
Names = tuple[Sequence[str], Sequence[str]]
SIDES: Names = (("source",), ("target",))
"""Usual names of both columns, most reliable first."""
_UNNAMED = Columns()


def pair_reader(
    columns: Any = _UNNAMED, advice: Advice = no_advice, names: Names = SIDES, again: bool = False
) -> Reader[Pair]:
    """The reader of pairs, blank sides included, from two parallel files, one file of columns, data sets or Python.

    Columns are those with usual `names`, else 0 and 1 or, in JSON lines, the only two texts; what was recognised and
    what looks odd is remarked. `advice` names commands for files without pairs. With `again`, the columns are those of
    a run that reads further files: one with a header must have them.

    Raises:
        DataError: (while reading) A file is missing, empty, cut off, not text, or changes while it is read; two files
            have different numbers of lines; a line is bad (not UTF-8, too long, without the column) and not skipped;
            a table looks like another kind of data, or a column is missing.
    """
    fields = Field("source", columns.source, names[0]), Field("target", columns.target, names[1])

    def choose(table: Table, after: bool) -> str:
        remark = ""
        if isinstance(table, CsvTable):
            _check(table, advice, any(isinstance(column, str) for column in (columns.source, columns.target)))
        if isinstance(table, CsvTable) and not table.is_regular:  # reading reports what is missing
            specified = table.specified(fields, after or again).items()
            table.columns = {side: n if column is None else column for n, (side, column) in enumerate(specified)}
        else:
            recognise = partial(_recognised, table=table, advice=advice)
            remark = table.choose(fields, recognise, trained=after or again, minimum_rows=1)
        if isinstance(table, PythonTable) and not table.names and table.width > 2:  # tuples with more than both texts
            chosen = _recognised(table.facts(), {field.name: field.column for field in fields}, table, advice)
            if isinstance(chosen, str):
                raise DataError(f"{table.called}: {chosen}; set data.columns.source and data.columns.target to numbers")
            table.columns |= chosen
            remark = f"columns: source is {table.columns['source']}, target is {table.columns['target']}"
        if table.columns["source"] == table.columns["target"] and not isinstance(table, PythonTable):
            where = f"{table.column_word}, '{table.columns['source']}' of '{Path(table.path).name}'"
            table.findings.remark(f"warning: source and target are the same {where}; {COPY}")
        return "; ".join(table.remarks) if [*table.columns.values()] == [0, 1] else remark

    def table_in(path: Path, findings: Findings) -> Table:
        fixed = ending_of(path) not in (".csv", ".jsonl", ".json", ".parquet")
        table = CsvTable(path, findings, "\t", fixed=True) if fixed else Table.open(path, findings)
        table.hint = "; or give two parallel files"
        return table

    def read(files: Sequence[str], findings: Findings) -> Iterable[Pair]:
        if len(files) == 2:
            return _parallel(Path(files[0]), Path(files[1]), findings)
        if len(files) != 1:
            listed = f"{len(files)} files were given ({', '.join(map(str, files))})"
            raise DataError(f"{listed}; expected two parallel files, or one with both sides")
        return of_one.read(files, findings)

    of_one = table_reader(Pair, choose, _pair, table_in, {"columns": [columns.source, columns.target]})
    return replace(of_one, read=read)


def _pair(row: Row) -> Pair:
    return Pair(row.text("source"), row.text("target"), origin=row.origin)


def _parallel(source: Path, target: Path, findings: Findings) -> Iterator[Pair]:
    if os.path.exists(source) and os.path.exists(target) and source.samefile(target):
        findings.remark(f"warning: source and target are the same file, '{source.name}'; {COPY}")

    def pair(numbered: tuple[int, tuple[str | BadLine | None, str | BadLine | None]]) -> Pair:
        number, (left, right) = numbered
        if left is None or right is None:
            short, long = (source, target) if left is None else (target, source)
            if findings.find(CUT_OFF, short) is None:
                raise _different_lengths(short, number - 1, long, findings)
            raise BadLine(f"'{short.name}' is cut off before that line")
        return Pair(unless_bad(left), unless_bad(right), origin=f"{source.name}:{number}")

    # Closed explicitly: after an error in one file, the traceback would keep the other one open.
    with closing(lines_of(source, findings)) as sources, closing(lines_of(target, findings)) as targets:
        yield from findings.usable(enumerate(zip_longest(sources, targets), start=1), pair)


def _different_lengths(short: Path, count: int, long: Path, findings: Findings) -> DataError:
    """The error for files of different lengths; never skipped, since pairing their lines would be a guess."""
    total = sum(1 for _ in lines_of(long, Findings("skip", findings.encoding, findings.max_line)))
    hint = "".join(
        f"; '{path}' contains carriage returns (the first in line {returns.places[0]}), which do not end lines here"
        for path in (short, long)
        if (returns := findings.find(INNER_RETURN, path)) is not None
    )
    counts = f"'{short}' has {counted(count, 'line')} but '{long}' has {total:,}"
    return DataError(f"{counts}; line N of one must belong to line N of the other{hint}")


def _check(table: CsvTable, advice: Advice, by_name: bool) -> None:
    """Refuse a file of other data, or remark on it, and on a first line that may name columns in unknown words."""
    content, is_narrow = content_of(table.head), not table.is_regular and all(len(row) < 2 for row in table.sample)
    if content is not None and (is_narrow or (content.kind == "tagged" and content.sure)):
        what = "expected both sides of a pair on each line, with a tab between them, or two parallel files"
        raise DataError(f"{table.called}: {content.why}; {what}{advice(content.kind, table.path)}")
    if content is not None and content.kind == "labelled":
        what = f"{table.name}: {content.why}; read as pairs{advice('labelled', table.path)}"
        table.findings.remark(f"warning: {what}")
    if (
        table.is_regular
        and table.has_header
        and not by_name
        and len({*map(str.casefold, table.names)} & HEADER_NAMES) < 2
    ):
        note_header(table.names, table.path, table.findings)
        table.header = False


def _recognised(
    facts: Sequence[Facts], columns: Mapping[str, Column], table: Table, advice: Advice
) -> dict[str, int | str] | str:
    """The columns of both sides: in CSV the first and the second, unless these are numbers; else the only texts."""
    open_ = [side for side, column in columns.items() if column is None]
    if table.judged < FEW and not isinstance(table, CsvTable):
        return ""
    others = [column for column in facts if column.name not in columns.values()]
    texts = [column for column in others if column.is_text]
    usual = [facts[n] for n, side in enumerate(columns) if side in open_ and n < len(facts)]
    is_positional = isinstance(table, CsvTable) or not table.names
    if is_positional and all(column in others and column.numbers <= 0.9 for column in usual):
        texts = usual
    for candidates in (texts, [column for column in texts if not column.repeats]):
        if len(candidates) == len(open_):
            return {side: column.name for side, column in zip(open_, candidates, strict=True)}
    if isinstance(table, CsvTable | PythonTable) and len(others) == len(open_):
        if texts:
            table.findings.remark(f"warning: columns of numbers, read as texts: {listing(others)}")
        return {side: column.name for side, column in zip(open_, others, strict=True)}
    lists = [(name, {*map(type, value)}) for name, value in table.first.items() if isinstance(value, list)]
    if turns := next((name for name, types in lists if types in ({dict}, {str})), None):
        why = f"each line is a conversation (field '{turns}' is a list of turns); expected two texts in each line"
        raise DataError(f"{table.called}: {why}{advice('conversations', Path(table.path))}")
    return f"{len(texts)} of its {table.column_word}s contain{'s' * (len(texts) == 1)} texts"


# Word alignments

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
