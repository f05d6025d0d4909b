"""Readers of pairs of texts; errors name file and line.

| given | read as |
|---|---|
| two files | line N of one belongs to line N of the other |
| .tsv, .txt, or anything else | columns separated by tabs, by number or by header name |
| .csv | columns separated by commas (or semicolons, tabs, bars), with CSV quoting; by number or name |
| .jsonl, .json | one object a line, fields by name, or its only two texts |

Files may be compressed (.gz, .xz). A blank line is a pair with two blank sides.
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
    """The reader of pairs from files or data sets with these columns.

    `advice` names commands for files without pairs.

    Raises:
        DataError: Columns are given for two parallel files.
    """
    if len(files) == 2 and (columns.source is not None or columns.target is not None):
        raise DataError(
            f"{field} selects columns of one file, but {files_field} names two parallel files: {', '.join(files)}"
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
    `advice` names commands for files without pairs.

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
        if ending_of(paths[0]) in (".jsonl", ".json"):
            yield from _objects(paths[0], pair_fields(paths[0], source, target, findings, advice), findings)
        else:
            yield from _columns(paths[0], pair_columns(paths[0], source, target, findings, advice), findings)
    else:
        given = f"{len(paths)} files were given ({', '.join(map(str, paths))})"
        raise DataError(f"{given}; expected two parallel files, or one with both sides")


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
            else:
                yield from _pair([left, right], f"{source.name}:{number}", findings)


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


def _columns(path: Path, columns: PairColumns, findings: Findings) -> Iterator[Pair]:
    wanted = {"source": columns.source, "target": columns.target}
    if columns.source == columns.target:
        findings.remark(f"warning: source and target are the same column, '{columns.source}' of '{path.name}'; {COPY}")
    hint = "; or give two parallel files"
    for number, sides in column_rows(path, wanted, findings, separator=columns.separator, hint=hint):
        yield from _pair(["", ""] if sides is None else sides, f"{path.name}:{number}", findings)


def _objects(path: Path, names: tuple[str, str], findings: Findings) -> Iterator[Pair]:
    if names[0] == names[1]:
        findings.remark(f"warning: source and target are the same field, '{names[0]}' of '{path.name}'; {COPY}")
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
