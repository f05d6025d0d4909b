"""The numbers of a comparison, from the outcomes of its runs: whatever the task, whatever the measures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heed.evaluation.measures import Array, Measure, Outcomes, pooled
from heed.evaluation.metrics import length_buckets
from heed.evaluation.significance import interval, randomisation_test, resampled

__all__ = ["Bucket", "Difference", "Resampling", "Result", "Score", "best_of", "results_of"]


@dataclass(frozen=True)
class Resampling:
    """How intervals and p-values are drawn: how often, and with which seed."""

    count: int = 10_000
    seed: int = 1


@dataclass(frozen=True)
class Score:
    """A score over all examples.

    Attributes:
        value: Mean over the runs (seeds) of an entry.
        low: Lower end of the 95 % bootstrap interval over examples; NaN where there is none.
        high: Its upper end.
        runs: The score of each run.
    """

    value: float
    low: float
    high: float
    runs: tuple[float, ...]

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds (n - 1); None with a single run or without scores."""
        return statistics.stdev(self.runs) if len(self.runs) > 1 and not math.isnan(self.value) else None


@dataclass(frozen=True)
class Difference:
    """An entry's score minus another's, paired over examples.

    Attributes:
        other: Which entry.
        value: The difference.
        low: Lower end of its 95 % paired bootstrap interval.
        high: Its upper end.
        p: Two-sided p-value by approximate randomisation.
    """

    other: int
    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Bucket:
    """Examples of like length: source lengths `first` to `last`, and how many there are."""

    first: int
    last: int
    examples: int

    @property
    def label(self) -> str:
        """The range, for people."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class Result:
    """Everything measured on one entry.

    Attributes:
        scores: By measure.
        against: By measure, the differences to the entries it was tested against; without itself.
        by_length: The main measure in each bucket.
    """

    scores: dict[str, Score]
    against: dict[str, tuple[Difference, ...]]
    by_length: tuple[Score, ...]


def results_of(
    outcomes: Sequence[Sequence[Outcomes]], lengths: Sequence[int], baseline: int, resampling: Resampling
) -> tuple[list[Result], list[Bucket]]:
    """Score every entry, and test it against the best one and against the baseline.

    Args:
        outcomes: Per entry the outcomes of its runs; all have the same measures over the same examples.
        lengths: The length of each example.
        baseline: An entry.
        resampling: For intervals and p-values.
    """
    names = [measure.name for measure in outcomes[0][0].measures]
    scores: list[dict[str, Score]] = [{} for _ in outcomes]
    against: list[dict[str, tuple[Difference, ...]]] = [{} for _ in outcomes]
    for name in names:
        groups = [[one.measure(name) for one in runs] for runs in outcomes]
        draws = resampled(groups, resampling.count, resampling.seed)
        for place, (group, drawn) in enumerate(zip(groups, draws, strict=True)):
            scores[place][name] = _score(group, drawn)
        best = best_of(groups[0][0], [scored[name] for scored in scores])
        for place in range(len(groups)):
            others = dict.fromkeys(other for other in (best, baseline) if other not in (place, None))
            found = [_difference(groups, draws, place, other, resampling) for other in others if other is not None]
            against[place][name] = tuple(one for one in found if one is not None)
    buckets, by_length = _by_length([[one.measures[0] for one in runs] for runs in outcomes], lengths, resampling)
    results = [Result(*parts) for parts in zip(scores, against, by_length, strict=True)]
    return results, buckets


def best_of(measure: Measure, scores: Sequence[Score]) -> int | None:
    """The entry with the best score, the first of equal ones; None where no entry has one."""
    sign = 1 if measure.higher_is_better else -1
    known = [i for i, score in enumerate(scores) if not math.isnan(score.value)]
    return max(known, key=lambda i: sign * scores[i].value, default=None)


def _score(group: Sequence[Measure], drawn: Array) -> Score:
    runs = tuple(measure.score() for measure in group)
    return Score(statistics.fmean(runs), *interval(drawn), runs)


def _difference(
    groups: Sequence[Sequence[Measure]], draws: Sequence[Array], place: int, other: int, resampling: Resampling
) -> Difference | None:
    this, that = (statistics.fmean(measure.score() for measure in groups[i]) for i in (place, other))
    if math.isnan(this - that):
        return None
    p = randomisation_test(pooled(groups[place]), pooled(groups[other]), resampling.count, resampling.seed)
    return Difference(other, this - that, *interval(draws[place] - draws[other]), p)


def _by_length(
    groups: Sequence[Sequence[Measure]], lengths: Sequence[int], resampling: Resampling
) -> tuple[list[Bucket], list[tuple[Score, ...]]]:
    buckets, columns = [], []
    for first, last in length_buckets(lengths):
        inside = [i for i, length in enumerate(lengths) if first <= length <= last]
        buckets.append(Bucket(first, last, len(inside)))
        chosen = [[replace(m, statistics=m.statistics[np.array(inside)]) for m in group] for group in groups]
        draws = resampled(chosen, resampling.count, resampling.seed)
        columns.append([_score(group, drawn) for group, drawn in zip(chosen, draws, strict=True)])
    return buckets, [tuple(column[i] for column in columns) for i in range(len(groups))]
