"""Conversion of passes over the data into updates."""

from __future__ import annotations

import math
from typing import Any

from heed.errors import ConfigError
from heed.tasks.base.task import Task


def updates_per_pass(task: Task[Any, Any]) -> int:
    """Updates of one pass over the training data."""
    accumulate: int = task.config.training.accumulate
    return math.ceil(len(task.train_batches(0)) / accumulate)


def settle_epochs(task: Task[Any, Any]) -> None:
    """Replace `training.epochs` in the task's configuration by `training.steps`.

    Raises:
        ConfigError: The data is a stream, which has no passes.
    """
    training = task.config.training
    if training.epochs is None:
        return
    if getattr(task.config.data, "stream", False):
        raise ConfigError("training.epochs is set, but a stream (data.stream) has no passes; give --minutes instead")
    steps = max(1, round(training.epochs * updates_per_pass(task)))
    settled = training.model_copy(update={"steps": steps, "epochs": None, "minutes": None})
    task.config = task.config.model_copy(update={"training": settled})
