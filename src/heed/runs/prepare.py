"""Preparing a new or resumed run for training: data, model, run folder."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from heed import folder as folders
from heed.config import RunConfig, config_text, read_config, set_field, short_config_text
from heed.config.sections import sections_with
from heed.config.settling import has_open_gpu_batch, with_share_of_pass, with_steps
from heed.data.examples import HashedExamples
from heed.data.findings import Findings
from heed.errors import ConfigError, DataError, RunError
from heed.runs.loading import built
from heed.runs.resume import Unfinished, write_settings
from heed.storage.disk import write_whole
from heed.storage.lock import Ownership
from heed.tasks import DEFAULT, check_config, config_class, task_class, task_names, with_paths
from heed.tasks.base.data_files import DATA, write_digests
from heed.tasks.base.report import unknown_lines
from heed.tasks.base.transfer import without_numbers
from heed.tasks.run import Run
from heed.tasks.work import Work
from heed.training.cost import training_bytes
from heed.training.device import check_compiler, check_micro_batches, choose_device, recompute_blocks
from heed.training.processes import current
from heed.training.progress import Reporter, check_log


def setting_named(name: str, what: Any) -> str:
    """Hint on how to set the field `name` from Python, such as "settings={'training.clip': ...}"; "" for no field.

    `what` is the first argument of `heed.train`: a task or a configuration file.
    """
    task = what if what in task_names() else task_names()[0]
    having = sections_with(config_class(task), name)
    return f"; it is a field of the configuration: settings={{'{having[0]}.{name}': ...}}" if having else ""


def updates_per_pass(task: Work) -> int:
    """Updates of one pass over the training data."""
    accumulate: int = task.config.training.accumulate
    return math.ceil(len(task.train_batches(0)) / accumulate)


def settle_updates(task: Work) -> None:
    """Settle what an update is and how many there are: a GPU's default batch, and `training.epochs` as steps."""
    if has_open_gpu_batch(task.config, task.input.batch_field):
        positions = sum(map(task.work, task.train_batches(0)))
        task.config = with_share_of_pass(task.config, task.input.batch_field, positions)
    if task.config.training.epochs is not None:
        task.config = with_steps(task.config, updates_per_pass(task))


SplitExamples = Mapping[str, Sequence[Any]]
"""Examples passed in Python, by split."""


def prepare_run(
    config: RunConfig,
    out: str | Path | None,
    reporter: Reporter,
    resume: bool,
    ownership: Ownership,
    in_memory: SplitExamples | None = None,
    settings: Callable[[Work], str] | None = None,
) -> tuple[Run, Collection[str]]:
    """Make a run folder with a new model, or open one to resume; see `train_config`.

    Returns:
        The run, and the settings changed since it began.
    """
    check_log(config.training.log)
    if in_memory is None and config.data.origin == "memory":
        raise DataError(config.data.not_kept)
    if out is not None and not resume:
        folders.check_free(Path(out))  # reading the data may take minutes
    before = Unfinished.find(Path(out), config) if resume and out is not None else None
    task: Any = task_class(config.task).prepare(config, in_memory) if before is None else before.task(in_memory)
    settle_updates(task)
    config = task.config
    model = model_to_train(task)
    started = task.start(model) if before is None else {}
    if current().count == 1:
        device = choose_device(config.training.device)  # an error must come before the folder is made
        if config.training.compile:
            check_compiler(device)
    path = folders.create(out, config, resume, ownership)
    described = about(task, model)
    if settings is not None:
        reporter.say(settings(task))
    reporter.say(f"run folder {path}")
    lines = [f"{config.model.name} ({config.model.size}), {described['parameters']:,} parameters; {task.notes}"]
    if any(tokenizer.unit == "word" for tokenizer in task.tokenizers().values()):
        lines += unknown_lines(task.report_counts()["train"])
    lines += map(str, started.values())
    if before is not None:
        lines += [*before.remarks(config), *(f"changed since the run began: {change}" for change in before.changes)]
    with folders.unsealed(path, *(() if before is None else (folders.CONFIG, DATA, *before.lost))):
        if before is None:
            task.save(path)
            folders.sign(path, config)
            if (parent := config.model.from_ or config.tokenizer.from_) is not None:
                origin = folders.find(parent) / folders.ORIGIN
                if origin.is_file():  # as it is: only an export refuses a record of another format
                    write_whole(path / folders.ORIGIN, lambda part: part.write_bytes(origin.read_bytes()))
        else:
            for name in before.lost:  # so that it is not used meanwhile
                (path / name).unlink(missing_ok=True)
        if before is None or not (path / folders.REPORT).exists():
            folders.write_report(path, {**described, **{name: start.as_report() for name, start in started.items()}})
        write_settings(config, path)
        write_digests(config, path)
    for line in lines:
        reporter.say(line)
    return Run(path, config, task, model, {}), () if before is None else [change.name for change in before.changes]


