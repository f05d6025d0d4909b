"""Going on with a run: its settings, and those that a user changes meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from heed import folder as folders
from heed.config import RunConfig
from heed.errors import ConfigError
from heed.storage.seal import describe_damage
from heed.tasks import check_config
from heed.tasks.base.matching import shapes_of
from heed.tasks.base.task import Task
from heed.training.checkpoint import checkpoints_in
from heed.visible import shell_word

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True)
class Change:
    """A setting that is another than when the run began."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Unfinished:
    """A run folder to resume: its configuration with the changes that the user asked for."""

    folder: Path
    config: RunConfig
    changes: tuple[Change, ...]

    @classmethod
    def find(cls, folder: Path, given: RunConfig) -> Unfinished | None:
        """The run in a folder, if it has a checkpoint to go on from; None where it must begin afresh.

        Without a checkpoint, but with the same settings as before, what was learned from the data (tokenizers, labels)
        is taken over all the same: training some kinds of tokenizers again gives others.

        Args:
            folder: Perhaps a run folder.
            given: The settings asked for now; what they leave open stays as it was.

        Raises:
            RunError: The folder is of another format.
            ConfigError: A setting was changed that cannot change.
        """
        if not (folder / folders.CONFIG).is_file():
            return None
        folders.check_format(folder)
        began = check_config(*folders.read_settings(folder))
        if not checkpoints_in(folder / "checkpoints"):
            same = type(began) is type(given) and began.model.from_ is None and merged(began, given) == began
            return cls(folder, began, ()) if same and not describe_damage(folder) else None
        if type(began) is not type(given):
            raise ConfigError(f"{folder} is a run of {began.task}, and cannot go on with {given.task}")
        for field in ("name", "size"):
            old, new = getattr(began.model, field), getattr(given.model, field)
            if field in given.model.model_fields_set and new not in (old, "auto"):
                raise ConfigError(
                    f"model.{field} is {new!r}, but the run in {folder} began with {old!r}: its weights are those of "
                    f"another model; start a new run (--from {shell_word(folder)} takes over what fits), or leave the "
                    "field out"
                )
        config = merged(began, given)
        changes = tuple(differences(began.model_dump(by_alias=True), config.model_dump(by_alias=True)))
        for change in changes:
            if change.name.startswith("tokenizer.") and change.name != "tokenizer.sampling":
                raise ConfigError(
                    f"{change}: the tokenizer was trained when the run in {folder} began; start a new run, "
                    "or leave the field out"
                )
        return cls(folder, config, changes)

    def task(self, kind: type[Task[Any, Any]], given: Mapping[str, Sequence[Any]] | None = None) -> Task[Any, Any]:
        """The task with what it learned from the data when the run began; `given` is data handed over in Python.

        Raises:
            ConfigError: The model's tensors would have other shapes.
        """
        task = kind.resume(self.config, self.folder, **({} if given is None else {"given": given}))
        of_model = [change for change in self.changes if change.name.startswith("model.")]
        if of_model:
            began = kind.restore(check_config(*folders.read_settings(self.folder)), self.folder)
            if shapes_of(began) != shapes_of(task):
                raise ConfigError(
                    f"{'; '.join(map(str, of_model))}: the weights of the run in {self.folder} have other shapes; "
                    f"start a new run (--from {shell_word(self.folder)} takes over what fits), or leave the field out"
                )
        return task


def merged(began: S, given: S) -> S:
    """Settings of a run, with those that are given now and say something: not null or "auto" where that is the default.

    Minutes, steps and epochs are one choice: who gives one of them, gives all.
    """
    update: dict[str, Any] = {}
    fields = type(began).model_fields
    for name in fields:
        old, new = getattr(began, name), getattr(given, name)
        if isinstance(new, BaseModel) and type(new) is type(old):
            update[name] = merged(old, new)
        elif name in given.model_fields_set and not (new in (None, "auto") and new == fields[name].default):
            update[name] = new
    budgets = {"minutes", "steps", "epochs"}
    if budgets <= fields.keys() and budgets & update.keys():
        update |= {name: getattr(given, name) for name in budgets}
    return type(began).model_validate({**dict(began), **update, **(given.model_extra or {})}, by_name=True)


def differences(before: Any, after: Any, name: str = "") -> list[Change]:
    """The values that differ between two nested dictionaries, by their path, "training.seed"."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        return [
            change
            for key in keys
            for change in differences(before.get(key), after.get(key), f"{name}.{key}" if name else str(key))
        ]
    return [] if before == after else [Change(name, before, after)]
