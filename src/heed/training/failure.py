"""Errors of training: a checkpoint that cannot be written, a loss or gradient that is not finite."""

from __future__ import annotations

import math
from pathlib import Path

from heed.config import TrainingConfig
from heed.errors import DiskError, TrainingError
from heed.training.checkpoint import Progress, latest_checkpoint
from heed.visible import shell_word


def not_saved(error: DiskError, p: Progress, checkpoints: Path) -> DiskError:
    """The error for a checkpoint that cannot be written; it says where the run stands and how to resume."""
    before = latest_checkpoint(checkpoints)
    last = f"the last checkpoint is {before.name}" if before is not None else "there is no checkpoint yet"
    return DiskError(
        f"{error}; stopped at update {p.step}, {last}; when there is space on the disk, resume with: "
        f"heed train {shell_word(checkpoints.parent)} --resume"
    )


def not_finite(
    loss: float, norm: float, rate: float, examples: str, p: Progress, config: TrainingConfig, checkpoints: Path
) -> TrainingError:
    """The error for a loss or gradient that is not finite; `norm` is the gradient's, `examples` those of the update."""
    what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
    before = latest_checkpoint(checkpoints)
    back = f"; the last checkpoint is {before.name}" if before is not None else ""
    return TrainingError(
        f"{what} at update {p.step + 1} (pass {p.epoch + 1}, learning rate {rate:.2g}) on {examples}; lower "
        f"training.learning_rate (now {config.learning_rate}) or raise training.warmup (now {config.warmup}){back}"
    )
