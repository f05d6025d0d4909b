"""The configuration of table."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Tag

from heed.config.data import InMemory, LabelledData, by_name
from heed.config.sections import EvaluationConfig, ModelSection, RunConfig, Section


class TableColumns(Section):
    """Columns of a table that are read."""

    label: int | str = "label"
    """Column of the label, by name or by number from 0."""
    features: tuple[int | str, ...] | None = None
    """Columns to read, by name or by number from 0; by default all but the label and columns that count rows."""
    categories: tuple[int | str, ...] = ()
    """Columns of numbers to read as categories; columns of texts always are."""


class TableData(LabelledData):
    """Rows of columns with a label: CSV or TSV, column names first (`heed.data.kinds.numbers`)."""

    columns: TableColumns = TableColumns()
    """Which columns are read."""


class MemoryRows(InMemory, TableData):
    """Rows of numbers with a label passed in Python."""


class TableModelSection(ModelSection):
    """Which model of a table; all other fields are the model's own (`heed models NAME` lists them)."""

    name: str = "mlp"
    """File in `heed/models`."""


class TableEvaluation(EvaluationConfig):
    """How a classification of rows is scored."""

    select_by: Literal["auto", "accuracy", "macro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy."""


class TableConfig(RunConfig):
    """The configuration of a run over rows of numbers."""

    task: Literal["table"] = "table"
    """What is learned."""
    data: Annotated[Annotated[TableData, Tag("files")] | Annotated[MemoryRows, Tag("memory")], Discriminator(by_name())]
    """Where the examples come from."""
    model: TableModelSection = TableModelSection()
    """Which model."""
    evaluation: TableEvaluation = TableEvaluation()
    """How it is scored."""
