"""Examples as rows of numbers: token numbers, or bytes of texts, in flat arrays with offsets, in memory or on disk.

    rows-0.bin, ...   the first row of each example, one after the other; the second row of each; and so on
    offsets.bin       int64 (examples + 1, rows), where each row begins in its file, and where the last one ends

Files are memory-mapped. Their pages are released after each access, so that memory does not grow with what was read.

Examples on disk are such a corpus too: their bytes (`Example.to_rows`), and a row of 64-bit
numbers, the hash of each field, by which they are compared and chosen, and the number of the label set. Of large
corpora, what is learned from them and the encoded texts are cached as well: from half a million characters on, also of
examples in memory, a second run on the same texts trains no tokenizer and encodes nothing. Without a writable cache
everything is computed again. An entry is written like a checkpoint.

For 2,000,000 pairs of 200 bytes the texts take 400 MiB on disk, their origins 40, offsets and hashes 140; tokens take 4
bytes each, and their offsets 31 MiB. Memory takes 8 bytes a pair for lengths, 24 for the choice and order of training
pairs, 8 a link of given alignments, and the pages of files that the system keeps while there is room. Tokenizers are
trained on a fixed random sample of 20 MB of text; a character that does not occur in it is unknown. Data sets of the
Hub are kept as long as the process lives.
"""

from __future__ import annotations

import copy
import hashlib
import io
import mmap
import os
import shutil
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from heed.config import Source
from heed.data import examples as sequences
from heed.data.examples import Example, HashedExamples, Hashes, LabelSet, Lazy, hashes_of
from heed.data.findings import Counts, Findings
from heed.data.readers import Reader
from heed.errors import DataError
from heed.memory import free_memory
from heed.storage.cache import CacheError, Entry, contents_of, find_entry, key_of, make_entry, temporary_entry

E = TypeVar("E", bound=Example)
T = TypeVar("T")
Lengths = NDArray[np.int32]
"""`(examples, rows)`."""
Rows = Sequence[Sequence[int]]
"""An example as rows of numbers, the same number of rows for all of a kind; bytes and arrays are stored as they are."""
Make = Callable[[list[Any]], list[T]]
"""Makes some items of their rows."""
_CHUNK = 4_096
"""Examples whose numbers are counted at once."""


class Corpus(Lazy[T]):
    """Examples, made on access of their rows."""

    def __init__(self, values: Sequence[NDArray[Any]], offsets: NDArray[np.int64], make: Make[T]) -> None:
        """Take arrays.

        Args:
            values: For each row of an example, those of all examples, one after the other.
            offsets: `(examples + 1, rows)`, where each row begins in its array, and the ends of the arrays.
            make: Makes items of rows.
        """
        self.values, self.offsets, self._make = values, offsets, make
        self.numbers = np.arange(len(offsets) - 1)
        """The numbers of these examples among all."""

    @classmethod
    def in_memory(cls, chunks: Iterable[Sequence[Rows]], kinds: Sequence[str], make: Make[T]) -> Self:
        """Rows in memory, from those of some examples at a time, of types `kinds`."""
        files = [io.BytesIO() for _ in (*kinds, "offsets")]
        _write(chunks, kinds, files)
        *values, offsets = (np.frombuffer(f.getbuffer(), kind) for f, kind in zip(files, (*kinds, "<i8"), strict=True))
        return cls(values, offsets.reshape(-1, len(kinds)), make)

    @classmethod
    def open(cls, entry: Entry, make: Make[T]) -> Self:
        """The corpus that `write_rows` wrote; a temporary folder is removed with the last object that uses it."""
        kinds = entry.record["kinds"]
        values = [
            np.memmap(path, kind, "r") if path.stat().st_size else np.zeros(0, kind)
            for path, kind in zip(_paths(entry.path, kinds), kinds, strict=False)
        ]
        if not entry.key:
            weakref.finalize(values[0], shutil.rmtree, entry.path, ignore_errors=True)
        return cls(values, np.memmap(entry.path / "offsets.bin", "<i8", "r").reshape(-1, len(kinds)), make)

    @property
    def lengths(self) -> Lengths:
        """The numbers in each row, `(examples, rows)`."""
        lengths = np.diff(self.offsets, axis=0)[self.numbers].astype(np.int32)
        self._release_pages()
        return lengths

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, indices: Sequence[int]) -> list[T]:
        numbers = self.numbers[np.asarray(indices, dtype=np.int64)]
        ends = zip(self.offsets[numbers].T.tolist(), self.offsets[numbers + 1].T.tolist(), strict=True)
        columns: list[list[Any]] = []
        for values, (first, last) in zip(self.values, ends, strict=True):
            plain = values.view(np.ndarray)
            rows = [plain[a:b] for a, b in zip(first, last, strict=True)]
            columns.append([row.tobytes() if plain.dtype == np.uint8 else row.tolist() for row in rows])
        self._release_pages()
        return self._make(list(zip(*columns, strict=True)))

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Self:
        part = copy.copy(self)
        part.numbers = self.numbers[np.asarray(indices, dtype=np.int64)]
        return part

    def with_rows_of(self, other: Corpus[Any]) -> Self:
        """This corpus with the rows of another corpus of the same examples after its own."""
        both = copy.copy(self)
        both.values, both.offsets = [*self.values, *other.values], np.hstack([self.offsets, other.offsets])
        return both

    def counts(self, row: int, size: int, lengths: NDArray[np.int32]) -> NDArray[np.int64]:
        """How often each number below `size` is among the first `lengths[i]` of a row of each example i, `(size,)`."""
        total = np.zeros(size, np.int64)
        for start in range(0, len(self), _CHUNK):
            sizes = lengths[start : start + _CHUNK].astype(np.int64)
            first = self.offsets[self.numbers[start : start + _CHUNK], row] - np.cumsum(sizes) + sizes
            places = np.repeat(first, sizes) + np.arange(sizes.sum())
            total += np.bincount(self.values[row][places], minlength=size)
        self._release_pages()
        return total

    def _release_pages(self) -> None:
        for values in (*self.values, self.offsets):
            if isinstance(values, np.memmap):
                values._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def _paths(folder: Path, kinds: Sequence[str]) -> list[Path]:
    return [*(folder / f"rows-{n}.bin" for n in range(len(kinds))), folder / "offsets.bin"]


