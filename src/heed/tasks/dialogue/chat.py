"""A conversation with a model: what was said is kept, can be taken back, and can be looked at."""

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
        turns: What was said so far, in turn.
        responses: What the model wrote of it.
        speaker: Who the model is; "" where the data names no speakers.
        partner: Who the person is.
        num_cut: How many of the first turns the model did not read for its last response.
    """

    def __init__(self, run: DialogueRun, speaker: str | None = None, **options: Any) -> None:
        """Begin a conversation; `options` are those of `DialogueRun.predict`."""
        self._run, self._options = run, options
        self.speaker, self.partner = run.parts(speaker)
        self.turns: list[str] = []
        self.responses: list[Prediction] = []
        self.num_cut = 0

    def __repr__(self) -> str:
        return f"<chat with {self._run.folder}: {len(self.turns)} turns>"

    @property
    def history(self) -> Conversation:
        """What was said so far."""
        names = [self.partner if n % 2 == 0 else self.speaker for n in range(len(self.turns))]
        return Conversation(tuple(self.turns), tuple(names) if any(names) else ())

    def say(self, text: str) -> Prediction:
        """Say something; the response is kept as the next turn.

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
        """As `say`, piece by piece as the response is written; it must not be searched with a beam.

        Raises:
            ConfigError: The text is blank, or there is a beam.
        """
        history = self._said(text)
        try:
            response = yield from self._run.write(history, self.speaker or None, **self._options)
        except BaseException:
            self.turns.pop()
            raise
        return self._kept(history, response)

    def _said(self, text: str) -> Conversation:
        """What was said so far, with this as the last turn."""
        text = " ".join(text.split())
        if not text:
            raise ConfigError("a turn is blank; say something, or end the conversation")
        self.turns.append(text)
        return self.history

    def _kept(self, history: Conversation, response: Prediction) -> Prediction:
        """The response, which is now the last turn."""
        self.num_cut = self._run.num_cut(history)
        self.turns.append(response.text or "...")
        self.responses.append(response)
        return response

    def look(self, **options: Any) -> ShownLook:
        """Look inside at the last response; options as of `DialogueRun.look`.

        Raises:
            ConfigError: Nothing was said.
        """
        if not self.turns:
            raise ConfigError("nothing was said yet")
        history = self.history
        before = Conversation(history.turns[:-1], history.speakers[:-1])
        return self._run.look(before, target=self.responses[-1], speaker=self.speaker or None, **options)

    def undo(self) -> tuple[str, str]:
        """Take back the last exchange: what was said and the response, which are returned.

        Raises:
            ConfigError: Nothing was said.
        """
        if not self.turns:
            raise ConfigError("nothing was said yet")
        said = self.turns[-2], self.turns[-1]
        del self.turns[-2:]
        self.responses.pop()
        return said

    def reset(self) -> None:
        """Begin again."""
        self.turns.clear()
        self.responses.clear()
        self.num_cut = 0
