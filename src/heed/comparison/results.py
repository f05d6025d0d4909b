"""The numbers of a comparison, computed from the outcomes of its runs, for any task and measures; and as text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heed.evaluation.measures import Array, Measure, Outcomes, length_buckets
from heed.evaluation.significance import (
    ends,
    hierarchical_test,
    interval,
    randomisation_test,
    resampled,
    score_interval,
)


@dataclass(frozen=True)
class Resampling:
    """Number and seed of the resamples for intervals and p-values."""

    count: int  # resamples of the intervals
    trials: int  # of the tests
    seed: int  # of both


@dataclass(frozen=True)
class Score:
    """A score over all examples."""

    value: float  # mean over the runs (seeds) of an entry
    low: float  # lower end of the 95 % interval over examples; NaN if there is none
    high: float  # its upper end
    runs: tuple[float, ...]  # the score of each run

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds (n - 1); None with a single run or without scores."""
        return statistics.stdev(self.runs) if len(self.runs) > 1 and not math.isnan(self.value) else None


@dataclass(frozen=True)
class Difference:
    """An entry's score minus another's, paired over examples.

    If some entries have several seeds, interval and p-value are over seeds and examples; NaN for an entry with one.
    """

    other: int  # number of the other entry
    value: float  # the difference
    low: float  # lower end of its 95 % bootstrap interval
    high: float  # its upper end
    p: float  # two-sided p-value


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
    by_length: tuple[Score, ...] = ()  # the main measure in each bucket


def results_of(
    outcomes: Sequence[Sequence[Outcomes]],
    lengths: Sequence[int],
    baseline: int | None,
    resampling: Resampling,
    untested: frozenset[int] = frozenset(),
    has_seeds: bool = False,
) -> tuple[list[Result], list[Bucket]]:
    """Score every entry, and test it against the best one and against the baseline.

    Args:
        outcomes: Those of each entry's runs; all have the same measures over the same examples.
        lengths: Of the examples, to score them by length as well; empty for no such scores.
        baseline: Number of an entry, or None.
        resampling: How to resample.
        untested: Numbers of entries that are in no test and never the best.
        has_seeds: True to test over seeds and examples, and no entry with one seed.
    """
    names = [measure.name for measure in outcomes[0][0].measures]
    groups = {name: [[one.measure(name) for one in runs] for runs in outcomes] for name in names}

    def draw(count: int) -> dict[str, list[Array]]:
        """Resampled scores of every entry by measure, with the same draws for all of them."""
        draws = iter(resampled([group for name in names for group in groups[name]], count, resampling.seed))
        return {name: [next(draws) for _ in outcomes] for name in names}

    drawn = draw(resampling.count)
    tested = draw(resampling.trials) if has_seeds else drawn
    scores = [{name: _score(groups[name][i], drawn[name][i]) for name in names} for i in range(len(outcomes))]
    against: list[dict[str, tuple[Difference, ...]]] = [{} for _ in outcomes]
    for name in names:
        best = best_of(groups[name][0][0], [scored[name] for scored in scores], untested)
        for place in range(len(outcomes)):
            named = dict.fromkeys(other for other in (best, baseline) if other is not None and other != place)
            others = [other for other in named if untested.isdisjoint((place, other))]
            found = (_difference(groups[name], tested[name], place, other, resampling, has_seeds) for other in others)
            against[place][name] = tuple(one for one in found if one is not None)
    buckets, by_length = _by_length(groups[names[0]], lengths, resampling)
    return [Result(*parts) for parts in zip(scores, against, by_length, strict=True)], buckets


def best_of(measure: Measure, scores: Sequence[Score], untested: frozenset[int] = frozenset()) -> int | None:
    """The entry with the best score, the first of equal ones; None if no entry that may be the best has a score."""
    sign = 1 if measure.higher_is_better else -1
    known = [i for i, score in enumerate(scores) if not math.isnan(score.value) and i not in untested]
    return max(known, key=lambda i: sign * scores[i].value, default=None)


def _score(group: Sequence[Measure], drawn: Array) -> Score:
    runs = tuple(measure.score() for measure in group)
    return Score(statistics.fmean(runs), *score_interval(group, drawn), runs)


def _difference(
    groups: Sequence[Sequence[Measure]],
    draws: Sequence[Array],
    place: int,
    other: int,
    resampling: Resampling,
    has_seeds: bool,
) -> Difference | None:
    this, that = (np.array([measure.score() for measure in groups[i]]) for i in (place, other))
    value, drawn = float(this.mean() - that.mean()), draws[place] - draws[other]
    if math.isnan(value):
        return None
    if min(len(this), len(that)) > 1:
        found, p = hierarchical_test(this, that, drawn, resampling.seed)
        return Difference(other, found.value, found.low, found.high, p)
    if has_seeds:
        return Difference(other, value, math.nan, math.nan, math.nan)
    p = randomisation_test(groups[place][0], groups[other][0], resampling.trials, resampling.seed)
    return Difference(other, value, *interval(drawn), p)


