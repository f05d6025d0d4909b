"""What a tokenizer learned from many texts and made of them, kept by content: a second start does neither again.

Of few texts nothing is kept: to learn or encode them takes no longer than to write a file. Where the cache cannot be
written to, everything is done anew.
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

__all__ = ["are_many", "encode_kept", "learn_kept"]

_MANY = 1 << 19
"""Characters that take a tenth of a second or more to encode."""


def are_many(texts: Iterable[str]) -> bool:
    """Whether what is made of these texts is kept."""
    return sum(map(len, texts)) >= _MANY


def learn_kept(texts: Sequence[str], settings: Mapping[str, Any], learn: Callable[[], TextTokenizer]) -> TextTokenizer:
    """A tokenizer of many texts, learned now or earlier.

    Args:
        texts: What it learns from.
        settings: Everything else that decides it, as JSON.
        learn: Learns it.
    """
    if not are_many(texts):
        return learn()

    def make(folder: Path) -> dict[str, Any]:
        learn().save(folder / "tokenizer.json")
        return {}

    try:
        entry = make_entry(key_of(kind="tokenizer", texts=_content(texts), settings=dict(settings)), make)
    except CacheError:
        return learn()
    return TextTokenizer.load(entry.path / "tokenizer.json")


def encode_kept(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Many texts to ids, as `tokenizer.encode_all`, now or earlier."""
    if not are_many(texts):
        return tokenizer.encode_all(texts)

    def make(folder: Path) -> dict[str, Any]:
        ids = tokenizer.encode_all(texts)
        np.fromiter(map(len, ids), dtype="<i4").tofile(folder / "lengths.bin")
        np.fromiter(chain.from_iterable(ids), dtype="<i4").tofile(folder / "ids.bin")
        return {}

    try:
        entry = make_entry(key_of(kind="ids", texts=_content(texts), tokenizer=tokenizer.text), make)
    except CacheError:
        return tokenizer.encode_all(texts)
    flat = np.fromfile(entry.path / "ids.bin", dtype="<i4").tolist()
    ends = accumulate(np.fromfile(entry.path / "lengths.bin", dtype="<i4").tolist(), initial=0)
    return [flat[start:end] for start, end in pairwise(ends)]


def _content(texts: Sequence[str]) -> str:
    content = hashlib.blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode()
        content.update(len(encoded).to_bytes(8, "little"))
        content.update(encoded)
    return content.hexdigest()
