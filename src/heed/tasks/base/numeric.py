"""What the tasks over numbers share: standardised columns that travel with the run, a settled model."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from pydantic import BaseModel
from torch import Tensor

from heed.config import RunConfig, TokenizerConfig
from heed.data.read.numbers import Standard
from heed.device import to_device
from heed.errors import ConfigError
from heed.models.base import Body, ModelConfig
from heed.registry import body_class
from heed.storage.disk import write_whole
from heed.tasks.base.settling import NoHead, from_data, model_and_head, with_model
from heed.tasks.base.transfer import Transfers

__all__ = ["NumericTask", "ValuesBatch"]

_STANDARD = "standard.json"
C = TypeVar("C", bound=RunConfig)


@dataclass(frozen=True)
class ValuesBatch:
    """Numbers, standardised, and what is to be said of them.

    Attributes:
        indices: Which examples.
        values: `(batch, columns)` or `(batch, length, columns)`.
        targets: Labels `(batch,)`, or the rows one later, as `values`.
    """

    indices: list[int]
    values: Tensor
    targets: Tensor

    @property
    def num_targets(self) -> int:
        """Numbers or labels that are predicted."""
        return self.targets.numel()

    @property
    def padding_share(self) -> float:
        """Rows of numbers are all of one length."""
        return 0.0

    def to(self, device: torch.device) -> ValuesBatch:
        """The batch on a device."""
        return to_device(self, device)


class NumericTask(Transfers, Generic[C]):
    """A task over columns of numbers; see `heed.tasks.base.task.Task` for what it promises.

    Attributes:
        config: The configuration.
        standard: Mean and deviation of each column in training.
    """

    size_fields: ClassVar = {"columns": "num_columns"}
    head_class: ClassVar[type[BaseModel]] = NoHead
    selected_by: ClassVar[str]
    config: C

    def __init__(self, config: C, standard: Standard) -> None:
        self.config = config
        self.standard = standard

    @classmethod
    def refuse(cls, config: RunConfig) -> None:
        """Refuse what does not apply to numbers.

        Raises:
            ConfigError: It names the field.
        """
        if config.tokenizer != TokenizerConfig():
            raise ConfigError(f"the tokenizer section does not apply to {config.task}, whose data is numbers")

    @classmethod
    @abstractmethod
    def restore(cls, config: C, folder: Path) -> Self:
        """The task of a run folder; its data is opened only when asked for."""

    @classmethod
    def resume(cls, config: C, folder: Path) -> Self:
        """The task of a run that goes on."""
        return cls.restore(config, folder)

    @classmethod
    def load_standard(cls, folder: Path) -> Standard:
        """The standardisation of a run folder."""
        return Standard.load(folder / _STANDARD)

    def save(self, folder: Path) -> None:
        """Write the standardisation into a run folder."""
        text = self.standard.text()
        write_whole(folder / _STANDARD, lambda part: part.write_text(text, encoding="utf-8"))

    @property
    def body_class(self) -> type[Body]:
        """The model's class."""
        return body_class(self.config.model.name, self.interfaces)

    def model_and_head(self) -> tuple[ModelConfig, Any]:
        """The model's fields and the head's, typed."""
        section = self.config.model
        return model_and_head(self.body_class, self.head_class, section.size, dict(section.model_extra or {}))

    def settled(self) -> C:
        """The configuration with the model's fields, its number of columns and the selecting score written out."""
        config = self.config
        size = "small" if config.model.size == "auto" else config.model.size
        fields = {**(config.model.model_extra or {})}
        from_data(fields, "num_columns", len(self.standard.columns), "columns")
        model, head = model_and_head(self.body_class, self.head_class, size, fields)
        return with_model(config, size, model, head.model_dump(), self.selected_by)

    def axes(self) -> dict[str, list[str]]:
        """The columns."""
        return {"columns": [*self.standard.columns]}

    def tensor(self, values: Any) -> Tensor:
        """Rows in their own units as the model reads them."""
        return torch.tensor(self.standard.apply(values), dtype=torch.float32)
