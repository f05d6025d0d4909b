"""What a run did with some examples: an output for each, and measures that add up.

A measure is a formula over sums of per-example statistics: right and all for a share, n-gram counts for BLEU, counts
of found and missed entities for F1. Whatever has this form can be cut into buckets, given intervals and tested,
without knowing what the task is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """One score of a set of outputs.

    Attributes:
        name: In files: "exact_match".
        label: For people: "exact match".
        statistics: `(examples, k)`, what is summed over examples.
        formula: `(m, k) -> (m,)`, the scores of m such sums.
        higher_is_better: Whether more is better.
        is_share: Whether the score is a share of 1, which is shown in per cent.
        note: What a reader must know to repeat it, such as a signature.
        digits: Digits after the point in tables.
    """

    name: str
    label: str
    statistics: Array
    formula: Callable[[Array], Array]
    higher_is_better: bool = True
    is_share: bool = False
    note: str = ""
    digits: int = 1

    def __len__(self) -> int:
        return len(self.statistics)

    def score(self) -> float:
        """The score over all examples."""
        return float(self.formula(self.statistics.sum(0, keepdims=True))[0])

    def each(self) -> Array:
        """The score of each example by itself, `(examples,)`."""
        return self.formula(self.statistics)

    def of(self, examples: Sequence[int]) -> Measure:
        """The same measure of some of the examples."""
        return replace(self, statistics=self.statistics[np.asarray(examples, dtype=np.int64)])


def share(
    name: str, label: str, right: Sequence[float], of: Sequence[float] | None = None, *, higher_is_better: bool = True
) -> Measure:
    """A ratio of sums: right answers of all examples, right tokens of all tokens.

    Args:
        name: In files.
        label: For people.
        right: Numerator of each example.
        of: Denominator of each example; ones by default.
        higher_is_better: Whether more is better.
    """
    bottom = np.ones(len(right)) if of is None else np.asarray(of, dtype=np.float64)
    statistics = np.stack([np.asarray(right, dtype=np.float64), bottom], axis=1)  # (examples, 2)
    return Measure(name, label, statistics, _ratio, higher_is_better, is_share=True)


def _ratio(sums: Array) -> Array:
    ratios: Array = np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] > 0)
    return ratios


def pooled(measures: Sequence[Measure]) -> Measure:
    """Several runs' measure as one: each example's statistics are their mean over the runs.

    The score of the result is the mean of the runs' scores where the denominators are the same (shares of the same
    references), and close to it otherwise (BLEU, chrF).
    """
    return replace(measures[0], statistics=np.mean([measure.statistics for measure in measures], axis=0))


@dataclass(frozen=True)
class Outcomes:
    """What one run did with each example of a set: the one thing that evaluation, comparison and validation score.

    Attributes:
        outputs: As people read them.
        measures: The task's own, the one that matters most first.
        further: Measures that say the same as another, or little: in reports only.
        lengths: Of each source, for scores by length; empty for none.
        details: What a report says besides, as plain values. It wins over a measure of the same name.
    """

    outputs: tuple[str, ...]
    measures: tuple[Measure, ...]
    further: tuple[Measure, ...] = ()
    lengths: tuple[int, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def measure(self, name: str) -> Measure:
        """The measure of that name."""
        return next(measure for measure in (*self.measures, *self.further) if measure.name == name)


def values_of(measures: Iterable[Measure]) -> dict[str, float]:
    """The scores alone, by name, as validation keeps them; 0 where nothing can be scored."""
    return {measure.name: float(np.nan_to_num(measure.score())) for measure in measures}


def length_buckets(lengths: Sequence[int], most: int = 5) -> list[tuple[int, int]]:
    """Cut lengths into at most `most` ranges `(first, last)` with about equally many examples."""
    if not lengths:
        return []
    ordered = sorted(lengths)
    edges = sorted({ordered[(i * len(ordered)) // most] for i in range(most)})
    ends = [edge - 1 for edge in edges[1:]] + [ordered[-1]]
    return list(zip(edges, ends, strict=True))
