"""Readers of pairs of texts; errors name file and line.

| given | read as |
|---|---|
| two files | line N of one belongs to line N of the other |
| .tsv, .txt, or anything else | tab separated, columns by number or by the names of a first line |
| .csv | comma separated (or by semicolons, tabs, bars), quoted as usual, columns as above |
| .jsonl, .json | one object a line, fields by name; its only two texts where it has no other |

Each may end in .gz or .xz as well. A blank line is a pair with two blank sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from heed.config import Columns
from heed.data.examples import Pair
from heed.data.read.contents import Advice, no_advice
from heed.data.read.findings import BadLine, Findings
from heed.data.read.lines import INNER_RETURN, ending_of, lines_of
from heed.data.read.pair_layout import PairColumns, pair_columns, pair_fields
from heed.data.read.reader import Reader
from heed.data.read.rows import Column, column_rows, json_rows, text_of
from heed.errors import DataError

COPY = "the model can only learn to copy"


def pair_reader(
    files: Sequence[str], columns: Columns, field: str, files_field: str, advice: Advice = no_advice
) -> Reader[Pair]:
    """Reads pairs from files or data sets with these columns; messages call columns and files by their fields.

    `advice` names commands for files that hold no pairs.

    Raises:
        DataError: Two parallel files have columns, where they would say nothing.
    """
    if len(files) == 2 and (columns.source is not None or columns.target is not None):
        raise DataError(
            f"{field} says where both sides stand in one file, but {files_field} names two: {', '.join(files)}"
        )
    return Reader(
        Pair,
        lambda files, findings: read_pairs(files, columns.source, columns.target, findings, advice),
        lambda row, place, findings: Pair(row["source"], row["target"], origin=place),
        {"columns": columns.model_dump(mode="json"), "recognised": 1},
    )


def read_pairs(
    files: Sequence[str | Path],
    source: Column = None,
    target: Column = None,
    findings: Findings | None = None,
    advice: Advice = no_advice,
) -> Iterator[Pair]:
    """Read pairs from two parallel files or from one file of columns.

    Columns are 0 and 1 by default, "source" and "target" in JSON lines. Bad lines are errors without `findings`;
    `advice` names commands for files that hold no pairs.

    Yields:
        One pair a line, blank sides included; its origin names file and line.

    Raises:
        DataError: A file is missing, empty, cut off, no text, or changes while it is read; two files have different
            numbers of lines; a line is bad (not UTF-8, too long, without the column) and that is an error.
    """
    paths = [Path(f) for f in files]
    findings = Findings() if findings is None else findings
    if len(paths) == 2:
        yield from _parallel(paths[0], paths[1], findings)
    elif len(paths) == 1:
        if ending_of(paths[0]) in (".jsonl", ".json"):
            yield from _objects(paths[0], pair_fields(paths[0], source, target, findings), findings)
        else:
            yield from _columns(paths[0], pair_columns(paths[0], source, target, findings, advice), findings)
    else:
        given = f"{len(paths)} files were given ({', '.join(map(str, paths))})"
        raise DataError(f"{given}; expected two parallel files, or one with both sides")


def _parallel(source: Path, target: Path, findings: Findings) -> Iterator[Pair]:
    if source.exists() and target.exists() and source.samefile(target):
        findings.remark(f"warning: source and target are one file, '{source.name}'; {COPY}")
    # Closed here: an error in one file must not leave the other one open until the error is forgotten.
    with closing(lines_of(source, findings)) as sources, closing(lines_of(target, findings)) as targets:
        for number, (left, right) in enumerate(zip_longest(sources, targets), start=1):
            if left is None or right is None:
                short, long = (source, target) if left is None else (target, source)
                if not findings.is_cut_off(short):
                    raise _different_lengths(short, number - 1, long, findings)
                findings.leave_out(f"'{short.name}' is cut off before that line")
            else:
                yield from _pair([left, right], f"{source.name}:{number}", findings)


def _different_lengths(short: Path, count: int, long: Path, findings: Findings) -> DataError:
    """An error whatever the policy: which line of one belongs to which of the other would be a guess."""
    total = sum(1 for _ in lines_of(long, Findings("skip", findings.encoding, findings.max_line)))
    hint = "".join(
        f"; '{path}' holds carriage returns, the first inside line {returns.places[0]}, which end no line here"
        for path in (short, long)
        if (returns := findings.one(INNER_RETURN, path)) is not None
    )
    lines = f"{count} line{'' if count == 1 else 's'}"
    return DataError(
        f"'{short}' has {lines} but '{long}' has {total}; line N of one must belong to line N of the other{hint}"
    )


def _columns(path: Path, columns: PairColumns, findings: Findings) -> Iterator[Pair]:
    wanted = {"source": columns.source, "target": columns.target}
    if columns.source == columns.target:
        findings.remark(f"warning: source and target are one column, '{columns.source}' of '{path.name}'; {COPY}")
    hint = "; or give two parallel files"
    for number, sides in column_rows(path, wanted, findings, separator=columns.separator, hint=hint):
        yield from _pair(["", ""] if sides is None else sides, f"{path.name}:{number}", findings)


def _objects(path: Path, names: tuple[str, str], findings: Findings) -> Iterator[Pair]:
    if names[0] == names[1]:
        findings.remark(f"warning: source and target are one field, '{names[0]}' of '{path.name}'; {COPY}")
    for number, row in json_rows(path, findings, names):
        sides = [text_of(row, name, path, number, findings) if row is not None else "" for name in names]
        yield from _pair(sides, f"{path.name}:{number}", findings)


def _pair(sides: Sequence[str | BadLine], origin: str, findings: Findings) -> Iterator[Pair]:
    """The pair, unless a side is bad."""
    texts = [side for side in sides if isinstance(side, str)]
    if len(texts) == 2:
        yield Pair(texts[0], texts[1], origin=origin)
    else:
        findings.leave_out(next(side.rule for side in sides if isinstance(side, BadLine)))
