"""Corpora that should not live in memory: Arrow files under a cache folder, memory-mapped, read a row at a time.

The files belong to the process that wrote them and go with it. `datasets` is imported only when one is needed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from heed.data.batching import TokenPair
from heed.data.examples import Pair

__all__ = ["Joined", "Stored", "cache_folder", "keep_pairs", "keep_tokens", "select"]

T = TypeVar("T")
_TOGETHER = 1_000


def cache_folder() -> Path:
    """`$HEED_CACHE`, else `heed` under `$XDG_CACHE_HOME` or `~/.cache`."""
    if "HEED_CACHE" in os.environ:
        return Path(os.environ["HEED_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "heed"


class _Folder:
    """A folder that goes with the last object that holds it, or with the process."""

    def __init__(self) -> None:
        cache = cache_folder()
        cache.mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="corpus-", dir=cache))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class Stored(Sequence[T], Generic[T]):
    """A sequence whose items lie in an Arrow file."""

    def __init__(self, table: Any, make: Callable[[dict[str, Any]], T], folder: _Folder) -> None:
        self._table = table
        self._make = make
        self._folder = folder  # removed when the last sequence over it is gone

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._make(self._table[index])

    def __iter__(self) -> Iterator[T]:
        for start in range(0, len(self), _TOGETHER):
            rows = self._table[start : start + _TOGETHER]
            names = list(rows)
            for values in zip(*rows.values(), strict=True):
                yield self._make(dict(zip(names, values, strict=True)))

    def select(self, indices: Sequence[int]) -> Stored[T]:
        """The items at these places, still in the file."""
        return Stored(self._table.select(indices), self._make, self._folder)


class Joined(Sequence[T], Generic[T]):
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
        return self._parts[part][index - (self._ends[part - 1] if part else 0)]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._parts)


def select(items: Sequence[T], indices: Sequence[int]) -> Sequence[T]:
    """The items at these places, in memory or stored as they are."""
    if isinstance(items, Stored):
        return items.select(indices)
    return [items[i] for i in indices]


def keep_pairs(pairs: Iterable[Pair], in_memory: int) -> Sequence[Pair]:
    """Hold pairs in memory if there are at most `in_memory`, else in a file."""
    iterator = iter(pairs)
    first = list(islice(iterator, in_memory + 1))
    if len(first) <= in_memory:
        return first
    rows = ({"source": p.source, "target": p.target, "origin": p.origin} for p in chain(first, iterator))
    return _write(rows, {"source": "string", "target": "string", "origin": "string"}, _pair)


def keep_tokens(pairs: Sequence[Pair], encode: Callable[[Sequence[Pair]], list[TokenPair]]) -> Sequence[TokenPair]:
    """Encode pairs; where they are stored in a file, so are the tokens."""
    if not isinstance(pairs, Stored):
        return encode(pairs)

    def rows() -> Iterator[dict[str, Any]]:
        iterator = iter(pairs)
        while chunk := list(islice(iterator, _TOGETHER)):
            for tokens in encode(chunk):
                yield {"source": tokens.source, "target": tokens.target}

    return _write(rows(), {"source": "tokens", "target": "tokens"}, _token_pair)


def _write(rows: Iterable[dict[str, Any]], columns: dict[str, str], make: Callable[[dict[str, Any]], T]) -> Stored[T]:
    from datasets import Dataset, Features, List, Value
    from datasets.arrow_writer import ArrowWriter

    kinds = {"string": Value("string"), "tokens": List(Value("int32"))}
    folder = _Folder()
    path = str(folder.path / "rows.arrow")
    with ArrowWriter(path=path, features=Features({name: kinds[kind] for name, kind in columns.items()})) as writer:
        for row in rows:
            writer.write(row)
        writer.finalize()
    return Stored(Dataset.from_file(path), make, folder)


def _pair(row: dict[str, Any]) -> Pair:
    return Pair(row["source"], row["target"], origin=row["origin"])


def _token_pair(row: dict[str, Any]) -> TokenPair:
    return TokenPair(row["source"], row["target"])
