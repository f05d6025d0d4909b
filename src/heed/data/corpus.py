"""Examples as token numbers, encoded once: rows of numbers one after the other in an array, and the length of each.

    values.bin    int32, the rows of each example, one after the other
    lengths.bin   int32 (examples, rows), numbers in each row

Of examples on disk, or of many, both are in the cache (`heed.data.splits.stored.kept_of`), and `values.bin` is
memory-mapped. Its pages are given back after each access, so that the process does not grow with what it has read.
"""

from __future__ import annotations

import io
import mmap
import shutil
import weakref
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Example, Lazy, in_turn
from heed.data.splits.stored import kept_of

E = TypeVar("E", bound=Example)
T = TypeVar("T")
Lengths = NDArray[np.int32]
"""`(examples, rows)`."""
Rows = Sequence[Sequence[int]]
"""An example as rows of numbers, the same number of rows for all of a kind."""
_TYPE = np.dtype("<i4")


class Corpus(Lazy[T]):
    """Encoded examples, made on access of their rows; `lengths` has the numbers in each row, `(examples, rows)`."""

    def __init__(
        self,
        values: NDArray[np.int32],
        lengths: Lengths,
        make: Callable[[Sequence[int], list[Rows]], list[T]],
        places: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    ) -> None:
        """Take arrays.

        Args:
            values: All rows, one after the other.
            lengths: Numbers in each row.
            make: Makes some items of the numbers of their examples, and of their rows.
            places: The number and the first value of each example; None if `lengths` are those of all examples.
        """
        self._values, self.lengths, self._make = values, lengths, make
        if places is None:
            sizes = lengths.sum(1, dtype=np.int64)
            places = np.arange(len(lengths)), np.cumsum(sizes) - sizes
        self._numbers, self._starts = places

    @classmethod
    def of(
        cls,
        examples: Sequence[E],
        encode: Callable[[Sequence[E]], Sequence[Rows]],
        make: Callable[[Sequence[int], list[Rows]], list[T]],
        **what: Any,
    ) -> Corpus[T]:
        """Encode examples, or take what a run before has made of them from the cache.

        Args:
            examples: The examples.
            encode: The rows of some examples.
            make: Items of the numbers of some examples, and of their rows.
            what: All that `encode` depends on (JSON).

        Raises:
            CacheError: The examples are on disk, and the cache cannot be written to.
        """

        def write(values: BinaryIO, lengths: BinaryIO) -> None:
            for chunk in in_turn(examples):
                rows = encode(chunk)
                lengths.write(np.array([[*map(len, one)] for one in rows], dtype=_TYPE).tobytes())
                numbers = chain.from_iterable(chain.from_iterable(rows))
                values.write(np.fromiter(numbers, dtype=_TYPE).tobytes())

        def make_files(folder: Path) -> dict[str, Any]:
            with (folder / "values.bin").open("wb") as values, (folder / "lengths.bin").open("wb") as lengths:
                write(values, lengths)
            return {}

        entry = kept_of(examples, make_files, kind="tokens", **what)
        if entry is None:
            files = io.BytesIO(), io.BytesIO()
            write(*files)
            values, lengths = (np.frombuffer(file.getbuffer(), dtype=_TYPE) for file in files)
        else:
            lengths = np.fromfile(entry.path / "lengths.bin", dtype=_TYPE)
            values = np.zeros(0, _TYPE)
            if size := int(lengths.sum(dtype=np.int64)):
                values = np.memmap(entry.path / "values.bin", _TYPE, "r", shape=(size,))
            if not entry.key:  # a temporary folder is removed with the tokens
                weakref.finalize(values, shutil.rmtree, entry.path, ignore_errors=True)
        return cls(values, lengths.reshape(len(examples), -1) if len(examples) else np.zeros((0, 2), _TYPE), make)

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, indices: Sequence[int]) -> list[T]:
        chosen = np.asarray(indices, dtype=np.int64)
        values, rows = self._values.view(np.ndarray), list[Rows]()
        for start, lengths in zip(self._starts[chosen].tolist(), self.lengths[chosen].tolist(), strict=True):
            ends = accumulate(lengths, initial=start)
            rows.append([values[first:last].tolist() for first, last in pairwise(ends)])
        if isinstance(self._values, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._values._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
        return self._make(self._numbers[chosen].tolist(), rows)

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Corpus[T]:
        chosen = np.asarray(indices, dtype=np.int64)
        places = self._numbers[chosen], self._starts[chosen]
        return Corpus(self._values, self.lengths[chosen], self._make, places)


def parts_of(values: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """A row cut into parts of these sizes."""
    return [list(values[first:last]) for first, last in pairwise(accumulate(sizes, initial=0))]
