"""People's own pairs as splits: read, filtered by named rules, held out by a hash of the source; everything counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from heed.config import Columns, FilesData, HubData
from heed.data.examples import Pair
from heed.data.read.counts import Counts
from heed.data.read.findings import Findings
from heed.data.read.hashes import held_out, marks_of
from heed.data.read.hub import HubSet
from heed.data.read.pairs import read_pairs
from heed.data.read.survey import Survey, drop_overlap, drop_repeats
from heed.data.store.corpus import keep_files, keep_pairs
from heed.data.store.store import pair_marks, select
from heed.errors import DataError

__all__ = [
    "default_held_out",
    "held_out_places",
    "hold_out",
    "kept_of",
    "open_files",
    "read_kept",
    "refuse_columns",
]

_NOT_OF_READING = {"train", "valid", "test", "extra", "max_length", "in_memory", "duplicates", "overlap"}
"""Fields that do not change what is read of a file."""


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
        survey = surveys[split] = Survey(("sources", "targets"), surveys.get("train"))
        pairs[split], counts[split], remark = read_kept(files, data.columns, data, survey, hub)
        remarks.extend([remark] if remark else [])
        survey.adopt(*(pair_marks(pairs[split], side) for side in (0, 1)))
        keep = split != "train" or data.duplicates == "keep"
        pairs[split] = drop_repeats(pairs[split], survey, counts[split], drop=not keep)

    read("train", data.train)
    if isinstance(data.valid, list):
        read("valid", data.valid)
    else:
        wanted = data.valid if data.valid is not None else default_held_out(len(pairs["train"]))
        train, valid = hold_out(pairs["train"], wanted)
        surveys["train"].forget(pair_marks(valid, 0).view(np.int64))
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


def read_kept(
    files: Sequence[str], columns: Columns, data: FilesData, survey: Survey | None = None, hub: HubSet | None = None
) -> tuple[Sequence[Pair], Counts, str]:
    """Read one corpus and keep what the rules let pass.

    Args:
        files: Two parallel files, or one, or a split of `hub`.
        columns: Where both sides stand in one file.
        data: What becomes of bad lines; more pairs than its `in_memory` are kept in the cache.
        survey: Gathers what the corpus holds as a whole.
        hub: Read from this data set instead of files.

    Returns:
        The pairs; what became of the lines; and a remark for the user where the cache was used.

    Raises:
        DataError: A file cannot be read, or a line is bad and that is an error.
    """
    counts, findings = Counts(), Findings.of(data)

    def read() -> Iterator[Pair]:
        given = hub.pairs(files[0], findings) if hub else read_pairs(files, *_columns(columns), findings)
        pairs = _without_blanks(given, counts, findings)
        return pairs if survey is None else survey.watch(pairs, lambda pair: (pair.source, pair.target))

    def report() -> dict[str, Any]:
        counts.add(findings)
        counts.found += [] if survey is None else survey.found
        return {"counts": asdict(counts), "survey": None if survey is None else survey.as_values()}

    if hub is not None:
        pairs = keep_pairs(read(), data.in_memory)
        report()
        return pairs, counts, ""
    settings = data.model_dump(mode="json", exclude=_NOT_OF_READING)
    settings |= {"columns": columns.model_dump(mode="json"), "survey": None if survey is None else survey.basis}
    pairs, said, remark = keep_files(files, settings, read, data.in_memory, report)
    if survey is not None:
        survey.recall(said["survey"])
    return pairs, Counts.of_values(said["counts"]), remark


def kept_of(files: Sequence[str], columns: Columns, counts: Counts, findings: Findings) -> Iterator[Pair]:
    """Read what the rules let pass, pair by pair; what became of the lines is counted as they are read."""
    return _without_blanks(read_pairs(files, *_columns(columns), findings), counts, findings)


def _columns(columns: Columns) -> tuple[int | str | None, int | str | None]:
    return columns.source, columns.target


def default_held_out(count: int) -> int:
    """A twentieth, at least 200 and at most 1,000; never more than a fifth of a tiny corpus."""
    return min(max(200, min(1000, count // 20)), max(1, count // 5))


def _without_blanks(pairs: Iterable[Pair], counts: Counts, findings: Findings) -> Iterator[Pair]:
    """The pairs with text on both sides; the others are counted by rule."""
    for pair in pairs:
        counts.read += 1
        if pair.source.strip() and pair.target.strip():
            counts.kept += 1
            yield pair
            continue
        blank = [side for side in ("source", "target") if not getattr(pair, side).strip()]
        rule = "both sides blank" if len(blank) == 2 else f"{blank[0]} blank"
        counts.leave_out(rule)
        findings.note(f"{rule}, left out", "", pair.origin, unit="pair")


def hold_out(pairs: Sequence[Pair], wanted: int) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """Split off about `wanted` pairs by a hash of the source.

    Pairs with the same source stay together, and a pair's fate does not depend on the order of the file.

    Returns:
        The pairs that stay and those held out, each in the order of the file.
    """
    out = held_out(pair_marks(pairs, 0), wanted)
    return select(pairs, np.flatnonzero(~out)), select(pairs, np.flatnonzero(out))


def held_out_places(texts: Sequence[str], wanted: int) -> tuple[list[int], list[int]]:
    """Which of some texts stay and which are held out, by a hash of each: equal texts share their fate."""
    out = held_out(marks_of(texts), wanted)
    return np.flatnonzero(~out).tolist(), np.flatnonzero(out).tolist()
