"""The numbers of a comparison, computed from the outcomes of its runs, for any task and measures; and as text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations

import numpy as np

from heed.evaluation.measures import Array, Measure, Outcomes, length_buckets
from heed.evaluation.significance import difference_of, holm, over_seeds, resampled, score_interval


@dataclass(frozen=True)
class Resampling:
    """Number and seed of the resamples for intervals and p-values."""

    count: int
    seed: int


@dataclass(frozen=True)
class Score:
    """A score over all examples."""

    value: float  # mean over the runs (seeds) of an entry
    low: float  # lower end of the 95 % interval, over seeds and examples if there are seeds; NaN if there is none
    high: float  # its upper end
    runs: tuple[float, ...]  # the score of each run

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds (n - 1); None with a single run or without scores."""
        return statistics.stdev(self.runs) if len(self.runs) > 1 and not math.isnan(self.value) else None


@dataclass(frozen=True)
class Difference:
    """An entry's score minus another's, paired over examples.

    If both have several seeds, interval and p-value are over seeds and examples; else the interval is over examples.
    """

    other: int  # number of the other entry
    value: float  # the difference
    low: float  # lower end of its 95 % interval, which is not corrected
    high: float  # its upper end
    p: float  # two-sided, after Holm's correction for all pairs of entries; NaN if one of the two has one seed


