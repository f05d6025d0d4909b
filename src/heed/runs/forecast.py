"""Predicted time and memory of a run, measured in about a second of real training: `heed train --dry-run`."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from heed.config import RunConfig
from heed.runs.advice import Adviser, count
from heed.runs.begin import model_to_train
from heed.runs.epochs import settle_epochs
from heed.tasks import task_class
from heed.tasks.base.settling import settings_text
from heed.training.budget import VALIDATIONS
from heed.training.checkpoint import Progress
from heed.training.device import peak_memory
from heed.training.loop import Trainer
from heed.training.progress import Quiet, duration


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
    adviser = Adviser(task)
    passes = updates / adviser.updates_per_pass
    advice = adviser.before(updates, cost.seconds, seconds)
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
