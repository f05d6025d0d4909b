"""The configuration of dialogue."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from heed.config.data import Source, Sources, section
from heed.config.sections import ModelSection, RunConfig, SearchConfig, TrainingConfig, WritingEvaluation

_COUNT = Annotated[int, Field(gt=0)] | None, None


class Conversations(Source):
    """Conversations: JSON lines with a list of turns, or text (`heed.data.kinds.conversations`)."""

    columns: Any = section("turns", text=(str | None, None), speaker=(str | None, None))
    """Names of the parts of a conversation.

    - turns: JSON lines: field with the list of turns; by default turns, messages, conversation or a similar name, or
      the only list. Text: column with the turns if tabs separate columns, from 0, the default.
    - text: Field of a turn with its text; by default text, utterance, content, value or a similar name.
    - speaker: Field of a turn with its speaker; by default speaker, role, from or a similar name.
    """
    separator: str | None = None
    r"""Text: separator of turns in a line, such as __eou__ or \t; "" if each turn is on its own line and an empty line
    ends a conversation. By default __eou__ or tabs, whichever occurs."""
    first: Any = section(train=_COUNT, valid=_COUNT, test=_COUNT)
    """Number of conversations to read of each set, from the start of its files; null for all.

    - train: Training conversations.
    - valid: Validation conversations, if files are given.
    - test: Test conversations.
    """
    respond: str = "both"
    """Speaker whose turns are the responses: both (every speaker), or the name of one speaker."""
    history: int | None = Field(None, gt=0)
    """Number of last turns read before a response; null for all."""
    max_length: int = Field(250, gt=0)
    """For models that read the history as one text: its most tokens; the oldest turns are left out, and counted."""
    max_turn: int = Field(100, gt=0)
    """Most tokens read of one turn; longer ones are cut off there and counted, and not trained on as responses."""

    @field_validator("separator")
    @classmethod
    def _typed(cls, value: str | None) -> str | None:
        return None if value is None else value.replace("\\t", "\t").strip(" ")

    @model_validator(mode="after")
    def _turns_fit(self) -> Self:
        if self.max_turn >= self.max_length:
            raise ValueError(
                f"data.max_turn is {self.max_turn}, but data.max_length is {self.max_length}: the last turn and the "
                f"token before it must fit; set data.max_length above {self.max_turn}, or data.max_turn below it"
            )
        return self


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
    data: Annotated[Conversations, Sources(Conversations)]
    """Where the conversations come from."""
    model: DialogueModel = DialogueModel()
    """Which model."""
    training: TrainingConfig = TrainingConfig(minutes=2.0)
    """How it is trained."""
    generation: ResponseConfig = ResponseConfig()
    """How it writes."""
    evaluation: DialogueEvaluation = DialogueEvaluation()
    """How it is scored."""
