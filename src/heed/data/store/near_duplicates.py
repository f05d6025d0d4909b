"""Near-duplicates: validation and test documents most of whose text is in one training document.

A document is represented by the hashes of all its pieces of 50 characters (shingles: Broder 1997, "On the resemblance
and containment of documents"), lower-cased and with runs of spaces as one. It is a near-duplicate if one training
document has more than half of them. Only hashes of held-out documents are kept, and of more than 250,000 only a share,
chosen by the hash itself; training documents are read once.

Documents of fewer than 50 characters are not compared, and pieces that more than 64 held-out documents share do not
count. Equal documents are overlap, not near-duplicates. In streams only equal documents are found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Example
from heed.data.read.findings import Found
from heed.data.sequences import select, take
from heed.data.splitmix import STEP
from heed.data.store.splits import Splits
from heed.data.store.store import StoredExamples, hashes_in
from heed.storage.cache import CacheError, key_of, make_entry

PIECE = 50
"""Characters of a shingle; shorter documents are not compared."""
_MOST = 0.5
"""A near-duplicate has more than this share of its shingles in one training document."""
_FEWEST = 8
"""Hashes that a document must have to be compared if only a share of the hashes is kept."""
_KEPT, _EACH = 250_000, 20
"""Most hashes of held-out documents that are kept: in all, or for each document if that is more."""
_COMMON = 64
"""Shingles of more held-out documents than this (a licence, a header) do not count."""
_READ = 1 << 30
"""Characters of training documents that are compared."""
_TOGETHER, _HASHED = 1 << 20, 1 << 16
"""Characters of texts that are compared together, and that are hashed at once, in the processor's cache."""
_MANY = 1 << 22
"""Characters from which on results are kept in the cache."""
_FILTER = np.uint64((1 << 24) - 1)
"""Bits of a hash by which most unknown hashes are ruled out."""
_BASE = 0xD1342543DE82EF95  # odd, so that it has an inverse modulo 2 ** 64
Numbers = NDArray[np.int64]
E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class NearDuplicate:
    """A held-out document, the training document that contains most of it, and the share of its shingles there."""

    number: int
    train: int
    share: float


NearDuplicates = tuple[dict[str, list[NearDuplicate]], list[int], int]
"""Near-duplicates by set, the training documents that contain most of one, the number of documents compared."""


def note_near_duplicates(splits: Splits[E], drop: bool) -> None:
    """Note near-duplicates of training documents in the counts of the other sets; `drop` leaves them out of training.

    Exact repeats are noted elsewhere. A training set of one document is kept.
    """
    held: dict[str, Sequence[E]] = {
        split: splits.examples[split] for split in ("valid", "test") if split in splits.examples
    }
    train, counts = splits.examples["train"], splits.counts
    found, sources, looked_at = _find_cached(train, held)
    drop = drop and len(sources) < len(train)
    for split, pairs in found.items():
        if not pairs:
            continue
        own = take(held[split], [pair.number for pair in pairs[:3]])
        theirs = take(train, [pair.train for pair in pairs[:3]])
        places = [f"{a.origin} in {b.origin}" for a, b in zip(own, theirs, strict=True)]
        hint = ", which is left out" if drop else " (data.overlap=drop leaves that document out)"
        what = f"near-duplicate: most of the text is in one training document{hint}"
        counts[split].found.append(Found("", what, "document", len(pairs), places, not drop))
    if looked_at < len(train):
        splits.remarks.append(f"only the first {looked_at:,} training documents were searched for near-duplicates")
    if drop and sources:
        splits.examples["train"] = select(train, np.setdiff1d(np.arange(len(train)), sources))
        counts["train"].leave_out("near-duplicate of a held-out document", len(sources))
        counts["train"].kept -= len(sources)


def _find_cached(train: Sequence[E], held: Mapping[str, Sequence[E]]) -> NearDuplicates:
    """`find_near_duplicates`, cached for large corpora."""
    if not isinstance(train, StoredExamples) and sum(len(example.texts[0]) for example in train) < _MANY:
        return find_near_duplicates(train, held)

    def make(folder: Path) -> dict[str, Any]:
        found, sources, looked_at = find_near_duplicates(train, held)
        pairs = {split: [astuple(pair) for pair in each] for split, each in found.items()}
        return {"found": pairs, "sources": sources, "looked_at": looked_at}

    digests = {name: _digest(examples) for name, examples in (("train", train), *held.items())}
    try:
        record = make_entry(key_of(kind="near-duplicates", **digests), make).record
    except CacheError:
        return find_near_duplicates(train, held)
    found = {split: [NearDuplicate(*pair) for pair in pairs] for split, pairs in record["found"].items()}
    return found, record["sources"], record["looked_at"]


def _digest(examples: Sequence[Example]) -> str:
    return hashlib.blake2b(hashes_in(examples).tobytes(), digest_size=16).hexdigest()


def find_near_duplicates(train: Iterable[Example], held: Mapping[str, Sequence[Example]]) -> NearDuplicates:
    """The near-duplicates in each of some sets, without exact repeats.

    Returns:
        The near-duplicates of each set, in order; the indices of all training documents that contain most of one; and
        the number of training documents compared.
    """
    known = _Known(list(chain.from_iterable(held.values())))
    best: dict[int, tuple[float, int]] = {}
    sources: set[int] = set()
    looked_at = 0
    for texts in _in_turn(train):
        for number, owner, share in known.matches(texts):
            sources.add(looked_at + number)
            best[owner] = max(best.get(owner, (0.0, 0)), (share, -looked_at - number))
        looked_at += len(texts)
    result: dict[str, list[NearDuplicate]] = {}
    first = 0
    for split, documents in held.items():
        inside = sorted(owner for owner in best if first <= owner < first + len(documents))
        result[split] = [NearDuplicate(owner - first, -best[owner][1], best[owner][0]) for owner in inside]
        first += len(documents)
    return result, sorted(sources), looked_at


