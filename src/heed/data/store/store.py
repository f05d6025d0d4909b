"""Corpora that should not live in memory: their texts in a file, read where they are asked for.

    texts.bin    the UTF-8 of source and target of each pair, one after the other
    starts.bin   int64 (pairs + 1), where each pair begins in it
    cuts.bin     int32 (pairs), bytes of each source
    origins.bin  int32 (pairs, 2), which of the recorded names the pair came from, and its line (-1 for none)
    marks.bin    uint64 (pairs, 2), marks of source and target

The numbers are memory-mapped, the texts are not: what was read of them does not count as the process's memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heed.data.examples import Pair
from heed.data.read.hashes import Marks, marks_of
from heed.storage.cache import Entry, temporary_folder

__all__ = ["Joined", "StoredPairs", "in_turn", "pair_marks", "select", "take", "write_pairs"]

T = TypeVar("T")
TOGETHER = 1_000
"""Items that are read together where all are asked for in turn."""
_TYPES = {"starts": "<i8", "cuts": "<i4", "origins": "<i4", "marks": "<u8"}
_SPARSE, _PIECE = 16, 1 << 26
"""Pairs are read in one piece, unless it is this many times as large as they are, or larger than this many bytes."""


@runtime_checkable
class _Takes(Protocol[T]):
    """A sequence that gives several items at once more cheaply than one by one."""

    def take(self, indices: Sequence[int]) -> list[T]:
        """The items at these places."""
        ...


def take(items: Sequence[T], indices: Sequence[int]) -> list[T]:
    """The items at these places, read together where that is cheaper."""
    return items.take(indices) if isinstance(items, _Takes) else [items[i] for i in indices]


def in_turn(items: Sequence[T], together: int = TOGETHER) -> Iterator[list[T]]:
    """All items, so many at a time."""
    return (take(items, range(start, min(start + together, len(items)))) for start in range(0, len(items), together))


def write_pairs(pairs: Iterable[Pair], folder: Path) -> dict[str, Any]:
    """Write pairs into a folder as they come.

    Returns:
        What `StoredPairs.open` needs to know beside the files.
    """
    names: dict[str, int] = {}
    at = count = 0
    with (folder / "texts.bin").open("wb") as texts:
        numbers = {name: (folder / f"{name}.bin").open("wb") for name in _TYPES}
        try:
            numbers["starts"].write(np.array([0], dtype=_TYPES["starts"]).tobytes())
            for chunk in _chunks(pairs):
                sides = [(pair.source.encode(), pair.target.encode()) for pair in chunk]
                texts.write(b"".join(chain.from_iterable(sides)))
                ends = at + np.cumsum([len(source) + len(target) for source, target in sides])
                at = int(ends[-1])
                count += len(chunk)
                columns: dict[str, ArrayLike] = {
                    "starts": ends,
                    "cuts": [len(source) for source, _ in sides],
                    "origins": [_place(pair.origin, names) for pair in chunk],
                    "marks": np.stack([marks_of(p.source for p in chunk), marks_of(p.target for p in chunk)], axis=1),
                }
                for name, column in columns.items():
                    numbers[name].write(np.asarray(column, dtype=_TYPES[name]).tobytes())
        finally:
            for file in numbers.values():
                file.close()
    return {"pairs": count, "names": list(names)}


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, TOGETHER)):
        yield chunk


def _place(origin: str, names: dict[str, int]) -> tuple[int, int]:
    """An origin such as "train.en:17" as the number of its name and its line."""
    name, colon, line = origin.rpartition(":")
    if not (colon and line.isascii() and line.isdecimal() and len(line) < 10):
        name, line = origin, "-1"
    return names.setdefault(name, len(names)), int(line)


class _Files:
    """The files of one corpus, open."""

    def __init__(self, folder: Path, record: Mapping[str, Any], temporary: bool) -> None:
        count = record["pairs"]
        shapes = {"starts": (count + 1,), "cuts": (count,), "origins": (count, 2), "marks": (count, 2)}
        arrays = {
            name: np.memmap(folder / f"{name}.bin", dtype=kind, mode="r", shape=shapes[name])
            for name, kind in _TYPES.items()
        }
        self.starts, self.cuts, self.origins, self.marks = (arrays[name] for name in _TYPES)
        self.names: list[str] = record["names"]
        self._texts = os.open(folder / "texts.bin", os.O_RDONLY)
        weakref.finalize(self, os.close, self._texts)
        if temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def read(self, rows: NDArray[np.int64]) -> list[Pair]:
        """The pairs at these rows."""
        starts, ends = self.starts[rows], self.starts[rows + 1]
        cuts, origins = self.cuts[rows].tolist(), self.origins[rows].tolist()
        first, last = int(starts.min()), int(ends.max())
        if last - first > min(_PIECE, _SPARSE * int((ends - starts).sum())):
            places = zip(starts.tolist(), ends.tolist(), strict=True)
            raws = [os.pread(self._texts, end - start, start) for start, end in places]
        else:
            piece = os.pread(self._texts, last - first, first)
            places = zip((starts - first).tolist(), (ends - first).tolist(), strict=True)
            raws = [piece[start:end] for start, end in places]
        return [
            Pair(raw[:cut].decode(), raw[cut:].decode(), origin=self._origin(*origin))
            for raw, cut, origin in zip(raws, cuts, origins, strict=True)
        ]

    def _origin(self, name: int, line: int) -> str:
        return self.names[name] if line < 0 else f"{self.names[name]}:{line}"


class StoredPairs(Sequence[Pair]):
    """Pairs whose texts lie in a file; perhaps not all that it holds."""

    def __init__(self, files: _Files, key: str | None, rows: NDArray[np.int64] | None = None) -> None:
        self._files = files
        self._key = key
        self._rows = rows

    @classmethod
    def open(cls, entry: Entry) -> StoredPairs:
        """Those of an entry of the cache, written by `write_pairs`."""
        return cls(_Files(entry.path, entry.record, temporary=False), entry.key)

    @classmethod
    def write(cls, pairs: Iterable[Pair]) -> StoredPairs:
        """Write pairs into a folder that goes with the last object that holds it, or with the process."""
        folder = temporary_folder()
        try:
            record = write_pairs(pairs, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(_Files(folder, record, temporary=True), None)

    @property
    def key(self) -> str | None:
        """What these pairs are known by: their file's content and which of them they are; None if nothing is kept."""
        if self._key is None or self._rows is None:
            return self._key
        return f"{self._key} {hashlib.blake2b(self._rows.tobytes(), digest_size=16).hexdigest()}"

    @property
    def num_bytes(self) -> int:
        """Bytes of all their texts."""
        starts = self._files.starts
        if self._rows is None:
            return int(starts[-1])
        return sum(int((starts[part + 1] - starts[part]).sum()) for part in _parts(self._rows))

    def marks(self, side: int) -> Marks:
        """The mark of every source (side 0) or target (side 1)."""
        column = self._files.marks[:, side]
        return np.array(column if self._rows is None else column[self._rows], dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._files.cuts) if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...

    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        return self.take([range(len(self))[index]])[0]

    def __iter__(self) -> Iterator[Pair]:
        return chain.from_iterable(in_turn(self))

    def take(self, indices: Sequence[int]) -> list[Pair]:
        """The pairs at these places, which are not negative."""
        if not len(indices):
            return []
        places = np.asarray(indices, dtype=np.int64)
        return self._files.read(places if self._rows is None else self._rows[places])

    def select(self, indices: Sequence[int] | NDArray[np.int64]) -> StoredPairs:
        """The pairs at these places, still in the file."""
        places = np.asarray(indices, dtype=np.int64)
        return StoredPairs(self._files, self._key, places if self._rows is None else self._rows[places])


