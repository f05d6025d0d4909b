"""Examples as rows of numbers: token numbers, or bytes of texts, one after the other in an array, with their offsets.

    values.bin   the rows of each example, one after the other
    offsets.bin  int64 (examples * rows + 1), where each row begins in them, and their end

Both are in memory, or memory-mapped from a folder. Pages of `values.bin` are given back after each access, so that the
process does not grow with what it has read.
"""

from __future__ import annotations

import io
import mmap
import shutil
import weakref
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from heed.data.examples import Lazy
from heed.storage.cache import Entry

T = TypeVar("T")
Lengths = NDArray[np.int32]
"""`(examples, rows)`."""
Rows = Sequence[Sequence[int]]
"""An example as rows of numbers, the same number of rows for all of a kind."""
Make = Callable[[Sequence[int], list[Any]], list[T]]
"""Makes some items of the numbers of their examples, and of their rows."""


class Corpus(Lazy[T]):
    """Examples, made on access of their rows."""

    def __init__(
        self,
        values: NDArray[Any],
        offsets: NDArray[np.int64],
        width: int,
        make: Make[T],
        numbers: NDArray[np.int64] | None = None,
    ) -> None:
        """Take arrays.

        Args:
            values: All rows, one after the other.
            offsets: Where each row begins in them, and their end.
            width: Rows of an example.
            make: Makes items of rows.
            numbers: The numbers of the examples; by default all.
        """
        self._parts = values, offsets, width, make
        self.numbers = np.arange((len(offsets) - 1) // width) if numbers is None else numbers
        """The numbers of these examples among all."""

    @classmethod
    def held(cls, chunks: Iterable[Sequence[Rows]], make: Make[T]) -> Corpus[T]:
        """Rows of numbers in memory, from those of some examples at a time."""
        files = io.BytesIO(), io.BytesIO()
        width = _write(chunks, "i", *files)
        return cls(np.frombuffer(files[0].getbuffer(), "i"), np.frombuffer(files[1].getbuffer(), "q"), width, make)

    @classmethod
    def open(cls, entry: Entry, code: str, make: Make[T]) -> Corpus[T]:
        """What `write_rows` has written."""
        return cls(mapped(entry, "values", code), mapped(entry, "offsets", "q"), entry.record["rows"], make)

    @property
    def lengths(self) -> Lengths:
        """The numbers in each row, `(examples, rows)`."""
        _, offsets, width, _ = self._parts
        return np.diff(offsets).reshape(-1, width)[self.numbers].astype(np.int32)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, indices: Sequence[int]) -> list[T]:
        values, offsets, width, make = self._parts
        numbers, plain = self.numbers[np.asarray(indices, dtype=np.int64)], values.view(np.ndarray)
        places = offsets[numbers[:, None] * width + np.arange(width + 1)].tolist()
        is_text = plain.dtype == np.uint8
        parts = [[plain[first:last] for first, last in pairwise(ends)] for ends in places]
        rows: list[Any] = [[row.tobytes() if is_text else row.tolist() for row in example] for example in parts]
        if isinstance(values, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
            values._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
        return make(numbers.tolist(), rows)

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Corpus[T]:
        return Corpus(*self._parts, self.numbers[np.asarray(indices, dtype=np.int64)])


def mapped(entry: Entry, name: str, code: DTypeLike) -> NDArray[Any]:
    """A file of numbers of an entry, memory-mapped; a temporary folder is removed with the array."""
    path = entry.path / f"{name}.bin"
    values: NDArray[Any] = np.memmap(path, code, "r") if path.stat().st_size else np.zeros(0, code)
    if not entry.key:
        weakref.finalize(values, shutil.rmtree, entry.path, ignore_errors=True)
    return values


def write_rows(chunks: Iterable[Sequence[Any]], folder: Path, code: str) -> dict[str, Any]:
    """Write rows of numbers, or of bytes, of some examples at a time; returns the record needed to read them back."""
    with (folder / "values.bin").open("wb") as values, (folder / "offsets.bin").open("wb") as offsets:
        return {"rows": _write(chunks, code, values, offsets)}


def _write(chunks: Iterable[Sequence[Any]], code: str, values: BinaryIO, offsets: BinaryIO) -> int:
    """The number of rows of an example, 2 if there are none."""
    end, width = 0, 2
    offsets.write(array("q", [0]))
    for rows in chunks:
        every = [array(code, row) for example in rows for row in example]
        ends = array("q", accumulate(map(len, every), initial=end))
        end, width = ends[-1], len(rows[0])
        values.write(b"".join(every))
        offsets.write(ends[1:])
    return width


def joined(parts: Sequence[Sequence[int]]) -> Rows:
    """Parts as one row, and the number in each part as another."""
    return [*chain(*parts)], [*map(len, parts)]


def parts_of(values: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """The parts that `joined` has made one row."""
    return [list(values[first:last]) for first, last in pairwise(accumulate(sizes, initial=0))]
