"""Documents for training, validation and test: read, held out, compared with each other.

Near-duplicates are validation and test documents most of whose text is in one training document. A document is
represented by the hashes of all its pieces of 50 characters (shingles: Broder 1997, "On the resemblance and containment
of documents"), lower-cased and with runs of spaces as one. It is a near-duplicate if one training document has more
than half of them. Only hashes of held-out documents are kept, and of more than 250,000 only a share, chosen by the hash
itself; training documents are read once. Documents of fewer than 50 characters are not compared, and pieces that more
than 64 held-out documents share do not count. Equal documents are overlap, not near-duplicates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.config import HubSection
from heed.config.data import DocumentFiles, InMemory
from heed.data.examples import STEP, Example, in_turn, select, take
from heed.data.findings import Findings, Found
from heed.data.kinds.documents import Document, document_reader
from heed.data.readers import Reader
from heed.data.splits.splits import Splits, open_splits
from heed.data.splits.stored import StoredExamples, bytes_of, hashes_in, sample_of
from heed.errors import ConfigError
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


_HELD = 1 << 30
"""Bytes of files, unpacked, above which documents are kept on disk, however few they are."""
_MUCH = 0.4
"""Held-out share of the text above which there is a warning."""


def open_documents(data: Any, given: Mapping[str, Sequence[Document]] | None = None) -> Splits[Document]:
    """The documents of every split, from a `data` section or as `given`.

    Validation documents are held out by a hash of their text. If all training data is one document and `data.valid` is
    not given, the last share `data.held_out` of it is the validation set, from character int(n * (1 - held_out)).
    Near-duplicates of training documents in the other sets are noted; `data.overlap` drop leaves them out of training.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on or to validate on.
        ConfigError: `data.valid` is a number of documents, and there is only one document.
    """
    splits = _open(data, given)
    splits.remarks += _large_share(splits) if not isinstance(data.valid, list) and given is None else []
    note_near_duplicates(splits, getattr(data, "overlap", "keep") == "drop")
    return splits


def sample_texts(documents: Sequence[Document]) -> tuple[list[str], str]:
    """The texts, or a fixed sample of 20 MB of a larger corpus on disk; a remark if it is a sample, else ""."""
    if sample_of(documents) is documents:
        return [document.text for chunk in in_turn(documents) for document in chunk], ""
    texts = [document.text for document in sample_of(documents)]
    return texts, f"tokenizer trained on a sample of {len(texts):,} of {len(documents):,} documents"


def _open(data: Any, given: Mapping[str, Sequence[Document]] | None) -> Splits[Document]:
    reader, held_out = document_reader(data), getattr(data, "held_out", 0.1)
    fields = type(data).model_fields
    # Fields that do not decide what is read are set to defaults, so that runs that differ in them share the cache.
    reading = {*DocumentFiles.model_fields, *HubSection.model_fields, *InMemory.model_fields}
    plain = {
        name: field.get_default(call_default_factory=True) for name, field in fields.items() if name not in reading
    }
    data = data.model_copy(update=plain)
    if given is not None:
        return _open_given(data, reader, held_out, given)
    if isinstance(data, HubSection):
        return open_splits(data, reader)
    if bytes_of(data.train) > _HELD and hasattr(data, "in_memory"):
        data = data.model_copy(update={"in_memory": 0})
    # Read by another reader: this one would remember the columns.
    whole = None if isinstance(data.valid, list) else _only(document_reader(data).read(data.train, Findings.of(data)))
    if whole is None:
        return open_splits(data, reader)
    _refuse_number(data, whole)
    cut = int(len(whole.text) * (1 - held_out))
    last = [f"{whole.origin} from character {cut + 1:,} on"]

    def read(files: Sequence[str], findings: Findings) -> Iterable[Document]:
        if files == last:
            return [replace(whole, text=whole.text[cut:])]
        documents = reader.read(files, findings)
        return (
            (replace(d, text=d.text[:cut]) if d == whole else d for d in documents)
            if files == data.train
            else documents
        )

    shares = replace(reader, read=read, settings={**reader.settings, "first": cut})
    splits = open_splits(data.model_copy(update={"valid": last}), shares)
    return _stated(splits, whole, held_out, cut)


def _open_given(
    data: Any, reader: Reader[Document], held_out: float, given: Mapping[str, Sequence[Document]]
) -> Splits[Document]:
    """Splits of documents in memory."""
    whole = None if "valid" in given else _only(given["train"])
    if whole is None:
        return open_splits(data, reader, given)
    _refuse_number(data, whole)
    cut = int(len(whole.text) * (1 - held_out))
    parts = {"train": [replace(whole, text=whole.text[:cut])], "valid": [replace(whole, text=whole.text[cut:])]}
    return _stated(open_splits(data, reader, {**given, **parts}), whole, held_out, cut)


def _large_share(splits: Splits[Document]) -> list[str]:
    """A warning if the held-out documents are much of the text, as with few documents of very different lengths."""
    held = _num_bytes(splits.examples["valid"])
    total = held + _num_bytes(splits.examples["train"])
    if held <= _MUCH * total:
        return []
    what = f"{len(splits.examples['valid']):,} held-out documents contain {held / total:.0%} of the text"
    return [f"warning: the {what}; name validation files, or cut long files with data.separator"]


def _num_bytes(documents: Sequence[Document]) -> int:
    if isinstance(documents, StoredExamples):
        return documents.num_bytes
    return sum(len(document.text.encode()) for document in documents)


def _only(documents: Iterable[Document]) -> Document | None:
    """The only document that is not blank; None if there are several or none."""
    found = list(islice((document for document in documents if not document.blank), 2))
    return found[0] if len(found) == 1 else None


def _refuse_number(data: Any, whole: Document) -> None:
    if data.valid is not None:
        raise ConfigError(
            f"data.valid is {data.valid} (documents to hold out), but {', '.join(data.train)} is one document "
            f"({len(whole.text):,} characters); remove data.valid (then the last data.held_out of the text is "
            "the validation set), name validation files, or cut the text into documents with data.separator"
        )


def _stated(splits: Splits[Document], whole: Document, held_out: float, cut: int) -> Splits[Document]:
    """The splits of one document, with a remark about the cut."""
    total = len(whole.text)
    splits.remarks.append(
        f"{whole.origin or 'the text'} is one document: its last {held_out:.0%} ({total - cut:,} of {total:,} "
        f"characters, from character {cut + 1:,} on) is the validation set"
    )
    return splits
