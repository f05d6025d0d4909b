"""Readers of pairs of texts; errors name file and line.

| given | read as |
|---|---|
| two files | line N of one belongs to line N of the other |
| .tsv, .txt, or anything else | columns separated by tabs, by number or by header name |
| .csv | columns separated by commas (or semicolons, tabs, bars), with CSV quoting; by number or name |
| .jsonl, .json | one object a line, fields by name, or its only two texts |

Files may be compressed (.gz, .xz). A blank line is a pair with two blank sides. Columns that are not given are
recognised from the beginning of the file; other kinds of data are refused.

With `data.shuffle_source=words` a file has one sentence a line: the target is the sentence as in the file, the source
is made from it by shuffling its words (separated by spaces, kept unchanged). Punctuation that ends or opens (Spanish) a
sentence stays where it is, so that it does not reveal the last or the first word:

    What time is it now?   ->   it time What now is?

A capital letter still reveals the first word if no other word has one; `tokenizer.lowercase: source` hides it. In
scripts without spaces a line is one word, and nothing is shuffled. In .csv and .tsv the first column is read, in JSON
lines the field `text`; `data.columns.target` selects another. A line of a plain text file with several columns is a bad
line, since its column is not given. Holding out, `data.duplicates` and `data.overlap` compare sentences; the same words
in two orders are two sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from heed.config import Columns
from heed.data.columns import HEADER_NAMES, Column, Facts, facts_of, some
from heed.data.examples import Pair
from heed.data.findings import BadLine, Findings
from heed.data.kinds.contents import Advice, content_of, no_advice
from heed.data.readers import HeldTable, HubTable, Reader
from heed.data.tables import CsvTable, Head, JsonTable, Row, Table, note_header, open_table
from heed.data.text_files import INNER_RETURN, ending_of, lines_of
from heed.errors import DataError, suggest

_FEW = 4
"""Objects below which fields are not recognised."""
_MANY = 50
"""Pairs below which sides are not compared with labels."""
COPY = "the model can only learn to copy"
Names = tuple[Sequence[str], Sequence[str]]
SIDES: Names = (("source",), ("target",))
"""Usual names of both columns, most reliable first."""


def pair_reader(
    files: Sequence[str],
    columns: Columns,
    field: str,
    files_field: str,
    advice: Advice = no_advice,
    names: Names = SIDES,
) -> Reader[Pair]:
    """The reader of pairs from files or data sets with these columns.

    `advice` names commands for files without pairs; `names` are usual names of both columns.

    Raises:
        DataError: Columns are given for two parallel files.
    """
    if len(files) == 2 and (columns.source is not None or columns.target is not None):
        raise DataError(
            f"{field} selects columns of one file, but {files_field} names two parallel files: {', '.join(files)}"
        )
    read: dict[str, int | str] = {}

    def of_table(table: Table) -> Iterator[Pair]:
        choose_sides(table, columns.source, columns.target, advice, names, again=bool(read))
        read.update(read or table.columns)
        return table.made(_pair)

    def of_files(files: Sequence[str], findings: Findings) -> Iterator[Pair]:
        return read_pairs(files, findings=findings, of_table=of_table)

    # Columns by number are the default, so that a run that has recorded them finds what it has stored.
    both = 0 if columns.source is None else columns.source, 1 if columns.target is None else columns.target
    settings = {"columns": [*both], "recognised": 2}
    return Reader(Pair, of_files, of_table, settings, columns=read)


def _pair(row: Row) -> Pair:
    return Pair(row.text("source"), row.text("target"), origin=row.origin)


def read_pairs(
    files: Sequence[str | Path],
    source: Column = None,
    target: Column = None,
    findings: Findings | None = None,
    advice: Advice = no_advice,
    names: Names = SIDES,
    again: bool = False,
    of_table: Callable[[Table], Iterator[Pair]] | None = None,
) -> Iterator[Pair]:
    """Read pairs from two parallel files or from one file of columns.

    Columns are those with usual `names`, else 0 and 1 or, in JSON lines, the only two texts. Bad lines are errors
    without `findings`; `advice` names commands for files without pairs. With `again`, the columns are those of a
    training set, which this file may lack.

    Yields:
        One pair a line, blank sides included; its origin names file and line.

    Raises:
        DataError: A file is missing, empty, cut off, not text, or changes while it is read; two files have different
            numbers of lines; a line is bad (not UTF-8, too long, without the column) and not skipped.
    """
    paths = [Path(f) for f in files]
    findings = Findings() if findings is None else findings
    if len(paths) == 2:
        yield from _parallel(paths[0], paths[1], findings)
    elif len(paths) == 1:
        kind = ending_of(paths[0])
        table = open_table(paths[0], findings) if kind in _KINDS else CsvTable(paths[0], findings, "\t", fixed=True)
        table.hint = "; or give two parallel files"
        if of_table is None:
            choose_sides(table, source, target, advice, names, again)
            of_table = _made
        yield from of_table(table)
    else:
        given = f"{len(paths)} files were given ({', '.join(map(str, paths))})"
        raise DataError(f"{given}; expected two parallel files, or one with both sides")


_KINDS = (".csv", ".jsonl", ".json")


def _made(table: Table) -> Iterator[Pair]:
    return table.made(_pair)


def _parallel(source: Path, target: Path, findings: Findings) -> Iterator[Pair]:
    if source.exists() and target.exists() and source.samefile(target):
        findings.remark(f"warning: source and target are the same file, '{source.name}'; {COPY}")
    # Closed here, so that an error in one file does not leave the other open until the traceback is freed.
    with closing(lines_of(source, findings)) as sources, closing(lines_of(target, findings)) as targets:
        for number, (left, right) in enumerate(zip_longest(sources, targets), start=1):
            if left is None or right is None:
                short, long = (source, target) if left is None else (target, source)
                if not findings.is_cut_off(short):
                    raise _different_lengths(short, number - 1, long, findings)
                findings.leave_out(f"'{short.name}' is cut off before that line")
            elif isinstance(left, BadLine) or isinstance(right, BadLine):
                findings.leave_out((left if isinstance(left, BadLine) else right).rule)  # type: ignore[union-attr]
            else:
                yield Pair(left, right, origin=f"{source.name}:{number}")


def _different_lengths(short: Path, count: int, long: Path, findings: Findings) -> DataError:
    """The error for files of different lengths; never skipped, since pairing their lines would be a guess."""
    total = sum(1 for _ in lines_of(long, Findings("skip", findings.encoding, findings.max_line)))
    hint = "".join(
        f"; '{path}' contains carriage returns (the first in line {returns.places[0]}), which do not end lines here"
        for path in (short, long)
        if (returns := findings.one(INNER_RETURN, path)) is not None
    )
    lines = f"{count} line{'' if count == 1 else 's'}"
    return DataError(
        f"'{short}' has {lines} but '{long}' has {total}; line N of one must belong to line N of the other{hint}"
    )


def choose_sides(
    table: Table, source: Column, target: Column, advice: Advice, names: Names = SIDES, again: bool = False
) -> None:
    """Set the columns of both sides: those given, those with usual names, or recognised ones.

    What was recognised and what looks odd is remarked. Columns that the table lacks are as if not given if they are
    those of another table that was read before (`again`).

    Raises:
        DataError: The table looks like another kind of data, or a column is missing.
    """
    if again and table.names and any(isinstance(one, str) and one not in table.names for one in (source, target)):
        source = target = None
    found = [source, target]
    for side, usual in enumerate(names):
        if found[side] is None:
            found[side] = next((name for name in usual if name in table.names and name != found[1 - side]), None)
    # One name alone is a chance match: "text" may be the first word of a file without a header.
    sure = None not in found
    given = (found[0], found[1]) if sure else (source, target)
    if isinstance(table, CsvTable):
        _choose_csv(table, *given, advice)
    elif isinstance(table, JsonTable):
        if not sure and any(one is not None for one in found) and len(names[0]) > 1 and not table.findings.skips:
            raise DataError(_no_field(table, found, names))
        _choose_objects(table, *given, advice)
    elif isinstance(table, HeldTable):
        table.choose({"source": source, "target": target}, dict(zip(("source", "target"), names, strict=True)))
        return
    elif isinstance(table, HubTable):
        if not sure and given == (None, None) and len(table.texts) == 2:
            given = table.texts[0], table.texts[1]
            table.findings.remark(f"columns: source is '{given[0]}', target is '{given[1]}'")
        table.columns = {
            "source": "source" if given[0] is None else given[0],
            "target": "target" if given[1] is None else given[1],
        }
        table.refuse_missing(("source", "target"))
    if table.columns["source"] == table.columns["target"]:
        where = f"{'field' if isinstance(table, JsonTable) else 'column'}, '{table.columns['source']}'"
        name = Path(table.path).name
        table.findings.remark(f"warning: source and target are the same {where} of '{name}'; {COPY}")


def _no_field(table: JsonTable, found: Sequence[Column], names: Names) -> str:
    side, usual = ("source", names[0]) if found[0] is None else ("target", names[1])
    others = [name for name in table.names if name not in found]
    return (
        f"'{table.path}' has no field '{usual[0]}' (or {', '.join(usual[1:])}){suggest(usual[0], others)}; "
        f"data.columns.{side}=NAME selects another field"
    )


def _choose_csv(table: CsvTable, source: Column, target: Column, advice: Advice) -> None:
    table.columns = {"source": 0 if source is None else source, "target": 1 if target is None else target}
    head, rows, findings = table.head, table.sample, table.findings
    for said in table.said:
        findings.remark(said)
    if not rows:
        return
    if not table.is_regular:
        if all(len(row) < 2 for row in rows[:_MANY]):
            _refuse(head, advice)
        return
    if (content := content_of(head)) is not None and content.kind == "tagged" and content.sure:
        what = f"{content.why}; expected a pair of texts on each line"
        raise DataError(f"'{table.path}': {what}{advice('tagged', table.path)}")
    first, width = rows[0], len(rows[0])
    places = [first.index(one) if one in first else one for one in table.columns.values()]
    inside = all(isinstance(place, int) and 0 <= place < width for place in places)
    if table.has_header and inside and all(isinstance(one, int) for one in table.columns.values()):
        chosen = [first[int(place)] for place in places]
        sure = table.named and all(one.casefold() in HEADER_NAMES for one in chosen)
        if sure and source is None and target is None:
            table.columns = dict(zip(table.columns, chosen, strict=True))
            findings.remark(f"columns: source is '{chosen[0]}', target is '{chosen[1]}'")
        else:
            names = [one.strip() for one in chosen]
            fix = f"set data.columns.source='{names[0]}' data.columns.target='{names[1]}' to skip it"
            note_header(first, table.path, "pair", findings, fix)
    if inside:
        columns = facts_of(rows[1:] if table.has_header else rows, range(width))
        note_labels([columns[int(place)] for place in places], table.path, findings, advice("labelled", table.path))


def note_labels(sides: Sequence[Facts], where: Path | str, findings: Findings, advice: str = "") -> None:
    """Remark that one side of the pairs looks like labels: few different texts, each many times."""
    for name, side, other in zip(("source", "target"), sides, reversed(sides), strict=True):
        if side.cells < _MANY or side.values > 0.1 * side.cells or not side.repeats or other.repeats or other.words < 2:
            continue
        what = f"the {name}s look like labels ({side.values:,} different: {some(side.first)}), read as texts{advice}"
        findings.remark(f"warning: {Path(where).name}: {what}")


def _refuse(head: Head, advice: Advice) -> None:
    """Refuse a file of one column with another kind of data; for sentences, reading reports the missing column."""
    content = content_of(head)
    if content is None or content.kind in ("pairs", "sentences"):
        return
    what = f"{content.why}; expected both sides of a pair on each line, with a tab between them, or two parallel files"
    raise DataError(f"'{head.path}': {what}{advice(content.kind, head.path)}")


def _choose_objects(table: JsonTable, source: Column, target: Column, advice: Advice) -> None:
    """The fields given, "source" and "target", or the only two texts."""
    table.columns = {"source": "source" if source is None else source, "target": "target" if target is None else target}
    objects = table.objects
    if source is not None or target is not None or len(objects) < _FEW:
        return
    if any(name in one for one in objects for name in ("source", "target")):
        return
    names = [name for name in objects[0] if all(isinstance(one.get(name), str) for one in objects)]
    texts = [name for name in names if Facts.of(name, [one[name] for one in objects]).numbers < 0.5]
    if len(texts) == 2:
        table.findings.remark(f"fields: source is '{texts[0]}', target is '{texts[1]}'")
        table.columns = {"source": texts[0], "target": texts[1]}
    elif turns := [name for name in objects[0] if all(_are_turns(one.get(name)) for one in objects)]:
        why = f"each line is a conversation (field '{turns[0]}' is a list of turns); expected two texts in each line"
        raise DataError(f"'{table.path}': {why}{advice('conversations', table.path)}")


def _are_turns(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and (all(isinstance(turn, dict) for turn in value) or all(isinstance(turn, str) for turn in value))
    )


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


def shuffled_reader(columns: Columns, seed: int, again: bool = False) -> Reader[ShuffledPair]:
    """The reader of sentences from files or data sets, which shuffles the words of each.

    With `again`, the column is that of a training set, which other files may lack.
    """
    read: dict[str, int | str] = {"target": 0} if again else {}

    def of_table(table: Table) -> Iterator[ShuffledPair]:
        _choose_target(table, columns.target, again=bool(read))
        read.update(read or table.columns)
        return table.made(lambda row: pair(row.text("target"), row.origin))

    def pair(sentence: str, place: str) -> ShuffledPair:
        return ShuffledPair(shuffle_words(sentence, seed), sentence, origin=place)

    def of_files(files: Sequence[str], findings: Findings) -> Iterator[ShuffledPair]:
        for sentence, place in read_targets(files, columns.target, findings, read):
            yield pair(sentence, place)

    settings = {"columns": columns.target, "shuffled": [1, seed]}
    return Reader(ShuffledPair, of_files, of_table, settings, columns=read)


def _choose_target(table: Table, column: Column, again: bool = False) -> None:
    """Set the column of the sentences: the one given, else "text", or the first in .csv and .tsv."""
    if again and isinstance(column, str) and table.names and column not in table.names:
        column = None
    if isinstance(table, HeldTable):
        table.choose({"target": column}, {"target": ("text",)})
    else:
        table.columns = {"target": column if column is not None else 0 if isinstance(table, CsvTable) else "text"}
    if isinstance(table, HubTable):
        table.refuse_missing(("target",))


def read_targets(
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
        _choose_target(table, column, again=bool(columns))
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
