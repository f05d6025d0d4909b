"""The beginning of a new or resumed run: data, model, run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heed import folder as folders
from heed.config import RunConfig
from heed.config.memory import InMemory
from heed.errors import DataError, RunError
from heed.runs.building import build_to_train
from heed.runs.epochs import settle_epochs
from heed.runs.resume import Unfinished, write_settings
from heed.storage.lock import Ownership
from heed.tasks import check_config, task_class
from heed.tasks.base.sources import write_digests
from heed.tasks.base.task import Task
from heed.training.compiled import check_compiler
from heed.training.device import choose_device
from heed.training.micro_batches import check_micro_batches
from heed.training.processes import current
from heed.training.progress import Reporter
from heed.training.recompute import recompute_blocks
from heed.training.tensorboard import check_log

Given = Mapping[str, Sequence[Any]]
"""Examples passed in Python, by split."""


@dataclass(frozen=True)
class Begun:
    """A run that is ready to train: folder, task, new model, and the settings changed since the run began."""

    folder: Path
    task: Any
    model: Any
    changed: frozenset[str] = frozenset()


def begin(
    config: RunConfig,
    out: str | Path | None,
    reporter: Reporter,
    resume: bool,
    ownership: Ownership,
    given: Given | None = None,
    settings: Callable[[Task[Any, Any]], str] | None = None,
) -> Begun:
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
    return Begun(path, task, model, frozenset(change.name for change in changes))


def about(task: Any, model: nn.Module) -> dict[str, Any]:
    """The fields of a report that are known before training."""
    config = task.config
    parameters = sum(p.numel() for p in model.parameters())
    return {"format": folders.FORMAT, "task": config.task, "model": config.model.name, "parameters": parameters}


def follow(path: Path, given: Given | None) -> Begun:
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
    return Begun(path, task, model_to_train(task))


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
