"""A conversation with a model: turns are kept, can be undone, and can be looked at."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from heed.data.examples import Conversation
from heed.errors import ConfigError
from heed.observe.shown import ShownLook
from heed.tasks.translation.writing import Prediction

if TYPE_CHECKING:
    from heed.tasks.dialogue.run import DialogueRun


class Chat:
    """A conversation with a run; made by `run.chat()`.

    Attributes:
        turns: The turns so far.
        responses: Those written by the model.
        speaker: The model's name as a speaker; "" if the data names no speakers.
        partner: The user's name as a speaker.
        num_cut: Number of first turns that the model did not read for its last response.
    """

    def __init__(self, run: DialogueRun, speaker: str | None = None, **options: Any) -> None:
        """Start a conversation; `options` are those of `DialogueRun.predict`."""
        self._run, self._options = run, options
        self.speaker, self.partner = run.parts(speaker)
        self.turns: list[str] = []
        self.responses: list[Prediction] = []
        self.num_cut = 0

    def __repr__(self) -> str:
        return f"<chat with {self._run.folder}: {len(self.turns)} turns>"

    @property
    def history(self) -> Conversation:
        """The conversation so far."""
        names = [self.partner if n % 2 == 0 else self.speaker for n in range(len(self.turns))]
        return Conversation(tuple(self.turns), tuple(names) if any(names) else ())

    def say(self, text: str) -> Prediction:
        """Add a turn and respond to it; the response is kept as the next turn.

        Raises:
            ConfigError: The text is blank.
        """
        history = self._said(text)
        try:
            response = self._run.respond([history], self.speaker or None, **self._options)[0][0]
        except BaseException:
            self.turns.pop()
            raise
        return self._kept(history, response)

    def write(self, text: str) -> Generator[str, None, Prediction]:
        """As `say`, but yields the response piece by piece while it is written, which excludes beam search.

        Raises:
            ConfigError: The text is blank, or the options ask for a beam search.
        """
        history = self._said(text)
        try:
            response = yield from self._run.write(history, self.speaker or None, **self._options)
        except BaseException:
            self.turns.pop()
            raise
        return self._kept(history, response)

    def _said(self, text: str) -> Conversation:
        """The conversation so far, with this text as its last turn."""
        text = " ".join(text.split())
        if not text:
            raise ConfigError("a turn is blank; give a text, or end the conversation")
        self.turns.append(text)
        return self.history

    def _kept(self, history: Conversation, response: Prediction) -> Prediction:
        """Append the response as the last turn."""
        self.num_cut = self._run.num_cut(history)
        self.turns.append(response.text or "...")
        self.responses.append(response)
        return response

    def look(self, **options: Any) -> ShownLook:
        """Look at the last response; options as of `DialogueRun.look`.

        Raises:
            ConfigError: The conversation has no turns.
        """
        if not self.turns:
            raise ConfigError("the conversation has no turns yet")
        history = self.history
        before = Conversation(history.turns[:-1], history.speakers[:-1])
        return self._run.look(before, target=self.responses[-1], speaker=self.speaker or None, **options)

    def undo(self) -> tuple[str, str]:
        """Undo the last exchange; returns the user's turn and the response.

        Raises:
            ConfigError: The conversation has no turns.
        """
        if not self.turns:
            raise ConfigError("the conversation has no turns yet")
        said = self.turns[-2], self.turns[-1]
        del self.turns[-2:]
        self.responses.pop()
        return said

    def reset(self) -> None:
        """Start a new conversation."""
        self.turns.clear()
        self.responses.clear()
        self.num_cut = 0
