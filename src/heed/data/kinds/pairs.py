"""Readers of pairs of texts; errors name file and line.

| given | read as |
|---|---|
| two files | line N of one belongs to line N of the other |
| .tsv, .txt, or anything else | columns separated by tabs, by number or by header name |
| .csv | columns separated by commas (or semicolons, tabs, bars), with CSV quoting; by number or name |
| .jsonl, .json | one object a line, fields by name, or its only two texts |
| .parquet | columns by name, or its only two with texts (with pyarrow installed) |

Files may be compressed (.gz, .xz). A blank line is a pair with two blank sides. Columns that are not given are
recognised from the beginning of the file; other kinds of data are refused.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from heed.config import Columns
from heed.data.columns import HEADER_NAMES, Column, Facts, facts_of, some
from heed.data.examples import Pair
from heed.data.findings import CUT_OFF, BadLine, Findings
from heed.data.kinds.contents import Advice, content_of, no_advice
from heed.data.readers import Reader, table_reader
from heed.data.tables import FEW, CsvTable, Field, HeldTable, JsonTable, Row, Table, note_header
from heed.data.text_files import INNER_RETURN, ending_of, lines_of, unless_bad
from heed.errors import DataError, counted

_MANY = 50
"""Pairs below which sides are not compared with labels."""
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
        given = table.given(fields, after, again)
        if isinstance(table, CsvTable):
            taken = given.values()
            usual = (next((name for name in known if table.has(name) and name not in taken), None) for known in names)
            sides = [name if one is None else one for one, name in zip(taken, usual, strict=True)]
            # One name alone is a chance match: "text" may be the first word of a file without a header.
            _choose_csv(table, [*taken] if None in sides else sides, advice)
            said = ""
        else:
            recognise = partial(_recognised, table=table, advice=advice, alone=len(names[0]) == 1)
            said = table.choose(fields, recognise, again=after, trained=again, least=1)
        if isinstance(table, HeldTable) and not table.names and table.width > len(given):
            numbers = {side: None if one is None else table.columns[side] for side, one in given.items()}
            table.columns = {**_not_numbers(table, table.facts(), numbers)}
        if table.columns["source"] == table.columns["target"] and not isinstance(table, HeldTable):
            where = f"{table.column_word}, '{table.columns['source']}' of '{Path(table.path).name}'"
            table.findings.remark(f"warning: source and target are the same {where}; {COPY}")
        return said

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

    # Columns by number are the default, so that a run that has recorded them finds what it has stored.
    both = 0 if columns.source is None else columns.source, 1 if columns.target is None else columns.target
    of_one = table_reader(Pair, choose, _pair, table_in, {"columns": [*both], "recognised": 2})
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
            if findings.one(CUT_OFF, short) is None:
                raise _different_lengths(short, number - 1, long, findings)
            raise BadLine(f"'{short.name}' is cut off before that line")
        return Pair(unless_bad(left), unless_bad(right), origin=f"{source.name}:{number}")

    # Closed here, so that an error in one file does not leave the other open until the traceback is freed.
    with closing(lines_of(source, findings)) as sources, closing(lines_of(target, findings)) as targets:
        yield from findings.usable(enumerate(zip_longest(sources, targets), start=1), pair)


def _different_lengths(short: Path, count: int, long: Path, findings: Findings) -> DataError:
    """The error for files of different lengths; never skipped, since pairing their lines would be a guess."""
    total = sum(1 for _ in lines_of(long, Findings("skip", findings.encoding, findings.max_line)))
    hint = "".join(
        f"; '{path}' contains carriage returns (the first in line {returns.places[0]}), which do not end lines here"
        for path in (short, long)
        if (returns := findings.one(INNER_RETURN, path)) is not None
    )
    counts = f"'{short}' has {counted(count, 'line')} but '{long}' has {total:,}"
    return DataError(f"{counts}; line N of one must belong to line N of the other{hint}")


def _recognised(
    facts: Sequence[Facts], known: Mapping[str, Column], table: Table, advice: Advice, alone: bool
) -> dict[str, int | str] | str:
    """The columns of both sides: the only others with texts; lists of turns are refused."""
    open_ = [side for side, column in known.items() if column is None]
    if table.judged < FEW or (len(open_) == 1 and isinstance(table, JsonTable) and not (alone or table.findings.skips)):
        return ""
    texts = others = [one for one in facts if one.name not in known.values()]
    if not isinstance(table, HeldTable):
        texts = [one for one in others if one.is_text]
    elif len(others) > len(open_):
        texts = _with_texts(facts, known.values(), len(open_))
    if len(texts) == len(open_):
        return {side: one.name for side, one in zip(open_, texts, strict=True)}
    lists = [(name, {*map(type, value)}) for name, value in table.first.items() if isinstance(value, list)]
    if turns := next((name for name, types in lists if types in ({dict}, {str})), None):
        why = f"each line is a conversation (field '{turns}' is a list of turns); expected two texts in each line"
        raise DataError(f"{table.called}: {why}{advice('conversations', Path(table.path))}")
    return f"{len(texts)} of its {table.column_word}s contain texts"


def _choose_csv(table: CsvTable, sides: Sequence[Column], advice: Advice) -> None:
    source, target = sides
    table.columns = {"source": 0 if source is None else source, "target": 1 if target is None else target}
    rows, findings, content = table.sample, table.findings, content_of(table.head)
    for said in table.said:
        findings.remark(said)
    narrow = not table.is_regular and all(len(row) < 2 for row in rows[:_MANY])
    others = ("labelled", "rows", "tagged") if narrow else ("tagged",)  # reading reports what sentences lack
    if content is not None and content.kind in others and (narrow or (table.is_regular and content.sure)):
        what = "expected both sides of a pair on each line, with a tab between them, or two parallel files"
        raise DataError(f"{table.called}: {content.why}; {what}{advice(content.kind, table.path)}")
    if not rows or not table.is_regular:
        return
    first = rows[0]
    columns = facts_of(rows[1:] if table.has_header else rows, range(len(first)))
    given = {side: first.index(one) if one in first else one for side, one in zip(table.columns, sides, strict=True)}
    places = _not_numbers(table, columns, given)
    table.columns |= {side: places[side] for side, one in given.items() if one is None}
    if not {*places.values()} <= {*range(len(first))}:
        return  # reading reports the missing column
    if table.has_header and all(isinstance(one, int) for one in table.columns.values()):
        chosen = [first[place] for place in places.values()]
        if source is target is None and table.named and all(one.casefold() in HEADER_NAMES for one in chosen):
            table.columns = dict(zip(table.columns, chosen, strict=True))
            findings.remark(f"columns: source is '{chosen[0]}', target is '{chosen[1]}'")
        else:
            fix = "set data.columns.source='{}' data.columns.target='{}' to skip it".format(*map(str.strip, chosen))
            note_header(first, table.path, "pair", findings, fix)
    note_labels([columns[place] for place in places.values()], table.path, findings, advice("labelled", table.path))


def _with_texts(columns: Sequence[Facts], known: Collection[Column], count: int) -> list[Facts]:
    """The columns of texts besides the known ones; without those that repeat their values if `count` are left."""
    texts = [one for one in columns if one.is_text and one.name not in known]
    unlike = [one for one in texts if not one.repeats]
    return unlike if len(unlike) == count else texts


def _not_numbers(table: Table, columns: Sequence[Facts], given: Mapping[str, Column]) -> dict[str, int]:
    """The number of each side's column: the given one, else the first or second, or if it has numbers one with texts.

    Raises:
        DataError: It has numbers, and not as many columns as are needed have texts.
    """
    usual: dict[str, Any] = {side: number if one is None else one for number, (side, one) in enumerate(given.items())}
    open_ = [side for side, one in given.items() if one is None]
    numbers = [one for one in columns if one.numbers > 0.9 and one.name in {usual[side] for side in open_}]
    texts = _with_texts(columns, given.values(), len(open_))
    if not numbers or not texts:
        return usual
    where = f"column {numbers[0].shown} contains numbers ({some(numbers[0].first)})"
    if len(texts) == len(open_):
        usual |= {side: one.name for side, one in zip(open_, texts, strict=True)}
        table.findings.remark(f"columns: source is {usual['source']}, target is {usual['target']}; {where}")
    elif len(columns) == 2:
        table.findings.remark(f"warning: {where}, read as texts")
    else:
        fields = " and ".join(f"data.columns.{side}" for side in open_)
        listed = ", ".join(f"{one.shown} '{some(one.first, 1)}'" for one in columns)
        raise DataError(f"{table.where(1)}: {where}; set {fields} to the columns of the texts, of {listed}")
    return usual


def note_labels(sides: Sequence[Facts], where: Path | str, findings: Findings, advice: str = "") -> None:
    """Remark that one side of the pairs looks like labels: few different texts, each many times."""
    for name, side, other in zip(("source", "target"), sides, reversed(sides), strict=True):
        if side.cells < _MANY or side.values > 0.1 * side.cells or not side.repeats or other.repeats or other.words < 2:
            continue
        what = f"the {name}s look like labels ({side.values:,} different: {some(side.first)}), read as texts{advice}"
        findings.remark(f"warning: {Path(where).name}: {what}")
