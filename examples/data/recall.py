"""Texts in which something must be kept in memory: recall, adding, look-ups, and two clauses.

    python examples/data/recall.py recall --kind look_ups
    heed train classification recall/train.txt --valid recall/valid.txt --test recall/test.txt

Each function draws texts with their answers from a seed:

| function | text | answer |
|---|---|---|
| `delayed_recall` | `C n3 n0 n7 ?` | the first word |
| `adding` | `3 x7 2 0 x5`: two digits are marked | their sum |
| `look_ups` | `A red square B blue circle ? colour A shape B` | `red-circle` |
| `two_clauses` | `great then w4 w1 then awful` | `great-awful` |

Source: Hochreiter and Schmidhuber 1997 (recall and adding with distance, here in words and sums of digits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random

from arguments import arguments, sizes_of
from heed.data.embedded import split_of
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


def _check(name: str, values: Sequence[int], least: int = 1) -> None:
    if not values or min(values) < least:
        raise DataError(f"{name} is {list(values)}; expected one or more whole numbers of at least {least}")


KINDS: dict[str, Callable[[int], Iterator[Labelled]]] = {
    "delayed_recall": lambda seed: delayed_recall(range(1, 21), seed),
    "adding": lambda seed: adding(range(2, 21), seed),
    "look_ups": lambda seed: look_ups(4, 2, seed),
    "two_clauses": lambda seed: two_clauses(range(5, 21), seed),
}


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__, 2_000, 200, 500)
    parser.add_argument("--kind", choices=KINDS, default="delayed_recall")
    options = parser.parse_args(given)
    for split, count in sizes_of(options).items():
        texts = (one for one in KINDS[options.kind](options.seed) if split_of(one[0]) == split)
        lines = "".join(f"{answer} {text}\n" for text, answer in islice(texts, count))
        (options.folder / f"{split}.txt").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
