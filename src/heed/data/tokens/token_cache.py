"""Trained tokenizers and encoded texts, cached for large corpora; without a writable cache they are made again.

This applies from half a million characters on, to corpora in memory too: a second run on the same texts trains no
tokenizer and encodes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

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
