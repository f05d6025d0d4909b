"""Opening run folders, alone or as an ensemble, and building models after checking that memory suffices.

A run has finished when its folder is sealed: `checksums.json`, which is written last, lists its `model.safetensors`. A
run that was killed between writing the two counts as unfinished, and resuming finishes it; a finished run that is being
trained longer counts as unfinished too. In Python the message is a `HeedWarning` and in `run.so_far`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from warnings import warn

import torch
from torch import nn

from heed import folder as folders
from heed.config import RunConfig
from heed.errors import ConfigError, HeedWarning, RunError
from heed.memory import check_memory, memory_explained
from heed.storage.files import CHECKSUMS, listed, read_bytes
from heed.tasks import capability, check_config, task_class
from heed.tasks.base.looking import check_one_task, load_step
from heed.tasks.run import Run, together
from heed.training.checkpoint import check_fingerprint, latest_checkpoint, stored_progress
from heed.training.device import choose_device
from heed.training.weights import load_weights
from heed.visible import shell_word

_CERTAIN = 2**27
"""Bytes of weights below which memory is not checked."""


def built(task: Any, weights: int, needed: int, when: str, lower: str) -> Any:
    """A task's model, after checking that memory suffices for the bytes needed, where its `weights` are many bytes.

    Raises:
        OutOfMemoryError: It does not; the message says when, and what takes less.
    """
    if weights >= _CERTAIN:
        check_memory(needed, when, lower)
    with memory_explained(when, lower):
        return task.build_model()


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
        folders.check_finished(path)


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
    if (newest := latest_checkpoint(path / "checkpoints")) is None:
        raise RunError(
            f"'{path}' has no weights yet: training ended before the first checkpoint, or has just begun; resume it "
            f"with: heed train {shell_word(path)} --resume"
        )
    progress = stored_progress(newest)
    best = path / "checkpoints" / f"step-{progress.best_step or progress.step}"
    for checkpoint in {newest, best}:
        check_fingerprint(checkpoint, folders.fingerprint(path))
    folders.verify(best, [folders.WEIGHTS], force)
    load_weights(model, best / folders.WEIGHTS)
    total, name = progress.total_steps, config.evaluation.select_by
    done = f"saved up to update {progress.step:,}{'' if total is None else f' of {total:,}'}"
    which = "the weights of its newest checkpoint, which were not validated yet"
    if progress.best_step:
        score = f"{name.replace('_', ' ')} {(-1 if name == 'loss' else 1) * progress.best_rank[0]:.4g}"
        which = f"the best weights so far, of update {progress.best_step:,} (validation {score})"
    return f"training has not finished ({done}): using {which}; if it was interrupted, {folders.how_to_finish(path)}"


def load(
    run: str | Path = "last",
    *,
    finished: bool = False,
    force: bool = False,
    step: int | None = None,
    device: str | torch.device = "auto",
) -> Run:
    """Open a run folder, or a packed run; "last" is the newest usable one under `runs/`.

    A run whose training has not finished is opened with its best weights so far; a warning and its `so_far` say so.

    Args:
        run: The folder, the file written by `heed pack`, or "last".
        finished: Refuse a run whose training has not finished.
        force: Open the run despite missing or altered files, with a warning. Weights that are not finite are still
            refused.
        step: Use the weights kept at this update (`training.snapshots`, or a checkpoint that is still there).
        device: Where the model computes: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1" or "mps".

    Raises:
        ConfigError: This machine has no such device; the message lists its devices.
        RunError: The folder is missing, damaged or of another format, or has no weights yet, or none of that step; the
            message says which file, or which steps there are.
    """
    where = choose_device(str(device), "device")
    path = folders.find(run, folders.State.FINISHED if finished and not force else folders.State.USABLE)
    for is_last in (False, False, True):
        state = _state(path)
        try:
            opened = _open(path, finished, force)
            break
        except RunError:
            if is_last or _state(path) == state:
                raise
    if step is not None:
        load_step(path, step, opened.model, force)
        opened.so_far = f"using the weights of update {step:,}"
    elif opened.so_far:
        warn(f"{path}: {opened.so_far}", HeedWarning, stacklevel=2)
    _move(opened, where)
    return opened


def _move(run: Run, device: torch.device) -> None:
    lower = "choose another device, such as cpu"
    with memory_explained(f"while moving the model of {run.folder} to {device}", lower):
        run.model.to(device)


def _state(path: Path) -> tuple[bytes, list[Path]]:
    """The present checksums, and checkpoints, of a run, which training that is still running, or ends, changes."""
    sums = b""
    with suppress(RunError):
        sums = read_bytes(path / CHECKSUMS)
    return sums, sorted((path / "checkpoints").glob("step-*"))


def _open(path: Path, finished: bool, force: bool) -> Run:
    folders.check_format(path)
    weights, so_far = path / folders.WEIGHTS, ""
    is_final = folders.state_of(path) is folders.State.FINISHED
    if force and not is_final and weights.is_file():
        is_final = True
        warn(f"{weights} has no checksum; using it anyway (--force)", HeedWarning, stacklevel=3)
    if not is_final:
        check_can_be_used(path, finished)
    with _weights_verified(path, force) if is_final else nullcontext():
        folders.verify(path, [name for name in folders.read_by_commands(path) if name != folders.WEIGHTS], force)
        config = check_config(*folders.read_settings(path))
        task = task_class(config.task).restore(config, path)
        task.folder = path
        size = weights.stat().st_size if weights.is_file() else 0
        lower = "close other programs, or use a machine with more memory"
        model = built(task, size, 2 * size, f"while loading {path}", lower)  # reading holds the weights twice
    if is_final:
        load_weights(model, weights)
    else:
        so_far = load_best_so_far(path, config, model, force)
        if not (path / CHECKSUMS).exists():
            so_far += f"; {CHECKSUMS} is missing, so the other files could not be compared"
    opened = Run(path, config, task, model, folders.read_report(path))
    opened.so_far = so_far
    return opened


@contextmanager
def _weights_verified(path: Path, force: bool) -> Iterator[None]:
    """Compare the weights with their checksum while the model is built: hashing releases Python's lock."""
    with ThreadPoolExecutor(1) as pool:
        verified = pool.submit(folders.damage, path, [folders.WEIGHTS])
        yield
        if verified.result():
            folders.verify(path, [folders.WEIGHTS], force)


