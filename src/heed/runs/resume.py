"""Resuming a run: its settings, and those that the user has changed.

An edit of `config.yaml` counts as if it had been given on the command line, but the command line has precedence; edits
are found by comparing with a copy, the hidden file `.config.yaml`.

A finished run that is resumed without any change reports how to train it longer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from heed import folder as folders
from heed.config import RunConfig, data_files, read_config, write_config
from heed.errors import ConfigError, DataError, HeedError, RunError
from heed.storage.disk import write_whole
from heed.storage.files import CHECKSUMS, describe_damage, difference, listed, recorded
from heed.tasks import check_config, task_class
from heed.tasks.base.data_files import DATA, changed_files
from heed.tasks.base.transfer import shapes_of
from heed.tasks.work import Task, Work
from heed.training.checkpoint import Progress, check_fingerprint, check_fingerprints, checkpoints_in, step_of
from heed.training.contracts import TrainResult
from heed.training.weights import why_unusable
from heed.visible import shell_word

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True)
class Change:
    """A setting that has changed since the run began."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.after}"


_MADE_AGAIN = (folders.WEIGHTS, folders.REPORT)
"""Files of a run folder that a resumed run writes again, so that damage to them does no harm."""


@dataclass(frozen=True)
class Unfinished:
    """A run folder to resume: its configuration with the user's changes."""

    folder: Path
    began: RunConfig
    config: RunConfig
    changes: tuple[Change, ...] = ()
    damage: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls, folder: Path, present: RunConfig) -> Unfinished | None:
        """The run in a folder, if it has a checkpoint to resume from; None if it must start from the beginning.

        Without a checkpoint, but with unchanged settings, the tokenizers and labels learned from the data are reused:
        training some kinds of tokenizers again gives different ones.

        Edits of `config.yaml` by hand count as settings of now; those in `present` have precedence over them.

        Args:
            folder: A folder that may be a run folder.
            present: The settings of now; fields that were not set keep their values.

        Raises:
            RunError: The folder is of another format, or a file that cannot be written again is damaged.
            ConfigError: A setting was changed that cannot change in a resumed run.
        """
        if not (folder / folders.CONFIG).is_file():
            return None
        folders.check_format(folder)
        written = check_config(*folders.read_settings(folder))
        damage = {**folders.damage(folder)}
        try:
            folders.read_report(folder)
        except RunError:
            damage.setdefault(folders.REPORT, "not a valid report")
        began = (_kept_settings(folder) if folders.CONFIG in damage else None) or written
        if began is not written:
            present = merged(written, present) if type(present) is type(written) else present
        _refuse_other_data(folder, began, present)
        checkpoints = checkpoints_in(folder / "checkpoints")
        if not checkpoints:
            same = type(began) is type(present) and began.model.from_ is None and merged(began, present) == began
            return cls(folder, began, began) if same and not damage else None
        if type(began) is not type(present):
            raise ConfigError(f"'{folder}' is a run of {began.task} and cannot be resumed as {present.task}")
        _refuse_damage(folder, damage)
        check_fingerprints(folder / "checkpoints", folders.fingerprint(folder))
        config = merged(began, present)
        if (steps := config.training.steps) is not None and steps < (done := step_of(checkpoints[0])):
            raise ConfigError(  # training would never stop
                f"training.steps is {steps:,}, but the run in {folder} has already made {done:,} updates; give a "
                "larger number, or remove the setting"
            )
        changes = tuple(differences(began.model_dump(by_alias=True), config.model_dump(by_alias=True)))
        for change in changes:
            if change.name in ("model.name", "model.size"):
                raise _unfit(folder, [change])
            if change.name.startswith("tokenizer."):
                raise ConfigError(
                    f"{change}: the tokenizer was trained when the run in {folder} began; start a new run, "
                    "or remove the setting"
                )
        return cls(folder, began, config, changes, damage)

    def remarks(self, config: RunConfig) -> list[str]:
        """Messages about files that have changed since the run began; `config` is the resumed run's."""
        unknown = f"{self.folder / DATA} is {self.damage.get(DATA)}; cannot tell if the data has changed since"
        lines = [unknown] if DATA in self.damage else changed_files(config, self.folder)
        if folders.CONFIG in self.damage and _kept_settings(self.folder) is None:
            lines.append(
                f"{self.folder / folders.CONFIG} was edited, and there is no copy of the earlier settings to compare "
                "it with; using its present settings"
            )
        again = [f"{self.folder / name} is {self.damage[name]}; it will be written again" for name in self.lost]
        return [*(f"warning: {line}" for line in lines), *again]

    @property
    def lost(self) -> list[str]:
        """The damaged files that resuming writes again."""
        return [name for name in _MADE_AGAIN if name in self.damage]

    def task(self, in_memory: Mapping[str, Sequence[Any]] | None = None) -> Work:
        """The task with its tokenizers and labels from the start of the run; `in_memory` is data passed in Python.

        Raises:
            ConfigError: The model's tensors would have different shapes.
            DataError: The data cannot be read; of files that are not there, the message names the field to set.
        """
        kind: Task = task_class(self.config.task)
        try:
            task = kind.resume(self.config, self.folder, in_memory)
        except (DataError, ConfigError) as error:
            raise type(error)(f"{error}{self._new_place(str(error))}") from None
        of_model = [change for change in self.changes if change.name.startswith("model.")]
        if of_model and shapes_of(kind.restore(self.began, self.folder)) != shapes_of(task):
            raise _unfit(self.folder, of_model)
        self._check_sizes(task)
        return task

    def _new_place(self, problem: str) -> str:
        """The options that give the new places of missing data; "" if the problem names none of it."""
        missing = {path: name for path, name in data_files(self.config).items() if not os.path.exists(path)}
        if not any(path in problem for path in missing):
            return ""
        options = []
        for full_name in dict.fromkeys(missing.values()):
            section, name = full_name.split(".")
            value = getattr(getattr(self.config, section), name)
            files = value if isinstance(value, list) else [value]
            if all(isinstance(file, str) for file in files):  # else files are named inside entries
                places = [f"NEW/{Path(file).name}" if file in missing else file for file in files]
                options.append(f"{full_name}={places[0] if len(places) == 1 else '[' + ','.join(places) + ']'}")
        if not options:
            return f"; if it is elsewhere now, set {full_name} in {self.folder / folders.CONFIG}"
        command = f"heed train {shell_word(self.folder)} --resume {' '.join(map(shell_word, options))}"
        return f"; if it is elsewhere now, give its folder instead of NEW: {command}"

    def _check_sizes(self, task: Work) -> None:
        """Refuse a model whose sizes do not fit the run's tokenizers or labels."""
        fields = self.config.model.settings
        for kind, name in task.sizes.items():
            rows = task.rows[kind]
            right, unit, size = rows.size, rows.unit or kind, fields.get(name, rows.size)
            if size != right and not (rows.may_be_more and size > right):
                raise ConfigError(
                    f"{self.folder / folders.CONFIG}: model.{name} is {size!r}, but the run has {right:,} {unit}; "
                    f"set it to {right}, as it was when the run began"
                )


