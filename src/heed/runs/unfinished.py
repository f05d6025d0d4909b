"""A run whose training has not finished: its best weights so far.

A run has finished when its folder is sealed: `checksums.json`, which is written last, lists its `model.safetensors`. A
run that was killed between writing the two counts as unfinished, and resuming finishes it; a finished run that is being
trained longer counts as unfinished too. In Python the message is a `HeedWarning` and in `run.so_far`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from heed import folder as folders
from heed.config import RunConfig
from heed.errors import RunError
from heed.storage.seal import listed
from heed.training.checkpoint import latest_checkpoint, stored_progress
from heed.training.weights import load_weights
from heed.visible import shell_word

_TRIES = 3
"""Number of attempts: training that is still running may remove a checkpoint while it is read."""


def check_can_be_used(path: Path, finished: bool) -> None:
    """Refuse a run whose final weights were removed, or that has none although it should be `finished`.

    Raises:
        RunError: The weights are missing or have no checksum; the message says why, and has the command to type.
    """
    if folders.WEIGHTS in listed(path):
        raise RunError(
            f"'{path}' has no {folders.WEIGHTS}, although training has finished: the file was removed; "
            f"write it again with: heed train {shell_word(path)} --resume"
        )
    if (path / folders.WEIGHTS).is_file() and folders.state_of(path) is folders.State.BEGUN:
        raise RunError(
            f"{path / folders.WEIGHTS} has no checksum: writing the folder was interrupted, or its checksums.json was "
            "removed; write or copy it again, or use it as it is with --force (in Python force=True)"
        )
    if finished:
        raise RunError(
            f"'{path}' has no final {folders.WEIGHTS}: training has not finished; resume it with: "
            f"heed train {shell_word(path)} --resume"
        )


def load_best_so_far(path: Path, config: RunConfig, model: nn.Module, force: bool = False) -> str:
    """Read the best weights that a run without final weights has saved.

    Before the first validation these are the newest weights.

    Args:
        path: The run folder.
        config: Of the run.
        model: The weights are copied into it.
        force: Use altered weights anyway, with a warning.

    Returns:
        A message that says which weights these are.

    Raises:
        RunError: No weights were saved yet, or they are damaged.
    """
    for tries in range(_TRIES):
        newest = latest_checkpoint(path / "checkpoints")
        if newest is None:
            raise RunError(
                f"'{path}' has no weights yet: training ended before the first checkpoint, or has just begun; "
                f"resume it with: heed train {shell_word(path)} --resume"
            )
        progress = stored_progress(newest)
        step = progress.get("best_step") or progress.get("step", 0)
        try:
            best = path / "checkpoints" / f"step-{step}"
            folders.verify(best, [folders.WEIGHTS], force)
            load_weights(model, best / folders.WEIGHTS)
        except RunError:
            if tries == _TRIES - 1:
                raise
            continue
        return (
            f"{_which(progress, config)}; if it was interrupted, resume it with: heed train {shell_word(path)} --resume"
        )
    raise AssertionError


def _which(progress: dict[str, Any], config: RunConfig) -> str:
    done, total = progress["step"], progress.get("total_steps")
    so_far = f"training has not finished (saved up to update {done:,}{'' if total is None else f' of {total:,}'})"
    if not progress.get("best_step"):
        return f"{so_far}: using the weights of its newest checkpoint, which were not validated yet"
    name, rank = config.evaluation.select_by, progress["best_rank"][0]
    value = -rank if name == "loss" else rank
    return (
        f"{so_far}: using the best weights so far, of update {progress['best_step']:,} "
        f"(validation {name.replace('_', ' ')} {value:.4g})"
    )