def about(task: Any, model: nn.Module) -> dict[str, Any]:
    """The fields of a report that are known before training."""
    task_and_model = {"task": task.config.task, "model": task.config.model.name}
    return {"format": folders.FORMAT, **task_and_model, "parameters": sum(p.numel() for p in model.parameters())}


def join_run(path: Path, in_memory: SplitExamples | None) -> Run:
    """Join, from another process, the run that the first process has begun; it is read from its folder.

    Raises:
        RunError: This process cannot see the folder.
    """
    if not (path / folders.CONFIG).is_file():
        raise RunError(
            f"process {current().rank} cannot see the run folder '{path}'; put it on a disk that all machines share"
        )
    config = check_config(*folders.read_settings(path))
    task: Any = task_class(config.task).resume(config, path, in_memory)
    return Run(path, config, task, model_to_train(task), {})


def model_to_train(task: Any) -> Any:
    """A task's new model, drawn from its seed and prepared for training as its configuration says.

    Raises:
        OutOfMemoryError: Memory does not suffice for it, its gradients and the optimiser's moments.
        ConfigError: The model cannot be trained with these settings.
    """
    training = task.config.training
    torch.manual_seed(training.seed)
    try:
        empty = without_numbers(task)
        count = sum(p.numel() for p in empty.parameters())
        frozen = sum(p.numel() for group in task.groups(empty) if group.rate == 0 for p in group.parameters)
    except (NotImplementedError, RuntimeError):  # a model that cannot be built on the device "meta"
        count = frozen = 0
    when = f"while building a model of {count:,} parameters" if count else "while building the model"
    lower = "choose a smaller model.size, fewer layers or widths, or a smaller tokenizer.vocab_size"
    if task.parent is not None:
        lower = "freeze parts of the model (training.freeze), or start from a smaller checkpoint"
    model = built(task, 4 * count, training_bytes(count, count - frozen, training.optimizer), when, lower)
    if training.activation_checkpointing:
        recompute_blocks(model, task.config.model.name)
    check_micro_batches(model, task.config.model.name, training.micro_batches)
    task.groups(model)  # an error about freezing must come before the folder is made
    return model


C = TypeVar("C", bound=RunConfig)
_FILE_NAME = re.compile(r"[^\n]{0,250}\.[A-Za-z]\w{0,5}(\.gz|\.xz)?")
"""Pattern of file names, to recognise the name of a missing file."""


def is_data(value: Any, task: str) -> bool:
    """True if an argument is data rather than names of files or a number of examples."""
    if value is None or isinstance(value, str | Path | int | float):
        return False
    if isinstance(value, list | tuple) and value and all(isinstance(item, str | Path) for item in value):
        names = list(map(_names_a_file, value))
        return not all(names) if task_class(task).input.texts_are_examples else not any(names)
    return True


def _names_a_file(text: str | Path) -> bool:
    if isinstance(text, Path):
        return True
    if "\n" in text or len(text) > 4_000 or not text.strip():
        return False
    return os.path.exists(text) or (" " not in text and ("/" in text or _FILE_NAME.fullmatch(text) is not None))


