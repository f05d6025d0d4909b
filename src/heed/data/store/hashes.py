"""64-bit hashes of texts, by which texts are compared and chosen without keeping them in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Example
from heed.data.splitmix import STEP

Hashes = NDArray[np.uint64]
"""`(texts,)` or `(examples, fields)`; two different texts have equal hashes with probability 2 ** -64."""


def hashes_of(texts: Iterable[bytes]) -> Hashes:
    """The hash of each text in UTF-8."""
    digests = b"".join([hashlib.blake2b(text, digest_size=8).digest() for text in texts])
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


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
    if wanted <= 0 or not len(hashes):
        return np.zeros(len(hashes), dtype=bool)
    last = np.partition(hashes, min(wanted, len(hashes)) - 1)[min(wanted, len(hashes)) - 1]
    out: NDArray[np.bool_] = hashes <= last
    return out


def among(hashes: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of the `hashes` that are among the `known` ones."""
    if not len(known):
        return np.zeros(len(hashes), dtype=bool)
    if len(known) > len(hashes):  # only the smaller side is sorted
        known = known[among(known, hashes)]
        return np.isin(hashes, known)
    ordered = np.sort(known)
    places = np.minimum(np.searchsorted(ordered, hashes), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[places] == hashes
    return found
