"""Preparing a new or resumed run for training: data, model, run folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from torch import nn

from heed import folder as folders
from heed.config import RunConfig
from heed.config.data import InMemory
from heed.errors import ConfigError, DataError, RunError
from heed.runs.loading import build_to_train
from heed.runs.resume import Unfinished, write_settings
from heed.storage.lock import Ownership
from heed.tasks import check_config, config_class, task_class, task_names
from heed.tasks.base.task import Task, write_digests
from heed.training.device import check_compiler, choose_device
from heed.training.less_memory import check_micro_batches, recompute_blocks
from heed.training.metrics import check_log
from heed.training.processes import current
from heed.training.progress import Reporter


def setting_named(name: str, what: Any) -> str:
    """Hint on how to set the field `name` from Python, such as "settings={'training.clip': ...}"; "" for no field.

    `what` is the first argument of `heed.train`: a task or a configuration file.
    """
    task = what if what in task_names() else task_names()[0]
    for section, field in config_class(task).model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel) and name in kind.model_fields:
            return f"; it is a field of the configuration: settings={{'{section}.{name}': ...}}"
    return ""


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


Given = Mapping[str, Sequence[Any]]
"""Examples passed in Python, by split."""


@dataclass(frozen=True)
class PreparedRun:
    """A run that is ready to train: folder, task, new model, and the settings changed since the run began."""

    folder: Path
    task: Any
    model: Any
    changed: frozenset[str] = frozenset()


def prepare_run(
    config: RunConfig,
    out: str | Path | None,
    reporter: Reporter,
    resume: bool,
    ownership: Ownership,
    given: Given | None = None,
    settings: Callable[[Task[Any, Any]], str] | None = None,
) -> PreparedRun:
    """Make a run folder, or open one to resume; see `train_config`."""
    check_log(config.training.log)
    if given is None and isinstance(config.data, InMemory):
        raise DataError(config.data.missing)
    if out is not None and not resume:
        folders.check_free(Path(out))  # reading the data may take minutes
    kind = task_class(config.task)
    held = {} if given is None else {"given": given}
    unfinished = Unfinished.find(Path(out), config) if resume and out is not None else None
    task: Any = kind.prepare(config, **held) if unfinished is None else unfinished.task(kind, **held)
    settle_epochs(task)
    config = task.config
    torch.manual_seed(config.training.seed)
    model = model_to_train(task)
    started = task.start(model) if unfinished is None else {}
    if current().count == 1:
        device = choose_device(config.training.device)  # an error must come before the folder is made
        if config.training.compile:
            check_compiler(device)
    path = folders.create(out, config, resume, ownership)
    described = about(task, model)
    if settings is not None:
        reporter.say(settings(task))
    reporter.say(f"run folder {path}")
    remarks = [] if unfinished is None else unfinished.remarks(config)
    with folders.unsealed(path, *(() if unfinished is None else unfinished.changing)):
        if unfinished is None:
            task.save(path)
            if (parent := config.model.from_ or config.tokenizer.from_) is not None:
                from heed.runs.imported import carry_origin  # knows every family, and so most models

                carry_origin(parent, path)
        else:
            unfinished.drop_damaged()
        if unfinished is None or not (path / folders.REPORT).exists():
            folders.write_report(path, {**described, **{name: one.as_report() for name, one in started.items()}})
        write_settings(config, path)
        write_digests(config, path)
    reporter.say(f"{config.model.name} ({config.model.size}), {described['parameters']:,} parameters; {task.notes}")
    for one in started.values():
        reporter.say(str(one))
    for remark in remarks:
        reporter.say(remark)
    changes = () if unfinished is None else unfinished.changes
    for change in changes:
        reporter.say(f"changed since the run began: {change}")
    return PreparedRun(path, task, model, frozenset(change.name for change in changes))


def about(task: Any, model: nn.Module) -> dict[str, Any]:
    """The fields of a report that are known before training."""
    config = task.config
    parameters = sum(p.numel() for p in model.parameters())
    return {"format": folders.FORMAT, "task": config.task, "model": config.model.name, "parameters": parameters}


def join_run(path: Path, given: Given | None) -> PreparedRun:
    """Join, from another process, the run that the first process has begun; it is read from its folder.

    Raises:
        RunError: This process cannot see the folder.
    """
    if not (path / folders.CONFIG).is_file():
        raise RunError(
            f"process {current().rank} cannot see the run folder '{path}'; put it on a disk that all machines share"
        )
    config = check_config(*folders.read_settings(path))
    task: Any = task_class(config.task).resume(config, path, **({} if given is None else {"given": given}))
    torch.manual_seed(config.training.seed)
    return PreparedRun(path, task, model_to_train(task))


def model_to_train(task: Any) -> Any:
    """A task's new model, prepared for training as its configuration says.

    Raises:
        ConfigError: The model cannot be trained with these settings.
    """
    model = build_to_train(task)
    if task.config.training.activation_checkpointing:
        recompute_blocks(model, task.config.model.name)
    check_micro_batches(model, task.config.model.name, task.config.training.micro_batches)
    task.groups(model)  # an error about freezing must come before the folder is made
    return model
