"""Learning curves: the share of its final score that a model has after a number of updates, measured on other data.

A share is relative to the score of guessing: (score - guess) / (final - guess). The guess is the share of the most
frequent label for accuracy, 0 for F1 and exact match, 10 for chrF (the score of broken text), and for a loss the loss
of the frequencies alone. The curves measured for a task are in its folder (`learning.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from heed.config import RunConfig
from heed.tasks import learning_of


@dataclass(frozen=True)
class Curve:
    """One model on one data set; each point is a separate run that completed its learning-rate schedule.

    `model` is the name that the task's `learner` returns: the model's name, and whatever else changes its pace.
    """

    data: str  # the data set, for people
    model: str
    score: str  # the validation score that selected the weights
    updates_per_pass: int
    shares: Mapping[int, float]  # updates -> share of the final score
    start: float = 0.0  # the share before the first update, if something is fitted before training

    def share(self, updates: float) -> float:
        """The share after some updates, linear in their logarithm between the points."""
        points = [(1, self.start), *sorted(self.shares.items())]
        at = bisect_left([count for count, _ in points], updates)
        if at == 0:
            return self.start
        if at == len(points):
            return points[-1][1]
        (a, low), (b, high) = points[at - 1], points[at]
        return low + (high - low) * math.log(updates / a) / math.log(b / a)


@dataclass(frozen=True)
class Expected:
    """The expected share of the final score: mean, lowest and highest of some curves, and before the first update."""

    mean: float
    low: float
    high: float
    start: float
    curves: int


def curves_of(task: str) -> Sequence[Curve]:
    """The curves measured for a task: `CURVES` in the `learning.py` of its folder; empty without that file."""
    return getattr(learning_of(task), "CURVES", ())


def learner_of(config: RunConfig) -> str | None:
    """The `Curve.model` of the curves that apply to a settled configuration; None if no curves apply.

    A function `learner` in the task's `learning.py` decides; without it, it is the model's name.
    """
    says: Callable[[RunConfig], str | None] | None = getattr(learning_of(config.task), "learner", None)
    return config.model.name if says is None else says(config)


def shares_after(
    curves: Sequence[Curve], model: str | None, score: str, updates_per_pass: int, updates: float
) -> Expected | None:
    """The share of the final score to expect; None if nothing was measured for this model and score.

    The mean is weighted: curves with a similar number of updates in a pass count more.
    """
    chosen = [one for one in curves if (one.model, one.score) == (model, score)]
    if not chosen:
        return None
    weights = [1 / (0.3 + abs(math.log(updates_per_pass / one.updates_per_pass))) for one in chosen]
    shares = [one.share(updates) for one in chosen]
    mean = sum(w * share for w, share in zip(weights, shares, strict=True)) / sum(weights)
    return Expected(mean, min(shares), max(shares), min(one.start for one in chosen), len(chosen))


def updates_for(
    curves: Sequence[Curve], model: str | None, score: str, updates_per_pass: int, share: float
) -> int | None:
    """The number of updates after which a share of the final score is expected, to 5 %; None if it is not reached."""
    updates = 10.0
    while updates < 1e6:
        expected = shares_after(curves, model, score, updates_per_pass, updates)
        if expected is None:
            return None
        if expected.mean >= share:
            return round(updates)
        updates *= 1.05
    return None