def _refuse_other_data(folder: Path, began: RunConfig, now: RunConfig) -> None:
    """Refuse data passed in Python that is not the data that the run began with."""
    if now.data.origin == "memory":
        for change in differences(began.data.memory or {}, now.data.memory, "data.memory"):
            raise ConfigError(
                f"the run in {folder} cannot be resumed with this data ({change}); pass the same data, in the same "
                "order"
            )


def _refuse_damage(folder: Path, damage: Mapping[str, str]) -> None:
    """Refuse a run folder with a damaged file that training needs and cannot write again."""
    for name, problem in damage.items():
        if name.endswith(".json") and name not in (folders.REPORT, DATA):
            why, instead = "training cannot be resumed", "train a new run with another --out"
            if name == CHECKSUMS:
                why, instead = "no file can be verified", "delete it, if you are sure that the others are unaltered"
            raise RunError(
                f"{folder / name} is {problem}; {why}. Restore the file from a copy of the run folder, or {instead}"
            )


def _unfit(folder: Path, changes: Sequence[Change]) -> ConfigError:
    """The error for changed settings of the model that its weights do not fit."""
    return ConfigError(
        f"{'; '.join(map(str, changes))}: the weights of the run in {folder} fit only the model that it began with; "
        f"start a new run (--from {shell_word(folder)} reuses the weights that fit), or remove the setting"
    )


def write_settings(config: RunConfig, folder: Path) -> None:
    """Write the configuration of a run, and the copy by which a resumed run recognises edits by hand."""
    for name in (folders.CONFIG, folders.SETTINGS_COPY):
        write_whole(folder / name, lambda part: write_config(config, part))


def _kept_settings(folder: Path) -> RunConfig | None:
    """The configuration as last written by heed; None if the copy is missing or does not match the checksums."""
    copy = folder / folders.SETTINGS_COPY
    listed = recorded(folder) or {}
    if folders.CONFIG not in listed or difference(copy, listed[folders.CONFIG]):
        return None
    return check_config(read_config(copy), str(copy))


def merged(began: S, present: S) -> S:
    """A run's settings, updated with those of now, except null or "auto" where that is the default.

    Minutes, steps and epochs are one choice: giving one of them replaces all three.
    """
    update: dict[str, Any] = {}
    fields = type(began).model_fields
    for name in fields:
        old, new = getattr(began, name), getattr(present, name)
        if isinstance(new, BaseModel) and type(new) is type(old):
            update[name] = merged(old, new)
        elif name in present.model_fields_set and not (new in (None, "auto") and new == fields[name].default):
            update[name] = new
    budgets = {"minutes", "steps", "epochs"}
    if budgets <= fields.keys() and budgets & update.keys():
        update |= {name: getattr(present, name) for name in budgets}
    return type(began).model_validate({**dict(began), **update, **(present.model_extra or {})}, by_name=True)


