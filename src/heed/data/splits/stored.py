"""Corpora on disk: texts in one file, read on access; and 64-bit hashes, by which texts are compared and chosen.

    texts.bin    the fields of each example in UTF-8, one after the other
    starts.bin   int64 (examples + 1), byte position of each example in texts.bin
    sizes.bin    int32 (examples, fields), bytes of each field
    origins.bin  int32 (examples, 2), number of the origin's name, and its line (-1 for none)
    hashes.bin   uint64 (examples, fields)
    labels.bin   int32 (examples), number of the label set

The numbers are memory-mapped; the texts are not, so that reading them does not grow the process's memory (pages of a
memory-mapped Arrow table would). A cache entry is written like a checkpoint.

For 2,000,000 pairs of 200 bytes the texts take 400 MiB on disk, positions and hashes 76 MiB, lengths 15 MiB, and
tokens 4 bytes each. Memory takes 24 bytes a pair for lengths and places, 16 for the choice and order of training pairs,
8 a link of given alignments, and the pages of files that the system keeps while there is room. Tokenizers are trained
on a fixed random sample of 20 MB of text; a character that does not occur in it is unknown. Data sets of the Hub are
kept as long as the process lives.

Of large corpora, trained tokenizers and encoded texts are cached too: from half a million characters on, in memory as
well, a second run on the same texts trains no tokenizer and encodes nothing. Without a writable cache all is made
again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from heed.data import examples as sequences
from heed.data.examples import STEP, Example, Hashes, Kept, hashes_of
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.storage.cache import CacheError, Entry, contents_of, find_entry, key_of, make_entry, temporary_folder


def field_hashes(examples: Sequence[Example]) -> Hashes:
    """The hash of every field of every example, `(examples, fields)`."""
    columns = list(zip(*(example.fields for example in examples), strict=True))
    hashes = [hashes_of(map(str.encode, column)) for column in columns]
    return np.stack(hashes, axis=1) if hashes else np.zeros((0, 1), np.uint64)


def combined(hashes: Hashes) -> Hashes:
    """One hash of all fields, `(examples, fields)` to `(examples,)`; the hash of a single field is unchanged."""
    result = hashes[:, 0]
    for column in hashes.T[1:]:
        result = result * STEP + column
    return result


def held_out(hashes: Hashes, wanted: int) -> NDArray[np.bool_]:
    """Mask of the texts to hold out: at least `wanted` with the smallest hashes, equal texts together."""
    last = min(wanted, len(hashes)) - 1
    if last < 0:
        return np.zeros(len(hashes), dtype=bool)
    out: NDArray[np.bool_] = hashes <= np.partition(hashes, last)[last]
    return out


def among(hashes: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of the `hashes` that are among the `known` ones."""
    if not len(known):
        return np.zeros(len(hashes), dtype=bool)
    ordered = np.sort(known)
    places = np.minimum(np.searchsorted(ordered, hashes), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[places] == hashes
    return found


E = TypeVar("E", bound=Example)
_TYPES = {"starts": "<i8", "sizes": "<i4", "origins": "<i4", "hashes": "<u8", "labels": "<i4"}
_SPARSE, _PIECE = 16, 1 << 26
"""Examples are read in one piece unless that is over `_SPARSE` times their size or `_PIECE` bytes."""


def keep_examples(
    read: Callable[[], Iterator[E]],
    kind: type[E],
    in_memory: int | None,
    files: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    report: Callable[[], dict[str, Any]] = dict,
) -> tuple[Sequence[E], dict[str, Any], str]:
    """Keep examples in memory if there are at most `in_memory` (None: always), else on disk.

    The `files` and `settings` (JSON), which decide what is read, are the key of the cache entry; without files it is
    temporary. The JSON that `report` returns once all are read is cached with the examples.

    Returns:
        The examples, the report, and a remark for the user about the cache, or "".

    Raises:
        DataError: A file cannot be read or changes meanwhile, or the cache cannot be written to.
    """

    def known_by() -> str | None:
        if not files or in_memory is None or (contents := contents_of(files)) is None:
            return None
        names = [Path(file).name for file in files]  # they decide the format and the origins
        return key_of(kind="corpus", of=kind.__name__, names=names, contents=contents, settings=settings)

    key = known_by()
    entry = None if key is None else find_entry(key)
    if entry is None:
        examples = read()
        first = list(examples if in_memory is None else islice(examples, in_memory + 1))
        if in_memory is None or len(first) <= in_memory:
            return first, report(), ""
        if key is None:  # a data set of the Hub, say
            return StoredExamples.write(chain(first, examples), kind), report(), ""

        def make(folder: Path) -> dict[str, Any]:
            record = write_examples(chain(first, examples), folder)
            if known_by() != key:
                what = "changed while being read; start again when no other program writes to the data"
                raise DataError(f"{', '.join(files)} {what}")
            return {**record, "report": report(), "files": [str(Path(file).absolute()) for file in files]}

        entry = make_entry(key, make)
    stored = StoredExamples(_Files(entry), kind)
    if len(stored) <= (in_memory or 0):  # stored when `in_memory` was smaller
        return list(stored), entry.record["report"], entry.remark
    size = sum(file.stat().st_size for file in entry.path.iterdir()) / 2**20
    remark = f"{len(stored):,} {kind.unit}s stored in {entry.path} ({size:,.0f} MiB)"
    return stored, entry.record["report"], "\n".join(filter(None, [entry.remark, remark]))


def write_examples(examples: Iterable[Example], folder: Path) -> dict[str, Any]:
    """Write examples of one kind into a folder as they are read; returns the record needed to read them back."""
    names: dict[str, int] = {}
    sets: dict[str, int] = {}
    at = count = width = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / f"{name}.bin").open("wb")) for name in ("texts", *_TYPES)}
        files["starts"].write(np.array([0], dtype=_TYPES["starts"]).tobytes())
        rest = iter(examples)
        while chunk := list(islice(rest, sequences.TOGETHER)):
            fields = [[*map(str.encode, side)] for side in zip(*(example.fields for example in chunk), strict=True)]
            sizes = np.array([[*map(len, side)] for side in fields]).T
            ends = at + np.cumsum(sizes.sum(1))
            at, count, width = int(ends[-1]), count + len(chunk), sizes.shape[1]
            files["texts"].write(b"".join(chain.from_iterable(zip(*fields, strict=True))))
            origins = [_place(example.origin, names) for example in chunk]
            hashes = np.stack([hashes_of(side) for side in fields], axis=1)
            columns: dict[str, ArrayLike] = {"starts": ends, "sizes": sizes, "origins": origins, "hashes": hashes}
            columns["labels"] = [sets.setdefault(example.label_set, len(sets)) for example in chunk]
            for name, column in columns.items():
                files[name].write(np.asarray(column, dtype=_TYPES[name]).tobytes())
    return {"examples": count, "fields": width, "names": list(names), "label_sets": list(sets)}


