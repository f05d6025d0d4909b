"""Advice on the time budget, and the forecast that `--dry-run` prints."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch

from heed.config import RunConfig, TrainingConfig
from heed.runs.prepare import model_to_train, settle_epochs, updates_per_pass
from heed.tasks import task_class
from heed.tasks.base.task import Task, settings_text
from heed.training.budget import VALIDATIONS
from heed.training.checkpoint import Progress
from heed.training.contracts import TrainResult
from heed.training.device import peak_memory
from heed.training.loop import Trainer
from heed.training.progress import Quiet, duration
from heed.visible import shell_word

_TRAINING = 0.85
"""Approximate share of a budget that is left for updates."""
_MINUTES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 120)
"""Round budgets to propose."""


def before(task: Task[Any, Any], updates: int) -> str:
    """A warning if a run has too few updates to learn much; else empty."""
    passes = updates / updates_per_pass(task)
    if updates >= 10 or passes >= 1:
        return ""
    done = f"only about {count(updates, 'update')}, {count(passes, 'pass', 'es')} over the data"
    return f"warning: {done}: too few to learn much; give more --minutes"


def before_budget(task: Task[Any, Any], seconds_per_update: float, elapsed: float) -> str:
    """As `before`, for a time budget of which some seconds have passed; empty if `training.steps` is set."""
    training = task.config.training
    if training.steps is not None or training.minutes is None:
        return ""
    return before(task, max(1, int((_TRAINING * 60 * training.minutes - elapsed) / seconds_per_update)))


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
        f"{count(minutes, 'minute')} in total: heed train {shell_word(folder)} --resume training.minutes={minutes}"
    )


def round_minutes(minutes: float) -> int:
    """The next round budget that is not smaller."""
    return next((one for one in _MINUTES if one >= minutes), 60 * math.ceil(minutes / 60))


def count(number: float, noun: str, ending: str = "s") -> str:
    """A number with its noun, as "1 pass", "2.5 passes" or "1,200 updates"."""
    text = f"{number:,}" if isinstance(number, int) else f"{number:.1f}"
    return f"{text} {noun}{'' if text in ('1', '1.0') else ending}"


def forecast(config: RunConfig, whole: bool = False) -> str:
    """Settings (all of them if `whole`), counts, and predicted time and memory; nothing is written.

    Time and memory of an update are predicted as at the start of a run; one whole validation is run and timed.
    """
    began = time.perf_counter()
    task = task_class(config.task).prepare(config)
    settle_epochs(task)
    prepared = time.perf_counter() - began
    config = task.config
    training = config.training
    torch.manual_seed(training.seed)
    model = model_to_train(task)
    trainer = Trainer(model, task, training, config.evaluation.select_by, Path(), Quiet(), began=began)
    cost = trainer.predict_cost(task.work)
    start = time.perf_counter()
    trainer.evaluate()
    progress = Progress(validation_seconds=max(0.1, time.perf_counter() - start), kept=[0])
    memory = max(cost.memory, peak_memory(trainer.device))
    if training.steps is not None:
        validation = task.trained_validation * progress.validation_seconds
        updates = training.steps
        seconds = prepared + updates * cost.seconds + (VALIDATIONS + task.finishing_work) * validation
    else:
        # The preparation so far takes the same time in the run itself.
        trainer.budget.updated(cost.seconds)
        updates, seconds = trainer.budget.plan(progress).total_steps, trainer.budget.seconds
    passes = updates / updates_per_pass(task)
    advice = before(task, updates)
    return "\n".join(
        [
            settings_text(task, whole),
            task.notes,
            f"{config.model.name} ({config.model.size}), {sum(p.numel() for p in model.parameters()):,} parameters",
            f"device {trainer.device}, {trainer.precision}, {count(torch.get_num_threads(), 'thread')}",
            f"predicted: {count(updates, 'update')} ({count(passes, 'pass', 'es')} over the data), "
            f"{duration(seconds)}, {memory / 2**20:,.0f} MiB",
            *([advice] if advice else []),
        ]
    )
