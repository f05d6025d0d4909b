"""What a run is looked at beside: its untrained network, its weights at an earlier update, or another run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from heed import folder as folders
from heed.errors import ConfigError, RunError, nearest
from heed.tasks import capability
from heed.training.checkpoint import check_own, stored_steps
from heed.training.weights import load_weights
from heed.watch.looks import Look, compare_looks
from heed.watch.maps import cut

UNTRAINED = "untrained"
_UNTRAINED = (UNTRAINED, "twin")
_LONGEST = 80
"""Characters of the other network's own output that are shown."""
_STEP = re.compile(r"step-([0-9]{1,18})")


class Other(NamedTuple):
    """Another network that reads what a run reads."""

    name: str  # in titles
    said: str  # in sentences
    run: Any


def names_no_run(beside: str) -> bool:
    """True for the words that need no other run: "untrained" (or "twin"), "step-N"."""
    return beside in _UNTRAINED or _STEP.fullmatch(beside) is not None


def several_of(beside: Any) -> list[Any]:
    """What a look stands beside, as a list: of nothing, one network or several."""
    return [] if beside is None else list(beside) if isinstance(beside, list | tuple) else [beside]


def check_beside(beside: Sequence[Any], edits: Any = (), sort: str | None = None) -> None:
    """Refuse what does not go together (ConfigError): `beside`, edits, an order."""
    if sort == UNTRAINED and any(other not in _UNTRAINED for other in beside):
        raise ConfigError(f"--sort {UNTRAINED} compares with the untrained network: leave out --beside, or --sort")
    names = [str(getattr(other, "folder", other)) for other in beside]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--beside {repeated[0]} is given twice: leave out one")
    if edits and (beside or sort == UNTRAINED):
        option = "--beside" if beside else f"--sort {UNTRAINED}"
        raise ConfigError(f"{option} and --edit each show a difference: leave out one")


def check_one_task(runs: Sequence[Any], what: str) -> None:
    """Refuse runs of different tasks.

    Raises:
        ConfigError: The message says that only runs of one task can do `what`.
    """
    first = runs[0]
    for run in runs[1:]:
        if run.config.task != first.config.task:
            raise ConfigError(
                f"'{first.folder}' is a run of {first.config.task} and '{run.folder}' one of {run.config.task}; only "
                f"runs of one task {what}"
            )


def other_of(run: Any, beside: Any) -> Other:
    """The network that a run is looked at beside.

    Args:
        run: The run.
        beside: "untrained": the same architecture as the run's seed draws it; "step-N": the weights kept at update N;
            or another run of the task.

    Raises:
        ConfigError: There is no such word, or the other run is of another task or an ensemble.
        RunError: The weights of that update are not there.
    """
    if isinstance(getattr(beside, "model", None), nn.Module):
        capability(beside, "look")
        check_one_task([run, beside], "can be looked at beside each other")
        same = beside.folder.name == run.folder.name
        name = str(beside.folder) if same else beside.folder.name
        return Other(name, beside.title, beside)
    step = _STEP.fullmatch(beside) if isinstance(beside, str) else None
    if step is None and beside not in _UNTRAINED:
        raise ConfigError(
            f"unknown --beside '{beside}'; give {UNTRAINED}, step-N or another run (in Python heed.load(...))"
            f"{nearest(str(beside), _UNTRAINED)}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.config.training.seed)
        model = run.task.build_model().to(next(run.model.parameters()).device)
    name, said = UNTRAINED, f"an untrained network of seed {run.config.training.seed}"
    if step is not None:
        name, said = beside, f"the weights of update {int(step[1]):,}"
        load_step(run.folder, int(step[1]), model)
    return Other(name, said, type(run)(run.folder, run.config, run.task, model, {}))


def look_beside(
    run: Any, look: Look, beside: Any, text: Any, options: Mapping[str, Any], differences: bool = True
) -> Look:
    """A look with the maps of another network for the same text and output, and with the `differences`.

    Raises:
        ConfigError: The look shows no attention map, or the other network lacks the chosen attention.
    """
    name, said, other = other_of(run, beside)
    see = partial(other.looks.at, other.task, other.model, other.readable(text), title=other.title, **options)
    try:
        own = same = see()
        if look.output is not None and other.head.writes:
            same = see(target=look.output if _tokens(run) == _tokens(other) else look.output.text)
    except ConfigError as error:
        raise ConfigError(f"--beside {name}: {error}") from None
    found = compare_looks(look, same, name, name == UNTRAINED, differences)
    if len(found.beside) == len(look.beside):
        without = "this look" if not found.maps else name
        raise ConfigError(f"--beside compares attention maps, and {without} has none")
    output = "" if options.get("target") else f", with its own output: {cut(own.target, _LONGEST)}"
    note = "; ".join([f"beside it: {said}{output}", *own.notes[:1]])
    return replace(found, notes=(*look.notes, note, *found.notes[len(look.notes) :]))


def _tokens(run: Any) -> list[Any]:
    return [one.tokens for one in run.task.tokenizers().values()]


def load_step(folder: Path, step: int, model: nn.Module, force: bool = False) -> None:
    """Read the weights of one update into the model of a run.

    Raises:
        RunError: They are not in the run's folder, of another run, or damaged.
    """
    steps = stored_steps(folder / "checkpoints")
    if step not in steps:
        there = f"there are {', '.join(f'step-{one}' for one in steps)}" if steps else "there are none"
        raise RunError(
            f"'{folder}' has no weights of step-{step}; {there} (training.snapshots=[0.1,0.5] keeps those at these "
            "shares of the updates; packed runs have none)"
        )
    path = folder / "checkpoints" / f"step-{step}"
    check_own(path, folders.fingerprint(folder))
    folders.verify(path, [folders.WEIGHTS], force)
    load_weights(model, path / folders.WEIGHTS)
