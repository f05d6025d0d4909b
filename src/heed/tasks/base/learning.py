"""Learning curves: how much of its final score a model has after how many updates, measured on other data.

A share is counted from what a guess scores: (score - guess) / (final - guess). The guess is the share of the most
frequent label for accuracy, 0 for F1 and exact match, 10 for chrF (what broken text scores), and for a loss that of
the frequencies alone. Each task's folder brings the curves that were measured for it (`learning.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from heed.config import RunConfig
from heed.tasks import value_in


@dataclass(frozen=True)
class Curve:
    """One model on one set of data, each point a run of its own whose learning rate came to its end.

    `model` is what the task's `learner` calls it: the model's name, and what else makes it learn at another pace.
    """

    data: str  # what it was measured on, for people
    model: str
    score: str  # the validation score it was selected by
    updates_per_pass: int
    shares: Mapping[int, float]  # updates -> share of the final score
    start: float = 0.0  # the share before the first update, where something is fitted before training

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


def curves_of(task: str) -> Sequence[Curve]:
    """What was measured for a task: `CURVES` in the file `learning.py` of its folder, nothing without that file."""
    curves: Sequence[Curve] | None = value_in(task, "learning", "CURVES")
    return curves or ()


def learner_of(config: RunConfig) -> str | None:
    """Which curves of its task apply to a settled configuration: those of this model; None where none do.

    The task's `learning.py` says so in a function `learner`; without it, the model's name does.
    """
    if not curves_of(config.task):
        return None
    says: Callable[[RunConfig], str | None] | None = value_in(config.task, "learning", "learner")
    return config.model.name if says is None else says(config)


def share_after(
    curves: Sequence[Curve], model: str | None, score: str, updates_per_pass: int, updates: float
) -> float | None:
    """The share of the final score to expect; None where nothing was measured for this model and score.

    Of several curves the mean is taken, in which those count more that were measured with about as many updates in a
    pass.
    """
    chosen = [one for one in curves if (one.model, one.score) == (model, score)]
    if not chosen:
        return None
    weights = [1 / (0.3 + abs(math.log(updates_per_pass / one.updates_per_pass))) for one in chosen]
    shares = [one.share(updates) for one in chosen]
    return sum(w * share for w, share in zip(weights, shares, strict=True)) / sum(weights)


def updates_for(
    curves: Sequence[Curve], model: str | None, score: str, updates_per_pass: int, share: float
) -> int | None:
    """The updates after which a share of the final score is to be expected, to 5 %; None where no curve says so."""
    updates = 10.0
    while updates < 1e6:
        expected = share_after(curves, model, score, updates_per_pass, updates)
        if expected is None:
            return None
        if expected >= share:
            return round(updates)
        updates *= 1.05
    return None
