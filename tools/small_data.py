"""Tiny synthetic data, generated from a seed: pairs of sentences, rows with labels, a series."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

_NOUNS = {"cat": "gato", "dog": "perro", "child": "chico", "baker": "panadero", "sailor": "marinero", "king": "rey"}
_VERBS = {"sees": "ve a", "hears": "oye a", "follows": "sigue a", "helps": "ayuda a", "paints": "pinta a"}
_ADJECTIVES = {"small": "pequeno", "tired": "cansado", "old": "viejo", "quiet": "callado", "famous": "famoso"}


def write_small_data(folder: Path, seed: int = 1) -> None:
    """Write train and test files of pairs (`.en`, `.es`), rows (`.csv`) and a series (`series.csv`).

    Args:
        folder: An existing folder.
        seed: Random seed.
    """
    draw = Random(seed)
    for name, count in (("train", 150), ("test", 12)):
        pairs = [_pair(draw) for _ in range(count)]
        for ending, lines in zip(("en", "es"), zip(*pairs, strict=True), strict=True):
            (folder / f"{name}.{ending}").write_text("".join(f"{line}\n" for line in lines))
        rows = [_row(draw) for _ in range(count)]
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in ("length,width,label", *rows)))
    values = [
        f"{10 + 3 * math.sin(math.pi * time / 6) + draw.gauss(0, 0.3):.3f},{time / 20 + draw.gauss(0, 0.2):.3f}"
        for time in range(150)
    ]
    (folder / "series.csv").write_text("".join(f"{line}\n" for line in ("season,trend", *values)))


def _pair(draw: Random) -> tuple[str, str]:
    """An English sentence and its Spanish translation, in which the adjective follows the noun."""
    first, second = draw.sample(sorted(_NOUNS), 2)
    verb, adjective = draw.choice(sorted(_VERBS)), draw.choice(sorted(_ADJECTIVES))
    return (
        f"the {adjective} {first} {verb} the {second}.",
        f"el {_NOUNS[first]} {_ADJECTIVES[adjective]} {_VERBS[verb]} el {_NOUNS[second]}.",
    )


def _row(draw: Random) -> str:
    kind = draw.randrange(3)
    return f"{draw.gauss(5 + 2 * kind, 1):.3f},{draw.gauss(200 - 80 * (kind == 1), 30):.2f},{'abc'[kind]}"
