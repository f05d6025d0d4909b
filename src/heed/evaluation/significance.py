"""Bootstrap intervals, reports with them, and significance tests: is one run better, or is it the choice of examples?

Intervals are from the bootstrap over examples, or Clopper and Pearson's for shares of 0 and 1; differences from
resampling both runs' outputs for the same examples together; p-values of two runs from approximate randomisation, of
several seeds from a bootstrap over seeds and examples. All use only the statistics of a `Measure`, so they suit any
task.

This is the only bootstrap: for the same outputs, number of resamples and seed, a measure has the same interval to the
last digit wherever it is shown.

sacrebleu provides statistics and formulas, but not the test: its test does not count trials that equal the observed
difference, so a run would differ from its own copy with p = 0.0001. Without ties the p-values are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from heed.evaluation.measures import Array, Measure, Outcomes, length_buckets

SEED = 1
_BLOCK = 5_000_000
"""Random numbers in memory at a time."""

_EQUAL = 1e-9
"""Tolerance for equal differences: sums in another order round differently."""


def resampled(groups: Sequence[Sequence[Measure]], resamples: int, seed: int) -> list[Array]:
    """Bootstrap scores of several groups of measures, on the same resampled examples.

    Args:
        groups: Each group is the same measure of one or more runs (seeds), whose scores are averaged in every resample.
            All measures are of the same examples.
        resamples: Number of resamples of the examples, with replacement.
        seed: Seed of the draws.

    Returns:
        Scores `(resamples,)` for each group. Entry r of all groups is for the same examples, so differences are paired.

    Source: Efron and Tibshirani 1993, chapter 13; Koehn 2004 (W04-3250) for pairs of systems on one test set.
    """
    measures = [measure for group in groups for measure in group]
    examples = len(measures[0]) if measures else 0
    if not examples:
        return [np.full(resamples, np.nan) for _ in groups]
    generator = np.random.default_rng(seed)
    sums: list[list[Array]] = [[] for _ in measures]
    for block in _blocks(resamples, examples):
        drawn = generator.multinomial(examples, np.full(examples, 1 / examples), size=block).astype(np.float64)
        for parts, measure in zip(sums, measures, strict=True):
            # One measure at a time: neighbouring columns may change how a product rounds.
            parts.append(drawn @ measure.statistics)
    scores = iter([measure.formula(np.concatenate(parts)) for measure, parts in zip(measures, sums, strict=True)])
    return [np.mean([next(scores) for _ in group], axis=0) for group in groups]


@dataclass(frozen=True)
class Interval:
    """A score with its 95 % interval, whose ends are NaN if there is none."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} [{ends(asdict(self), '.1%')}]"

    def as_values(self) -> dict[str, float]:
        """As plain values: of a known score without an interval only the value; 0 if the score is not known."""
        if math.isnan(self.value):
            return {**asdict(self), "value": 0.0}
        return {"value": self.value} if math.isnan(self.low) else asdict(self)


def ends(values: Mapping[str, float], form: str, scale: float = 1.0) -> str:
    """Both ends of an interval, in a format, for people; "no interval" if there is none."""
    pair = [scale * values.get(name, math.nan) for name in ("low", "high")]
    return "no interval" if any(map(math.isnan, pair)) else ", ".join(f"{end:{form}}" for end in pair)


def intervals(measures: Sequence[Measure], resamples: int = 1000, seed: int = SEED) -> list[Interval]:
    """The score of each measure, all of the same examples, with its interval."""
    draws = resampled([[measure] for measure in measures], resamples, seed)
    return [Interval(one.score(), *score_interval([one], drawn)) for one, drawn in zip(measures, draws, strict=True)]


