"""Pretrained word vectors, from the text files of word2vec, GloVe and fastText.

A line is a word and its numbers, separated by spaces or tabs. word2vec and fastText begin with a line `words width`,
GloVe does not. Files may be compressed (.gz, .xz) and are read line by line; only vectors of wanted words are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heed.data.columns import is_float
from heed.data.text_files import good_lines
from heed.errors import DataError, counted


class WordVectors(NamedTuple):
    """The vectors `(found, width)` of the wanted words at `places`, ascending; `read` counts all vectors of the file.

    `exact` marks words found as they are; the others were found lower-cased.
    """

    places: NDArray[np.int64]
    vectors: NDArray[np.float32]
    exact: NDArray[np.bool_]
    read: int


def vector_width(path: Path) -> int:
    """Width of the file's first vector.

    Raises:
        DataError: The file cannot be read, or contains no vector.
    """
    for number, line in _rows(path):
        width = len(_split(line)) - 1
        return width if width else _refuse(path, number, line, None)
    raise DataError(f"'{path}' contains no vectors; expected a word and its numbers on each line")


def vector_words(path: Path) -> list[str]:
    """Every word that has a vector, in the order of the file.

    Raises:
        DataError: The file cannot be read, or contains no vector.
    """
    width = vector_width(path)
    return [line.rsplit(" ", width)[0] for _, line in _rows(path)]


def read_word_vectors(path: Path, words: Sequence[str], width: int) -> WordVectors:
    """The vectors of some words, of `width` numbers each; words may repeat, and "" is never found.

    A word is looked up as it is, then lower-cased. If a word has several vectors, the first is used.

    Raises:
        DataError: The file cannot be read, or a line does not have `width` numbers; with file, line and content.
    """
    wanted_forms = {form for word in words for form in (word, word.lower())}
    vectors: dict[str, NDArray[np.float32]] = {}
    read = 0
    for number, line in _rows(path):
        read += 1
        word, _, numbers = line.partition(" ")
        if numbers.count(" ") + 1 != width or not word:
            word, numbers = _with_blanks(path, number, line, width)
        if word in wanted_forms:
            vectors.setdefault(word, _vector(path, number, line, numbers))
    if not read:
        raise DataError(f"'{path}' contains no vectors; expected a word and {width} numbers on each line")
    forms = [word if word in vectors else word.lower() for word in words]
    places = [place for place, form in enumerate(forms) if form in vectors]
    return WordVectors(
        np.array(places, dtype=np.int64),
        np.array([vectors[forms[place]] for place in places], dtype=np.float32).reshape(-1, width),
        np.array([forms[place] == words[place] for place in places], dtype=bool),
        read,
    )


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with vectors, their parts separated by single spaces, and line numbers."""
    for number, line in enumerate(good_lines(path), start=1):
        if number == 1 and len(line.split()) == 2 and all(part.isdecimal() for part in line.split()):
            continue
        if "\t" in line or "  " in line:
            line = " ".join(_split(line))
        if line.strip(" "):
            yield number, line.rstrip(" ")


def _split(line: str) -> list[str]:
    # Not at other whitespace: a word may be one such character, or contain a no-break space.
    return [part for part in line.replace("\t", " ").split(" ") if part]


def _with_blanks(path: Path, number: int, line: str, width: int) -> tuple[str, str]:
    """A word that contains spaces, as in some files, and its numbers."""
    parts = line.split(" ")
    if len(parts) <= width or all(map(is_float, parts[1:])):
        _refuse(path, number, line, width)
    return " ".join(parts[:-width]), " ".join(parts[-width:])


def _refuse(path: Path, number: int, line: str, width: int | None) -> int:
    expected = "numbers" if width is None else f"{width} numbers"
    numbers = counted(len(_split(line)) - 1, "number")
    raise DataError(f"'{path}' line {number} has {numbers} after its word ({line[:40]!r}), expected {expected}")


def _vector(path: Path, number: int, line: str, numbers: str) -> NDArray[np.float32]:
    try:
        vector = np.array(numbers.split(" "), dtype=np.float32)
    except ValueError:
        wrong = next(part for part in numbers.split(" ") if not is_float(part))
        raise DataError(f"'{path}' line {number}: {wrong!r} is not a number ({line[:40]!r})") from None
    if not np.isfinite(vector).all():
        raise DataError(f"'{path}' line {number} contains a number that is not finite ({line[:40]!r})")
    return vector