def write_rows(chunks: Iterable[Sequence[Rows]], kinds: Sequence[str], folder: Path) -> dict[str, Any]:
    """Write rows of some examples at a time, of types `kinds`; returns the record needed to read them back."""
    with ExitStack() as stack:
        _write(chunks, kinds, [stack.enter_context(path.open("wb")) for path in _paths(folder, kinds)])
    return {"kinds": [*kinds]}


def _write(chunks: Iterable[Sequence[Rows]], kinds: Sequence[str], files: Sequence[BinaryIO]) -> None:
    """Write each row into its file, and the offsets into the last file."""
    ends = np.zeros((1, len(kinds)), np.int64)
    files[-1].write(ends.tobytes())
    for rows in chunks:
        sizes = []
        for column, kind, file in zip(zip(*rows, strict=True), kinds, files, strict=False):
            is_plain = isinstance(column[0], bytes | np.ndarray)
            file.write(b"".join(column) if is_plain else np.fromiter(chain.from_iterable(column), kind).tobytes())
            sizes.append(np.fromiter(map(len, column), np.int64, len(column)))
        ends = ends[-1] + np.stack(sizes, axis=1).cumsum(0)
        files[-1].write(ends.tobytes())


def joined(parts: Sequence[Sequence[int]]) -> Rows:
    """Parts as one row, and the number in each part as another."""
    return [*chain(*parts)], [*map(len, parts)]


