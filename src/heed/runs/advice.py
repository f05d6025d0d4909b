"""Advice on the time budget: the score to expect before training, the command to train longer after it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from heed.runs.epochs import updates_per_pass
from heed.tasks.base.learning import Expected, curves_of, learner_of, shares_after, updates_for
from heed.tasks.base.task import Task
from heed.training.contracts import TrainResult
from heed.training.progress import duration
from heed.visible import shell_word

_LITTLE, _GOOD = 0.5, 0.8
"""Share of the final score below which a warning is given, and the share that the proposed budget should reach."""
_TRAINING = 0.85
"""Approximate share of a budget that is left for updates."""
_MARGIN = 0.2
"""Approximate distance of other data from the curves (benchmarks/NOTES.md, What a budget gives, predicted)."""
_MINUTES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 120)
"""Round budgets to propose."""


class Adviser:
    """Predictions for a run from its task, model and data.

    Attributes:
        updates_per_pass: Updates of one pass over the training data.
    """

    def __init__(self, task: Task[Any, Any]) -> None:
        self._config = config = task.config
        self._curves = (
            curves_of(config.task) if config.model.from_ is None else ()
        )  # no curves for a run that starts from trained weights
        self._learner = learner_of(config)
        self.updates_per_pass = updates_per_pass(task)

    def expected(self, updates: float) -> Expected | None:
        """The share of the model's final score to expect after some updates; None without curves for the task."""
        select_by = self._config.evaluation.select_by
        return shares_after(self._curves, self._learner, select_by, self.updates_per_pass, max(1.0, updates))

    def minutes_for(self, share: float, seconds_per_update: float, other_seconds: float) -> int | None:
        """The budget that reaches a share of the final score; `other_seconds`: time for everything but updates."""
        config = self._config
        updates = updates_for(self._curves, self._learner, config.evaluation.select_by, self.updates_per_pass, share)
        return None if updates is None else round_minutes((updates * seconds_per_update + other_seconds) / 60)

    def before(self, updates: int, seconds_per_update: float, seconds: float) -> str:
        """A message about the score to expect of a run with these updates and seconds; empty without curves."""
        share = self.expected(updates)
        passes = updates / self.updates_per_pass
        is_few = updates < 10
        done = (
            f"{'only ' if is_few else ''}about {count(updates, 'update')}, {count(passes, 'pass', 'es')} over the data"
        )
        if share is None:
            return f"warning: {done}: too few to learn much; give more --minutes" if is_few and passes < 1 else ""
        if share.start >= 0.95 and passes < 1:
            return f"{done}: the n-grams, already fitted, usually give most of the final score"
        if share.low >= 0.95:
            return f"{done}: as much as this model usually needs for its final score"
        expected = f"expect {_range(share)} of the way from guessing to this model's final score"
        if share.mean >= _LITTLE:
            return f"{done}: {expected}"
        minutes = self.minutes_for(_GOOD, seconds_per_update, max(0.0, seconds - updates * seconds_per_update))
        more = "" if minutes is None else f"; {_GOOD:.0%} takes about {count(minutes, 'minute')} (--minutes {minutes})"
        return f"warning: {done}: {expected}{more}".replace("80%", "80 %")

    def before_budget(self, seconds_per_update: float, elapsed: float) -> str:
        """As `before`, for a time budget of which some seconds have passed; empty if `training.steps` is set."""
        training = self._config.training
        if training.steps is not None or training.minutes is None:
            return ""
        seconds = 60 * training.minutes
        updates = max(1, int((_TRAINING * seconds - elapsed) / seconds_per_update))
        return self.before(updates, seconds_per_update, seconds)

    def after(self, folder: Path, result: TrainResult, seconds: float) -> str:
        """A message with the command to train longer, if that would help, or with the unused part of the budget.

        Args:
            folder: The run.
            result: Result of its training.
            seconds: Seconds that the run took.
        """
        training, p = self._config.training, result.progress
        if training.steps is not None or training.minutes is None:
            return ""
        budget = 60 * training.minutes
        if p.step < (p.total_steps or 0) or p.ending or p.bad:
            left = budget - seconds
            return f"{duration(left)} of the budget remained unused" if left > 0.1 * budget else ""
        share = self.expected(p.step)
        if share is not None and share.mean >= 0.9:
            return ""
        pace = p.training_seconds / max(1, p.step)
        minutes = self.minutes_for(0.95, pace, max(0.0, seconds - p.training_seconds))
        if minutes is None or minutes <= training.minutes:
            minutes = round_minutes(2 * training.minutes)
        return (
            "validation was still improving at the end; to train for "
            f"{count(minutes, 'minute')} in total: heed train {shell_word(folder)} --resume training.minutes={minutes}"
        )


def _range(share: Expected) -> str:
    """The range of percentages measured, widened by a margin, in steps of 5."""
    low, high = max(share.start, share.low - _MARGIN), min(1.0, share.high + _MARGIN)
    only = ", from one data set," if share.curves == 1 else ""
    return f"roughly {round(20 * low) * 5} to {round(20 * high) * 5} %{only}"


def round_minutes(minutes: float) -> int:
    """The next round budget that is not smaller."""
    return next((one for one in _MINUTES if one >= minutes), 60 * math.ceil(minutes / 60))


def count(number: float, noun: str, ending: str = "s") -> str:
    """A number with its noun, as "1 pass", "2.5 passes" or "1,200 updates"."""
    text = f"{number:,}" if isinstance(number, int) else f"{number:.1f}"
    return f"{text} {noun}{'' if text in ('1', '1.0') else ending}"