def _by_length(
    groups: Sequence[Sequence[Measure]], lengths: Sequence[int], resampling: Resampling
) -> tuple[list[Bucket], list[tuple[Score, ...]]]:
    buckets, columns = [], []
    for first, last in length_buckets(lengths):
        inside = [i for i, length in enumerate(lengths) if first <= length <= last]
        buckets.append(Bucket(first, last, len(inside)))
        chosen = [[measure.of(inside) for measure in group] for group in groups]
        draws = resampled(chosen, resampling.count, resampling.seed)
        columns.append([_score(group, drawn) for group, drawn in zip(chosen, draws, strict=True)])
    return buckets, [tuple(column[i] for column in columns) for i in range(len(groups))]


def best_first(measure: Measure) -> str:
    """The head of a column in a paper: the measure with its unit, and an arrow towards better scores."""
    return f"{measure.label}{' %' * measure.is_share} {'↑' if measure.higher_is_better else '↓'}"


def head_of(measure: Measure) -> str:
    """The head of a column of scores: the measure with its unit."""
    unit = " %" if measure.is_share else ""
    return f"{measure.label}{unit}" + ("" if measure.higher_is_better else " (lower is better)")


def score_text(score: Score, measure: Measure) -> str:
    """A score with its spread over seeds and its interval; "-" if there is none."""
    if math.isnan(score.value):
        return "-"
    scale = 100 if measure.is_share else 1
    form = f".{measure.digits}f"
    spread = "" if score.deviation is None else f" sd {scale * score.deviation:{form}}"
    return f"{scale * score.value:{form}}{spread} [{ends(vars(score), form, scale)}]"


def deviation_text(score: Score, measure: Measure) -> str:
    """A score and its standard deviation over seeds, if it has several; "-" if there is none."""
    if math.isnan(score.value):
        return "-"
    scale = 100 if measure.is_share else 1
    spread = "" if score.deviation is None else f" ± {scale * score.deviation:.{measure.digits}f}"
    return f"{scale * score.value:.{measure.digits}f}{spread}"


def difference_text(difference: Difference, measure: Measure, resampling: Resampling) -> str:
    """A difference with its interval and its p-value."""
    scale = 100 if measure.is_share else 1
    numbers = (difference.low, difference.value, difference.high)
    low, value, high = (f"{scale * number:+z.{measure.digits}f}" for number in numbers)
    if math.isnan(difference.p):
        return f"{value} (one seed)"
    return f"{value} [{low}, {high}] p {p_text(difference.p, resampling.trials)}"


def p_text(p: float, trials: int) -> str:
    """A p-value with the precision that the number of trials allows; never 0."""
    if p * (trials + 1) < 1.5:  # no trial was as extreme
        return f"< {1 / trials:.2g}" if trials < 1000 else f"< {1 / trials:g}"
    return f"{p:.{min(4, max(2, len(str(trials)) - 1))}f}"


def intervals_note(drawn: Resampling) -> str:
    """A note on intervals."""
    return (
        f"Intervals: 95 %, percentile bootstrap over the examples ({drawn.count:,} resamples, seed {drawn.seed}), for "
        "shares of 0 and 100 % Clopper and Pearson's; they cover the choice of test examples, not the variation "
        "between training runs."
    )


def test_note(drawn: Resampling, has_seeds: bool) -> str:
    """A note on differences, their intervals and p-values."""
    if has_seeds:
        return (
            "Differences: the row minus the other, with 95 % interval and two-sided p over seeds and examples by a "
            f"hierarchical bootstrap ({drawn.trials:,} resamples, seed {drawn.seed}): examples are resampled for all "
            "rows together, and the deviation of the seeds is drawn from Student's distribution (Welch's degrees of "
            "freedom); p is not corrected for the number of comparisons. A row with one seed is not tested."
        )
    return (
        "Differences: the row minus the other, with its 95 % interval by paired bootstrap resampling (Koehn 2004; "
        f"{drawn.count:,} resamples); p by paired approximate randomisation, two-sided (Riezler and Maxwell 2005; "
        f"{drawn.trials:,} trials, seed {drawn.seed}), not corrected for the number of comparisons. Both are over "
        "examples only: another seed may reverse a difference; --seeds 3 (in Python seeds=3) includes seeds."
    )
