"""The configuration of dialogue."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from heed.config.data import ConversationFiles, MemoryConversations, by_name
from heed.config.sections import ModelSection, RunConfig, SearchConfig, TrainingConfig, WritingEvaluation


class DialogueModel(ModelSection):
    """Which model; all other fields are the model's own (`heed models NAME` lists them)."""

    name: str = "hred"
    """File in `heed/models`."""


class ResponseConfig(SearchConfig):
    """Writing of a response."""

    max_length: int | None = Field(None, gt=0, le=100_000)
    """Largest number of tokens; by default 1.5 times the longest training response plus 20, but at most 100."""


class DialogueEvaluation(WritingEvaluation):
    """Scoring of responses."""

    select_by: Literal["auto", "exact_match", "token_accuracy", "chrf", "bleu", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss."""


class DialogueConfig(RunConfig):
    """Complete configuration of a run of dialogue."""

    task: Literal["dialogue"] = "dialogue"
    """The task."""
    data: Annotated[
        Annotated[ConversationFiles, Tag("files")] | Annotated[MemoryConversations, Tag("memory")],
        Discriminator(by_name()),
    ]
    """Where the conversations come from."""
    model: DialogueModel = DialogueModel()
    """Which model."""
    training: TrainingConfig = TrainingConfig(minutes=2.0)
    """How it is trained."""
    generation: ResponseConfig = ResponseConfig()
    """How it writes."""
    evaluation: DialogueEvaluation = DialogueEvaluation()
    """How it is scored."""