class _Known:
    """The shingles of the held-out documents, each with the documents that contain it."""

    def __init__(self, documents: Sequence[Example]) -> None:
        size = sum(len(document.texts[0]) for document in documents)
        rate = max(1, -(-size // max(_KEPT, _EACH * len(documents))))
        self._below = np.uint64((1 << 64) // rate - 1)  # hashes up to this one are kept
        self._filter = np.ones(int(_FILTER) + 1, dtype=bool)  # let all hashes pass until the known ones are collected
        self._texts = [hash(document.texts[0]) for document in documents]
        hashes, owners, first = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], 0
        for texts in _in_turn(documents, most=None):
            own, numbers = self._shingles(texts)
            hashes.append(own)
            owners.append(numbers + first)
            first += len(texts)
        every, numbers = np.concatenate(hashes), np.concatenate(owners)
        order = np.lexsort((numbers, every))
        every, numbers = every[order], numbers[order]
        _, self._first, self._counts = np.unique(every, return_index=True, return_counts=True)
        rare = self._counts <= _COMMON
        self._owners = numbers
        self._first, self._counts = self._first[rare], self._counts[rare]
        self._hashes = every[self._first]
        kept = np.repeat(self._first, self._counts) + _within(self._counts)
        self._sizes = np.bincount(numbers[kept], minlength=len(documents))
        self._fewest = _FEWEST if rate > 1 else 1
        self._filter[:] = False
        self._filter[self._hashes & _FILTER] = True

    def matches(self, texts: Sequence[str]) -> Iterator[tuple[int, int, float]]:
        """Texts that contain most shingles of a held-out document: indices of text and document, share."""
        hashes, numbers = self._shingles(texts)
        if not len(hashes) or not len(self._hashes):
            return
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        same = self._hashes[places] == hashes
        places, numbers = places[same], numbers[same]
        counts = self._counts[places]
        owners = self._owners[np.repeat(self._first[places], counts) + _within(counts)]
        pairs, found = np.unique(np.repeat(numbers, counts) * len(self._sizes) + owners, return_counts=True)
        shares = found / self._sizes[pairs % max(1, len(self._sizes))]
        for pair, share in zip(pairs[shares > _MOST].tolist(), shares[shares > _MOST].tolist(), strict=True):
            number, owner = divmod(pair, len(self._sizes))
            if self._sizes[owner] >= self._fewest and hash(texts[number]) != self._texts[owner]:
                yield number, owner, share

    def _shingles(self, texts: Sequence[str]) -> tuple[NDArray[np.uint64], Numbers]:
        """The distinct kept hashes of the texts' shingles, and the index of the text of each."""
        plain = [" ".join(text.lower().split()) for text in texts]
        codes = np.frombuffer("".join(plain).encode("utf-32-le"), "<u4")
        ends = np.cumsum(np.fromiter(map(len, plain), np.int64, len(plain)))
        parts: list[NDArray[np.uint64]] = []
        places: list[Numbers] = []
        for start in range(0, len(codes), _HASHED):
            hashes = _rolling(codes[start : start + _HASHED + PIECE - 1])
            few = np.flatnonzero(hashes <= self._below)
            few = few[self._filter[hashes[few] & _FILTER]]
            parts.append(hashes[few])
            places.append(few + start)
        if not parts:
            return np.zeros(0, np.uint64), np.zeros(0, np.int64)
        hashes, place = np.concatenate(parts), np.concatenate(places)
        owners = np.searchsorted(ends, place, side="right")
        whole = place + PIECE <= ends[owners]  # not across two texts
        hashes, owners = hashes[whole], owners[whole]
        order = np.lexsort((hashes, owners))
        hashes, owners = hashes[order], owners[order]
        new = np.ones(len(hashes), dtype=bool)
        new[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
        return hashes[new], owners[new]


def _rolling(codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The hash of the piece that begins at each position: polynomials modulo 2 ** 64, then mixed."""
    count = len(codes) - PIECE + 1
    if count <= 0:
        return np.zeros(0, np.uint64)
    values = (codes.astype(np.uint64) + np.uint64(1)) * STEP
    values ^= values >> np.uint64(29)
    sums = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(values * _powers(_BASE, len(codes)), out=sums[1:])
    hashes = (sums[PIECE:] - sums[:count]) * _powers(pow(_BASE, -1, 1 << 64), count)
    hashes ^= hashes >> np.uint64(32)
    hashes *= STEP
    hashes ^= hashes >> np.uint64(29)
    hashes *= STEP
    return hashes ^ (hashes >> np.uint64(32))


_POWERS: dict[int, NDArray[np.uint64]] = {}


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    """The first powers of a number modulo 2 ** 64."""
    if len(_POWERS.get(base, ())) < count:
        factors = np.full(max(count, _HASHED + PIECE), base, dtype=np.uint64)
        factors[0] = 1
        _POWERS[base] = np.cumprod(factors)
    return _POWERS[base][:count]


def _within(counts: Numbers) -> Numbers:
    """0, 1, ... up to each count, one after the other."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def _in_turn(documents: Iterable[Example], most: int | None = _READ) -> Iterator[list[str]]:
    """The texts in chunks of about `_TOGETHER` characters, until `most` characters in all."""
    texts: list[str] = []
    size = total = 0
    for document in documents:
        texts.append(document.texts[0])
        size += len(document.texts[0])
        if size >= _TOGETHER:
            yield texts
            total += size
            texts, size = [], 0
            if most is not None and total >= most:
                return
    if texts:
        yield texts
