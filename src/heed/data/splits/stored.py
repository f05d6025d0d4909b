"""Corpora on disk: texts in one file, read on access; and 64-bit hashes, by which texts are compared and chosen.

The fields of an example and its origin are rows of bytes (`heed.data.corpus`, `Example.to_rows`). Beside them is

    columns.bin  uint64 (examples, fields + 1), the hash of each field, and the number of the label set

A cache entry is written like a checkpoint.

For 2,000,000 pairs of 200 bytes the texts take 400 MiB on disk, their origins 40, offsets and hashes 92; tokens take 4
bytes each, and their offsets 31 MiB. Memory takes 24 bytes a pair for lengths and places, 16 for the choice and order
of training pairs, 8 a link of given alignments, and the pages of files that the system keeps while there is room.
Tokenizers are trained on a fixed random sample of 20 MB of text; a character that does not occur in it is unknown.
Tokens are counted in 20,000 evenly spread pairs (`counted`). Data sets of the Hub are kept as long as the process
lives.

Of large corpora, trained tokenizers and encoded texts are cached too: from half a million characters on, in memory as
well, a second run on the same texts trains no tokenizer and encodes nothing. Without a writable cache all is made
again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from heed.data import examples as sequences
from heed.data.corpus import Corpus, Make, Rows, mapped, write_rows
from heed.data.examples import STEP, Example, Hashes, Kept, LabelSet, hashes_of, in_turn
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.storage.cache import CacheError, Entry, contents_of, find_entry, key_of, make_entry, temporary_folder


def field_hashes(examples: Sequence[Example]) -> Hashes:
    """The hash of every field of every example, `(examples, fields)`."""
    columns = list(zip(*(example.keys for example in examples), strict=True))
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
T = TypeVar("T")


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
        stored = {"of": kind.__name__, "fields": [*kind.roles]}
        return key_of(kind="examples", **stored, names=names, contents=contents, settings=settings)

    key = known_by()
    entry = None if key is None else find_entry(key)
    if entry is None:
        examples = read()
        first = list(examples if in_memory is None else islice(examples, in_memory + 1))
        if in_memory is None or len(first) <= in_memory:
            return first, report(), ""

        def make(folder: Path) -> dict[str, Any]:
            record = write_examples(chain(first, examples), folder)
            if known_by() != key:
                what = "changed while being read; start again when no other program writes to the data"
                raise DataError(f"{', '.join(files)} {what}")
            return {**record, "report": report(), "files": [str(Path(file).absolute()) for file in files]}

        entry = _temporary(make) if key is None else make_entry(key, make)  # temporary: a data set of the Hub, say
    stored = StoredExamples.open(entry, kind)
    if len(stored) <= (in_memory or 0):  # stored when `in_memory` was smaller
        return list(stored), entry.record["report"], entry.remark
    size = sum(file.stat().st_size for file in entry.path.iterdir()) / 2**20
    remark = f"{len(stored):,} {kind.unit}s stored in {entry.path} ({size:,.0f} MiB)" if entry.key else ""
    return stored, entry.record["report"], "\n".join(filter(None, [entry.remark, remark]))


def write_examples(examples: Iterable[Example], folder: Path) -> dict[str, Any]:
    """Write examples of one kind into a folder as they are read; returns the record needed to read them back."""
    sets: dict[LabelSet, int] = {}

    def rows(columns: BinaryIO) -> Iterator[list[list[bytes]]]:
        rest = iter(examples)
        while chunk := list(islice(rest, sequences.TOGETHER)):
            labels = np.array([sets.setdefault(example.label_set, len(sets)) for example in chunk], np.uint64)
            columns.write(np.column_stack([field_hashes(chunk), labels]).astype("<u8").tobytes())
            yield [example.to_rows() for example in chunk]

    with (folder / "columns.bin").open("wb") as columns:
        return {**write_rows(rows(columns), folder, "B"), "label_sets": list(sets)}


@dataclass(frozen=True, eq=False)
class StoredExamples(Kept[E]):
    """Examples whose texts are in a file: all of the file, or some."""

    _entry: Entry
    _texts: Corpus[E]
    _columns: NDArray[np.uint64]

    @classmethod
    def open(cls, entry: Entry, kind: type[E]) -> Self:
        """The examples in an entry, or in a temporary folder, removed with the last object that uses it."""

        def made(_: Sequence[int], rows: Sequence[Sequence[bytes]]) -> list[E]:
            return [*map(kind.from_rows, rows)]

        texts: Corpus[E] = Corpus.open(entry, "B", made)
        return cls(entry, texts, mapped(entry, "columns", "<u8").reshape(len(texts), -1))

    @property
    def key(self) -> str:
        """Cache key of these examples: the key of their entry and a hash of their rows; "" in a temporary folder."""
        rows = hashlib.blake2b(self._texts.numbers.tobytes(), digest_size=16).hexdigest()
        return f"{self._entry.key} {rows}" if self._entry.key else ""

    @property
    def num_bytes(self) -> int:
        """Bytes of all their texts."""
        return int(self._texts.lengths[:, :-1].sum(dtype=np.int64))

    @property
    def hashes(self) -> Hashes:
        return np.array(self._columns[self._texts.numbers, :-1])

    @property
    def label_sets(self) -> tuple[list[LabelSet], NDArray[np.int64]]:
        used, numbers = np.unique(self._columns[self._texts.numbers, -1], return_inverse=True)
        return [tuple(self._entry.record["label_sets"][i]) for i in used.tolist()], numbers

    def __len__(self) -> int:
        return len(self._texts)

    def take(self, indices: Sequence[int]) -> list[E]:
        return self._texts.take(indices)

    def select(self, indices: Sequence[int] | NDArray[Any]) -> Self:
        return replace(self, _texts=self._texts.select(indices))


def bytes_of(paths: Iterable[str | Path]) -> int:
    """Approximate number of bytes in files and folders, unpacked."""
    total = 0
    for path in map(Path, paths):
        if os.path.isdir(path):
            total += bytes_of(path.iterdir())
        elif os.path.isfile(path):
            total += path.stat().st_size * (4 if path.suffix in (".gz", ".xz") else 1)
    return total


def label_sets_in(examples: Sequence[Any]) -> tuple[list[LabelSet], NDArray[np.int64]]:
    """The label sets of examples, and the number of each example's."""
    if isinstance(examples, Kept):
        return examples.label_sets
    sets: dict[LabelSet, int] = {}
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
        return _temporary(make)
    if isinstance(examples, StoredExamples):
        return make_entry(key_of(examples=examples.key, **what), make)
    if not worth or not are_many(text for example in examples for text in example.texts):
        return None
    with suppress(CacheError):
        content = digest_of(key for example in examples for key in example.keys)
        return make_entry(key_of(texts=content, **what), make)
    return None


def _temporary(make: Callable[[Path], dict[str, Any]]) -> Entry:
    """A temporary folder with what `make` writes; who reads it removes it."""
    folder = temporary_folder()
    try:
        return Entry(folder, "", make(folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def corpus_of(
    examples: Sequence[E], encode: Callable[[Sequence[E]], Sequence[Rows]], make: Make[T], **what: Any
) -> Corpus[T]:
    """Encode examples as rows of numbers, or take what a run before has made of them from the cache.

    Args:
        examples: The examples.
        encode: The rows of some examples.
        make: Makes items of rows.
        what: All that `encode` depends on (JSON).

    Raises:
        CacheError: The examples are on disk, and the cache cannot be written to.
    """

    def write(folder: Path) -> dict[str, Any]:
        return write_rows(map(encode, in_turn(examples)), folder, "i")

    entry = kept_of(examples, write, kind="tokens", **what)
    return Corpus.held(map(encode, in_turn(examples)), make) if entry is None else Corpus.open(entry, "i", make)


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
