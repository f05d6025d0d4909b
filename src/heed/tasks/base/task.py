"""What every task promises to the commands: where data, model, loss and scores meet, and nothing of how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from torch import nn

from heed.config import RunConfig
from heed.tasks.base.started import Started
from heed.training.contracts import Trainable


class Task(Trainable, Protocol):
    """A task; the training loop sees the part of it that is `Trainable`."""

    @property
    def config(self) -> RunConfig:
        """The configuration, with every field decided."""
        ...

    @classmethod
    def prepare(cls, config: Any) -> Self:
        """Read the data, train the tokenizers, settle what depends on the data.

        Raises:
            ConfigError, DataError: What the user asked for cannot be.
        """
        ...

    @classmethod
    def restore(cls, config: Any, folder: Path) -> Self:
        """The task of a run folder; its data is opened only when asked for."""
        ...

    @classmethod
    def resume(cls, config: Any, folder: Path) -> Self:
        """The task of a run that goes on: as prepared, with what it learned from the data read from the folder."""
        ...

    def save(self, folder: Path) -> None:
        """Write what it learned from the data (tokenizers, labels) into a run folder."""
        ...

    def build_model(self) -> nn.Module:
        """A new model, its weights drawn from torch's random state."""
        ...

    def axes(self) -> Mapping[str, Sequence[str]]:
        """Kind of row ("tokens", "labels", "columns") -> the names of its rows, in order."""
        ...

    def body(self, model: Any) -> nn.Module:
        """The part of a model that other tasks can use."""
        ...

    def start(self, model: Any) -> dict[str, Started]:
        """Fill a new model with what it begins with: a parent's weights, given vectors; by name for the report."""
        ...

    @property
    def split_names(self) -> list[str]:
        """The sets that the data has: "train", "valid", "test", "unseen"."""
        ...

    @property
    def notes(self) -> str:
        """What was read, kept and left out, for people."""
        ...

    def overview(self) -> str:
        """What `heed check` says: counts, lengths, unknown tokens, samples as the model sees them."""
        ...

    def report_counts(self) -> dict[str, Any]:
        """Per set: examples and what else can be counted."""
        ...

    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""
        ...
