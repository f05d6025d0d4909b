"""Opening a run folder; the files read are compared with the checksums written with them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from warnings import warn

from heed import folder as folders
from heed.errors import HeedWarning, RunError
from heed.runs.building import build_to_load
from heed.runs.unfinished import check_can_be_used, load_best_so_far
from heed.storage.disk import CHECKSUMS
from heed.storage.files import read_bytes
from heed.tasks import check_config, run_class
from heed.tasks.base.run import Run
from heed.training.weights import load_weights

_TRIES = 3
"""Number of attempts: training that ends during reading may change the folder."""


def load(run: str | Path = "last", *, finished: bool = False, force: bool = False) -> Run[Any, Any]:
    """Open a run folder; "last" is the newest usable one under `runs/`.

    A run whose training has not finished is opened with its best weights so far; a warning and its `so_far` say so.

    Args:
        run: The folder, or "last".
        finished: Refuse a run whose training has not finished.
        force: Open the run despite missing or altered files, with a warning. Weights that are not finite are still
            refused.

    Raises:
        RunError: The folder is missing, damaged or of another format, or has no weights yet; the message says which
            file.
    """
    path = folders.find(run, folders.State.FINISHED if finished and not force else folders.State.USABLE)
    for tries in range(_TRIES):
        sealed = _seal(path)
        try:
            opened = _open(path, finished, force)
            break
        except RunError:
            if tries == _TRIES - 1 or _seal(path) == sealed:
                raise
    if opened.so_far:
        warn(f"{path}: {opened.so_far}", HeedWarning, stacklevel=2)
    return opened


def _seal(path: Path) -> bytes | None:
    """The present content of the checksums file; None if it cannot be read."""
    try:
        return read_bytes(path / CHECKSUMS)
    except RunError:
        return None


def _open(path: Path, finished: bool, force: bool) -> Run[Any, Any]:
    folders.check_format(path)
    weights, so_far = path / folders.WEIGHTS, ""
    is_final = folders.state_of(path) is folders.State.FINISHED
    if force and not is_final and weights.is_file():
        is_final = True
        warn(f"{weights} has no checksum; using it anyway (--force)", HeedWarning, stacklevel=3)
    if not is_final:
        check_can_be_used(path, finished)
    with _weights_verified(path, force) if is_final else _nothing():
        folders.verify(path, [name for name in folders.read_by_commands(path) if name != folders.WEIGHTS], force)
        config = check_config(*folders.read_settings(path))
        kind = run_class(config.task)
        task = kind.task_class.restore(config, path)
        task.folder = path
        model = build_to_load(task, weights)
    if is_final:
        load_weights(model, weights)
    else:
        so_far = load_best_so_far(path, config, model, force)
        if not (path / CHECKSUMS).exists():
            so_far += f"; {CHECKSUMS} is missing, so the other files could not be compared"
    opened = kind(path, config, task, model, folders.read_report(path))
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


@contextmanager
def _nothing() -> Iterator[None]:
    yield
