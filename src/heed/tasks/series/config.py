"""The configuration of series."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from heed.config.data import Source, Sources, section
from heed.config.sections import (
    DataPath,
    EvaluationConfig,
    ModelSection,
    RunConfig,
    Section,
    from_left_to_right,
)


class Series(Source):
    """Series of numbers in chronological order: CSV or TSV, column names first (`heed.data.kinds.numbers`)."""

    train: list[DataPath] = Field(min_length=1)
    """Training files, each a series of its own, with the same columns. Relative to the configuration."""
    valid: list[DataPath] | int | None = None
    """Validation files, or how many of each training file's last rows to hold out; a tenth by default."""
    test: list[DataPath] | int | None = None  # type: ignore[assignment]  # rows are held out for a test, too
    """Test files, or how many of each training file's last rows to hold out, after the validation rows."""
    columns: Any = section(date=(str, "auto"), series=(str | None, None), values=(tuple[int | str, ...] | None, None))
    """Columns of a series, or a list of those to read and forecast.

    - date: Column of the dates, which order the rows; auto: recognised by its values; none: rows are in order of time.
    - series: Column that names the series of each row, in files of several; each is forecast.
    - values: Columns to read and forecast, by name or by number from 0; all others by default. `data.columns=[a,b]` is
      short for it.
    """
    date_format: str | None = None
    """Format of the dates, as Python's `strptime` reads it, with %q for quarters; recognised by default."""
    missing: Literal["refuse", "interpolate"] = "refuse"
    """What to do with missing values: refuse, or interpolate between the values before and after, linearly in time."""
    window: Annotated[int, Field(gt=1)] | Literal["auto"] = "auto"
    """Rows read before the first forecast row, and rows of a training example; auto: 48, two seasons if
    longer, or a third of a short series."""
    horizon: int = Field(12, gt=0, le=100_000)
    """Rows to forecast; each forecast row is fed back to forecast the next."""
    season: Annotated[int, Field(gt=0)] | Literal["auto", "none"] | None = "auto"
    """Period of the series in rows, of the seasonal naive forecast, a baseline; auto: by the spacing of the dates (24
    hours, 7 days, 12 months, ...); none or 1: no season."""

    @field_validator("columns", mode="before")
    @classmethod
    def _values(cls, columns: Any) -> Any:
        """Allow one column, or a list of them, in place of the section."""
        values = [columns] if isinstance(columns, int | str) else columns
        return values if isinstance(values, dict | Section) else {"values": values}


class SeriesModelSection(ModelSection):
    """Which model of a series; all other fields are the model's and the head's own."""

    name: str = "rnn"
    """File in `heed/models`."""


class SeriesEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss, the mean squared error of forecasts of
    data.horizon rows."""


class SeriesConfig(RunConfig):
    """The configuration of a run over series of numbers."""

    task: Literal["series"] = "series"
    """What is learned."""
    data: Annotated[Series, Sources(Series, without="bad_lines encoding max_line duplicates overlap")]
    """Where the examples come from."""
    model: SeriesModelSection = SeriesModelSection()
    """Which model."""
    evaluation: SeriesEvaluation = SeriesEvaluation()
    """How it is scored."""

    _direction = model_validator(mode="before")(
        from_left_to_right("a forecaster that reads backwards would see the row to predict and learn to copy it")
    )
