"""Encoding of long texts in parts, which bounds memory for the library's objects and lets cores share one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from heed.data.tokens.special import UNKNOWN

_LONG, _TOGETHER = 1 << 16, 1 << 20
"""Characters above which a text is encoded in parts, and characters encoded at once."""
_BETWEEN = re.compile(r"(?<=[!-~\w])\n(?=[!-~\w])")
"""A line end between characters that no library treats as whitespace."""


def encode_in_parts(
    encode_all: Callable[[Sequence[str]], list[list[int]]], texts: Sequence[str], divisible: bool
) -> list[NDArray[np.int32]]:
    """The ids of texts, about `_TOGETHER` characters encoded at once; `divisible` texts are divided where safe."""
    parts: list[str] = []
    ends = []  # number of parts up to the end of each text
    for text in texts:
        parts += _in_parts(text) if divisible and len(text) > _LONG else [text]
        ends.append(len(parts))
    encoded: list[NDArray[np.int32]] = []
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    for chunk in np.split(np.arange(len(parts)), np.flatnonzero(np.diff(np.cumsum(sizes) // _TOGETHER)) + 1):
        together = [parts[n] for n in chunk]
        encoded += [np.array(ids, dtype=np.int32) for ids in encode_all(together)]
    return [np.concatenate(encoded[a:b]) for a, b in pairwise([0, *ends])]


def character_table(tokens: Sequence[str]) -> NDArray[np.int32]:
    """The id of each character up to the last that is a token, unknown for the others, and one more unknown id."""
    known = {ord(token): i for i, token in enumerate(tokens) if len(token) == 1}
    table = np.full(max(known, default=0) + 2, UNKNOWN, dtype=np.int32)
    table[list(known)] = list(known.values())
    return table


def _in_parts(text: str) -> list[str]:
    """Parts of about `_LONG` characters that have the same tokens as in the whole text.

    They begin after a line end between two characters that are not whitespace, where all tokenizers begin a word.
    """
    cuts = [0]
    while (found := _BETWEEN.search(text, cuts[-1] + _LONG)) is not None:
        cuts.append(found.end())
    return [text[a:b] for a, b in pairwise([*cuts, len(text)])]