def differences(before: Any, after: Any, name: str = "") -> list[Change]:
    """The values that differ between two nested dictionaries, by path, such as "training.seed"."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = {key: f"{name}.{key}".lstrip(".") for key in (*before, *after)}
        return [change for key, path in names.items() for change in differences(before.get(key), after.get(key), path)]
    return [] if before == after else [Change(name, before, after)]


def result_if_done(folder: Path, present: RunConfig) -> TrainResult | None:
    """The result of a run that is whole and finished, with no setting changed; None if there is something to do.

    A damaged run folder counts as something to do: resuming writes the files again.

    Args:
        folder: A folder that may be a run folder.
        present: The settings of now.

    Raises:
        ConfigError: A setting was changed that cannot change in a resumed run.
        RunError: The folder is of another format.
    """
    if folders.state_of(folder) is not folders.State.FINISHED:
        return None
    run = Unfinished.find(folder, present)
    if run is None or run.changes or run.damage:
        return None
    report = folders.read_report(folder)
    try:
        training, scores = report["training"], report["scores"]["valid"]
        progress = Progress(step=training["updates"], total_steps=training["planned_updates"])
        validation = {name: value for name, value in scores.items() if isinstance(value, float)}
        result = TrainResult(folder, True, training["ended"], progress, validation, training["kept"])
    except KeyError:  # the folder was altered
        return None
    return result if check_run(folder).whole else None


@dataclass(frozen=True)
class RunState:
    """The state of a run folder: for each file the problem or "ok", further remarks, and if training has finished."""

    folder: Path
    files: dict[str, str]
    remarks: tuple[str, ...] = ()
    finished: bool = True

    @property
    def whole(self) -> bool:
        """True if no file is missing, altered or unusable."""
        return all(state == "ok" for state in self.files.values())

    def __str__(self) -> str:
        width = max(map(len, self.files), default=0)
        lines = [f"  {name:{width}}  {state}" for name, state in self.files.items()]
        verdict = "all files are intact" if self.finished else "all files with a checksum are intact"
        if bad := sum(state != "ok" for state in self.files.values()):
            are = "is" if bad == 1 else "are"
            verdict = f"{bad} of {len(self.files)} files {are} missing, altered or unusable"
        verdict = verdict if self.finished else f"not finished; {verdict}"
        return "\n".join([f"run folder {self.folder}: {verdict}", *lines, *self.remarks])


def check_run(run: str | Path = "last") -> RunState:
    """Compare every file of a run folder, of its checkpoints and exports with the checksums written with them.

    Raises:
        RunError: There is no such folder, it is no run, or it is of another format; the message says which.
    """
    path = folders.find(run, folders.State.BEGUN)
    folders.check_format(path)
    files: dict[str, str] = {}
    remarks = []
    if (path / CHECKSUMS).is_file():
        files |= _states(path, "")
    else:
        remarks.append(f"{CHECKSUMS} is missing: the run was killed at its start, or the file was removed")
    finished = folders.state_of(path) is folders.State.FINISHED or folders.WEIGHTS in files
    if not finished:
        remarks.append(f"training has not finished; {folders.how_to_finish(path)}")
    checkpoints, foreign = path / "checkpoints", False
    named = [p for p in checkpoints.glob("step-*") if p.name.removeprefix("step-").isdecimal()]
    for folder in sorted(named, key=step_of):
        states = _states(folder, before := f"checkpoints/{folder.name}/")
        try:
            check_fingerprint(folder, folders.fingerprint(path))
        except RunError as error:
            states[before + folders.WEIGHTS] = str(error).removeprefix(f"{folder / folders.WEIGHTS} is ")
            foreign = True
        files |= states
    for folder in sorted(p for p in (path / folders.EXPORT).glob("[!.]*") if p.is_dir()):
        files |= _states(folder, f"{folders.EXPORT}/{folder.name}/")
    whole = [] if foreign else [p.name for p in checkpoints_in(checkpoints) if not describe_damage(p)]
    remarks += [f"a resumed run starts from {name}" for name in whole[:1]]
    with suppress(HeedError):  # a damaged report is among the files
        if trimmed := folders.read_report(path).get("imported", {}).get("trimmed"):
            remarks.append(
                f"trimmed to the tokens of {', '.join(trimmed['files'])}: other texts are cut into more tokens"
            )
    return RunState(Path(run) if folders.is_packed(run) else path, files, tuple(remarks), finished)


def _states(folder: Path, before: str) -> dict[str, str]:
    damage, weights = describe_damage(folder), folders.WEIGHTS
    if weights in {*listed(folder)} - damage.keys() and (problem := why_unusable(folder / weights)):
        damage[weights] = problem
    return {before + name: damage.get(name, "ok") for name in (*listed(folder), *(n for n in damage if n == CHECKSUMS))}
