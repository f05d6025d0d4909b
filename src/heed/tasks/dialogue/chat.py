"""Conversations with a model, in Python and as the output of `heed predict`."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from heed.data.examples import Conversation
from heed.data.findings import BadLine, Findings
from heed.data.kinds.conversations import object_of, read_conversations
from heed.data.text_files import Numbered, with_gaps
from heed.errors import ConfigError, DataError
from heed.tasks.base.report import counted, first_of
from heed.tasks.base.writing import WritingOutputs, WrittenText
from heed.visible import to_json


class Chat:
    """A conversation with a run of dialogue; made by `run.chat()`, with options of its `predict`."""

    def __init__(self, run: Any, speaker: str | None = None, **options: Any) -> None:
        self._run, self._options = run, options
        # Names of model and user; "" if the data names no speakers.
        self.speaker, self.partner = run.input.parts(speaker)
        self.turns: list[str] = []  # the turns so far
        self.num_cut = 0  # number of first turns that the model did not read for its last response

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
        with self._turn(text) as history:
            response = self._run.candidates([history], speaker=self.speaker or None, **self._options)[0][0]
        return self._kept(history, response)

    def write(self, text: str) -> Generator[str, None, WrittenText]:
        """As `say`, but yields the response piece by piece while it is written, which excludes beam search.

        Raises:
            ConfigError: The text is blank, or the options ask for a beam search.
        """
        with self._turn(text) as history:
            response = yield from self._run.write(history, self.speaker or None, **self._options)
        return self._kept(history, response)

    @contextmanager
    def _turn(self, text: str) -> Iterator[Conversation]:
        """The conversation with this text as its last turn, which an error removes again."""
        text = " ".join(text.split())
        if not text:
            raise ConfigError("a turn is blank; give a text, or end the conversation")
        self.turns.append(text)
        try:
            yield self.history
        except BaseException:
            self.turns.pop()
            raise

    def _kept(self, history: Conversation, response: WrittenText) -> WrittenText:
        self.num_cut = self._run.input.num_cut(history)
        self.turns.append(response.text or "...")
        return response


class DialogueOutputs(WritingOutputs):
    """Responses as lines of a file, and at a terminal."""

    asks = "your turn"

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._shortened = 0
        self._read_conversations = self._read_turns = 0  # of a file
        self._findings: Findings | None = None
        if options["speaker"] is not None:
            run.input.speakers.check(options["speaker"], "--speaker")

    def arguments(self, texts: list[str]) -> list[str]:
        blank = [n for n, text in enumerate(texts, start=1) if not text.strip()]
        if blank and len(texts) > 1:
            raise ConfigError(f"turn {blank[0]} of the conversation is blank")
        if len(texts) < 2:
            return texts
        return [to_json(object_of(Conversation(tuple(texts), ()), self.run.config.data.columns))]

    def read(self, line: Any, place: str) -> str:
        if line.lstrip().startswith("{"):  # any other text is turns
            try:
                self.run.input.conversation(line)
            except DataError as error:
                raise DataError(f"{place}: {error}") from None
        return str(line)

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        self._findings = findings
        return self._conversations(path, findings), ""

    def _conversations(self, path: Path, findings: Findings) -> Iterator[Numbered]:
        data, columns = self.run.config.data, self.run.config.data.columns
        for number, one in enumerate(with_gaps(read_conversations([path], data, findings), findings), start=1):
            if isinstance(one, BadLine):
                yield number, one
                continue
            self._read_conversations += 1
            self._read_turns += len(one.turns)
            line = int(one.origin.rpartition(":")[2])
            yield line, to_json(object_of(one, columns))

    def unknown_in(self, text: str) -> Sequence[str]:
        turns = self.run.input.conversation(text).turns
        return [piece for turn in turns for piece in self.run.input.tokenizer.unknown_in(turn)]

    def candidates(self, texts: list[str], num_best: int) -> list[list[WrittenText]]:
        conversations = [self.run.input.conversation(text) for text in texts]
        said = [one for one in conversations if one.turns]
        found = iter(self.run.candidates(said, speaker=self.options["speaker"], num_best=num_best, **self.search))
        self._shortened += sum(self.run.input.num_cut(one) > 0 for one in said)
        return [next(found) if one.turns else [] for one in conversations]

    def lines(self, text: str, prediction: Any) -> tuple[str, ...]:
        if not self.options["json"]:
            return super().lines(text, prediction)
        conversation, values = self.run.input.conversation(text), prediction.as_json()
        speaker = self.run.input.who_responds(conversation, self.options["speaker"])
        named = {"speaker": speaker} if speaker else {}
        values = {"response": values.pop("text"), **named, **values, "turns_cut": self.run.input.num_cut(conversation)}
        return (to_json({**object_of(conversation, self.run.config.data.columns), **values}),)

    @cached_property
    def chat(self) -> Chat:
        return Chat(self.run, self.options["speaker"], **self.search)

    def answer(self, text: str) -> str:
        response = self.chat.say(text)
        return response.text + self._remark(response)

    def _remark(self, response: WrittenText) -> str:
        """The remark below a response to a history whose first turns were not read."""
        self.num_cut_off += not response.finished
        cut = self.chat.num_cut
        return f"\n({first_of(cut, len(self.chat.turns) - 1, 'turn')} not read)" if cut else ""

    @property
    def streams(self) -> bool:
        if self.options["json"] or self.options["nbest"] > 1:
            return False
        options = self.run.head.search_options(self.run.model, beam_size=self.options["beam"])
        return bool(self.options["sample"] or options.beam_size == 1)

    def pieces(self, text: str) -> Iterator[str]:
        if not self.streams:
            yield self.answer(text)
            return
        response = yield from self.chat.write(text)
        yield self._remark(response)

    def grow(self, text: str) -> Iterator[str]:
        conversation = self.run.input.conversation(text)
        if not conversation.turns:
            return
        response = yield from self.run.write(conversation, self.options["speaker"], **self.search)
        self.num_cut_off += not response.finished
        self._shortened += self.run.input.num_cut(conversation) > 0

    def notes(self) -> list[str]:
        notes = []
        if self._findings is not None:
            read = f"{counted(self._read_conversations, 'conversation')} of {counted(self._read_turns, 'turn')}"
            notes.append("; ".join([read, *self._findings.remarks]))
        if self._shortened:
            whose = "conversation was too long; its" if self._shortened == 1 else "conversations were too long; their"
            notes.append(f"{self._shortened:,} {whose} first turns were not read (data.history, data.max_length)")
        return [*notes, *super().notes()]
