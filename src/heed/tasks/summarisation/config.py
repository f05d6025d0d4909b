"""The configuration of summarisation."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heed.config.data import Sources
from heed.config.sections import Section, TokenizerConfig, WritingEvaluation
from heed.tasks.translation.config import Pairs, TranslationConfig

DOCUMENT_NAMES = ("document", "body", "article", "text", "dialogue", "content", "story", "source", "input")
"""Column names that are recognised as documents, the most certain first."""
SUMMARY_NAMES = ("summary", "subject", "highlights", "headline", "title", "abstract", "target", "output")
"""Column names that are recognised as summaries, the most certain first."""


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
    data: Annotated[Pairs, Sources(Pairs, "summarisation", hub=True, own_data={"max_source": 400, "max_length": 500})]
    """Where the examples come from."""
    tokenizer: SummaryTokenizer = SummaryTokenizer()
    """How text becomes tokens."""
    evaluation: SummaryEvaluation = SummaryEvaluation()  # type: ignore[assignment]  # its own scores
    """How it is scored."""

    @model_validator(mode="after")
    def _can_copy(self) -> Self:
        if self.model.settings.get("pointer") and not self.tokenizer.shared:
            raise ValueError(
                "model.pointer is true, which copies tokens of the document, but with tokenizer.shared=false documents "
                "and summaries have different tokens; set tokenizer.shared=true or model.pointer=false"
            )
        return self
