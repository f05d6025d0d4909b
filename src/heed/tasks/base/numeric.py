"""Base class of tasks over columns of numbers; apart from the others, which start without pandas."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic

import numpy as np
import torch
from torch import Tensor

from heed.config import RunConfig, TokenizerConfig
from heed.data.batch import Batch
from heed.data.kinds.features import Standard, load, save
from heed.data.splits import Splits
from heed.errors import ConfigError, DataError
from heed.tasks.base.task import C, E, Task
from heed.visible import escaped

_STANDARD = "standard.json"
_FARTHEST = 1e15
"""Standard deviations from the training mean beyond which squares and their sums overflow float32."""


@dataclass(frozen=True)
class ValuesBatch(Batch):
    """Standardised numbers and their targets."""

    indices: list[int]  # which examples
    values: Tensor  # `(batch, columns)` or `(batch, length, columns)`
    targets: Tensor  # labels `(batch,)`, or the next rows, shaped as `values`

    @property
    def num_targets(self) -> int:
        """Number of values or labels to predict."""
        return self.targets.numel()

    @property
    def padding_share(self) -> float:
        return 0.0


class NumericTask(Task[C, E], Generic[C, E]):
    """A task over columns of numbers, standardised by the training rows (`standard`)."""

    size_fields: ClassVar = {"columns": "num_columns"}

    def __init__(self, config: C, standard: Standard, splits: Splits[E] | None) -> None:
        super().__init__(config, splits)
        self.standard = standard

    @classmethod
    def refuse(cls, config: RunConfig) -> None:
        """Refuse settings that do not apply to numbers.

        Raises:
            ConfigError: The message names the field.
        """
        if config.tokenizer != TokenizerConfig():
            raise ConfigError(f"the tokenizer section does not apply to {config.task}, whose data is numbers")

    @classmethod
    def load_standard(cls, folder: Path) -> Standard:
        """The standardisation of a run folder."""
        return load(folder / _STANDARD, Standard)

    def save(self, folder: Path) -> None:
        save(folder / _STANDARD, self.standard)

    def axes(self) -> dict[str, list[str]]:
        return {"columns": [*self.standard.columns]}

    def column_lines(self, standard: Standard | None = None) -> list[str]:
        """Mean and standard deviation of each column, of the input by default, for people."""
        standard = standard or self.standard
        rows = zip(standard.columns, standard.mean, standard.deviation, strict=True)
        return [f"  {escaped(name):<24} mean {mean:>12.5g}  deviation {spread:>12.5g}" for name, mean, spread in rows]

    def tensor(self, values: Any, first: int = 0) -> Tensor:
        """Standardise rows for the model; `first` is the number of rows before them, for messages.

        Raises:
            DataError: A number is so far from the training rows that its square is not finite in 32 bits.
        """
        applied = self.standard.apply(values)
        if np.abs(applied).max(initial=0.0) > _FARTHEST:
            far = np.abs(applied).reshape(-1, applied.shape[-1])
            column = int(far.max(0).argmax())
            row = int(far[:, column].argmax())
            value, standard = np.asarray(values).reshape(far.shape)[row, column], self.standard
            raise DataError(
                f"column '{standard.columns[column]}': {value:g} (row {first + row + 1}) is too far from the training "
                f"rows to compute with (mean {standard.mean[column]:g}, deviation {standard.deviation[column]:g})"
            )
        return torch.tensor(applied, dtype=torch.float32)
