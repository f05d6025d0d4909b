"""A verdict on an attention map: whether its weights go with what the model uses, for this input.

For a row of weights a over keys, and e_j the change of the output's log-odds when key j is left out of the input:

- cannot be judged: no key changes the output's probability by 0.05, or a single row has fewer than 20 keys;
- supported: the key with the largest weight has the largest |e|, and sum(a |e|) is above that of permutations of a, at
  p <= 0.05;
- contradicted: it is below them at p <= 0.05;
- not distinguishable from random: else.

Several rows are judged together: their sums are added, each row is permuted by itself, and at least half of the rows
must agree on the first key. Where no single key matters, several may stand for one another: what the three keys with
the largest weights change together, beyond the sum of what each changes alone, is compared with 99 random threes.

A second statement is always made, since agreement is not use: how much the output changes if all weights are equal.
Below 0.05 the output does not depend on these weights, whatever the first says.

Source: Jain and Wallace 2019, arXiv:1902.10186, and Wiegreffe and Pinter 2019, arXiv:1908.04626 (agreement with
leave-one-out, uniform weights); the permutation test is a usual one (Phipson and Smyth 2010, arXiv:1603.05766).
Differs from both papers: the comparison is with permutations of the same weights, not a correlation without a
reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heed.observe.maps import plural

SUPPORTED, CONTRADICTED = "supported", "contradicted"
RANDOM, UNJUDGED = "not distinguishable from random", "cannot be judged"
VERDICTS = (SUPPORTED, CONTRADICTED, RANDOM, UNJUDGED)
MATTERS = 0.05
"""Change of a probability below which nothing is said to matter."""
_LEVEL, _PERMUTATIONS, _TRIPLES = 0.05, 499, 99
_FEWEST = 20
"""Fewest keys of a row that is judged alone."""

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Row:
    """The weights of one query, and what the output loses without each key; all `(keys,)`, allowed keys only."""

    weights: Values
    effects: Values  # change of the output's log-odds, without its sign
    changes: Values  # change of its probability, without its sign

    @property
    def is_judgeable(self) -> bool:
        """True if some key matters."""
        return len(self.weights) > 1 and bool(self.changes.max() >= MATTERS)

    @property
    def agrees(self) -> bool:
        """True if the key with the largest weight has the largest effect."""
        return int(self.weights.argmax()) == int(self.effects.argmax())


@dataclass(frozen=True)
class Verdict:
    """What can be said of a map for one input, or for several together."""

    word: str  # one of `VERDICTS`
    why: str  # for display
    p: float | None = None  # share of permutations with at least this sum; at most, where contradicted
    uniform: float | None = None  # change of the output's probability if all weights are equal
    beside: str = ""  # what else was asked for, for display

    @property
    def depends(self) -> bool | None:
        """True if the output depends on these weights; None if it was not tried."""
        return None if self.uniform is None else self.uniform >= MATTERS

    @property
    def line(self) -> str:
        """Both statements as one line."""
        said = [f"{self.word} ({self.why})"]
        if self.uniform is not None:
            tail = "" if self.depends else ": this output does not depend on these weights"
            said.append(f"uniform weights change the output by {self.uniform:.3f}{tail}")
        return "; ".join([*said, *filter(None, [self.beside])])


def judge(
    rows: Sequence[Row],
    together: Callable[[list[list[int]]], Values] | None = None,
    uniform: float | None = None,
    seed: int = 0,
    unit: str = "word",
) -> Verdict:
    """The verdict on one row, or on several together.

    Args:
        rows: The rows of one map, or of several inputs.
        together: For one row: the changes of the probability when several keys are left out together.
        uniform: The change of the output's probability if all weights are equal.
        seed: Of the permutations.
        unit: What one key is, for display.
    """
    word, why, p = _judged(rows, together, np.random.default_rng(seed))
    return Verdict(word, why.format(unit=unit, units=plural(unit)), p, uniform)


_Found = tuple[str, str, float | None]
"""The word, why (with `{unit}` and `{units}` for what keys are), and p."""


def _judged(
    rows: Sequence[Row], together: Callable[[list[list[int]]], Values] | None, rng: np.random.Generator
) -> _Found:
    judged = [row for row in rows if row.is_judgeable]
    if not judged and len(rows) == 1 and len(rows[0].weights) >= _FEWEST and together is not None:
        return _redundant(rows[0], together, rng)
    if not any(len(row.weights) > 1 for row in rows):
        return UNJUDGED, "no row has two {units} to compare", None
    if not judged:
        return UNJUDGED, f"no {{unit}} left out changes the probability by {MATTERS}", None
    if len(judged) == 1 and len(judged[0].weights) < _FEWEST:
        count = len(judged[0].weights)
        return (
            UNJUDGED,
            f"a row of {count} keys is too short to be judged alone; {_FEWEST} are enough, or several texts",
            None,
        )
    observed = sum(float(row.weights @ row.effects) for row in judged)
    sums = np.zeros(_PERMUTATIONS)
    for row in judged:
        orders = rng.random((_PERMUTATIONS, len(row.weights))).argsort(axis=1)
        sums += row.weights[orders] @ row.effects
    slack = 1e-9 * max(1.0, abs(observed))
    above, below = (
        (1 + int(found)) / (1 + _PERMUTATIONS)
        for found in ((sums >= observed - slack).sum(), (sums <= observed + slack).sum())
    )
    agree = sum(row.agrees for row in judged)
    many = len(judged) > 1
    said = (
        f"{agree} of {len(judged)} rows agree on the first {{unit}}"
        if many
        else (
            "the most attended {unit} is the one that decides"
            if agree
            else "a {unit} other than the most attended one decides"
        )
    )
    if above <= _LEVEL and agree >= len(judged) / 2:
        return SUPPORTED, f"{said}, p = {above:.3f}", above
    if below <= _LEVEL:
        return CONTRADICTED, f"{said}, p = {below:.3f}", below
    return RANDOM, f"{said}, p = {above:.3f}", above


def _redundant(row: Row, together: Callable[[list[list[int]]], Values], rng: np.random.Generator) -> _Found:
    """The verdict where no single key matters: the three with the largest weights against random threes.

    Keys that stand for one another change more together than the sum of what each changes alone; that excess is
    compared. Where changes only add up, as in an untrained network, there is none.
    """
    size = len(row.weights)
    first = np.argsort(-row.weights, kind="stable")[:3].tolist()
    threes = [first, *(rng.choice(size, 3, replace=False).tolist() for _ in range(_TRIPLES))]
    changes = np.abs(together(threes))
    own, *found = (changes - row.changes[np.array(threes)].sum(axis=1)).tolist()
    if max(own, *found) < MATTERS:
        said = f"no {{unit}} left out changes the probability by {MATTERS}, and no three by as much more than their sum"
        return UNJUDGED, said, None
    p = (1 + sum(other >= own for other in found)) / (1 + _TRIPLES)
    said = f"the three most attended {{units}} together change the probability by {changes[0]:.3f}, p = {p:.2f}"
    return SUPPORTED if own >= MATTERS and p <= _LEVEL else RANDOM, said, p
