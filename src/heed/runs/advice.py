"""Advice on how long to train: before a run that is too short, and after one that could be longer."""

from __future__ import annotations

import math
from pathlib import Path

from heed.config import TrainingConfig
from heed.errors import counted
from heed.runs.prepare import updates_per_pass
from heed.tasks.work import Work
from heed.training.contracts import TrainResult
from heed.training.plan import USABLE
from heed.training.progress import duration
from heed.visible import shell_word

ENOUGH_PASSES = 30
"""Passes over the data after which a few updates more teach little."""
_MINUTES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 120)
"""Round budgets to propose."""


def enough_updates(task: Work) -> int:
    """Updates that a model needs to be of use: fewer if it starts from another run, or stands beside n-grams."""
    model = task.config.model
    has_start = model.from_ is not None or model.settings.get("ngrams")
    return task.enough_updates // 10 if has_start else task.enough_updates


def before(task: Work, updates: int) -> str:
    """A warning if a run has too few updates for a useful model; else empty."""
    training, passes = task.config.training, updates / updates_per_pass(task)
    enough = enough_updates(task)
    if updates >= enough or passes >= ENOUGH_PASSES:
        return ""
    done = f"only about {counted(updates, 'update')}, {counted(passes, 'pass', 'es')} over the data"
    if training.minutes is None or training.steps is not None:
        return f"warning: {done}; a useful model takes about {enough:,} updates" if updates < 10 else ""
    minutes = round_minutes(training.minutes * enough / updates)
    smaller = "" if task.config.model.size in ("tiny", "scarce") else " or a smaller model (model.size=tiny)"
    return (
        f"warning: {done}, fit into {in_minutes(training.minutes)}; a useful model takes about {enough:,} updates, so "
        f"expect little of this one: give --minutes {minutes}{smaller}"
    )


def before_budget(task: Work, seconds_per_update: float, elapsed: float) -> str:
    """As `before`, for a time budget of which some seconds have passed; empty if `training.steps` is set."""
    training = task.config.training
    if training.steps is not None or training.minutes is None:
        return ""
    return before(task, max(1, int((USABLE * 60 * training.minutes - elapsed) / seconds_per_update)))


def after(training: TrainingConfig, folder: Path, result: TrainResult, seconds: float) -> str:
    """A message with the command to train longer, if that would help, or with the unused part of the budget.

    Args:
        training: How the run was trained.
        folder: The run.
        result: Result of its training.
        seconds: Seconds that the run took.
    """
    p = result.progress
    if training.steps is not None or training.minutes is None:
        return ""
    budget = 60 * training.minutes
    if p.step < (p.total_steps or 0) or p.ending or p.bad:
        left = budget - seconds
        return f"{duration(left)} of the budget remained unused" if left > 0.1 * budget else ""
    minutes = round_minutes(2 * training.minutes)
    return (
        "validation was still improving at the end; to train for "
        f"{counted(minutes, 'minute')} in total: heed train {shell_word(folder)} --resume training.minutes={minutes}"
    )


def how_to_go_on(folder: Path, result: TrainResult, training: TrainingConfig) -> str:
    """A message that a run has finished, with the command to train it longer."""
    steps, minutes = training.steps, training.minutes
    budget = f"training.steps={2 * steps}" if steps is not None else f"training.minutes={2 * (minutes or 1):g}"
    now = counted(steps, "update") if steps is not None else in_minutes(minutes or 0.0)
    return (
        f"'{folder}' has finished ({result.reason}), and no setting was changed; to train it longer than its budget of "
        f"{now}, give a larger one: heed train {shell_word(folder)} --resume {budget}"
    )


def in_minutes(minutes: float) -> str:
    """A time budget, as "1 minute" or "2.5 minutes"."""
    return f"{minutes:g} minute{'s' * (minutes != 1)}"


def round_minutes(minutes: float) -> int:
    """The next round budget that is not smaller."""
    return next((budget for budget in _MINUTES if budget >= minutes), 60 * math.ceil(minutes / 60))
