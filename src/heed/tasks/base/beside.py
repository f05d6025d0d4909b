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
    phrase: str  # in sentences
    run: Any


def names_no_run(name: str) -> bool:
    """True for the words that need no other run: "untrained" (or "twin"), "step-N"."""
    return name in _UNTRAINED or _STEP.fullmatch(name) is not None


def several_of(others: Any) -> list[Any]:
    """The networks that a look is compared with, given as None, one or several, as a list."""
    return [] if others is None else list(others) if isinstance(others, list | tuple) else [others]


def check_beside(others: Sequence[Any], edits: Any = (), sort: str | None = None) -> None:
    """Refuse (ConfigError) options that contradict one another: the other networks, edits, an order."""
    if sort == UNTRAINED and any(other not in _UNTRAINED for other in others):
        raise ConfigError(f"--sort {UNTRAINED} compares with the untrained network: leave out --beside, or --sort")
    names = [str(getattr(other, "folder", other)) for other in others]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--beside {repeated[0]} is given twice: leave out one")
    if edits and (others or sort == UNTRAINED):
        option = "--beside" if others else f"--sort {UNTRAINED}"
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


def other_of(run: Any, reference: Any) -> Other:
    """The network that a run is looked at beside.

    Args:
        run: The run.
        reference: "untrained": the same architecture as the run's seed draws it; "step-N": the weights kept at update
            N; or another run of the task.

    Raises:
        ConfigError: There is no such word, or the other run is of another task or an ensemble.
        RunError: The weights of that update are not there.
    """
    if isinstance(getattr(reference, "model", None), nn.Module):
        capability(reference, "look")
        check_one_task([run, reference], "can be looked at beside each other")
        same = reference.folder.name == run.folder.name
        name = str(reference.folder) if same else reference.folder.name
        return Other(name, reference.title, reference)
    step = _STEP.fullmatch(reference) if isinstance(reference, str) else None
    if step is None and reference not in _UNTRAINED:
        raise ConfigError(
            f"unknown --beside '{reference}'; give {UNTRAINED}, step-N or another run (in Python heed.load(...))"
            f"{nearest(str(reference), _UNTRAINED)}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.config.training.seed)
        model = run.task.build_model().to(next(run.model.parameters()).device)
    name, phrase = UNTRAINED, f"an untrained network of seed {run.config.training.seed}"
    if step is not None:
        name, phrase = reference, f"the weights of update {int(step[1]):,}"
        load_step(run.folder, int(step[1]), model)
    return Other(name, phrase, type(run)(run.folder, run.config, run.task, model, {}))


def look_beside(
    run: Any, look: Look, reference: Any, text: Any, options: Mapping[str, Any], differences: bool = True
) -> Look:
    """A look with the maps of another network for the same text and output, and with the `differences`.

    Raises:
        ConfigError: The look shows no attention map, or the other network lacks the chosen attention.
    """
    name, phrase, other = other_of(run, reference)
    see = partial(other.looks.at, other.task, other.model, other.readable(text), title=other.title, **options)
    try:
        own_look = same_look = see()
        if look.output is not None and other.head.writes:
            same_look = see(target=look.output if _tokens(run) == _tokens(other) else look.output.text)
    except ConfigError as error:
        raise ConfigError(f"--beside {name}: {error}") from None
    compared = compare_looks(look, same_look, name, name == UNTRAINED, differences)
    if len(compared.beside) == len(look.beside):
        without = "this look" if not compared.maps else name
        raise ConfigError(f"--beside compares attention maps, and {without} has none")
    output = "" if options.get("target") else f", with its own output: {cut(own_look.target, _LONGEST)}"
    note = "; ".join([f"beside it: {phrase}{output}", *own_look.notes[:1]])
    return replace(compared, notes=(*look.notes, note, *compared.notes[len(look.notes) :]))


def _tokens(run: Any) -> list[Any]:
    return [tokenizer.tokens for tokenizer in run.task.tokenizers().values()]


def load_step(folder: Path, step: int, model: nn.Module, force: bool = False) -> None:
    """Read the weights of one update into the model of a run.

    Raises:
        RunError: They are not in the run's folder, of another run, or damaged.
    """
    steps = stored_steps(folder / "checkpoints")
    if step not in steps:
        there = f"there are {', '.join(f'step-{number}' for number in steps)}" if steps else "there are none"
        raise RunError(
            f"'{folder}' has no weights of step-{step}; {there} (training.snapshots=[0.1,0.5] keeps those at these "
            "shares of the updates; packed runs have none)"
        )
    path = folder / "checkpoints" / f"step-{step}"
    check_own(path, folders.made_of(folder))
    folders.verify(path, [folders.WEIGHTS], force)
    load_weights(model, path / folders.WEIGHTS)
