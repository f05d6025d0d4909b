"""Interfaces between the training loop and tasks, and the result of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from heed.training.checkpoint import Progress
from heed.training.optimizer import Group


class Batch(Protocol):
    """A batch as the loop sees it."""

    @property
    def indices(self) -> list[int]:
        """Indices of the examples."""

    @property
    def num_targets(self) -> int:
        """Target tokens, over which the loss is averaged."""

    @property
    def padding_share(self) -> float:
        """Share of padding."""

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""


@dataclass(frozen=True)
class Loss:
    """A loss with several terms."""

    sum: Tensor  # of all terms, over the batch's target tokens; minimised by training
    parts: Mapping[str, Tensor]  # terms by name, for `metrics.jsonl`


def parts_of(loss: Tensor | Loss) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum of a loss, and its terms without their gradient."""
    if isinstance(loss, Tensor):
        return loss, {}
    return loss.sum, {name: term.detach() for name, term in loss.parts.items()}


class Trainable(Protocol):
    """A task as the loop sees it."""

    targets: ClassVar[str] = "tokens"
    """Display name of what a batch's `num_targets` counts."""
    same_shapes: ClassVar[bool] = False
    """True if nearly all batches have the same shape, for which compiled updates are then made."""
    is_exact_in_bf16: bool = False
    """True if the model's scores after training in bf16 were shown to be those of float32; set by the task."""
    valid_share: float = 1.0
    """Share of the validation set, evenly chosen, that `validate` scores; set by the loop."""

    @property
    def patience(self) -> int:
        """Default number of validations without a better score after which a run under a time budget ends."""

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass, as indices of examples; depends on (seed, epoch) only, and so does its `repr`."""

    def collate(self, indices: list[int], epoch: int = 0) -> Batch:
        """Make one batch; its random draws (masks, augmentation) depend on (seed, epoch, indices) only."""

    def loss(self, model: Any, batch: Any, label_smoothing: float) -> Tensor | Loss:
        """Sum of the losses of a batch's target tokens."""

    def validate(self, model: Any) -> dict[str, float]:
        """Scores on the validation set, "loss" (nats per token) among them."""

    def describe(self, indices: list[int], epoch: int) -> str:
        """Describe examples of a pass for a message."""

    @property
    def finishing_work(self) -> float:
        """Cost of the final evaluation, in validations."""

    @property
    def trained_validation(self) -> float:
        """Cost of validating a trained model, as a share of validating an untrained one."""

    @property
    def most_updates(self) -> int | None:
        """Updates after which a run under a time budget ends, though time is left; None if only time ends it."""

    def groups(self, model: Any) -> list[Group]:
        """The parts of a model that are trained at different rates, or not at all; no parameter is in two of them."""

    def carried(self) -> dict[str, Tensor]:
        """The state that the next batch goes on from (truncated back-propagation through time), for checkpoints."""

    def carry(self, state: dict[str, Tensor]) -> None:
        """Continue from a state; an empty one starts afresh."""

    def scoring_memory(self, model: Any, activations: float) -> int:
        """Bytes that scoring needs in addition to the model; `activations`: bytes training keeps for each position."""


class Losses(nn.Module):
    """A model and its task's loss as one module, for DistributedDataParallel to wrap."""

    def __init__(self, model: nn.Module, task: Trainable, label_smoothing: float) -> None:
        super().__init__()
        self.model = model
        self._task = task
        self._label_smoothing = label_smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch, `()`, and its terms."""
        return parts_of(self._task.loss(self.model, batch, self._label_smoothing))


@dataclass
class TrainResult:
    """The result of a training run."""

    folder: Path  # the run folder
    finished: bool  # False where it was interrupted and can be resumed
    reason: str  # why it ended, for display
    progress: Progress  # at its end
    validation: dict[str, float]  # scores of the weights that were kept
    kept_weights: str  # which weights those are, for display
    validated: float = 1.0  # share of the validation set that `validation` is on
