"""The configuration of classification."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from heed.config.data import Only, Sources, TextSource, generated, section
from heed.config.sections import EvaluationConfig, TextConfig


class Texts(TextSource):
    """Texts with labels: CSV, TSV, JSON lines, a folder per class, or lines `label text` (`heed.data.kinds.texts`)."""

    labelled: ClassVar = True

    format: Literal["auto", "csv", "tsv", "jsonl", "lines", "folders"] = "auto"
    """Format of the files: auto goes by the file extension; lines are `label text`, or `__label__a __label__b text`."""
    columns: Any = section("text", "second", label=(int | str | Annotated[list[str], Field(min_length=2)] | None, None))
    """Columns of the text and the label in a file.

    - text: Column of the text: a number from 0 or a name; "text" by default. Two columns, such as [premise,
      hypothesis], are those of a pair of texts; the second is stored as `second`.
    - second: Column of the second text, if an example is a pair of texts.
    - label: Column of the label: a number from 0 or a name; "label" by default. Several columns of 0 and 1, such as
      [toxic, obscene], are a label each, with the column's name, and a text has those whose value is 1 or true.
    """
    several_labels: bool = False
    """A text may have several labels, or none."""
    target: Literal["auto", "classes", "number"] = "classes"
    """What the label is: one of several classes, or a number (regression: squared error of the standardised value).
    Auto is a number if the labels are more than 20 different numbers, or numbers with fractions."""
    label_separator: str = Field(",", min_length=1)
    """Separator between several labels in one cell."""
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    """How much a text of each class counts in the loss: balanced is inverse to the class's share, or a weight per
    class (1 where none is given)."""
    sentences: Annotated[tuple[int, int], Only("planted")] = (5, 20)
    """Fewest and most sentences of a document."""

    @model_validator(mode="before")
    @classmethod
    def _several_columns(cls, values: Any) -> Any:
        """Two columns of text are those of a pair; several columns of labels are several labels."""
        if not isinstance(values, dict):
            return values
        columns: Any = values.get("columns")
        text, label = (
            columns.get(name) if isinstance(columns, dict) else getattr(columns, name, None)
            for name in ("text", "label")
        )
        if isinstance(text, list | tuple):
            if len(text) != 2 or columns.get("second") is not None:
                raise ValueError(
                    f"data.columns.text is {list(text)!r}, expected one column, or the two columns of a pair such as "
                    "[premise, hypothesis]; with two columns, remove data.columns.second"
                )
            values = {**values, "columns": {**columns, "text": text[0], "second": text[1]}}
        if isinstance(label, list | tuple):
            if values.get("several_labels") is False:
                raise ValueError(f"data.several_labels is false, but data.columns.label is {list(label)!r}; remove one")
            values = {**values, "several_labels": True}
        return values

    @model_validator(mode="after")
    def _pairs_have_columns(self) -> Self:
        if self.columns.second is not None and self.format in ("lines", "folders"):
            raise ValueError(
                f"data.columns.second is {self.columns.second!r}, but data.format {self.format} has no columns; give "
                "pairs of texts as CSV, TSV or JSON lines"
            )
        return self


class ClassificationEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "accuracy", "macro_f1", "micro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, micro_f1 for several labels, or loss if the
    label is a number."""


class ClassificationConfig(TextConfig):
    """The configuration of a classification run."""

    task: Literal["classification"] = "classification"
    """What is learned."""
    data: Annotated[Texts, Sources(Texts, hub=True, planted=generated(2_000, 200, 500))]
    """Where the examples come from."""
    evaluation: ClassificationEvaluation = ClassificationEvaluation()
    """How it is scored."""
