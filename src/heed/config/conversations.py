"""Sections of a configuration that say which conversations are read, and how much of them a model is given."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from heed.config.data import EmbeddedData, OwnData
from heed.config.memory import InMemory
from heed.config.sections import DataPath, Section


class ConversationColumns(Section):
    """What the parts of a conversation are called."""

    turns: int | str | None = None
    """JSON lines: field with the list of turns; by default turns, messages, conversation or a like name, or the only
    list. Text: column with the turns where tabs part columns, from 0, the default."""
    text: str | None = None
    """Field of a turn with what was said; by default text, utterance, content, value or a like name."""
    speaker: str | None = None
    """Field of a turn with who said it; by default speaker, role, from or a like name."""


class FirstOf(Section):
    """How many conversations of each set are read: the first ones of its files; null for all."""

    train: int | None = Field(None, gt=0)
    """Training conversations."""
    valid: int | None = Field(None, gt=0)
    """Validation conversations, where files are named."""
    test: int | None = Field(None, gt=0)
    """Test conversations."""


class DialogueOptions(Section):
    """Which turns are responses, and how much of a conversation is read before one."""

    respond: str = "both"
    """Whose turns the model learns to give: both (every speaker's), or the name of one speaker."""
    history: int | None = Field(None, gt=0)
    """Turns that are read before a response, the last ones; null for all of them."""
    max_length: int = Field(250, gt=0)
    """Models that read the history as one text: most tokens of it; the oldest turns are left out, and counted."""
    max_turn: int = Field(100, gt=0)
    """Most tokens that are read of one turn; longer ones are cut there and counted, and not trained on as responses."""

    @model_validator(mode="after")
    def _turns_fit(self) -> Self:
        if self.max_turn >= self.max_length:
            raise ValueError(
                f"data.max_turn is {self.max_turn}, but data.max_length is {self.max_length}: the last turn and the "
                f"token before it must fit; set data.max_length above {self.max_turn}, or data.max_turn below it"
            )
        return self


class ConversationFiles(DialogueOptions, OwnData):
    """Your own conversations: JSON lines with a list of turns, or text (`heed.data.read.conversations`)."""

    max_line: int = Field(1_000_000, gt=0)
    """A line with more characters than this is a bad line; a whole conversation may be one."""
    train: list[DataPath] = Field(min_length=1)
    """Training files; several are read one after the other. Relative to the configuration."""
    columns: ConversationColumns = ConversationColumns()
    """What the parts of a conversation are called."""
    separator: str | None = None
    r"""Text: what stands between two turns of a line, as __eou__ or \t; "" where each turn is a line of its own and an
    empty line ends a conversation. By default __eou__ or tabs, whichever there are."""
    first: FirstOf = FirstOf()
    """Read only so many conversations of a set."""

    @field_validator("separator")
    @classmethod
    def _typed(cls, value: str | None) -> str | None:
        return None if value is None else value.replace("\\t", "\t").strip(" ")


class MemoryConversations(InMemory, ConversationFiles):
    """Conversations handed over in Python."""


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
    """Whose turns the model learns to give: host, whose turns follow from what was said; guest; or both."""
