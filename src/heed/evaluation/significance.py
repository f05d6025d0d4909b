"""Bootstrap intervals, reports with them, and significance tests: is a run better, or is it the choice of examples?

Intervals are from the bootstrap over examples, or Clopper and Pearson's for shares of 0 and 1; differences from
resampling both runs' outputs for the same examples together; p-values of two runs from approximate randomisation;
intervals and p-values of several seeds from the spread of the seeds and the bootstrap. All use only the statistics of a
`Measure`, so they suit any task.

This is the only bootstrap in heed: for the same outputs, number of resamples and seed, a measure has the same interval
to the last digit in every report.

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
    return [Interval(m.score(), *score_interval([m], drawn)) for m, drawn in zip(measures, draws, strict=True)]


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
    valid = drawn[~np.isnan(drawn)]
    if not len(valid) or np.ptp(valid) > _EQUAL:
        return interval(drawn)
    if valid[0] not in (0.0, 1.0) or not all(measure.is_ratio for measure in group):
        return math.nan, math.nan
    reach = _unseen(group[0])
    return (0.0, reach) if valid[0] == 0.0 else (1.0 - reach, 1.0)


def _unseen(ratio: Measure) -> float:
    """The upper end of the interval of a share of 0 among the examples of a ratio."""
    return 1.0 - math.pow(0.025, 1 / int((ratio.statistics[:, 1] > 0).sum()))


def difference(after: Measure, before: Measure, resamples: int, seed: int = SEED) -> Interval:
    """The change of a score on the same examples, with its paired interval as of `difference_of`."""
    first, second = resampled([[before], [after]], resamples, seed)
    return difference_of(before, after.score() - before.score(), second - first)


def difference_of(measure: Measure, value: float, drawn: Array) -> Interval:
    """The difference of a measure between runs, with its interval from differences on the same resampled examples.

    If the resamples show no spread, a share has the interval up to 1 - 0.025^(1/n) on both sides of the change for n
    examples, since rarer changes may not occur in them; other scores have no interval, NaN.
    """
    low, high = interval(drawn)
    if high - low <= _EQUAL:
        reach = _unseen(measure) if measure.is_ratio else math.nan
        low, high = np.clip([value - reach, value + reach], -1.0, 1.0).tolist()
    return Interval(value, low, high)


def interval(scores: Array) -> tuple[float, float]:
    """The 2.5th and 97.5th percentiles of the resamples with a score; NaN if none has one."""
    valid = scores[~np.isnan(scores)]
    if not len(valid):
        return math.nan, math.nan
    low, high = np.quantile(valid, [0.025, 0.975])
    return float(low), float(high)


def randomisation_test(first: Measure, others: Sequence[Measure], trials: int, seed: int) -> Array:
    """Two-sided p-values of the differences of runs from another on the same examples, not corrected.

    If two runs were equivalent, their outputs could be exchanged: in every trial, each example's outputs are swapped
    with probability 1/2, and p = (1 + trials whose difference is at least as large) / (1 + trials). p is never 0; its
    smallest value is 1 / (1 + trials). A trial without a score counts as at least as large. The trials of a run end
    early once its p is certainly above 0.05.

    Args:
        first: The measure of one run.
        others: The same measure of each of the others, `(runs,)`.
        trials: Number of trials; all runs have the same swaps.
        seed: Seed of the draws.

    Source: Noreen 1989; Riezler and Maxwell 2005 (W05-0908); the added ones: Phipson and Smyth 2010.
    Differs from sacrebleu's test: a trial with exactly the observed difference counts as at least as large (in
    sacrebleu it does not, so a run differs from its own copy with p = 0.0001). Without such ties, and with the same
    seed, the p-values are the same.
    """
    generator = np.random.default_rng(seed)
    extreme, tried = np.zeros((2, len(others)))
    for block in _blocks(trials, max(len(first), _BLOCK // 1_000)):
        unswapped = generator.integers(2, size=(block, len(first)), dtype=bool).astype(np.float64)  # (block, examples)
        for i, other in enumerate(others):
            if extreme[i] > 0.05 * (trials + 1):
                continue
            swapped = other.statistics.sum(0) + unswapped @ (first.statistics - other.statistics)
            total = first.statistics.sum(0) + other.statistics.sum(0)
            differences = np.abs(first.formula(swapped) - first.formula(total - swapped))
            extreme[i] += np.sum(~(differences < abs(first.score() - other.score()) - _EQUAL))
            tried[i] += block
    return (extreme + 1) / (tried + 1)


def holm(p: Array) -> Array:
    """P-values corrected for their number, `(tests,)`, in the same order.

    The i-th smallest of m is multiplied by m + 1 - i. If there is no effect anywhere, one of them is at most 0.05 in at
    most 5 % of such tables, however the tests are related.

    Source: Holm 1979, Scandinavian Journal of Statistics 6 (2).
    """
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected


def over_seeds(models: Sequence[Array], drawn: Sequence[Array], is_share: bool = False) -> tuple[Interval, float]:
    """The mean score of a model over its seeds, or the difference of two such models, over seeds and examples.

    Two parts vary: the mean over other seeds with variance s = sum of s_i^2 / k_i, from the scores of k_i seeds, which
    has Student's distribution with Welch's degrees of freedom; and what all seeds of a model share over other examples,
    with variance e, nearly normal. With their quantiles t and z, the interval is

        value +- (s t + e z) / sqrt(s + e)

    and p (two-sided, not corrected) is the mean of both distributions' tails at value / sqrt(s + e), with weights s and
    e. The variance of the resamples is e and a part of each seed's own, which s has already, so it is subtracted.

    For normal scores and any ratio of s and e, the interval of a model covered 94.9 to 97.2 % in simulations with three
    to ten seeds, 93.9 to 97.8 % with two. If s is much larger than e and the same for both models, p is 0.05 for a
    difference of 4.3 deviations of a seed with two seeds each, 2.3 with three, 1.5 with five.

    Args:
        models: `(k_i,)` for each model, one or two: the score of each seed, two or more.
        drawn: `(k_i, resamples)`: their scores on the same resampled examples, from `resampled`.
        is_share: True to keep the interval within the range of a share.

    Returns:
        The interval, and p; if nothing varies, no interval, NaN, and p is 1 for equal scores, else 1 / (1 + resamples).

    Source: Cochran and Cox 1950, Experimental Designs (the weights); Welch 1947 (degrees of freedom).
    """
    from scipy.special import ndtr, ndtri, stdtr, stdtrit  # slow to import

    value, *minus = (float(scores.mean()) for scores in models)
    value -= sum(minus)
    parts = np.array([scores.var(ddof=1) / len(scores) for scores in models])
    valid = ~np.isnan(np.concatenate(drawn)).any(0)
    each = [scores[:, valid] for scores in drawn]
    mean, *less = (scores.mean(0) for scores in each)
    within = sum((scores - scores.mean(0)).var(1).sum() / (len(scores) * (len(scores) - 1)) for scores in each)
    seeds, examples = parts.sum(), max(0.0, np.var(mean - sum(less)) - within)
    if not seeds + examples > 0:
        return Interval(value, math.nan, math.nan), 1.0 if abs(value) <= _EQUAL else 1 / (1 + valid.sum())
    freedom = parts.sum() ** 2 / np.sum(parts**2 / [len(scores) - 1 for scores in models]) if seeds > 0 else np.inf
    weights, deviation = np.array([seeds, examples]) / (seeds + examples), math.sqrt(seeds + examples)
    reach = deviation * float(weights @ [stdtrit(freedom, 0.975), ndtri(0.975)])
    tails = stdtr(freedom, -abs(value) / deviation), ndtr(-abs(value) / deviation)
    ends = np.array([value - reach, value + reach])
    low, high = np.clip(ends, 1 - len(models), 1) if is_share else ends
    return Interval(value, float(low), float(high)), float(2 * weights @ tails)


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
    if outcomes.report is not None:
        return outcomes.report(resamples)
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
    values = intervals(measures, resamples)
    return {
        measure.name: value.as_values() | ({"signature": measure.note} if measure.note else {})
        for measure, value in zip(measures, values, strict=True)
    }


def score_line(scores: Mapping[str, float]) -> str:
    """Validation scores in one line; micro F1 only if it differs from accuracy (it is equal with one label each)."""
    same = "accuracy" in scores and scores.get("micro_f1") == scores["accuracy"]
    selected = {name: value for name, value in scores.items() if not (same and name == "micro_f1")}
    return ", ".join(f"{name} {value:{'.2g' if 0 < abs(value) < 5e-5 else '.4f'}}" for name, value in selected.items())
