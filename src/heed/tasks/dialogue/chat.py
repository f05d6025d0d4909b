"""A conversation with a model: turns are kept, can be undone, and can be looked at; responses as lines of a file."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from heed.data.examples import Conversation
from heed.data.findings import BadLine, Findings
from heed.data.kinds.conversations import object_of, read_conversations
from heed.data.text_files import Numbered, with_gaps
from heed.errors import ConfigError, DataError
from heed.observe.shown import ShownLook
from heed.tasks.base.report import counted, first_of
from heed.tasks.base.writing import WrittenText
from heed.tasks.base.writing_run import WritingOutputs
from heed.visible import to_json


class Chat:
    """A conversation with a run; made by `run.chat()`.

    Attributes:
        turns: The turns so far.
        responses: Those written by the model.
        speaker: The model's name as a speaker; "" if the data names no speakers.
        partner: The user's name as a speaker.
        num_cut: Number of first turns that the model did not read for its last response.
    """

    def __init__(self, run: Any, speaker: str | None = None, **options: Any) -> None:
        """Start a conversation with a `DialogueRun`; `options` are those of its `predict`."""
        self._run, self._options = run, options
        self.speaker, self.partner = run.parts(speaker)
        self.turns: list[str] = []
        self.responses: list[WrittenText] = []
        self.num_cut = 0

    def __repr__(self) -> str:
        return f"<chat with {self._run.folder}: {len(self.turns)} turns>"

    @property
    def history(self) -> Conversation:
        """The conversation so far."""
        names = [self.partner if n % 2 == 0 else self.speaker for n in range(len(self.turns))]
        return Conversation(tuple(self.turns), tuple(names) if any(names) else ())

    def say(self, text: str) -> WrittenText:
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

    def write(self, text: str) -> Generator[str, None, WrittenText]:
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

    def _kept(self, history: Conversation, response: WrittenText) -> WrittenText:
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
        shown: ShownLook = self._run.look(before, target=self.responses[-1], speaker=self.speaker or None, **options)
        return shown

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


_COMMANDS = "/undo removes the last exchange, /reset starts a new one, /look shows the attention of the last response"


class DialogueOutputs(WritingOutputs):
    """Responses as lines of a file, and at a terminal."""

    asks = f"your turn ({_COMMANDS})"

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._shortened = 0
        self._read_conversations = self._read_turns = 0  # of a file
        self._findings: Findings | None = None
        if options["speaker"] is not None:
            run.task.speakers.check(options["speaker"], "--speaker")

    def arguments(self, texts: list[str]) -> list[str]:
        blank = [n for n, text in enumerate(texts, start=1) if not text.strip()]
        if blank and len(texts) > 1:
            raise ConfigError(f"turn {blank[0]} of the conversation is blank")
        turns: list[str] = self.run.typed(texts)
        return turns

    def check(self, text: str, place: str) -> None:
        if not text.lstrip().startswith("{"):  # any other text is turns
            return
        try:
            self.run.conversation(text)
        except DataError as error:
            raise DataError(f"{place}: {error}") from None

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        self._findings = findings
        return self._conversations(path, findings), ""

    def _conversations(self, path: Path, findings: Findings) -> Iterator[Numbered]:
        data, columns = self.run.task.config.data, self.run.columns
        for number, one in enumerate(with_gaps(read_conversations([path], data, findings), findings), start=1):
            if isinstance(one, BadLine):
                yield number, one
                continue
            self._read_conversations += 1
            self._read_turns += len(one.turns)
            line = int(one.origin.rpartition(":")[2])
            yield line, to_json(object_of(one, columns))

    def unknown_in(self, text: str) -> Sequence[str]:
        turns = self.run.conversation(text).turns
        return [piece for turn in turns for piece in self.run.task.tokenizer.unknown_in(turn)]

    def candidates(self, texts: list[str], num_best: int) -> list[list[WrittenText]]:
        conversations = [self.run.conversation(text) for text in texts]
        said = [one for one in conversations if one.turns]
        found = iter(self.run.respond(said, self.options["speaker"], num_best=num_best, **self.search))
        self._shortened += sum(self.run.num_cut(one) > 0 for one in said)
        return [next(found) if one.turns else [] for one in conversations]

    def lines(self, text: str, prediction: Any) -> tuple[str, ...]:
        if not self.options["json"]:
            return super().lines(text, prediction)
        conversation, values = self.run.conversation(text), prediction.as_json()
        speaker = self.run.task.who_responds(conversation, self.options["speaker"])
        named = {"speaker": speaker} if speaker else {}
        values = {"response": values.pop("text"), **named, **values, "turns_cut": self.run.num_cut(conversation)}
        return (to_json({**object_of(conversation, self.run.columns), **values}),)

    @cached_property
    def chat(self) -> Chat:
        """The conversation with the user at the terminal."""
        return Chat(self.run, self.options["speaker"], **self.search)

    def answer(self, text: str) -> str:
        response = self.chat.say(text)
        return response.text + self._remark(response)

    def _remark(self, response: WrittenText) -> str:
        """The remark below a response if turns were not read for it."""
        self.num_cut_off += not response.finished
        cut = self.chat.num_cut
        return f"\n({first_of(cut, len(self.chat.turns) - 1, 'turn')} not read)" if cut else ""

    @property
    def streams(self) -> bool:
        if self.options["json"] or self.options["nbest"] > 1:
            return False
        options = self.run.task.search_options(self.run.model, beam_size=self.options["beam"])
        return bool(self.options["sample"] or options.beam_size == 1)

    def pieces(self, text: str) -> Iterator[str]:
        if not self.streams:
            yield self.answer(text)
            return
        response = yield from self.chat.write(text)
        yield self._remark(response)

    def grow(self, text: str) -> Iterator[str]:
        conversation = self.run.conversation(text)
        if not conversation.turns:
            return
        response = yield from self.run.write(conversation, self.options["speaker"], **self.search)
        self.num_cut_off += not response.finished
        self._shortened += self.run.num_cut(conversation) > 0

    def command(self, text: str) -> str | None:
        word, *rest = text.split()
        if not word.startswith("/"):
            return None
        if rest or word not in ("/undo", "/reset", "/look"):
            return f"unknown command '{text.strip()}'; {_COMMANDS}"
        try:
            if word == "/look":
                return self.chat.look().text(shutil.get_terminal_size((100, 24)).columns)
            if word == "/undo":
                return f"removed: {self.chat.undo()[0]!r} and the response to it"
        except ConfigError as error:
            return str(error)
        self.chat.reset()
        return "started a new conversation"

    def notes(self) -> list[str]:
        notes = []
        if self._findings is not None:
            read = f"{counted(self._read_conversations, 'conversation')} of {counted(self._read_turns, 'turn')}"
            notes.append("; ".join([read, *self._findings.remarks]))
        if self._shortened:
            whose = "conversation was too long; its" if self._shortened == 1 else "conversations were too long; their"
            notes.append(f"{self._shortened:,} {whose} first turns were not read (data.history, data.max_length)")
        return [*notes, *super().notes()]
