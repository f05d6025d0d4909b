"""Base class of tasks: data, model, loss and scores, without presentation."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar
from warnings import warn

from heed.config import RunConfig
from heed.config.data import with_columns
from heed.config.reading import data_files
from heed.data.findings import Findings
from heed.data.splits.splits import Splits
from heed.data.splits.subset import take_subset
from heed.errors import ConfigError, DataError, HeedWarning
from heed.models.base import Body, ModelConfig
from heed.registry import body_class
from heed.storage.files import kind_of
from heed.tasks.base.rates import groups_of
from heed.tasks.base.settling import from_data, model_and_head, with_model
from heed.tasks.base.sources import changed_files
from heed.tasks.base.suggest_task import refuse_pictures
from heed.tasks.base.transfer import Parent, Transfers
from heed.training.contracts import Trainable
from heed.training.optimizer import Group

C = TypeVar("C", bound=RunConfig)
E = TypeVar("E")
"""An example."""


class Task(Transfers, Trainable, Generic[C, E]):
    """A task with splits and a model of a body and a head; the training loop uses only its `Trainable` part."""

    config: C
    units: ClassVar[Mapping[str, str]] = {}
    """Kind of row -> its name in messages, if different."""
    texts_are_examples: ClassVar[bool] = False
    """True if an example is only a text, so that a list of strings may be a list of examples."""
    pairs: ClassVar[bool] = False
    """True if an input is a pair of texts, which is handled as one text with a tab between both."""
    given: Mapping[str, Sequence[E]] | None = None
    """The examples that were passed in Python, by split."""
    folder: Path | None = None
    """The run folder that the task was opened from, with the digests of its data; None for a new run."""

    def __init__(self, config: C, splits: Splits[E] | None) -> None:
        self.config = config
        self._splits = splits

    @classmethod
    @abstractmethod
    def prepare(cls, config: C, given: Mapping[str, Sequence[E]] | None = None) -> Self:
        """Read the data, or take the `given` examples, train the tokenizers, settle the fields that depend on the data.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """

    @classmethod
    @abstractmethod
    def open_splits(cls, config: C, given: Mapping[str, Sequence[E]] | None = None) -> Splits[E]:
        """Read the data, or take the `given` examples.

        Raises:
            DataError: The data cannot be read.
        """

    @classmethod
    def read_splits(cls, config: C, given: Mapping[str, Sequence[E]] | None = None) -> Splits[E]:
        """The splits of `open_splits`, with only `training.train_size` training examples if that is set.

        Raises:
            ConfigError: There are fewer training examples than `training.train_size`.
            DataError: The data cannot be read.
        """
        refuse_pictures(config)
        splits = cls.open_splits(config) if given is None else cls.open_splits(config, given)
        size = config.training.train_size
        return splits if size is None else take_subset(splits, size, config.training.seed)

    @classmethod
    def hold(cls, data: Any, split: str, config: RunConfig, findings: Findings) -> Sequence[E]:
        """Convert Python data to examples: a data frame, a list, a dict of columns.

        Args:
            data: The data, in one of the forms of `heed.data.memory`.
            split: Its name in messages; the origin of example 17 is "train[17]".
            config: The settings for reading the data.
            findings: Policy for bad lines, and their counts.

        Raises:
            DataError: The data cannot be used; the message names the place, the value and what would be right.
            ConfigError: The task takes files only.
        """
        raise ConfigError(f"{config.task} reads files only; write the data to a file and give its path")

    @classmethod
    @abstractmethod
    def restore(cls, config: C, folder: Path) -> Self:
        """The task of a run folder; its data is opened only when asked for."""

    def settle(self, parent: Parent | None) -> Self:
        """Settle the configuration of a new run, which may start from another one."""
        self.parent = parent
        settled = self.settled()
        data = settled.data
        if getattr(data, "imported", None) is None:  # an imported run has no data
            data = with_columns(data, self.splits.columns)
        self.config = settled.model_copy(update={"data": data})
        return self

    @classmethod
    def resume(cls, config: C, folder: Path, given: Mapping[str, Sequence[E]] | None = None) -> Self:
        """The task of a resumed run, with the tokenizers and labels that it had when it began."""
        task = cls.restore(config, folder)
        task.given = given
        return task

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything derived from the data (tokenizers, labels) into a run folder."""

    @abstractmethod
    def overview(self) -> str:
        """The text of `heed check`: counts, lengths, unknown tokens, samples as the model sees them."""

    @abstractmethod
    def report_counts(self) -> dict[str, Any]:
        """For each split: the number of examples, and the task's other counts."""

    @abstractmethod
    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""

    @property
    @abstractmethod
    def selected_by(self) -> str:
        """The validation score that `select_by` "auto" stands for."""

    @property
    def splits(self) -> Splits[E]:
        """The examples; read on first use, with a warning of files that have changed since the run began.

        Raises:
            DataError: A file cannot be read, or is now a pipe or a device, reading which could wait forever.
        """
        if self._splits is None:
            _refuse_pipes(self.config)
            if self.folder is not None and self.given is None:
                for line in changed_files(self.config, self.folder):
                    warn(line, HeedWarning, stacklevel=2)
            self._splits = self.read_splits(self.config, self.given)
        return self._splits

    @property
    def split_names(self) -> list[str]:
        """The names of the splits that the data has."""
        return list(self.splits.examples)

    @property
    def title(self) -> str:
        """Title of a look without another one: the model and the data."""
        return f"{self.config.model.name} on {self.config.data.name}"

    @property
    def notes(self) -> str:
        """Remarks on what was read, kept and left out."""
        return self.splits.notes

    @property
    def finishing_work(self) -> float:
        examples = self.splits.examples
        tested = sum(len(e) for name, e in examples.items() if name not in ("train", "valid"))
        return 1.2 * tested / max(1, len(examples["valid"]))

    @property
    def patience(self) -> int:
        return 3

    @property
    def trained_validation(self) -> float:
        return 1.0

    @abstractmethod
    def build_model(self) -> Any:
        """A new model, its weights drawn from torch's random state."""

    def groups(self, model: Any) -> list[Group]:
        """The parts of a model that `training.layer_decay`, `freeze` and `unfreeze_every` treat differently.

        Raises:
            ConfigError: A field names a part that the model does not have.
        """
        return groups_of(model, self.body(model), self.config.training)

    @property
    def body_class(self) -> type[Body]:
        """The class of the model's body."""
        return body_class(self.config.model.name, self.interfaces)

    def model_and_head(self) -> tuple[ModelConfig, Any]:
        """The fields of the body and of the head, typed."""
        section = self.config.model
        return model_and_head(self.body_class, self.head_class, section.size, dict(section.model_extra or {}))

    @property
    def auto_size(self) -> str:
        """The named size that "auto" stands for."""
        return "small"

    def count_of(self, kind: str) -> int:
        """The number of rows that the data has of a kind of `size_fields`, before the model section is settled."""
        return len(self.axes()[kind])

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """Fields of the body, other than the sizes of `axes`, that follow from the data or from the head's fields."""
        return {}

    def head_fields(self, head: Any, given: dict[str, Any]) -> dict[str, Any]:
        """The head's fields to write into the configuration."""
        return dict(head.model_dump())

    def settled(self) -> C:
        """The configuration with every field of the model, and the score to select by, written out.

        Raises:
            ConfigError: A field contradicts the data, or is unknown.
        """
        config = self.config
        size = self.auto_size if config.model.size == "auto" else config.model.size
        return with_model(config, size, *self._model_of(size, config.model.model_extra or {}), self.selected_by)

    @property
    def model_defaults(self) -> dict[str, Any]:
        """The settled `model` section as it would be if only its name and size were given."""
        model, head = self._model_of(self.config.model.size, {})
        return {**model.model_dump(), **head}

    def _model_of(self, size: str, given: dict[str, Any]) -> tuple[ModelConfig, dict[str, Any]]:
        """The fields of the body and of the head for a size and the fields that were given."""
        fields = {**given}
        for kind, name in self.sizes.items():
            from_data(fields, name, self.count_of(kind), self.units.get(kind, kind))
        fields |= self.fields_from_data(fields)
        model, head = model_and_head(self.body_class, self.head_class, size, fields)
        return model, self.head_fields(head, fields)


def _refuse_pipes(config: RunConfig) -> None:
    """Refuse to read the data of a run again from anything but files and folders."""
    for path, field in data_files(config).items():
        try:
            kind = kind_of(os.stat(path))
        except (OSError, ValueError):  # reported when it is read
            continue
        if kind and not os.path.isdir(path):
            raise DataError(f"{field}: '{path}' is {kind}, but a run reads its data again later; save it to a file")
