"""Corpora that never end: read forward, a window of pairs at a time; no more than two windows are held."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import overload

from heed.config import FilesData
from heed.data.examples import Pair
from heed.data.read.counts import Counts
from heed.data.read.findings import Findings, Found
from heed.data.store.files import kept_of, read_kept, refuse_columns
from heed.errors import DataError

__all__ = ["NewestWindow", "PairStream", "open_stream"]

_HELD_OUT = 1_000
"""First pairs of a stream that are for validation, where nothing is said."""


class PairStream:
    """The pairs of files that are read forward, and again from the beginning when they end.

    The first `held_out` pairs are for validation, each time; where there are such, other pairs with their sources are
    left out as well. Validation and test files are treated as `data.overlap` says. Everything is counted.

    Attributes:
        counts: What became of the lines read so far.
        passes: How often the end was reached.
        size: Pairs of a window.
    """

    def __init__(self, data: FilesData, held_out: int) -> None:
        self.counts = Counts()
        self.passes = 0
        self.size = data.window
        self._data = data
        self._held_out = held_out
        self._known: dict[str, frozenset[str]] = {}
        self._said: dict[str, Found] = {}
        self._findings = Findings.of(data)
        self._added: Counter[str] = Counter()
        self._file: Iterator[Pair] | None = None
        self._first: list[Pair] = []
        self._pairs = self._endless()
        self._next = 0
        self._windows: dict[int, list[Pair]] = {}
        self._once = not all(Path(file).is_file() for file in data.train if Path(file).exists())
        if self._once and int(os.environ.get("WORLD_SIZE", 1)) > 1:
            raise DataError(
                f"{self.name} is a pipe, and {os.environ['WORLD_SIZE']} processes cannot all read it; give files"
            )

    @property
    def name(self) -> str:
        """What is read, for people."""
        return ", ".join(f"'{file}'" for file in self._data.train)

    @property
    def first(self) -> list[Pair]:
        """The pairs that are held out at the beginning."""
        if self._file is None:
            self._open()
        return self._first

    @property
    def newest(self) -> int:
        """The window that was read last; 0 before any was."""
        return max(0, self._next - 1)

    def compare(self, split: str, pairs: Sequence[Pair], drop: bool) -> None:
        """From now on leave out the pairs with a source of a split, or only say that they are there."""
        rule = f"source in the {split} set"
        self._known[rule] = frozenset(pair.source for pair in pairs)
        if not drop:
            what = f"{rule}, kept (data.overlap=drop leaves it out)"
            self._said[rule] = Found("", what, "pair", warning=True)

    def window(self, number: int) -> list[Pair]:
        """The pairs of a window, counted from 0.

        One that lies ahead is found by reading on; one that lies behind by reading again from the beginning.

        Raises:
            DataError: A file cannot be read, holds nothing to train on, or is a pipe that ended or is behind.
        """
        if number not in self._windows:
            if number < self._next:
                self._begin_again()
            for _ in islice(self._pairs, (number - self._next) * self.size):
                pass
            pairs = list(islice(self._pairs, self.size))
            self._next = number + 1
            self._count_findings()
            self._windows = {n: held for n, held in self._windows.items() if n == number - 1} | {number: pairs}
        return self._windows[number]

    def _begin_again(self) -> None:
        if self._once:
            raise DataError(f"{self.name} is a pipe and cannot be read again from the beginning; give files")
        self.counts.read, self.counts.kept, self.passes = 0, 0, 0
        self.counts.filtered.clear()
        self._findings = Findings.of(self._data)
        self._added.clear()
        for said in self._said.values():
            said.count = 0
            said.places.clear()
        self._file, self._pairs, self._next = None, self._endless(), 0

    def _open(self) -> Iterator[Pair]:
        self._file = kept_of(self._data.train, self._data.columns, self.counts, self._findings)
        self._first = list(islice(self._file, self._held_out))
        self.count_out("held out for validation", len(self._first))
        return self._file

    def _endless(self) -> Iterator[Pair]:
        while True:
            given = 0
            for pair in self._file or self._open():
                rule = next((rule for rule, known in self._known.items() if pair.source in known), "")
                if rule in self._said:
                    self._said[rule].add(pair.origin)
                if not rule or rule in self._said:
                    given += 1
                    yield pair
                else:
                    self.count_out(rule, 1)
            if not given:
                raise DataError(f"no training pair is left of {self.name}: {self.counts}")
            if self._once:
                raise DataError(
                    f"{self.name} ended after {self.counts.read:,} pairs and, being a pipe, cannot be read again; give "
                    "a pipe that goes on, or files"
                )
            self.passes += 1
            self._file = None

    def _count_findings(self) -> None:
        """Count what the readers left out and found since they were last asked."""
        left_out = self._findings.left_out - self._added
        self._added += left_out
        for rule, count in left_out.items():
            self.counts.read += count
            self.count_out(rule, count, kept=False)
        self.counts.found[:] = [*self._findings.found, *(said for said in self._said.values() if said.count)]

    def count_out(self, rule: str, count: int, kept: bool = True) -> None:
        """Count pairs that a rule leaves out, and that were counted as kept before."""
        if count:
            self.counts.filtered[rule] = self.counts.filtered.get(rule, 0) + count
            self.counts.kept -= count if kept else 0


class NewestWindow(Sequence[Pair]):
    """The window of a stream that was read last, or else the first, not read before it is needed.

    Who only evaluates a run never does; who reports on one does not begin again.
    """

    def __init__(self, stream: PairStream) -> None:
        self._stream = stream

    def __len__(self) -> int:
        return len(self._stream.window(self._stream.newest))

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...

    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        return self._stream.window(self._stream.newest)[index]


def open_stream(data: FilesData) -> tuple[PairStream, dict[str, Sequence[Pair]], dict[str, Counts], list[str]]:
    """Open a stream, and read its validation and test sets.

    Returns:
        The stream; the pairs of "train" (its newest window), "valid" and, where given, "test"; their counts; and
        remarks for the user.

    Raises:
        DataError: A file cannot be read, or no validation pair is left.
    """
    refuse_columns("data.columns", data.columns, "data.train", data.train)
    first = _HELD_OUT if data.valid is None else data.valid if isinstance(data.valid, int) else 0
    stream = PairStream(data, first)
    pairs: dict[str, Sequence[Pair]] = {"train": NewestWindow(stream)}
    counts = {"train": stream.counts}
    remarks = [
        f"train is a stream of windows of {data.window:,} pairs, each shuffled and trained on as one pass; when it "
        "ends it is read again from the beginning, and the counts are of what was read so far"
    ]
    if isinstance(data.valid, list):
        pairs["valid"], counts["valid"], remark = read_kept(data.valid, data.columns, data)
        remarks.extend([remark] if remark else [])
    else:
        pairs["valid"] = stream.first
        counts["valid"] = Counts(len(stream.first), {}, len(stream.first))
        remarks.append(f"the first {len(stream.first):,} pairs of the stream are held out for validation")
    if data.test is not None:
        pairs["test"], counts["test"], remark = read_kept(data.test, data.columns, data)
        remarks.extend([remark] if remark else [])
    if not pairs["valid"]:
        raise DataError("no validation pair is left; give more data, or validation files")
    for split in ("valid", "test"):
        if split in pairs:
            held_out = split == "valid" and not isinstance(data.valid, list)
            stream.compare(split, pairs[split], drop=held_out or data.overlap == "drop")
    return stream, pairs, counts, remarks
