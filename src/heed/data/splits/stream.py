"""Streamed corpora: read forward without end, a window of examples at a time; at most two windows are in memory.

One window is one pass: pass 5 is window 5, in an order that depends on seed and pass only, and a window may contain the
end of a file and its beginning. The first pairs, held out for validation, are left out in every pass, and so are others
with their sources; for sets of files `data.overlap` decides. Tokenizers are trained on the first window, or taken
from another run; sizes that depend on the number of pairs are those of the largest corpora. A resumed run reads forward
to the window of its checkpoint, some 2 seconds for each million pairs. Every process reads all of the stream and
encodes only the batches that it trains on; a pipe is for one process. Counts are of what has been read so far. Repeats
and scripts are not detected, and what needs a corpus with an end is refused: further corpora, learned or
given alignments, dropped duplicates. The training loop, its checkpoints and its sharding need not know of streams:
window e is pass e, and an example is identified by its place in the stream.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from heed.config import CorpusData
from heed.data.examples import Example
from heed.data.findings import Counts, Findings, Found
from heed.data.readers import Reader
from heed.data.sequences import Lazy, take
from heed.errors import DataError

E = TypeVar("E", bound=Example)
HELD_OUT = 1_000
"""Default number of first examples held out for validation."""


class ExampleStream(Generic[E]):
    """Windows of `size` examples from files that are read forward, and again from the beginning when they end.

    The first `held_out` examples are for validation; `counts` are of the lines read so far, after `passes` full reads.
    """

    def __init__(self, data: CorpusData, reader: Reader[E], held_out: int) -> None:
        self.unit, self.size = reader.kind.unit, data.window
        self.counts = Counts(unit=f"{self.unit}s")
        self._data, self._reader, self._held_out = data, reader, held_out
        self._known: dict[str, frozenset[str]] = {}
        self._said: dict[str, Found] = {}
        self._once = not all(file.is_file() or file.is_dir() for file in map(Path, data.train) if file.exists())
        if self._once and (processes := int(os.environ.get("WORLD_SIZE", 1))) > 1:
            raise DataError(f"{self.name} is a pipe, and {processes} processes cannot all read it; give files")
        self._begin()

    def _begin(self) -> None:
        self.passes = self._next = self.counts.read = self.counts.kept = 0
        self.counts.filtered.clear()
        self._findings = Findings.of(self._data)
        self._added: Counter[str] = Counter()
        for said in self._said.values():
            said.count = 0
            said.places.clear()
        self._file: Iterator[E] | None = None
        self._first: list[E] = []
        self._examples = self._endless()
        self._windows: dict[int, list[E]] = {}

    @property
    def name(self) -> str:
        """The files, for messages."""
        return ", ".join(f"'{file}'" for file in self._data.train)

    @property
    def remarks(self) -> list[str]:
        """The readers' remarks so far."""
        return self._findings.remarks

    @property
    def first(self) -> list[E]:
        """The held-out examples."""
        if self._file is None:
            self._open()
        return self._first

    @property
    def newest(self) -> int:
        """Index of the window read last; 0 if none has been read."""
        return max(0, self._next - 1)

    def compare(self, split: str, examples: Sequence[E], drop: bool) -> None:
        """From now on leave out (with `drop`) or count examples whose first text is in a split."""
        rule = f"{self._reader.kind.sides[0]} in the {split} set"
        self._known[rule] = frozenset(example.texts[0] for example in examples)
        if not drop:
            self._said[rule] = Found("", f"{rule}, kept (data.overlap=drop leaves it out)", self.unit, warning=True)

    def window(self, number: int) -> list[E]:
        """The examples of a window, counted from 0; for an earlier window, the files are read again from the beginning.

        Raises:
            DataError: A file cannot be read or has nothing to train on, or a pipe has ended or is past the window.
        """
        if number not in self._windows:
            if number < self._next:
                if self._once:
                    raise DataError(f"{self.name} is a pipe and cannot be read again from the beginning; give files")
                self._begin()
            for _ in islice(self._examples, (number - self._next) * self.size):
                pass
            examples = list(islice(self._examples, self.size))
            self._next = number + 1
            self._count_findings()
            self._windows = {n: held for n, held in self._windows.items() if n == number - 1} | {number: examples}
        return self._windows[number]

    def _open(self) -> Iterator[E]:
        self._file = self._reader.filled(self._data.train, self.counts, self._findings)
        self._first = list(islice(self._file, self._held_out))
        self.count_out("held out for validation", len(self._first))
        return self._file

    def _endless(self) -> Iterator[E]:
        while True:
            given = 0
            for example in self._file or self._open():
                text = example.texts[0]
                rule = next((rule for rule, known in self._known.items() if text in known), "")
                if rule and rule not in self._said:
                    self.count_out(rule, 1)
                    continue
                if rule:
                    self._said[rule].add(example.origin)
                given += 1
                yield example
            if not given:
                raise DataError(f"no training {self.unit}s left in {self.name}: {self.counts}")
            if self._once:
                ended = f"ended after {self.counts.read:,} {self.unit}s and, being a pipe, cannot be read again"
                raise DataError(f"{self.name} {ended}; give a pipe without an end, or files")
            self.passes += 1
            self._file = None

    def _count_findings(self) -> None:
        """Count what the readers left out and found since the last call."""
        left_out = self._findings.left_out - self._added
        self._added += left_out
        for rule, count in left_out.items():
            self.counts.read += count
            self.counts.leave_out(rule, count)
        self.counts.found[:] = [*self._findings.found, *(said for said in self._said.values() if said.count)]

    def count_out(self, rule: str, count: int) -> None:
        """Count examples that a rule leaves out after they were counted as kept."""
        if count:
            self.counts.leave_out(rule, count)
            self.counts.kept -= count


class NewestWindow(Lazy[E]):
    """The window of a stream that was read last, or the first one if none was; read on access."""

    def __init__(self, stream: ExampleStream[E]) -> None:
        self._stream = stream

    def __len__(self) -> int:
        return len(self._stream.window(self._stream.newest))

    def take(self, indices: Sequence[int]) -> list[E]:
        return take(self._stream.window(self._stream.newest), indices)
