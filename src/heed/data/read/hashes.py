"""Marks of texts: 64 bits of a hash, by which texts are compared and chosen without holding them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Marks", "among", "held_out", "marks_of"]

Marks = NDArray[np.uint64]
"""`(texts,)`. Two different texts have the same mark once in 2 ** 64."""


def marks_of(texts: Iterable[str]) -> Marks:
    """The mark of each text."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def held_out(marks: Marks, wanted: int) -> NDArray[np.bool_]:
    """Which of some texts are held out: those with the smallest marks, equal texts together, until there are enough.

    Args:
        marks: Of all texts.
        wanted: How many to hold out, at least; 0 for none.
    """
    if wanted <= 0 or not len(marks):
        return np.zeros(len(marks), dtype=bool)
    last = np.partition(marks, min(wanted, len(marks)) - 1)[min(wanted, len(marks)) - 1]
    out: NDArray[np.bool_] = marks <= last
    return out


def among(marks: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of some numbers are among others."""
    if not len(known):
        return np.zeros(len(marks), dtype=bool)
    if len(known) > len(marks):  # only the smaller side is sorted
        known = known[among(known, marks)]
        return np.isin(marks, known)
    ordered = np.sort(known)
    places = np.minimum(np.searchsorted(ordered, marks), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[places] == marks
    return found