@dataclass(frozen=True)
class Bucket:
    """Examples of similar length: source lengths `first` to `last`, and the number of examples."""

    first: int
    last: int
    examples: int

    @property
    def label(self) -> str:
        """The range as text."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class Result:
    """Everything measured on one entry."""

    scores: dict[str, Score]  # by measure
    # by measure, the differences to the entries it was tested against; without itself
    against: dict[str, tuple[Difference, ...]]
    by_length: list[Score] = field(default_factory=list)  # the main measure in each bucket


def results_of(
    outcomes: Mapping[int, Sequence[Outcomes]],
    lengths: Sequence[int],
    baseline: int | None,
    resampling: Resampling,
    untested: Collection[int] = (),
) -> tuple[dict[int, Result], list[Bucket]]:
    """Score every entry, and test it against the best one and against the baseline.

    The best is chosen by its score, so p is corrected for all pairs of entries.

    Args:
        outcomes: Those of each entry's runs, by its number; all have the same measures over the same examples.
        lengths: Of the examples, to score them by length as well; empty for no such scores.
        baseline: Number of an entry, or None.
        resampling: How to resample.
        untested: Numbers of entries that are in no test and never the best.
    """
    names = [measure.name for measure in next(iter(outcomes.values()))[0].measures]
    groups = {name: {i: [outcome.measure(name) for outcome in runs] for i, runs in outcomes.items()} for name in names}
    results: dict[int, Result] = {i: Result({}, {}) for i in outcomes}
    for name, group in groups.items():
        drawn = _drawn(group, resampling)
        scores = {i: _score(group[i], drawn[i]) for i in group}
        scored = {i: score for i, score in scores.items() if not math.isnan(score.value) and i not in untested}
        against = dict.fromkeys((best_of(next(iter(group.values()))[0], scored), baseline))
        tested = _differences(group, drawn, [*scored])
        for i, result in results.items():
            result.scores[name] = scores[i]
            result.against[name] = tuple(tested[i, other] for other in against if (i, other) in tested)
    buckets = length_buckets(lengths)
    for first, last in buckets:
        inside = [i for i, length in enumerate(lengths) if first <= length <= last]
        chosen = {i: [measure.of(inside) for measure in group] for i, group in groups[names[0]].items()}
        drawn = _drawn(chosen, resampling)
        for i, result in results.items():
            result.by_length.append(_score(chosen[i], drawn[i]))
    return results, [Bucket(a, b, sum(a <= length <= b for length in lengths)) for a, b in buckets]


def best_of(measure: Measure, scores: Mapping[int, Score]) -> int | None:
    """The number of the best score, the first of equal ones; None if there is none."""
    sign = 1 if measure.higher_is_better else -1
    scored = [i for i, score in scores.items() if not math.isnan(score.value)]
    return max(scored, key=lambda i: sign * scores[i].value, default=None)


def _drawn(groups: Mapping[int, Sequence[Measure]], resampling: Resampling) -> dict[int, Array]:
    """Resampled scores of the runs of each group, `(seeds, resamples)`, on the same examples for all of them."""
    runs = [[run] for group in groups.values() for run in group]
    draws = iter(resampled(runs, resampling.count, resampling.seed))
    return {i: np.stack([next(draws) for _ in group]) for i, group in groups.items()}


def _score(group: Sequence[Measure], drawn: Array) -> Score:
    runs = np.array([measure.score() for measure in group])
    if len(set(runs)) > 1 and not np.isnan(runs).any():
        both, _ = over_seeds([runs], [drawn], group[0].is_share)
        ends = both.low, both.high
    else:
        ends = score_interval(group, drawn.mean(0))
    return Score(statistics.fmean(runs), *ends, tuple(runs.tolist()))


def _differences(
    groups: Mapping[int, Sequence[Measure]], drawn: Mapping[int, Array], entries: Sequence[int]
) -> dict[tuple[int, int | None], Difference]:
    """The difference of every pair of entries, both ways."""
    by_pair: dict[tuple[int, int | None], Difference] = {}
    for pair in permutations(entries, 2):
        measure = groups[pair[0]][0]
        scores, draws = [np.array([run.score() for run in groups[i]]) for i in pair], [drawn[i] for i in pair]
        value, p = float(scores[0].mean() - scores[1].mean()), math.nan
        shown = difference_of(measure, value, draws[0].mean(0) - draws[1].mean(0))
        if min(map(len, scores)) > 1:
            both, p = over_seeds(scores, draws, measure.is_share)
            shown = shown if math.isnan(both.low) else both
        by_pair[pair] = Difference(pair[1], value, shown.low, shown.high, p)
    tested = [pair for pair in combinations(entries, 2) if not math.isnan(by_pair[pair].p)]
    for (i, j), p in zip(tested, holm(np.array([by_pair[pair].p for pair in tested])).tolist(), strict=True):
        by_pair |= {pair: replace(by_pair[pair], p=p) for pair in ((i, j), (j, i))}
    return by_pair


def best_first(measure: Measure) -> str:
    """The head of a column in a paper: the measure with its unit, and an arrow towards better scores."""
    return f"{measure.label}{' %' * measure.is_share} {'↑' if measure.higher_is_better else '↓'}"


def head_of(measure: Measure) -> str:
    """The head of a column of scores: the measure with its unit."""
    return f"{measure.label}{' %' * measure.is_share}{' (lower is better)' * (not measure.higher_is_better)}"


def score_text(score: Score, measure: Measure) -> str:
    """A score with its spread over seeds and its interval; "-" if there is none."""
    shown = deviation_text(score, measure, "sd")
    return shown if shown == "-" else f"{shown} {interval_text(score, measure)}"


def interval_text(score: Score, measure: Measure) -> str:
    """The interval of a score, "[0.1, 0.3]"; "-" if there is no score."""
    return "-" if math.isnan(score.value) else measure.ends(score.low, score.high)


def deviation_text(score: Score, measure: Measure, deviation: str = "±") -> str:
    """A score and its standard deviation over seeds, if it has several; "-" if there is none."""
    if math.isnan(score.value):
        return "-"
    spread = "" if score.deviation is None else f" {deviation} {measure.text(score.deviation)}"
    return measure.text(score.value) + spread


def difference_text(difference: Difference, measure: Measure, has_seeds: bool) -> str:
    """A difference with its interval, and its p-value or, in a table with seeds, why it has none."""
    tested = " (one seed)" * has_seeds if math.isnan(difference.p) else f" p {p_text(difference.p)}"
    ends = measure.ends(difference.low, difference.high, "+z")
    return f"{measure.text(difference.value, '+z')} {ends}{tested}"


def p_text(p: float) -> str:
    """A p-value; never 0."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def intervals_note(drawn: Resampling, has_seeds: bool) -> str:
    """A note on intervals."""
    bootstrap = f"percentile bootstrap over the examples ({drawn.count:,} resamples, seed {drawn.seed}), for "
    bootstrap += "shares of 0 and 100 % Clopper and Pearson's"
    if has_seeds:
        return (
            "Intervals: 95 %, over seeds and examples together: Student's distribution for the seeds and the bootstrap "
            f"for the examples, joined as in Cochran and Cox (1950); of one seed or equal seeds {bootstrap}."
        )
    covers = "they cover the choice of test examples, not the variation between training runs"
    return f"Intervals: 95 %, {bootstrap}; {covers}."


def test_note(drawn: Resampling, seeds: set[int]) -> str:
    """A note on differences, their intervals and p-values, for rows with these numbers of seeds."""
    if seeds != {1}:
        alone = (
            " Differences of a row with one seed have no p, and an interval over the examples only: another seed of "
            "the same model may differ by more."
        )
        return (
            "Differences: the row minus the other, with its 95 % interval over seeds and examples and two-sided p "
            "(Welch 1947; Cochran and Cox 1950). p is corrected by Holm's method for all pairs of rows of a column, as "
            "the best is chosen by its score, not for the number of columns; intervals are not corrected."
        ) + alone * (1 in seeds)
    return (
        "Differences: the row minus the other, with its 95 % interval by paired bootstrap over the examples (Koehn "
        f"2004; {drawn.count:,} resamples, seed {drawn.seed}), and no p. Each row has one seed: another seed of the "
        "same model may differ by more; --seeds 3 (in Python seeds=3) includes seeds."
    )