def score_interval(group: Sequence[Measure], drawn: Array) -> tuple[float, float]:
    """The interval of the mean score of a measure over runs, from its resamples.

    If all resamples have the same score, they show no spread: the bootstrap cannot see errors that no example shows. A
    share of 0 or 1 then has the exact interval of Clopper and Pearson, from 0 to 1 - 0.025^(1/n) or from 0.025^(1/n) to
    1, for n examples (not their tokens or words, which are not independent): [0, 7.1 %] for 0 of 50. Other scores have
    no interval, NaN.

    Args:
        group: The measure of one run or more, of the same examples.
        drawn: `(resamples,)`, the mean scores of the group, from `resampled`.

    Source: Clopper and Pearson 1934; Brown, Cai and DasGupta 2001, section 4.2.1.
    """
    known = drawn[~np.isnan(drawn)]
    if not len(known) or np.ptp(known) > _EQUAL:
        return interval(drawn)
    if known[0] not in (0.0, 1.0) or not all(one.is_ratio for one in group):
        return math.nan, math.nan
    reach = _unseen(group[0])
    return (0.0, reach) if known[0] == 0.0 else (1.0 - reach, 1.0)


def _unseen(ratio: Measure) -> float:
    """The upper end of the interval of a share of 0 among the examples of a ratio."""
    return 1.0 - math.pow(0.025, 1 / int((ratio.statistics[:, 1] > 0).sum()))


def difference(after: Measure, before: Measure, resamples: int, seed: int = SEED) -> Interval:
    """The change of a score on the same examples, with its paired interval.

    If the resamples show no spread, a share has the interval up to 1 - 0.025^(1/n) on both sides of the change for n
    examples, since rarer changes may not occur in them; other scores have no interval, NaN.
    """
    first, second = resampled([[before], [after]], resamples, seed)
    value, (low, high) = after.score() - before.score(), interval(second - first)
    if high - low <= _EQUAL:
        reach = _unseen(before) if before.is_ratio else math.nan
        low, high = np.clip([value - reach, value + reach], -1.0, 1.0).tolist()
    return Interval(value, low, high)