def _place(origin: str, names: dict[str, int]) -> tuple[int, int]:
    """An origin such as "train.en:17" as the number of its name and its line."""
    name, colon, line = origin.rpartition(":")
    if not (colon and line.isascii() and line.isdecimal() and len(line) < 10 and (line[0] != "0" or line == "0")):
        name, line = origin, "-1"
    return names.setdefault(name, len(names)), int(line)


class _Files:
    """The open files of one corpus in a cache entry, or in a temporary folder that is removed with this object."""

    def __init__(self, entry: Entry) -> None:
        count, fields = entry.record["examples"], entry.record["fields"]
        shapes = {"starts": (count + 1,), "sizes": (count, fields), "origins": (count, 2), "hashes": (count, fields)}
        shapes["labels"] = (count,)
        self.starts, self.sizes, self.origins, self.hashes, self.labels = (
            np.memmap(entry.path / f"{name}.bin", dtype=kind, mode="r", shape=shapes[name])
            for name, kind in _TYPES.items()
        )
        self.key = entry.key
        self.names: list[str] = entry.record["names"]
        self.label_sets: list[str] = entry.record["label_sets"]
        self._texts = os.open(entry.path / "texts.bin", os.O_RDONLY)
        weakref.finalize(self, os.close, self._texts)
        if not entry.key:
            weakref.finalize(self, shutil.rmtree, entry.path, ignore_errors=True)

    def read(self, rows: NDArray[np.int64]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Fields and origin of the examples at these rows."""
        piece, starts = self._bytes(rows)
        places = zip(starts.tolist(), self.sizes[rows].tolist(), self.origins[rows].tolist(), strict=True)
        for at, sizes, (name, line) in places:
            fields = []
            for size in sizes:
                fields.append(piece[at : at + size].decode())
                at += size
            yield tuple(fields), self.names[name] if line < 0 else f"{self.names[name]}:{line}"

    def _bytes(self, rows: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
        """Bytes with those of the examples at these rows, and where each begins in them."""
        starts, ends = self.starts[rows], self.starts[rows + 1]
        first, last = int(starts.min()), int(ends.max())
        if last - first > min(_PIECE, _SPARSE * int((ends - starts).sum())):
            places = zip(starts.tolist(), ends.tolist(), strict=True)
            raws = [os.pread(self._texts, end - start, start) for start, end in places]
            return b"".join(raws), np.cumsum(ends - starts) - (ends - starts)
        return os.pread(self._texts, last - first, first), starts - first


class StoredExamples(Kept[E]):
    """Examples whose texts are in a file: all of the file, or some `rows`."""

    def __init__(self, files: _Files, kind: type[E], rows: NDArray[np.int64] | None = None) -> None:
        self._files, self._kind = files, kind
        self._rows: NDArray[np.int64] = np.arange(len(files.sizes)) if rows is None else rows

    @classmethod
    def write(cls, examples: Iterable[E], kind: type[E]) -> Self:
        """Write examples into a temporary folder, removed with the last object that uses it."""
        folder = temporary_folder()
        try:
            return cls(_Files(Entry(folder, "", write_examples(examples, folder))), kind)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def key(self) -> str:
        """Cache key of these examples: the key of their entry and a hash of their rows; "" in a temporary folder."""
        rows = hashlib.blake2b(self._rows.tobytes(), digest_size=16).hexdigest()
        return f"{self._files.key} {rows}" if self._files.key else ""

    @property
    def num_bytes(self) -> int:
        """Bytes of all their texts."""
        return int(self._files.sizes.sum(1, dtype=np.int64)[self._rows].sum())

    @property
    def hashes(self) -> Hashes:
        return np.array(self._files.hashes[self._rows], dtype=np.uint64)

    @property
    def label_sets(self) -> tuple[list[str], NDArray[np.int64]]:
        used, numbers = np.unique(self._files.labels[self._rows], return_inverse=True)
        return [self._files.label_sets[i] for i in used], numbers

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, indices: Sequence[int]) -> list[E]:
        rows = self._rows[np.asarray(indices, dtype=np.int64)]
        return [self._kind.of(fields, origin) for fields, origin in self._files.read(rows)] if len(rows) else []

    def select(self, indices: Sequence[int] | NDArray[Any]) -> StoredExamples[E]:
        return StoredExamples(self._files, self._kind, self._rows[np.asarray(indices, dtype=np.int64)])


def bytes_of(paths: Iterable[str | Path]) -> int:
    """Approximate number of bytes in files and folders, unpacked."""
    total = 0
    for path in map(Path, paths):
        if os.path.isdir(path):
            total += bytes_of(path.iterdir())
        elif os.path.isfile(path):
            total += path.stat().st_size * (4 if path.suffix in (".gz", ".xz") else 1)
    return total


def label_sets_in(examples: Sequence[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """The label sets of examples, and the number of each example's."""
    if isinstance(examples, Kept):
        return examples.label_sets
    sets: dict[str, int] = {}
    numbers = [sets.setdefault(example.label_set, len(sets)) for example in examples]
    return list(sets), np.array(numbers, dtype=np.int64)


_SAMPLE = 20_000_000
"""Bytes of text that the tokenizer of a corpus on disk is trained on."""


def sample_of(examples: Sequence[E], most: int = _SAMPLE) -> Sequence[E]:
    """The examples, or a fixed random sample of `most` bytes of those on disk."""
    if not isinstance(examples, StoredExamples) or examples.num_bytes <= most:
        return examples
    generator = torch.Generator().manual_seed(0)
    count = max(1, len(examples) * most // examples.num_bytes)
    return examples.select(torch.randperm(len(examples), generator=generator)[:count].sort().values.numpy())


def hashes_in(examples: Sequence[E]) -> Hashes:
    """The hash of every field, `(examples, fields)`; stored examples read it from disk."""
    return examples.hashes if isinstance(examples, Kept) else field_hashes(examples)


_MANY = 1 << 19  # characters; they take a tenth of a second to encode


def are_many(texts: Iterable[str]) -> bool:
    """True if these texts are enough to be worth a cache entry."""
    return sum(map(len, texts)) >= _MANY


def digest_of(texts: Iterable[str]) -> str:
    """Hash of texts in their order."""
    content = hashlib.blake2b(digest_size=16)
    for encoded in map(str.encode, texts):
        content.update(len(encoded).to_bytes(8, "little") + encoded)
    return content.hexdigest()


def kept_of(
    examples: Sequence[Example], make: Callable[[Path], dict[str, Any]], worth: bool = True, **what: Any
) -> Entry | None:
    """What `make` writes about examples into a folder; None if it is neither in the cache nor in a temporary folder.

    Args:
        examples: Those on disk, or with many characters, are worth an entry; without a cache key theirs is temporary.
        make: Writes files, from these examples only, and returns their record (JSON).
        worth: False to make it again for examples in memory, however many.
        what: Everything else it depends on (JSON).

    Raises:
        CacheError: The examples are on disk, and the cache cannot be written to.
    """
    if isinstance(examples, StoredExamples) and not examples.key:
        folder = temporary_folder()
        try:
            return Entry(folder, "", make(folder))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    if isinstance(examples, StoredExamples):
        return make_entry(key_of(examples=examples.key, **what), make)
    if not worth or not are_many(text for example in examples for text in example.texts):
        return None
    with suppress(CacheError):
        return make_entry(key_of(texts=digest_of(one for e in examples for one in e.fields), **what), make)
    return None


def learn_cached(
    texts: Sequence[str], settings: Mapping[str, Any], learn: Callable[[], TextTokenizer]
) -> TextTokenizer:
    """The tokenizer that `learn` trains on these texts, cached; `settings` (JSON) are everything else it depends on."""

    def make(folder: Path) -> dict[str, Any]:
        learn().save(folder / "tokenizer.json")
        return {}

    if are_many(texts):
        with suppress(CacheError):
            entry = make_entry(key_of(texts=digest_of(texts), kind="tokenizer", settings=dict(settings)), make)
            return TextTokenizer.load(entry.path / "tokenizer.json")
    return learn()
