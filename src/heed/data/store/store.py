"""Corpora that should not live in memory: their texts in a file, read where they are asked for.

    texts.bin    the UTF-8 of the fields of each example, one after the other
    starts.bin   int64 (examples + 1), where each example begins in it
    sizes.bin    int32 (examples, fields), bytes of each field
    origins.bin  int32 (examples, 2), which of the recorded names the example came from, and its line (-1 for none)
    hashes.bin   uint64 (examples, fields)

The numbers are memory-mapped, the texts are not: what was read of them does not count as the process's memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heed.data import sequences
from heed.data.examples import Example
from heed.data.sequences import Lazy
from heed.data.store.hashes import Hashes, field_hashes
from heed.storage.cache import Entry, temporary_folder

E = TypeVar("E", bound=Example)
_TYPES = {"starts": "<i8", "sizes": "<i4", "origins": "<i4", "hashes": "<u8"}
_SPARSE, _PIECE = 16, 1 << 26
"""Examples are read in one piece, unless it is this many times as large as they are, or larger than this many bytes."""


def write_examples(examples: Iterable[Example], folder: Path) -> dict[str, Any]:
    """Write examples of one kind into a folder as they come.

    Returns:
        What `StoredExamples.open` needs to know beside the files.
    """
    names: dict[str, int] = {}
    at = count = width = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / f"{name}.bin").open("wb")) for name in ("texts", *_TYPES)}
        files["starts"].write(np.array([0], dtype=_TYPES["starts"]).tobytes())
        rest = iter(examples)
        while chunk := list(islice(rest, sequences.TOGETHER)):
            fields = [[text.encode() for text in example.fields] for example in chunk]
            sizes = np.array([[len(text) for text in row] for row in fields])
            ends = at + np.cumsum(sizes.sum(1))
            at, count, width = int(ends[-1]), count + len(chunk), sizes.shape[1]
            files["texts"].write(b"".join(text for row in fields for text in row))
            origins = [_place(example.origin, names) for example in chunk]
            columns: dict[str, ArrayLike] = {"starts": ends, "sizes": sizes, "origins": origins}
            for name, column in (columns | {"hashes": field_hashes(chunk)}).items():
                files[name].write(np.asarray(column, dtype=_TYPES[name]).tobytes())
    return {"examples": count, "fields": width, "names": list(names)}


def _place(origin: str, names: dict[str, int]) -> tuple[int, int]:
    """An origin such as "train.en:17" as the number of its name and its line."""
    name, _, line = origin.rpartition(":")
    if not (line.isascii() and line.isdecimal() and len(line) < 10 and f"{name}:{int(line)}" == origin):
        name, line = origin, "-1"
    return names.setdefault(name, len(names)), int(line)


class _Files:
    """The files of one corpus, open; they go with it where they are temporary."""

    def __init__(self, folder: Path, record: Mapping[str, Any], temporary: bool) -> None:
        count, fields = record["examples"], record["fields"]
        shapes = {"starts": (count + 1,), "sizes": (count, fields), "origins": (count, 2), "hashes": (count, fields)}
        self.starts, self.sizes, self.origins, self.hashes = (
            np.memmap(folder / f"{name}.bin", dtype=kind, mode="r", shape=shapes[name]) for name, kind in _TYPES.items()
        )
        self.names: list[str] = record["names"]
        self._texts = os.open(folder / "texts.bin", os.O_RDONLY)
        weakref.finalize(self, os.close, self._texts)
        if temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def read(self, rows: NDArray[np.int64]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Fields and origin of the examples at these rows."""
        starts, ends = self.starts[rows], self.starts[rows + 1]
        first, last = int(starts.min()), int(ends.max())
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        if last - first > min(_PIECE, _SPARSE * int((ends - starts).sum())):
            raws = [os.pread(self._texts, end - start, start) for start, end in places]
        else:
            piece = os.pread(self._texts, last - first, first)
            raws = [piece[start - first : end - first] for start, end in places]
        for raw, sizes, (name, line) in zip(raws, self.sizes[rows].tolist(), self.origins[rows].tolist(), strict=True):
            ends_of = accumulate(sizes)
            fields = tuple(raw[end - size : end].decode() for end, size in zip(ends_of, sizes, strict=True))
            yield fields, self.names[name] if line < 0 else f"{self.names[name]}:{line}"


class StoredExamples(Lazy[E]):
    """Examples whose texts lie in a file; perhaps not all that it holds."""

    def __init__(self, files: _Files, kind: type[E], key: str | None, rows: NDArray[np.int64]) -> None:
        self._files, self._kind, self._key, self._rows = files, kind, key, rows

    @classmethod
    def open(cls, entry: Entry, kind: type[E]) -> Self:
        """Those of an entry of the cache, written by `write_examples`."""
        return cls._all(_Files(entry.path, entry.record, temporary=False), kind, entry.key)

    @classmethod
    def write(cls, examples: Iterable[E], kind: type[E]) -> Self:
        """Write examples into a folder that goes with the last object that holds it, or with the process."""
        folder = temporary_folder()
        try:
            record = write_examples(examples, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls._all(_Files(folder, record, temporary=True), kind, None)

    @classmethod
    def _all(cls, files: _Files, kind: type[E], key: str | None) -> Self:
        return cls(files, kind, key, np.arange(len(files.sizes)))

    @property
    def key(self) -> str | None:
        """What these are known by: their file's content and which of them they are; None if nothing is kept."""
        if self._key is None:
            return None
        return f"{self._key} {hashlib.blake2b(self._rows.tobytes(), digest_size=16).hexdigest()}"

    @property
    def num_bytes(self) -> int:
        """Bytes of all their texts."""
        return int(self._files.sizes.sum(1, dtype=np.int64)[self._rows].sum())

    @property
    def hashes(self) -> Hashes:
        """The hash of every field, `(examples, fields)`."""
        return np.array(self._files.hashes[self._rows], dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, indices: Sequence[int]) -> list[E]:
        """The examples at these places."""
        if not len(indices):
            return []
        rows = self._rows[np.asarray(indices, dtype=np.int64)]
        return [self._kind.of(fields, origin) for fields, origin in self._files.read(rows)]

    def select(self, indices: Sequence[int] | NDArray[Any]) -> StoredExamples[E]:
        """The examples at these places, still in the file."""
        return StoredExamples(self._files, self._kind, self._key, self._rows[np.asarray(indices, dtype=np.int64)])


def hashes_in(examples: Sequence[E]) -> Hashes:
    """The hash of every field of every example; of stored ones it is known."""
    return examples.hashes if isinstance(examples, StoredExamples) else field_hashes(examples)
