"""What the training loop asks of a task, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from heed.training.checkpoint import Progress


class Batch(Protocol):
    """What the loop must know of a batch."""

    @property
    def indices(self) -> list[int]:
        """Which examples."""
        ...

    @property
    def num_targets(self) -> int:
        """Target tokens, over which the loss is averaged."""
        ...

    @property
    def padding_share(self) -> float:
        """Share of padding."""
        ...

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        ...


class Trainable(Protocol):
    """A task as the loop sees it."""

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass, as indices of examples; depends on (seed, epoch) only, and so does its `repr`."""
        ...

    def collate(self, indices: list[int]) -> Batch:
        """Make one batch."""
        ...

    def loss(self, model: Any, batch: Any, label_smoothing: float) -> Tensor:
        """Sum of the losses of a batch's target tokens."""
        ...

    def validate(self, model: Any) -> dict[str, float]:
        """Scores on the validation set, "loss" (nats per token) among them."""
        ...

    def describe(self, indices: list[int]) -> str:
        """Name examples to a person."""
        ...

    @property
    def finishing_work(self) -> float:
        """What the final evaluation costs, in validations."""
        ...


@runtime_checkable
class Scores(Protocol):
    """A task that knows what scoring takes, where that may be more than training does."""

    def scoring_memory(self, model: Any, activations: float) -> int:
        """Bytes that scoring needs beside the model.

        Args:
            model: What is scored.
            activations: Bytes that a training step keeps for each position.
        """
        ...


@dataclass
class TrainResult:
    """How a run ended.

    Attributes:
        folder: The run folder.
        finished: False where it was interrupted and can be resumed.
        reason: Why it ended, for people.
        progress: Where it stands.
        validation: Scores of the weights that were kept.
        kept: Which weights those are, for people.
        tokens_per_second: Target tokens, mean over the run, validation not counted.
        padding_share: Mean share of padding in the batches.
        waiting_share: Share of the time of all updates for which the next batches were waited for.
    """

    folder: Path
    finished: bool
    reason: str
    progress: Progress
    validation: dict[str, float]
    kept: str
    tokens_per_second: float
    padding_share: float
    waiting_share: float
