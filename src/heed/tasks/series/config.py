"""The configuration of series."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from heed.config.memory import InMemory, memory_or
from heed.config.sections import DataPath, EvaluationConfig, ModelSection, RunConfig, Section


class SeriesData(Section):
    """Series of numbers in the order of time: CSV or TSV with column names first (`heed.data.read.numbers`)."""

    train: list[DataPath] = Field(min_length=1)
    """Training files, each a series of its own, with the same columns. Relative to the configuration."""
    valid: list[DataPath] | int | None = None
    """Validation files, or how many of each training file's last rows to hold out; a tenth by default."""
    test: list[DataPath] | int | None = None
    """Test files, or how many of each training file's last rows to hold out, behind those for validation."""
    columns: tuple[int | str, ...] | None = None
    """Columns to read and forecast, by name or by number from 0; all by default."""
    window: int = Field(48, gt=1)
    """Rows that are read before the first forecast one, and rows of a training example."""
    horizon: int = Field(12, gt=0)
    """Rows that are forecast, each from those forecast before it."""
    season: int | None = Field(None, gt=0)
    """Rows after which the series repeats itself (12 for months): for the seasonal naive forecast to compare with."""

    @field_validator("train", "valid", "test", mode="before")
    @classmethod
    def _one_file(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @property
    def name(self) -> str:
        """What to call the data: the first training file without its endings."""
        return Path(self.train[0]).name.split(".")[0] or "series"


class MemorySeries(InMemory, SeriesData):
    """Series of numbers given as Python data."""


class SeriesModelSection(ModelSection):
    """Which model of a series; all other fields are the model's and the task's own."""

    name: str = "rnn"
    """File in `heed/models`."""


class SeriesHead(Section):
    """From the states of a network to the next row; these fields stand in `model` beside the model's own."""

    difference: bool = True
    """The network gives the change from the last row, x(t+1) = x(t) + V h(t) + b; if not, the row itself."""
    bidirectional: Literal[False] = False
    """Always false: a network that also reads backwards would see the row to predict."""


class SeriesEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss, the mean squared error one row ahead."""


class SeriesConfig(RunConfig):
    """The configuration of a run over series of numbers."""

    task: Literal["series"] = "series"
    """What is learned."""
    data: Annotated[
        Annotated[SeriesData, Tag("files")] | Annotated[MemorySeries, Tag("memory")], Discriminator(memory_or("files"))
    ]
    """Where the examples come from."""
    model: SeriesModelSection = SeriesModelSection()
    """Which model."""
    evaluation: SeriesEvaluation = SeriesEvaluation()
    """How it is scored."""

    @model_validator(mode="before")
    @classmethod
    def _not_from_the_end(cls, values: Any) -> Any:
        model = values.get("model") if isinstance(values, dict) else None
        for field in ("bidirectional", "backward"):
            if isinstance(model, dict) and model.get(field) is True:
                raise ValueError(
                    f"model.{field} is true, but a forecaster must not read backwards: it would see the row to predict "
                    f"and learn to copy it; leave model.{field} out"
                )
        return values