def interval(scores: Array) -> tuple[float, float]:
    """The 2.5th and 97.5th percentiles of the resamples with a score; NaN if none has one."""
    known = scores[~np.isnan(scores)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


def randomisation_test(first: Measure, second: Measure, trials: int, seed: int) -> float:
    """Two-sided p-value of the difference of two runs on the same examples.

    If the runs were equivalent, their outputs could be exchanged: in every trial, each example's outputs are swapped
    with probability 1/2, and p = (1 + trials whose difference is at least as large) / (1 + trials). p is never 0; its
    smallest value is 1 / (1 + trials).

    Args:
        first: The measure of one run.
        second: The same measure of the other.
        trials: Number of trials.
        seed: Seed of the draws.

    Source: Noreen 1989; Riezler and Maxwell 2005 (W05-0908); the added ones: Phipson and Smyth 2010.
    Differs from sacrebleu's test: a trial with exactly the observed difference counts as at least as large (in
    sacrebleu it does not, so a run differs from its own copy with p = 0.0001). Without such ties, and with the same
    seed, the p-values are the same.
    """
    observed = abs(first.score() - second.score())
    generator = np.random.default_rng(seed)
    extreme = 0
    total = first.statistics.sum(0) + second.statistics.sum(0)
    change = first.statistics - second.statistics
    for block in _blocks(trials, len(first)):
        kept = generator.integers(2, size=(block, len(first)), dtype=bool)  # (block, examples)
        one = second.statistics.sum(0) + kept @ change
        differences = np.abs(first.formula(one) - first.formula(total - one))
        extreme += int(np.sum(differences >= observed - _EQUAL))
    return (extreme + 1) / (trials + 1)


def hierarchical_test(first: Array, second: Array, drawn: Array, seed: int) -> tuple[Interval, float]:
    """The difference of two models, each trained with several seeds, with its 95 % interval and two-sided p-value.

    A hierarchical bootstrap: a resample is the difference on resampled examples, plus a draw of the seeds' deviation

        t * sqrt(s1^2 / k1 + s2^2 / k2)

    with the variances s^2 of the scores of k seeds, and t of Student's distribution with Welch's degrees of freedom.
    p = (1 + resamples as far from the observed difference as this is from 0) / (1 + resamples), so the smallest is
    1 / (1 + resamples) with any number of seeds. Where both models have the same s, and examples hardly matter, p is
    0.05 for a difference of 4.3 s with two seeds each, 2.3 s with three, 1.5 s with five.

    Seeds drawn with replacement, as is usual in a hierarchical bootstrap, give p < 0.05 for equal models too often:
    where s is five times the standard error over examples, in 27 of 100 comparisons of two seeds each (with t in 2), 17
    of three (3), 11 of five (4). Variation of the seeds within examples counts in both terms, so p errs upwards.

    Args:
        first: `(k1,)`, the score of each seed of one model, two or more.
        second: `(k2,)`, of the other.
        drawn: Differences of their means on the same resampled examples, from `resampled`.
        seed: Seed of the draws.

    Source: Davison and Hinkley 1997, section 3.8 (hierarchical data); Welch 1947 (degrees of freedom).
    """
    observed = float(first.mean() - second.mean())
    parts = np.array([first.var(ddof=1) / len(first), second.var(ddof=1) / len(second)])
    spread = math.sqrt(parts.sum())
    deviations = drawn[~np.isnan(drawn)] - observed
    if spread > 0:
        shares = parts / parts.sum()
        freedom = 1 / np.sum(shares**2 / np.array([len(first) - 1, len(second) - 1]))
        deviations = deviations + spread * np.random.default_rng(seed).standard_t(freedom, len(deviations))
    extreme = int(np.sum(np.abs(deviations) >= abs(observed) - _EQUAL))
    return Interval(observed, *interval(observed + deviations)), (extreme + 1) / (len(deviations) + 1)


def _blocks(count: int, examples: int) -> Iterator[int]:
    """Sizes of blocks, which sum to `count`, so that each block of draws fits into memory."""
    largest = max(1, _BLOCK // max(1, examples))
    for start in range(0, count, largest):
        yield min(largest, count - start)


def summarise(outcomes: Outcomes, resamples: int = 1000, by_length: Sequence[str] = ()) -> dict[str, Any]:
    """The report of one test set.

    Args:
        outcomes: Outcomes of a run.
        resamples: Bootstrap resamples for the intervals.
        by_length: Names of measures to report also for ranges of source length.

    Returns:
        "examples"; by name, each measure's value with its interval, and its note as "signature"; the details; and with
        `by_length` the same by range of source length, a list under "by_source_length".
    """
    report = {"examples": len(outcomes.outputs), **shown((*outcomes.measures, *outcomes.further), resamples)}
    report |= outcomes.details
    if by_length:
        report["by_source_length"] = []
        chosen = [outcomes.measure(name) for name in by_length]
        for first, last in length_buckets(outcomes.lengths):
            inside = [i for i, length in enumerate(outcomes.lengths) if first <= length <= last]
            scores = shown([measure.of(inside) for measure in chosen], resamples)
            report["by_source_length"].append({"first": first, "last": last, "examples": len(inside), **scores})
    return report


def shown(measures: Sequence[Measure], resamples: int = 1000) -> dict[str, Any]:
    """By name, value, low and high, if there is an interval, and the measure's note as signature."""
    found = intervals(measures, resamples)
    return {
        measure.name: one.as_values() | ({"signature": measure.note} if measure.note else {})
        for measure, one in zip(measures, found, strict=True)
    }


def score_line(scores: Mapping[str, float]) -> str:
    """Validation scores in one line; micro F1 only if it differs from accuracy (it is equal with one label each)."""
    same = "accuracy" in scores and scores.get("micro_f1") == scores["accuracy"]
    kept = {name: value for name, value in scores.items() if not (same and name == "micro_f1")}
    return ", ".join(f"{name} {value:{'.2g' if 0 < abs(value) < 5e-5 else '.4f'}}" for name, value in kept.items())