def open_together(names: Sequence[str | Path], force: bool = False, device: str = "auto") -> Run:
    """Open one run folder, or several as an ensemble; arguments and errors as in `ensemble`."""
    if len(names) == 1:
        return load(names[0], force=force, device=device)
    return ensemble(names, force=force, device=device)


def ensemble(runs: Sequence[Run | str | Path], *, force: bool = False, device: str | torch.device | None = None) -> Run:
    """Combine runs of one task, of any architectures, by the mean of their probabilities.

    Runs of translation share their tokenizers, runs of classification or tagging their labels. Settings are those of
    the first run. `force` opens runs despite missing or altered files, with a warning. `device` is where all compute,
    as in `load`; by default where the first open run already is.

    Raises:
        ConfigError: No run is given, the runs are of different tasks, or two differ in a tokenizer or their labels;
            the message names the first difference. Or this machine has no such device.
    """
    if device is None:
        device = next((next(run.model.parameters()).device for run in runs if isinstance(run, Run)), "auto")
    opened = [run if isinstance(run, Run) else load(run, force=force, device=device) for run in runs]
    if not opened:
        raise ConfigError("an ensemble needs at least one run")
    for run in opened:
        _move(run, choose_device(str(device), "device"))
    check_one_task(opened, "answer together")
    capability(opened[0], "ensemble")
    return together(opened)
