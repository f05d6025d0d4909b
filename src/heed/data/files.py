"""People's own pairs as splits: read, filtered by named rules, held out by a hash of the source; everything counted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from heed.config import Columns, FilesData, HubData
from heed.data.counts import Counts
from heed.data.examples import Pair
from heed.data.findings import Findings
from heed.data.hub import HubSet
from heed.data.readers import read_pairs
from heed.data.store import keep_pairs, select
from heed.data.survey import Survey, drop_overlap, drop_repeats
from heed.errors import DataError

__all__ = [
    "default_held_out",
    "held_out_places",
    "hold_out",
    "open_files",
    "read_kept",
    "refuse_columns",
]


def open_files(data: FilesData) -> tuple[dict[str, Sequence[Pair]], dict[str, Counts], list[str]]:
    """Read every split.

    Returns:
        The pairs of "train", "valid" and, where given, "test"; their counts; and remarks for the user.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    refuse_columns("data.columns", data.columns, "data.train", data.train)
    remarks: list[str] = []
    hub = None
    if isinstance(data, HubData):
        hub = HubSet(data)
        data, remarks = hub.with_splits()
    pairs: dict[str, Sequence[Pair]] = {}
    counts: dict[str, Counts] = {}
    surveys: dict[str, Survey] = {}

    def read(split: str, files: Sequence[str]) -> None:
        counts[split] = Counts()
        surveys[split] = Survey(("sources", "targets"), surveys.get("train"))
        findings = Findings.of(data)
        given = read_pairs(files, *_columns(data.columns), findings) if hub is None else hub.pairs(files[0], findings)
        pairs[split] = _keep(given, data, findings, counts[split], surveys[split])
        keep = split != "train" or data.duplicates == "keep"
        pairs[split] = drop_repeats(pairs[split], surveys[split], counts[split], drop=not keep)

    read("train", data.train)
    if isinstance(data.valid, list):
        read("valid", data.valid)
    else:
        wanted = data.valid if data.valid is not None else default_held_out(len(pairs["train"]))
        train, valid = hold_out(pairs["train"], wanted)
        surveys["train"].forget(Survey.keys_of(pair.source for pair in valid))
        pairs["train"], pairs["valid"] = train, valid
        counts["train"].kept, counts["valid"] = len(train), Counts(len(valid), {}, len(valid))
        counts["train"].filtered["held out for validation"] = len(valid)
        remarks.append(
            f"{len(valid):,} pairs held out for validation by a hash of the source, pairs with the same source together"
        )
    if data.test is not None:
        read("test", data.test)
    pairs["train"] = drop_overlap(pairs, surveys, counts, drop=data.overlap == "drop")
    if not pairs["train"]:
        raise DataError(f"no training pair is left of {', '.join(data.train)}: {counts['train']}")
    if not pairs["valid"]:
        raise DataError("no validation pair is left; give more data, or validation files")
    return pairs, counts, remarks


def refuse_columns(field: str, columns: Columns, files_field: str, files: Sequence[str]) -> None:
    """Refuse columns for two parallel files, where they would say nothing.

    Raises:
        DataError: It names both fields.
    """
    if len(files) == 2 and (columns.source is not None or columns.target is not None):
        raise DataError(
            f"{field} says where both sides stand in one file, but {files_field} names two: {', '.join(files)}"
        )


def read_kept(files: Sequence[str], columns: Columns, counts: Counts, data: FilesData) -> Sequence[Pair]:
    """Read one corpus and keep what the rules let pass.

    Args:
        files: Two parallel files, or one.
        columns: Where both sides stand in one file.
        counts: What became of the lines is counted here.
        data: What becomes of bad lines; more pairs than its `in_memory` are kept in a file.

    Raises:
        DataError: A file cannot be read, or a line is bad and that is an error.
    """
    findings = Findings.of(data)
    return _keep(read_pairs(files, *_columns(columns), findings), data, findings, counts)


def _columns(columns: Columns) -> tuple[int | str | None, int | str | None]:
    return columns.source, columns.target


def _keep(
    given: Iterable[Pair], data: FilesData, findings: Findings, counts: Counts, survey: Survey | None = None
) -> Sequence[Pair]:
    """Keep the pairs with text on both sides, in memory or in a file, and count everything."""
    pairs = _without_blanks(given, counts, findings)
    if survey is not None:
        pairs = survey.watch(pairs, lambda pair: (pair.source, pair.target), lambda pair: (pair.source, pair.target))
    kept = keep_pairs(pairs, data.in_memory)
    counts.add(findings)
    if survey is not None:
        counts.found += survey.found
    return kept


def default_held_out(count: int) -> int:
    """A twentieth, at least 200 and at most 1,000; never more than a fifth of a tiny corpus."""
    return min(max(200, min(1000, count // 20)), max(1, count // 5))


def _without_blanks(pairs: Iterable[Pair], counts: Counts, findings: Findings) -> Iterator[Pair]:
    """The pairs with text on both sides; the others are counted by rule."""
    for pair in pairs:
        counts.read += 1
        blank = [side for side in ("source", "target") if not getattr(pair, side).strip()]
        if blank:
            rule = "both sides blank" if len(blank) == 2 else f"{blank[0]} blank"
            counts.leave_out(rule)
            findings.note(f"{rule}, left out", "", pair.origin, unit="pair")
        else:
            counts.kept += 1
            yield pair


def hold_out(pairs: Sequence[Pair], wanted: int) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """Split off about `wanted` pairs by a hash of the source.

    Pairs with the same source stay together, and a pair's fate does not depend on the order of the file.

    Returns:
        The pairs that stay and those held out, each in the order of the file.
    """
    inside, outside = held_out_places([pair.source for pair in pairs], wanted)
    return select(pairs, inside), select(pairs, outside)


def held_out_places(texts: Sequence[str], wanted: int) -> tuple[list[int], list[int]]:
    """Which of some texts stay and which are held out, by a hash of each: equal texts share their fate."""
    marks = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    out: set[bytes] = set()
    taken = 0
    for mark, size in sorted(Counter(marks).items()):
        if taken >= wanted:
            break
        out.add(mark)
        taken += size
    inside = [i for i, mark in enumerate(marks) if mark not in out]
    return inside, [i for i, mark in enumerate(marks) if mark in out]
