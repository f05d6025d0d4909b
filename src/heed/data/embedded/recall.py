"""Texts in which something must be kept in memory: recall, adding, look-ups, two clauses, and counting.

Each function draws texts with their answers from a seed:

| function | text | answer |
|---|---|---|
| `delayed_recall` | `C n3 n0 n7 ?` | the first word |
| `adding` | `3 x7 2 0 x5`: two digits are marked | their sum |
| `look_ups` | `A red square B blue circle ? colour A shape B` | `red-circle` |
| `two_clauses` | `great then w4 w1 then awful` | `great-awful` |
| `counted` | `a a a b b b` | none: a text for language models |

Source: Hochreiter and Schmidhuber 1997 (recall and adding with distance, here in words and sums of digits); Gers and
Schmidhuber 2001 (counting).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from heed.errors import DataError

Labelled = tuple[str, str]
"""A text and its answer."""
SYMBOLS, COLOURS, SHAPES = "ABCDEFGH", ("red", "blue", "green", "black"), ("circle", "square", "star", "cross")
POLARITIES = ("great", "awful")
_NOISE = 8


def delayed_recall(lags: Sequence[int], seed: int | str) -> Iterator[Labelled]:
    """Endless texts of a symbol, noise and a question mark `lag` words after the symbol; lags are drawn uniformly."""
    _check("lag", lags)
    draw = Random(f"recall:{seed}")
    while True:
        symbol, lag = draw.choice(SYMBOLS), draw.choice(lags)
        yield " ".join([symbol, *(f"n{draw.randrange(_NOISE)}" for _ in range(lag - 1)), "?"]), symbol


def adding(lengths: Sequence[int], seed: int | str) -> Iterator[Labelled]:
    """Endless texts of digits of which two are marked, one in each half, as in the adding problem."""
    _check("length", lengths, 2)
    draw = Random(f"adding:{seed}")
    while True:
        length = draw.choice(lengths)
        digits = [draw.randrange(10) for _ in range(length)]
        marked = draw.randrange(length // 2), draw.randrange(length // 2, length)
        words = [f"{'x' * (place in marked)}{digit}" for place, digit in enumerate(digits)]
        yield " ".join(words), str(sum(digits[place] for place in marked))


def look_ups(names: int, asked: int, seed: int | str) -> Iterator[Labelled]:
    """Endless texts of `names` things with colour and shape, and `asked` questions.

    Questions ask for the colour of one thing and the shape of another, in turn, so that each needs its own look-up.

    Raises:
        DataError: Not 1 <= asked <= names <= 8.
    """
    if not 1 <= asked <= names <= len(SYMBOLS):
        raise DataError(f"{asked} questions about {names} things; expected 1 <= asked <= names <= {len(SYMBOLS)}")
    draw = Random(f"look-ups:{seed}")
    while True:
        things = {name: (draw.choice(COLOURS), draw.choice(SHAPES)) for name in draw.sample(SYMBOLS, names)}
        words = [word for name, thing in things.items() for word in (name, *thing)] + ["?"]
        chosen = draw.sample(list(things), asked)
        words += [word for i, name in enumerate(chosen) for word in (("colour", "shape")[i % 2], name)]
        yield " ".join(words), "-".join(things[name][i % 2] for i, name in enumerate(chosen))


def two_clauses(fillers: Sequence[int], seed: int | str) -> Iterator[Labelled]:
    """Endless texts of two words of praise or blame with filler between them; the answer needs both."""
    _check("filler", fillers, 0)
    draw = Random(f"clauses:{seed}")
    while True:
        first, second = draw.choice(POLARITIES), draw.choice(POLARITIES)
        filler = (f"w{draw.randrange(_NOISE)}" for _ in range(draw.choice(fillers)))
        yield " ".join([first, "then", *filler, "then", second]), f"{first}-{second}"


def counted(counts: Sequence[int], seed: int | str) -> Iterator[str]:
    """Endless texts of n times a and n times b."""
    _check("count", counts)
    draw = Random(f"counted:{seed}")
    while True:
        count = draw.choice(counts)
        yield " ".join(["a"] * count + ["b"] * count)


def _check(name: str, values: Sequence[int], least: int = 1) -> None:
    if not values or min(values) < least:
        raise DataError(f"{name} is {list(values)}; expected one or more whole numbers of at least {least}")
