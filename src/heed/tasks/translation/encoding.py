"""Pairs as tokens: encoded once and held, or, where they are too many for that, encoded whenever they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from heed.data.batch.pairs import TokenPair
from heed.data.examples import Pair
from heed.data.store.lengths import Lengths, pair_lengths
from heed.data.store.store import StoredPairs, in_turn, take
from heed.data.tokens.tokenizer import TextTokenizer
from heed.storage.cache import key_of, make_entry

__all__ = ["Encode", "Encoding", "lengths_of", "some_of"]

Encode = Callable[[Sequence[Pair]], list[TokenPair]]
_COUNTED = 20_000
"""Of more pairs than are held as tokens, so many are encoded to count tokens for people."""


class Encoding(Sequence[TokenPair]):
    """The tokens of pairs that lie in a file; nothing of them is held."""

    def __init__(self, pairs: Sequence[Pair], encode: Encode) -> None:
        self._pairs = pairs
        self._encode = encode

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> TokenPair: ...

    @overload
    def __getitem__(self, index: slice) -> list[TokenPair]: ...

    def __getitem__(self, index: int | slice) -> TokenPair | list[TokenPair]:
        if isinstance(index, slice):
            return self._encode(self._pairs[index])
        return self._encode([self._pairs[index]])[0]

    def __iter__(self) -> Iterator[TokenPair]:
        for chunk in in_turn(self._pairs):
            yield from self._encode(chunk)

    def take(self, indices: Sequence[int]) -> list[TokenPair]:
        """The items at these places, encoded together."""
        return self._encode(take(self._pairs, indices))


def some_of(tokens: Sequence[TokenPair]) -> Sequence[TokenPair]:
    """All of some tokens, or an even sample of those that are not held."""
    if not isinstance(tokens, Encoding) or len(tokens) <= _COUNTED:
        return tokens
    places = range(0, len(tokens), -(-len(tokens) // _COUNTED))
    return [pair for chunk in in_turn(places) for pair in tokens.take(chunk)]


def lengths_of(
    pairs: Sequence[Pair], tokenizers: tuple[TextTokenizer, TextTokenizer], exact_from: int, tag: bool
) -> Lengths:
    """The length of each pair in tokens, from the cache where the pairs are.

    Args:
        pairs: Any number.
        tokenizers: Source and target.
        exact_from: Lengths above this are beyond doubt (`heed.data.store.lengths`).
        tag: Whether a tag comes before each source.
    """
    key = pairs.key if isinstance(pairs, StoredPairs) else None
    if key is None:
        return np.concatenate(list(pair_lengths(pairs, tokenizers, exact_from, tag)))

    def make(folder: Path) -> dict[str, Any]:
        with (folder / "lengths.bin").open("wb") as file:
            for part in pair_lengths(pairs, tokenizers, exact_from, tag):
                file.write(part.astype("<i4").tobytes())
        return {}

    ways = [tokenizer.text for tokenizer in tokenizers]
    entry = make_entry(key_of(kind="lengths", pairs=key, tokenizers=ways, exact_from=exact_from, tag=tag), make)
    return np.fromfile(entry.path / "lengths.bin", dtype="<i4").astype(np.int32, copy=False).reshape(-1, 2)
