"""Configuration sections of conversations: files, fields, and the length of the history."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from heed.config.data import EmbeddedData, InMemory, OwnData
from heed.config.sections import DataPath, Section


class ConversationColumns(Section):
    """Names of the parts of a conversation."""

    turns: int | str | None = None
    """JSON lines: field with the list of turns; by default turns, messages, conversation or a similar name, or the only
    list. Text: column with the turns if tabs separate columns, from 0, the default."""
    text: str | None = None
    """Field of a turn with its text; by default text, utterance, content, value or a similar name."""
    speaker: str | None = None
    """Field of a turn with its speaker; by default speaker, role, from or a similar name."""


class FirstOf(Section):
    """Number of conversations to read of each set, from the start of its files; null for all."""

    train: int | None = Field(None, gt=0)
    """Training conversations."""
    valid: int | None = Field(None, gt=0)
    """Validation conversations, if files are given."""
    test: int | None = Field(None, gt=0)
    """Test conversations."""


class DialogueOptions(Section):
    """Which turns are responses, and how much history is read before each."""

    respond: str = "both"
    """Speaker whose turns are the responses: both (every speaker), or the name of one speaker."""
    history: int | None = Field(None, gt=0)
    """Number of last turns read before a response; null for all."""
    max_length: int = Field(250, gt=0)
    """For models that read the history as one text: its most tokens; the oldest turns are left out, and counted."""
    max_turn: int = Field(100, gt=0)
    """Most tokens read of one turn; longer ones are cut off there and counted, and not trained on as responses."""

    @model_validator(mode="after")
    def _turns_fit(self) -> Self:
        if self.max_turn >= self.max_length:
            raise ValueError(
                f"data.max_turn is {self.max_turn}, but data.max_length is {self.max_length}: the last turn and the "
                f"token before it must fit; set data.max_length above {self.max_turn}, or data.max_turn below it"
            )
        return self


class ConversationFiles(DialogueOptions, OwnData):
    """Your own conversations: JSON lines with a list of turns, or text (`heed.data.kinds.conversations`)."""

    max_line: int = Field(1_000_000, gt=0)
    """A line with more characters than this is a bad line; a line may be a whole conversation."""
    train: list[DataPath] = Field(min_length=1)
    """Training files; several are read one after the other. Relative to the configuration."""
    columns: ConversationColumns = ConversationColumns()
    """Names of the parts of a conversation."""
    separator: str | None = None
    r"""Text: separator of turns in a line, such as __eou__ or \t; "" if each turn is on its own line and an empty line
    ends a conversation. By default __eou__ or tabs, whichever occurs."""
    first: FirstOf = FirstOf()
    """Read only this many conversations of a set."""

    @field_validator("separator")
    @classmethod
    def _typed(cls, value: str | None) -> str | None:
        return None if value is None else value.replace("\\t", "\t").strip(" ")


class MemoryConversations(InMemory, ConversationFiles):
    """Conversations passed in Python."""


class BookingsData(DialogueOptions, EmbeddedData):
    """Embedded data: a guest books something and asks later what was said before (`heed.data.embedded.bookings`)."""

    name: Literal["bookings"] = "bookings"
    """Which embedded data."""
    train: int = Field(4_000, gt=0)
    """Number of training conversations."""
    valid: int = Field(200, gt=0)
    """Number of validation conversations."""
    test: int = Field(500, gt=0)
    """Number of test conversations."""
    respond: str = "host"
    """Speaker whose turns are the responses: host, whose turns follow from the conversation; guest; or both."""
