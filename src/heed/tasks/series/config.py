"""The configuration of series."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from heed.config.data import InMemory, by_name
from heed.config.sections import (
    DataPath,
    EvaluationConfig,
    ModelSection,
    RunConfig,
    Section,
    from_left_to_right,
    listed,
)


class SeriesData(Section):
    """Series of numbers in chronological order: CSV or TSV, column names first (`heed.data.kinds.numbers`)."""

    train: list[DataPath] = Field(min_length=1)
    """Training files, each a series of its own, with the same columns. Relative to the configuration."""
    valid: list[DataPath] | int | None = None
    """Validation files, or how many of each training file's last rows to hold out; a tenth by default."""
    test: list[DataPath] | int | None = None
    """Test files, or how many of each training file's last rows to hold out, after the validation rows."""
    columns: tuple[int | str, ...] | None = None
    """Columns to read and forecast, by name or by number from 0; all by default."""
    window: int = Field(48, gt=1)
    """Rows read before the first forecast row, and rows of a training example."""
    horizon: int = Field(12, gt=0, le=100_000)
    """Rows to forecast; each forecast row is fed back to forecast the next."""
    season: int | None = Field(None, gt=0)
    """Period of the series in rows (12 for monthly data); adds the seasonal naive forecast as a baseline."""

    _one_file = field_validator("train", "valid", "test", mode="before")(listed)

    @property
    def name(self) -> str:
        """Name of the data: the first training file without its endings."""
        return Path(self.train[0]).name.split(".")[0] or "series"


class MemorySeries(InMemory, SeriesData):
    """Series of numbers passed in Python."""


class SeriesModelSection(ModelSection):
    """Which model of a series; all other fields are the model's and the head's own."""

    name: str = "rnn"
    """File in `heed/models`."""


class SeriesHead(Section):
    """Head that maps the network's states to the next row; its fields are in `model`, with the model's own."""

    difference: bool = True
    """Whether the output is the change from the last row, x(t+1) = x(t) + V h(t) + b; false: the next row itself."""
    bidirectional: Literal[False] = False
    """Always false: a network that also reads backwards would see the row it has to predict."""


class SeriesEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss, the mean squared error one row ahead."""


class SeriesConfig(RunConfig):
    """The configuration of a run over series of numbers."""

    task: Literal["series"] = "series"
    """What is learned."""
    data: Annotated[
        Annotated[SeriesData, Tag("files")] | Annotated[MemorySeries, Tag("memory")], Discriminator(by_name())
    ]
    """Where the examples come from."""
    model: SeriesModelSection = SeriesModelSection()
    """Which model."""
    evaluation: SeriesEvaluation = SeriesEvaluation()
    """How it is scored."""

    _direction = model_validator(mode="before")(
        from_left_to_right("a forecaster that reads backwards would see the row to predict and learn to copy it")
    )
