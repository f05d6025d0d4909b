"""A task's part in Hugging Face checkpoints: its heads. `exchange.huggingface` reads and writes the bodies.

A task with such checkpoints has one subclass of `TaskCheckpoint` in its `huggingface.py`, and in `architectures` of
its specification the endings of their class names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from torch import Tensor

from heed.config import RunConfig
from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.files import Entry
from heed.models.base import ModelConfig
from heed.registry import body_class

if TYPE_CHECKING:
    from heed.data.tokens.tokenizer import TextTokenizer
    from heed.tasks.base.run import Run

C = TypeVar("C", bound=RunConfig)
_FRAME = 2
"""Start and end token."""


@dataclass(frozen=True)
class Exportable:
    """The content of a run that a checkpoint is to have."""

    body: ModelConfig  # the configuration of its body
    heads: frozenset[str]  # the heads on the body: "words", "order", "labels", "tags", "output"
    tokenizers: Mapping[str, TextTokenizer]  # by role, "tokens" or "source" and "target"
    tied: bool = True  # True if the output layer is the embedding table
    label_bias: bool | None = None  # True if the layer over the labels of a text has a bias; None without this layer
    settings: Mapping[str, Any] = field(default_factory=dict)  # further fields of config.json, such as `id2label`
    notes: tuple[str, ...] = ()  # notes for a reader of the checkpoint
    left: frozenset[str] = frozenset()  # parts of the model that a checkpoint cannot contain; a note says so
    files: Mapping[str, Any] = field(default_factory=dict)  # further JSON files, by name

    def held(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the run's model that a checkpoint contains, by name."""
        return {name: one for name, one in tensors.items() if name.partition(".")[0] not in self.left}


class TaskCheckpoint(ABC, Generic[C]):
    """Reader and writer of a task's checkpoints."""

    places: ClassVar[Mapping[str, str]]
    """Names of the body and the heads in the task's model, as {"body": "body", "labels": "output"}; "" is the model."""

    @classmethod
    @abstractmethod
    def heads(cls, checkpoint: Checkpoint) -> frozenset[str]:
        """The heads of the checkpoint's model, by its architecture and its tensors.

        Raises:
            ConfigError: The checkpoint has a head that the task does not.
        """

    @classmethod
    @abstractmethod
    def sections(cls, checkpoint: Checkpoint, heads: frozenset[str], tied: bool) -> dict[str, Any]:
        """Sections of the configuration: fields of the head in `model`, fields of `data` that are not the default."""

    @classmethod
    @abstractmethod
    def task(cls, config: C, checkpoint: Checkpoint) -> Any:
        """The task with the checkpoint's tokenizers and labels, not yet settled."""

    @classmethod
    @abstractmethod
    def exportable(cls, run: Run[Any, Any]) -> Exportable:
        """The content of a run that a checkpoint is to have.

        Raises:
            ConfigError: No checkpoint can express the run; the message names the field.
        """

    @classmethod
    def remarks(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Remarks for the user on how a checkpoint was read, in addition to those on its tensors."""
        return ()

    @classmethod
    def ours(cls, table: Sequence[Entry]) -> list[Entry]:
        """A family's table with the tensor names of the task's model."""
        return [replace(line, ours=tuple(map(cls._named, line.ours))) for line in table]

    @classmethod
    def _named(cls, name: str) -> str:
        part, _, rest = name.partition(".")
        place = cls.places.get(part)
        assert place is not None, f"{cls.__name__} has no place for {name}"
        return f"{place}.{rest}" if place else rest


def names_of_labels(labels: Sequence[str]) -> dict[str, Any]:
    """The fields of config.json that name labels."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def longest_text(checkpoint: Checkpoint) -> int:
    """The most tokens of a text that the checkpoint reads, without its start and end token."""
    most = checkpoint.family.fields(checkpoint.settings, checkpoint.files, frozenset()).get("max_length", 1_000)
    framed = getattr(body_class(checkpoint.family.model, ("encoder",)), "framed", False)
    return max(1, int(most) - (_FRAME if framed else 0))