def parts_of(values: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """Inverse of `joined`: the parts of a row, by their sizes."""
    return [list(values[first:last]) for first, last in pairwise(accumulate(sizes, initial=0))]


# Examples on disk


class StoredExamples(Corpus[E], HashedExamples[E]):
    """Examples whose texts are in a file: all of the file, or some."""

    def __init__(self, entry: Entry, kind: type[E]) -> None:
        """The examples in an entry or a temporary folder, as `write_examples` has written them."""
        opened: Corpus[E] = Corpus.open(entry, lambda rows: [kind.from_rows(row) for *row, _ in rows])
        super().__init__(opened.values, opened.offsets, opened._make)
        self._entry, self._kind = entry, kind

    @property
    def key(self) -> str:
        """Cache key of these examples: the key of their entry and a hash of their numbers; "" in a temporary folder."""
        numbers = hashlib.blake2b(self.numbers.tobytes(), digest_size=16).hexdigest()
        return f"{self._entry.key} {numbers}" if self._entry.key else ""

    @property
    def num_bytes(self) -> int:
        """Bytes of all their texts."""
        texts = [place for place, role in enumerate(self._kind.roles.values()) if role.side]
        return int(self.lengths[:, texts].sum(dtype=np.int64))

    @property
    def hashes(self) -> Hashes:
        return np.array(self._numbers[:, :-1])

    @property
    def label_sets(self) -> tuple[list[LabelSet], NDArray[np.int64]]:
        used, numbers = np.unique(self._numbers[:, -1], return_inverse=True)
        return [tuple(self._entry.record["label_sets"][i]) for i in used.tolist()], numbers

    @property
    def _numbers(self) -> NDArray[np.uint64]:
        """The hashes, and the number of the label set, `(examples, fields + 1)`."""
        table: NDArray[np.uint64] = self.values[-1].view(np.ndarray).reshape(len(self.offsets) - 1, -1)[self.numbers]
        return table


def write_examples(examples: Iterable[E], kind: type[E], folder: Path) -> dict[str, Any]:
    """Write examples of one kind into a folder as they are read; returns the record needed to read them back."""
    label_sets: dict[LabelSet, int] = {}

    def rows_of(chunk: list[E]) -> list[list[Any]]:
        labels = [label_sets.setdefault(example.label_set, len(label_sets)) for example in chunk]
        numbers = np.column_stack([hashes_in(chunk), np.array(labels, np.uint64)])
        return [[*example.to_rows(), row] for example, row in zip(chunk, numbers, strict=True)]

    iterator = iter(examples)
    chunks = iter(lambda: list(islice(iterator, sequences.CHUNK)), [])
    written = write_rows(map(rows_of, chunks), [*["u1"] * (len(kind.roles) + 1), "<u8"], folder)
    return {**written, "label_sets": list(label_sets)}


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

    def cache_key() -> str | None:
        if not files or in_memory is None or (contents := contents_of(files)) is None:
            return None
        names = [Path(file).name for file in files]  # they decide the format and the origins
        stored = {"of": kind.__name__, "fields": [*kind.roles]}
        return key_of(kind="examples", **stored, names=names, contents=contents, settings=settings)

    key = cache_key()
    entry = None if key is None else find_entry(key)
    if entry is None:
        examples = read()
        first = list(examples if in_memory is None else islice(examples, in_memory + 1))
        if in_memory is None or len(first) <= in_memory:
            return first, report(), ""

        def make(folder: Path) -> dict[str, Any]:
            record = write_examples(chain(first, examples), kind, folder)
            if cache_key() != key:
                what = "changed while being read; start again when no other program writes to the data"
                raise DataError(f"{', '.join(files)} {what}")
            return {**record, "report": report(), "files": [str(Path(file).absolute()) for file in files]}

        entry = temporary_entry(make) if key is None else make_entry(key, make)  # temporary: a data set of the Hub, say
    stored = StoredExamples(entry, kind)
    if len(stored) <= (in_memory or 0):  # stored when `in_memory` was smaller
        return list(stored), entry.record["report"], entry.remark
    size = sum(file.stat().st_size for file in entry.path.iterdir()) / 2**20
    remark = f"{len(stored):,} {kind.unit}s stored in {entry.path} ({size:,.0f} MiB)" if entry.key else ""
    return stored, entry.record["report"], "\n".join(filter(None, [entry.remark, remark]))


def read_corpus(
    name: str, files: Sequence[str], reader: Reader[E], data: Source
) -> tuple[Sequence[E], Counts, list[str]]:
    """Read one corpus: examples (stored on disk if more than `data.in_memory`), counts, and remarks that name it.

    Raises:
        DataError: A file cannot be read, or a line is bad and not skipped.
    """
    counts, findings = Counts(unit=f"{reader.kind.unit}s"), Findings.of(data)

    def report() -> dict[str, Any]:
        counts.add(findings)
        return {"counts": asdict(counts), "remarks": findings.remarks, "columns": reader.columns}

    settings = data.model_dump(mode="json", exclude=_NOT_OF_READING)
    settings |= {**reader.settings, "columns_before": dict(reader.columns)}  # those of the training set
    in_memory, again = getattr(data, "in_memory", None), files if reader.again else ()
    if in_memory is not None and _MEMORY_PER_BYTE * bytes_of(files) > _MEMORY_SHARE * (free_memory() or sys.maxsize):
        in_memory = 0
    read = partial(reader.filled, files, counts, findings)
    examples, report_values, remark = keep_examples(read, reader.kind, in_memory, again, settings, report)
    reader.columns.update(reader.columns or report_values["columns"])
    remarks = [remark] if remark else []
    for line in report_values["remarks"]:
        text = line.removeprefix(_WARNING)
        remarks.append(f"{name}: {line}" if text == line else f"{_WARNING}{name}, {text}")
    return examples, Counts.of_values(report_values["counts"]), remarks


_MEMORY_PER_BYTE, _MEMORY_SHARE = 8, 0.25
"""Memory of a corpus as texts and tokens, as a multiple of its files; the largest share of the free memory for it."""
_NOT_OF_READING = {"train", "valid", "test", "extra", "max_length", "in_memory", "duplicates", "overlap"}
_WARNING = "warning: "
_SAMPLE = 20_000_000
"""Bytes of text that the tokenizer of a corpus on disk is trained on."""


def sample_of(examples: Sequence[E], num_bytes: int = _SAMPLE) -> Sequence[E]:
    """The examples, or a fixed random sample of `num_bytes` of those on disk."""
    if not isinstance(examples, StoredExamples) or (total := examples.num_bytes) <= num_bytes:
        return examples
    generator = torch.Generator().manual_seed(0)
    count = max(1, len(examples) * num_bytes // total)
    return examples.select(torch.randperm(len(examples), generator=generator)[:count].sort().values.numpy())


def characters_of(examples: Sequence[Example]) -> int:
    """Number of characters of examples; of those on disk, of bytes."""
    return examples.num_bytes if isinstance(examples, StoredExamples) else sum(len(e.source) for e in examples)


def bytes_of(paths: Iterable[str | Path]) -> int:
    """Approximate number of bytes in files and folders, unpacked."""
    total = 0
    for path in map(Path, paths):
        if os.path.isdir(path):
            total += bytes_of(path.iterdir())
        elif os.path.isfile(path):
            total += path.stat().st_size * (4 if path.suffix in (".gz", ".xz") else 1)
    return total


# Hashes and labels, of examples on disk or in memory


def hashes_in(examples: Sequence[E]) -> Hashes:
    """The hash of every field, `(examples, fields)`; stored examples read it from disk."""
    if isinstance(examples, HashedExamples):
        return examples.hashes
    columns = list(zip(*(example.keys for example in examples), strict=True))
    hashes = [hashes_of(map(str.encode, column)) for column in columns]
    return np.stack(hashes, axis=1) if hashes else np.zeros((0, 1), np.uint64)


def label_sets_in(examples: Sequence[Any]) -> tuple[list[LabelSet], NDArray[np.int64]]:
    """The label sets of examples, and the number of each example's."""
    if isinstance(examples, HashedExamples):
        return examples.label_sets
    sets: dict[LabelSet, int] = {}
    numbers = [sets.setdefault(example.label_set, len(sets)) for example in examples]
    return list(sets), np.array(numbers, dtype=np.int64)


# Cached results

_CACHED_CHARACTERS = 1 << 19  # characters; they take a tenth of a second to encode


def cached(
    corpora: Sequence[Sequence[Example]], make: Callable[[Path], dict[str, Any]], cacheable: bool = True, **what: Any
) -> Entry | None:
    """The entry with what `make` writes about examples; None if they are not worth one, or it cannot be cached.

    Args:
        corpora: Examples; those on disk, or with many characters, are worth an entry, which is temporary if theirs is.
        make: Writes files, from these examples only, and returns their record (JSON).
        cacheable: False to make no entry for examples in memory, however many.
        what: Everything else it depends on (JSON).

    Raises:
        CacheError: Some examples are on disk, and the cache cannot be written to.
    """
    stored = [some for some in corpora if isinstance(some, StoredExamples)]
    if not all(some.key for some in stored):
        return temporary_entry(make)
    characters = (len(text) for some in corpora for example in some for text in example.texts)
    if not stored and not (cacheable and any(total >= _CACHED_CHARACTERS for total in accumulate(characters))):
        return None
    with nullcontext() if stored else suppress(CacheError):
        keys = [some.key if isinstance(some, StoredExamples) else _digest(some) for some in corpora]
        return make_entry(key_of(examples=keys, **what), make)
    return None


def _digest(examples: Sequence[Example]) -> str:
    """Hash of the fields of examples, in their order."""
    content = hashlib.blake2b(digest_size=16)
    for encoded in map(str.encode, (key for example in examples for key in example.keys)):
        content.update(len(encoded).to_bytes(8, "little") + encoded)
    return content.hexdigest()


def corpus_of(
    examples: Sequence[Example],
    encode: Callable[[], Iterable[Sequence[Rows]]],
    kinds: Sequence[str],
    make: Make[T],
    cacheable: bool = True,
    **what: Any,
) -> Corpus[T]:
    """Encode examples as rows of numbers, or read those of an earlier run from the cache.

    Args:
        examples: The examples.
        encode: Yields the rows of some examples at a time, in order.
        kinds: The type of each row.
        make: Makes items of rows.
        cacheable: False to encode examples in memory again, however many.
        what: All that `encode` depends on (JSON).

    Raises:
        CacheError: The examples are on disk, and the cache cannot be written to.
    """
    write = lambda folder: write_rows(encode(), kinds, folder)  # noqa: E731
    entry = cached([examples], write, cacheable, kind="tokens", **what)
    return Corpus.in_memory(encode(), kinds, make) if entry is None else Corpus.open(entry, make)
