"""The configuration of summarisation."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from heed.config.data import FilesData, HubSection, InMemory, by_name
from heed.config.sections import Section, TokenizerConfig, WritingEvaluation
from heed.tasks.translation.config import TranslationConfig

DOCUMENT_NAMES = ("document", "body", "article", "text", "dialogue", "content", "story", "source", "input")
"""Column names that are recognised as documents, the most certain first."""
SUMMARY_NAMES = ("summary", "subject", "highlights", "headline", "title", "abstract", "target", "output")
"""Column names that are recognised as summaries, the most certain first."""
_ROOM = 100
"""Tokens by which data.max_length exceeds a data.max_source given by the user."""


class SummaryFiles(FilesData):
    """Your own documents and summaries, in two parallel files or in one file of columns.

    Columns that are not given are found by their names: document, body, article or text for documents; summary,
    subject, highlights or headline for summaries.
    """

    max_source: int = Field(400, gt=0)
    """Documents are cut after this many tokens; cut documents are counted and listed."""
    max_length: int = Field(500, gt=0)
    """Training examples with more tokens than this on a side are left out, and counted; documents are cut first."""

    @model_validator(mode="before")
    @classmethod
    def _room_for_documents(cls, values: Any) -> Any:
        """Raise `max_length` for a larger `max_source`, if only that is given."""
        if isinstance(values, dict) and isinstance(values.get("max_source"), int) and "max_length" not in values:
            values = {**values, "max_length": max(500, values["max_source"] + _ROOM)}
        return values

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        if self.max_source >= self.max_length:
            raise ValueError(
                f"data.max_source is {self.max_source} and data.max_length {self.max_length}; training examples with "
                "more than data.max_length tokens are left out, which would include documents of data.max_source "
                f"tokens; set data.max_length={self.max_source + _ROOM}"
            )
        return self


class SummaryHub(HubSection, SummaryFiles):
    """Documents and summaries of a Hub data set; `columns` names both."""


class MemorySummaries(InMemory, SummaryFiles):
    """Documents and summaries passed in Python; `columns` name those of a data frame."""


class SummaryTokenizer(TokenizerConfig):
    """How text becomes tokens; documents and summaries are in the same language and share a vocabulary."""

    shared: bool = True
    """One vocabulary for both sides."""
    min_count: int = Field(3, gt=0)
    """How often a word must occur in training to be in the vocabulary (word only); 3, since a word in one document and
    its summary already occurs twice."""


class SummaryEvaluation(WritingEvaluation):
    """Scoring of summaries."""

    select_by: Literal[
        "auto", "rouge1", "rouge2", "rougeL", "bleu", "chrf", "exact_match", "token_accuracy", "loss"
    ] = "auto"
    """Validation score that chooses the best checkpoint: auto is rougeL."""


class SummarisationHead(Section):
    """The parts of the model other than its body."""

    pointer: bool = False
    """Allow tokens to be copied from the document, by a separate attention (See et al. 2017); with tokenizer.shared,
    and a model that attends to its source."""


class SummarisationConfig(TranslationConfig):
    """Complete configuration of a run of summarisation."""

    task: Literal["summarisation"] = "summarisation"  # type: ignore[assignment]  # a separate task
    """The task."""
    data: Annotated[  # its own kinds of data
        Annotated[SummaryFiles, Tag("files")]
        | Annotated[SummaryHub, Tag("hub")]
        | Annotated[MemorySummaries, Tag("memory")],
        Discriminator(by_name(hub=True)),
    ]
    """Where the examples come from."""
    tokenizer: SummaryTokenizer = SummaryTokenizer()
    """How text becomes tokens."""
    evaluation: SummaryEvaluation = SummaryEvaluation()  # type: ignore[assignment]  # its own scores
    """How it is scored."""

    @model_validator(mode="after")
    def _can_copy(self) -> Self:
        if (self.model.model_extra or {}).get("pointer") and not self.tokenizer.shared:
            raise ValueError(
                "model.pointer is true, which copies tokens of the document, but with tokenizer.shared=false documents "
                "and summaries have different tokens; set tokenizer.shared=true or model.pointer=false"
            )
        return self