def settings_of(
    what: str | Path, splits: Mapping[str, Any], fields: Mapping[str, Any], caller: str
) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration of a call from Python, and the splits that are data in memory.

    Args:
        what: A task, or a configuration file.
        splits: The arguments "train", "valid" and "test": files, data or, of "valid", a number of examples.
        fields: Fields of the configuration by name; None where none was given.
        caller: The function that was called.

    Raises:
        ConfigError: A field is wrong, or only some of the data is in memory.
    """
    is_file = str(what).endswith((".yaml", ".yml"))
    values: dict[str, Any] = {"task": str(what)}
    if is_file:
        values = with_paths(read_config(what), Path(what).absolute().parent)
    for name, value in splits.items():
        if isinstance(value, float):
            raise ConfigError(f"{caller}: {name} is {value}, expected files, data or a whole number of examples")
    data = {name: value for name, value in splits.items() if is_data(value, str(values.get("task", DEFAULT)))}
    if data:
        others = {name: fields.get(f"data.{name}") for name in ("name", "hub")} | {**splits}
        others = {name: value for name, value in others.items() if name not in data and value is not None}
        arguments = {"name": "data"}  # what fields are called in Python
        others = {arguments.get(name, name): value for name, value in others.items()}
        elsewhere = [f"{name}={it!r:.60}" for name, it in others.items() if name == "train" or not isinstance(it, int)]
        if elsewhere or "train" not in data:
            other = elsewhere[0] if elsewhere else "no training data"
            raise ConfigError(
                f"{caller}: {next(iter(data))} is data in memory, but there is {other}; pass all splits as data, or "
                "all as files"
            )
        section = {n: v for n, v in (values.get("data") or {}).items() if n not in (*splits, "hub", "name")}
        values["data"] = {**section, "memory": {}, **{name: [name] for name in data if name != "train"}}
    files = {f"data.{name}": _paths(value) for name, value in splits.items() if name not in data}
    for name, value in {**files, **fields}.items():
        if value is not None:
            set_field(values, name, value)
    return check_config(with_paths(values, Path.cwd()), str(what) if is_file else caller), data


def _paths(files: Any) -> Any:
    """Names of files as a list; other values are left to the check of the configuration."""
    if isinstance(files, str | Path):
        return [str(files)]
    return [str(f) for f in files] if isinstance(files, list | tuple) else files


def hold_all(config: C, data: Mapping[str, Any]) -> tuple[C, dict[str, Sequence[Any]]]:
    """The examples of every split, and the configuration with a record of them.

    Raises:
        DataError: The data cannot be used; the message names the place and the value.
    """
    task = task_class(config.task)
    examples = {name: task.read_data(value, name, config, Findings.of(config.data)) for name, value in data.items()}
    record = {name: _record(split) for name, split in examples.items()}
    section = type(config.data).model_validate({**dict(config.data), "memory": record})
    return config.model_copy(update={"data": section}), examples


def _record(examples: Sequence[Any]) -> dict[str, Any]:
    """The number of examples (of series, of rows), and a hash of their fields, in order."""
    digest, count = hashlib.blake2b(digest_size=16), 0
    for example in [examples] if isinstance(examples, HashedExamples) else examples:
        count += len(example) if isinstance(example, HashedExamples) else 1
        if isinstance(example, HashedExamples):
            digest.update(repr(getattr(example, "columns", ())).encode() + example.hashes.tobytes())
        else:
            digest.update(repr(example.keys).encode("utf-8", "surrogatepass"))
    return {"examples": count, "content": digest.hexdigest()}


def settings_text(task: Any, whole: bool = False) -> str:
    """The settled settings of a run as YAML: those that differ from the defaults, or all of them."""
    head = "# Settings that differ from the defaults; --verbose prints all of them.\n"
    return config_text(task.config) if whole else head + short_config_text(task.config, task.model_defaults)
