"""People's own pairs as splits: read, filtered by named rules, held out by a hash of the source; everything counted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from heed.config import Columns, FilesData, HubData
from heed.data.examples import Pair
from heed.data.hub import HubSet
from heed.data.readers import read_pairs
from heed.data.store import keep_pairs, select
from heed.errors import DataError

__all__ = [
    "Counts",
    "default_held_out",
    "held_out_places",
    "hold_out",
    "open_files",
    "read_kept",
    "refuse_columns",
]


@dataclass
class Counts:
    """What became of the lines of one split.

    Attributes:
        read: Pairs in the files.
        filtered: Rule -> pairs it left out.
        kept: Pairs that are used.
        unit: What is counted.
    """

    read: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    unit: str = "pairs"

    def __str__(self) -> str:
        gone = "".join(f", {count:,} left out: {rule}" for rule, count in self.filtered.items() if count)
        return f"{self.kept:,} of {self.read:,} {self.unit} kept{gone}"


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

    def read(split: str, files: Sequence[str]) -> None:
        counts[split] = Counts()
        if hub is None:
            pairs[split] = read_kept(files, data.columns, counts[split], data.in_memory)
        else:
            pairs[split] = keep_pairs(_without_blanks(hub.pairs(files[0]), counts[split]), data.in_memory)

    read("train", data.train)
    if isinstance(data.valid, list):
        read("valid", data.valid)
    else:
        wanted = data.valid if data.valid is not None else default_held_out(len(pairs["train"]))
        train, valid = hold_out(pairs["train"], wanted)
        pairs["train"], pairs["valid"] = train, valid
        counts["train"].kept, counts["valid"] = len(train), Counts(len(valid), {}, len(valid))
        counts["train"].filtered["held out for validation"] = len(valid)
        remarks.append(
            f"{len(valid):,} pairs held out for validation by a hash of the source, pairs with the same source together"
        )
    if data.test is not None:
        read("test", data.test)
    if not pairs["train"]:
        raise DataError(f"no training pair is left of {', '.join(data.train)}: {counts['train']}")
    if not pairs["valid"]:
        raise DataError("no validation pair is left; give more data, or validation files")
    known = {pair.source for pair in pairs["train"]}
    for split in ("valid", "test"):
        shared = sum(pair.source in known for pair in pairs.get(split, []))
        if shared:
            remarks.append(f"warning: {shared:,} sources of the {split} set stand in the training set as well")
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


def read_kept(files: Sequence[str], columns: Columns, counts: Counts, in_memory: int) -> Sequence[Pair]:
    """Read one corpus and keep what the rules let pass.

    Args:
        files: Two parallel files, or one.
        columns: Where both sides stand in one file.
        counts: What became of the lines is counted here.
        in_memory: More pairs than this are kept in a file.

    Raises:
        DataError: A file cannot be read.
    """
    return keep_pairs(_without_blanks(read_pairs(files, columns.source, columns.target), counts), in_memory)


def default_held_out(count: int) -> int:
    """A twentieth, at least 200 and at most 1,000; never more than a fifth of a tiny corpus."""
    return min(max(200, min(1000, count // 20)), max(1, count // 5))


def _without_blanks(pairs: Iterable[Pair], counts: Counts) -> Iterator[Pair]:
    """The pairs with text on both sides; the others are counted by rule."""
    for pair in pairs:
        counts.read += 1
        blank = [side for side in ("source", "target") if not getattr(pair, side).strip()]
        if blank:
            rule = "both sides blank" if len(blank) == 2 else f"{blank[0]} blank"
            counts.filtered[rule] = counts.filtered.get(rule, 0) + 1
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
