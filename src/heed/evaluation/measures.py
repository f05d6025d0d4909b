"""Outcomes of a run on some examples: an output for each, and measures with per-example statistics.

A measure is a formula over sums of per-example statistics: correct and total for a share, n-gram counts for BLEU,
counts of found and missed entities for F1. Any score of this form can be split into buckets, given an interval and
tested, whatever the task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """One score of a set of outputs."""

    name: str  # name in files: "exact_match"
    label: str  # name for readers: "exact match"
    statistics: Array  # `(examples, k)`, to be summed over examples
    formula: Callable[[Array], Array]  # `(m, k) -> (m,)`, the scores of m sums of statistics
    higher_is_better: bool = True  # True if a higher score is better
    is_share: bool = False  # True if the score is a share of 1, to be shown in per cent
    note: str = ""  # what is needed to reproduce the score, such as sacrebleu's signature
    digits: int = 1  # digits after the decimal point in tables

    def __len__(self) -> int:
        return len(self.statistics)

    @property
    def scale(self) -> float:
        """Factor of a score for readers: a share is shown in per cent."""
        return 100.0 if self.is_share else 1.0

    def text(self, value: float, sign: str = "") -> str:
        """A score or, with the sign "+z", a difference for readers, without its unit."""
        return f"{self.scale * value:{sign}.{self.digits}f}"

    def ends(self, low: float, high: float, sign: str = "") -> str:
        """An interval for readers, "[0.1, 0.3]"."""
        shown = "no interval" if math.isnan(low) else f"{self.text(low, sign)}, {self.text(high, sign)}"
        return f"[{shown}]"

    @property
    def is_ratio(self) -> bool:
        """True if the score is the first sum divided by the second, such as correct answers by examples."""
        return self.is_share and self.formula is first_by_second

    def score(self) -> float:
        """The score over all examples."""
        return float(self.formula(self.statistics.sum(0, keepdims=True))[0])

    def each(self) -> Array:
        """The score of each example by itself, `(examples,)`."""
        return self.formula(self.statistics)

    def of(self, examples: Sequence[int]) -> Measure:
        """The same measure for some of the examples."""
        return replace(self, statistics=self.statistics[np.asarray(examples, dtype=np.int64)])


def share(
    name: str, label: str, right: Sequence[float], of: Sequence[float] | None = None, *, higher_is_better: bool = True
) -> Measure:
    """A ratio of sums: correct answers to examples, correct tokens to tokens.

    Args:
        name: Name in files.
        label: Name for readers.
        right: Numerator of each example.
        of: Denominator of each example; ones by default.
        higher_is_better: True if a higher score is better.
    """
    statistics = columns(right, np.ones(len(right)) if of is None else of)  # (examples, 2)
    return Measure(name, label, statistics, first_by_second, higher_is_better, is_share=True)


def rate(
    name: str,
    label: str,
    total: Sequence[float] | Array,
    count: Sequence[float] | Array,
    digits: int,
    last: Callable[[Array], Array] = lambda rates: rates,
) -> Measure:
    """A function of a ratio of sums such as nats to tokens, lower is better; NaN where nothing was counted.

    Args:
        name: Name in files.
        label: Name for readers.
        total: Numerator of each example.
        count: Denominator of each example.
        digits: Digits after the point.
        last: The function of the ratio: `np.exp` for a perplexity.
    """
    formula = lambda sums: last(np.minimum(first_by_second(sums), 700.0))  # noqa: E731
    return Measure(name, label, columns(total, count), formula, higher_is_better=False, digits=digits)


def columns(*each: Sequence[float] | Array) -> Array:
    """Numbers of examples as the columns of statistics, `(examples, columns)`."""
    return np.stack([np.asarray(values, dtype=np.float64) for values in each], axis=1)


def ratio(top: Array, bottom: Array) -> Array:
    """Ratios of sums, `(m,)`; NaN where nothing was counted."""
    ratios: Array = np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)
    return ratios


def first_by_second(sums: Array) -> Array:
    """The formula of a share: the first sum divided by the second."""
    return ratio(sums[:, 0], sums[:, 1])


@dataclass(frozen=True)
class Outcomes:
    """Outputs of one run for a set of examples, with measures, for evaluation, comparison and validation."""

    outputs: tuple[str, ...]  # readable outputs
    measures: tuple[Measure, ...]  # the task's measures, the most important first
    further: tuple[Measure, ...] = ()  # redundant or minor measures, for reports only
    lengths: tuple[int, ...] = ()  # length of each source, for scores by length; empty for none
    # Further values of the report, as plain values; they replace measures of the same name
    details: dict[str, Any] = field(default_factory=dict)
    # The report with so many resamples, if it is not one of the measures and details
    report: Callable[[int], dict[str, Any]] | None = None

    def measure(self, name: str) -> Measure:
        """The measure of that name."""
        return next(measure for measure in (*self.measures, *self.further) if measure.name == name)


def values_of(measures: Iterable[Measure]) -> dict[str, float]:
    """The scores by name, as validation records them; 0 if there is nothing to score."""
    return {measure.name: float(np.nan_to_num(measure.score())) for measure in measures}


def length_buckets(lengths: Sequence[int], maximum: int = 5) -> list[tuple[int, int]]:
    """Split lengths into at most `most` ranges `(first, last)` with about equally many examples."""
    if not lengths:
        return []
    ordered = sorted(lengths)
    edges = sorted({ordered[(i * len(ordered)) // maximum] for i in range(maximum)})
    ends = [edge - 1 for edge in edges[1:]] + [ordered[-1]]
    return list(zip(edges, ends, strict=True))
