"""What a run is looked at beside: its untrained network, its weights at an earlier update, or another run."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from heed import folder as folders
from heed.errors import RunError
from heed.training.checkpoint import check_own, stored_steps
from heed.training.weights import load_weights


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
            "shares of the updates)"
        )
    path = folder / "checkpoints" / f"step-{step}"
    check_own(path, folders.made_of(folder))
    folders.verify(path, [folders.WEIGHTS], force)
    load_weights(model, path / folders.WEIGHTS)