def _parts(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    return (rows[start : start + 100_000] for start in range(0, len(rows), 100_000))


class Joined(Sequence[T]):
    """Several sequences as one, one after the other; nothing is copied."""

    def __init__(self, parts: Sequence[Sequence[T]]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def part_of(self, index: int) -> int:
        """Which of the sequences an item comes from."""
        return bisect_right(self._ends, index)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]  # from the end where it is negative
        part = self.part_of(index)
        return self._parts[part][index - self._start(part)]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._parts)

    def take(self, indices: Sequence[int]) -> list[T]:
        """The items at these places, which are not negative, from each sequence together."""
        owners = [self.part_of(index) for index in indices]
        found: dict[int, T] = {}
        for part in set(owners):
            places = [n for n, owner in enumerate(owners) if owner == part]
            start = self._start(part)
            found.update(zip(places, take(self._parts[part], [indices[n] - start for n in places]), strict=True))
        return [found[n] for n in range(len(indices))]

    def _start(self, part: int) -> int:
        return self._ends[part - 1] if part else 0


def select(items: Sequence[T], indices: Sequence[int] | NDArray[np.int64]) -> Sequence[T]:
    """The items at these places, in memory or stored as they are."""
    if isinstance(items, StoredPairs):
        return items.select(indices)  # type: ignore[return-value]
    return [items[i] for i in indices]


def pair_marks(pairs: Sequence[Pair], side: int) -> Marks:
    """The mark of every source (side 0) or target (side 1)."""
    if isinstance(pairs, StoredPairs):
        return pairs.marks(side)
    return marks_of(pair.target if side else pair.source for pair in pairs)
