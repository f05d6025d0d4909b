"""Trained tokenizers, encoded texts and their lengths, cached for large corpora.

From half a million characters on, in memory too, a second run on the same texts trains no tokenizer and encodes
nothing. Without a writable cache all is made again.

Lengths plan batches before encoding: sums over a text's words, each encoded once, since no token of a word or subword
tokenizer continues after a space. This is several times faster than encoding the texts. For `byte_bpe`, the count may
be too high for runs of spaces. In a script without spaces most lengths are estimates, and a batch may have somewhat
more or fewer tokens than `training.batch_tokens`. A text that may have half of `data.max_length` tokens or more is
always encoded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Example, in_turn
from heed.data.splits.stored import StoredExamples
from heed.data.tokens.tokenizer import TextTokenizer
from heed.storage.cache import CacheError, key_of, make_entry

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


def learn_cached(
    texts: Sequence[str], settings: Mapping[str, Any], learn: Callable[[], TextTokenizer]
) -> TextTokenizer:
    """The tokenizer that `learn` trains on these texts, cached; `settings` (JSON) are everything else it depends on."""

    def make(folder: Path) -> dict[str, Any]:
        learn().save(folder / "tokenizer.json")
        return {}

    folder = _cached(texts, make, kind="tokenizer", settings=dict(settings))
    return learn() if folder is None else TextTokenizer.load(folder / "tokenizer.json")


def encode_cached(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[list[int]]:
    """`tokenizer.encode_all`, cached."""

    def make(folder: Path) -> dict[str, Any]:
        ids = tokenizer.encode_all(texts)
        np.fromiter(map(len, ids), dtype="<i4").tofile(folder / "lengths.bin")
        np.fromiter(chain.from_iterable(ids), dtype="<i4").tofile(folder / "ids.bin")
        return {}

    folder = _cached(texts, make, kind="ids", tokenizer=tokenizer.text)
    if folder is None:
        return tokenizer.encode_all(texts)
    flat = np.fromfile(folder / "ids.bin", dtype="<i4").tolist()
    ends = accumulate(np.fromfile(folder / "lengths.bin", dtype="<i4").tolist(), initial=0)
    return [flat[start:end] for start, end in pairwise(ends)]


def _cached(texts: Sequence[str], make: Callable[[Path], dict[str, Any]], **what: Any) -> Path | None:
    """The cache folder of a result made from texts; None for few texts or an unwritable cache."""
    if not are_many(texts):
        return None
    try:
        return make_entry(key_of(texts=digest_of(texts), **what), make).path
    except CacheError:
        return None


Lengths = NDArray[np.int32]
"""`(examples, sides)`."""
_TOGETHER = 10_000  # examples counted at once
_KNOWN = 300_000  # words of a side whose counts are kept
_ASKED = 50_000  # new words encoded at once; counts of more (as in a script without spaces) are estimated from these


def lengths_of(examples: Sequence[Example], tokenizers: Sequence[TextTokenizer], exact_from: int) -> Lengths:
    """The number of tokens of each text, by the tokenizer of its side; cached for stored examples.

    Texts estimated to have more than `exact_from` tokens are encoded, so that their lengths are exact.
    """
    key = examples.key if isinstance(examples, StoredExamples) else ""
    if not key:
        return np.concatenate(list(_lengths(examples, tokenizers, exact_from)))

    def make(folder: Path) -> dict[str, Any]:
        with (folder / "lengths.bin").open("wb") as file:
            for part in _lengths(examples, tokenizers, exact_from):
                file.write(part.astype("<i4").tobytes())
        return {}

    texts = [tokenizer.text for tokenizer in tokenizers]
    entry = make_entry(key_of(kind="lengths", examples=key, tokenizers=texts, exact_from=exact_from), make)
    lengths = np.fromfile(entry.path / "lengths.bin", dtype="<i4").astype(np.int32, copy=False)
    return lengths.reshape(-1, len(tokenizers))


def _lengths(examples: Sequence[Example], tokenizers: Sequence[TextTokenizer], exact_from: int) -> Iterator[Lengths]:
    """The lengths, chunk by chunk."""
    counters = [_Counter(tokenizer, exact_from) for tokenizer in tokenizers]
    for some in in_turn(examples, _TOGETHER):
        sides = zip(*(example.texts for example in some), strict=True)
        yield np.stack([counter.count(texts) for counter, texts in zip(counters, sides, strict=True)], axis=1)


class _Counter:
    """Counts the tokens of the texts of one side."""

    def __init__(self, tokenizer: TextTokenizer, exact_from: int) -> None:
        self._tokenizer, self._exact_from = tokenizer, exact_from
        self._known: dict[str, int] = {}

    def count(self, texts: Sequence[str]) -> NDArray[np.int32]:
        tokenizer = self._tokenizer
        if tokenizer.unit == "character":
            return np.array([len(t) if t.isascii() else len(tokenizer.normalize(t)) for t in texts], dtype=np.int32)
        if tokenizer.unit == "byte":
            return np.array([len(tokenizer.normalize(t).encode()) for t in texts], dtype=np.int32)
        if tokenizer.is_of_bytes:  # the space before a word is part of its tokens, except in the first word of a text
            words = "\0".join(text.replace(" ", "\0 ") for text in texts).split("\0")
        else:
            words = " ".join(texts).split(" ")
        estimated = self._learn(words)
        lengths = np.fromiter(map(self._known.__getitem__, words), dtype=np.int32, count=len(words))
        for word in estimated:
            del self._known[word]
        ends = np.cumsum([text.count(" ") + 1 for text in texts])
        result = np.add.reduceat(lengths, np.concatenate([[0], ends[:-1]]), dtype=np.int32)
        doubtful = np.flatnonzero(result > self._exact_from).tolist()
        for i, ids in zip(doubtful, tokenizer.encode_all([texts[i] for i in doubtful]), strict=True):
            result[i] = len(ids)
        return result

    def _learn(self, words: Sequence[str]) -> list[str]:
        """Add the counts of these words; returns the words whose counts are estimates."""
        if len(self._known) > _KNOWN:
            self._known.clear()
        self._known[""] = 0 if self._tokenizer.is_of_pieces else 1  # a space next to a space
        new = sorted(set(words).difference(self._known))
        asked = new[:: -(-len(new) // _ASKED)] if new else []
        counts = list(map(len, self._tokenizer.encode_all(asked)))
        self._known.update(zip(asked, counts, strict=True))
        if len(asked) == len(new):
            return []
        share = sum(counts) / sum(map(len, asked))
        others = [word for word in new if word not in self._known]
        self._known.update((word, max(1, round(share * len(word)))) for word in others)
        return others
