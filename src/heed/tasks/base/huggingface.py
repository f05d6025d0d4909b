"""How a task reads and writes Hugging Face checkpoints: its heads, beside what `exchange.huggingface` knows of bodies.

A task that takes part has one subclass of `TaskCheckpoint` in its `huggingface.py`, and in `architectures` of its
specification the endings of the class names that are its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from torch import Tensor

from heed.config import RunConfig
from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.family import Vocabularies
from heed.exchange.huggingface.table import Entry
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
    """What a checkpoint is to hold of a run.

    Attributes:
        body: The configuration of its body.
        heads: What stands on the body: "words", "order", "labels", "tags", "output".
        tokenizers: By role, "tokens" or "source" and "target".
        tied: Whether the output layer is the table of embeddings.
        label_bias: Whether the layer over the labels of a text has a bias; None without such a layer.
        settings: Further fields of config.json, as `id2label`.
        notes: What a reader of the checkpoint should know.
        left: Parts of the model that a checkpoint cannot hold; a note says so.
        files: Further files of JSON, by name, made with the numberings.
    """

    body: ModelConfig
    heads: frozenset[str]
    tokenizers: Mapping[str, TextTokenizer]
    tied: bool = True
    label_bias: bool | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    left: frozenset[str] = frozenset()
    files: Callable[[Vocabularies], Mapping[str, Any]] | None = None

    def held(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the run's model that a checkpoint holds, by name."""
        return {name: one for name, one in tensors.items() if name.partition(".")[0] not in self.left}


class TaskCheckpoint(ABC, Generic[C]):
    """How a task reads and writes checkpoints."""

    places: ClassVar[Mapping[str, str]]
    """What the task's model calls the body and the heads, as {"body": "body", "labels": "output"}; "" is itself."""

    @classmethod
    @abstractmethod
    def heads(cls, checkpoint: Checkpoint) -> frozenset[str]:
        """The heads that the checkpoint's model has, by its architecture and its tensors.

        Raises:
            ConfigError: The task lacks one.
        """

    @classmethod
    @abstractmethod
    def sections(cls, checkpoint: Checkpoint, heads: frozenset[str], tied: bool) -> dict[str, Any]:
        """Sections of the configuration: fields of the head in `model`, what is not the default in `data`."""

    @classmethod
    @abstractmethod
    def task(cls, config: C, checkpoint: Checkpoint) -> Any:
        """The task with what the checkpoint knows (tokenizers, labels), not yet settled."""

    @classmethod
    @abstractmethod
    def exportable(cls, run: Run[Any, Any]) -> Exportable:
        """What a checkpoint is to hold of a run.

        Raises:
            ConfigError: No checkpoint can express it; the message names the field.
        """

    @classmethod
    def remarks(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        """What a user should know of how a checkpoint was read, beside its tensors."""
        return ()

    @classmethod
    def ours(cls, table: Sequence[Entry]) -> list[Entry]:
        """A family's table with the names of the task's model."""
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
    """The most tokens of a text that the checkpoint reads, without those that stand around it."""
    most = checkpoint.family.fields(checkpoint.settings, checkpoint.files, frozenset()).get("max_length", 1_000)
    framed = getattr(body_class(checkpoint.family.model, ("encoder",)), "framed", False)
    return max(1, int(most) - (_FRAME if framed else 0))
