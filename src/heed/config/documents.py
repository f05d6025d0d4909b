"""Configuration sections of documents, for the tasks that learn from unlabelled text."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from heed.config.data import CorpusData, HubSection
from heed.config.sections import DataPath, Section


class DocumentColumns(Section):
    """Column of the text in a file of columns or of JSON lines."""

    text: int | str | None = None
    """Column of the text: a number from 0 or a name; "text" by default."""


class DocumentReading(Section):
    """Reading of documents."""

    format: Literal["auto", "text", "lines", "jsonl", "csv", "tsv"] = "auto"
    """Format of the files: auto goes by the ending; text is one document a file, lines is one document a line."""
    columns: DocumentColumns = DocumentColumns()
    """Column of the text in a file of columns or of JSON lines."""
    separator: str | None = None
    """A line with this content ends a document of a text file; "" is an empty line. By default a file is one
    document."""


class DocumentFiles(DocumentReading, CorpusData):
    """Your own texts: files and folders of files, or tables of texts (`heed.data.kinds.documents`)."""

    train: list[DataPath] = Field(min_length=1)
    """Training files and folders. Relative to the configuration."""
    max_line: int = Field(10_000_000, gt=0)
    """A line with more characters than this is a bad line; a line may be a whole document."""
    in_memory: int = Field(100_000, ge=0)
    """Splits with more documents than this, or of more than 1 GiB, are kept in the cache folder (HEED_CACHE)."""

    @model_validator(mode="after")
    def _of_text_files(self) -> Self:
        if self.separator is not None and self.format not in ("auto", "text"):
            raise ValueError(
                f"data.separator is {self.separator!r}, but with data.format {self.format} each line is a document; "
                "set only one of the two"
            )
        return self


class DocumentHub(HubSection):
    """Documents of a data set of the Hub; options of file formats do not apply to them."""

    @field_validator("format", "separator", check_fields=False)
    @classmethod
    def _no_files(cls, value: Any) -> Any:
        if value not in (None, "auto"):
            raise ValueError(
                f"{value!r} sets the format of a file, but a data set of the Hub is not a file; remove the field"
            )
        return value
