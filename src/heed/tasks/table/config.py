"""The configuration of table."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from heed.config.data import Source, Sources, section
from heed.config.sections import EvaluationConfig, ModelSection, RunConfig


class Rows(Source):
    """Rows of columns with a label: CSV or TSV, column names first (`heed.data.kinds.numbers`)."""

    labelled: ClassVar = True

    columns: Any = section(
        label=(int | str, "label"),
        features=(tuple[int | str, ...] | None, None),
        categories=(tuple[int | str, ...], ()),
    )
    """Which columns are read.

    - label: Column of the label, by name or by number from 0.
    - features: Columns to read, by name or by number from 0; by default all but the label and columns that count rows.
    - categories: Columns of numbers to read as categories; columns of texts always are.
    """
    target: Literal["auto", "classes", "number"] = "auto"
    """What the label is: one of several classes, or a number (regression: squared error of the standardised value).
    Auto is a number if the labels are more than 20 different numbers, or numbers with fractions."""


class TableModelSection(ModelSection):
    """Which model of a table; all other fields are the model's own (`heed models NAME` lists them)."""

    name: str = "mlp"
    """File in `heed/models`."""


class TableEvaluation(EvaluationConfig):
    """How predictions for rows are scored."""

    select_by: Literal["auto", "accuracy", "macro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, or loss if the label is a number."""


class TableConfig(RunConfig):
    """The configuration of a run over rows of numbers."""

    task: Literal["table"] = "table"
    """What is learned."""
    data: Annotated[Rows, Sources(Rows)]
    """Where the examples come from."""
    model: TableModelSection = TableModelSection()
    """Which model."""
    evaluation: TableEvaluation = TableEvaluation()
    """How it is scored."""
