"""Written responses: a line for each conversation, candidates with their score, JSON; conversations at a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.data.examples import Conversation
from heed.data.read.conversations import object_of, read_conversations
from heed.data.read.findings import BadLine, Findings
from heed.data.read.incoming import Numbered, with_gaps
from heed.errors import ConfigError, DataError
from heed.tasks.base.outputs import TextOutputs, Written, one_line, units
from heed.tasks.base.report import counted, first_of
from heed.tasks.dialogue.chat import Chat
from heed.tasks.dialogue.writing import options_of
from heed.tasks.translation.outputs import sampling_of
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.dialogue.run import DialogueRun
    from heed.tasks.translation.writing import Prediction

_COMMANDS = "/undo removes the last exchange, /reset starts a new one, /look shows the attention of the last response"


class DialogueOutputs(TextOutputs):
    """A line for each candidate: its text, after its score if there are several."""

    run: DialogueRun
    asks = f"your turn ({_COMMANDS})"

    def __init__(self, run: DialogueRun, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._cut_off = self._shortened = 0
        self._read_conversations = self._read_turns = 0  # of a file
        self._findings: Findings | None = None
        self.unit = units(run.task.tokenizer.unit)
        nbest, beam = options["nbest"], options["beam"]
        if beam is not None and nbest > beam:
            raise ConfigError(f"--nbest {nbest} needs a --beam of at least {nbest}, not {beam}")
        if options["speaker"] is not None:
            run.task.speakers.check(options["speaker"], "--speaker")
        self._writing = {
            "beam_size": beam,
            "max_length": options["length"],
            "sampling": sampling_of(options),
        }

    def arguments(self, texts: list[str]) -> list[str]:
        """Take several arguments as the turns of one conversation."""
        blank = [n for n, text in enumerate(texts, start=1) if not text.strip()]
        if blank and len(texts) > 1:
            raise ConfigError(f"turn {blank[0]} of the conversation is blank")
        return self.run.typed(texts)

    def check(self, text: str, place: str) -> None:
        """Refuse a JSON object that is not a conversation."""
        if not text.lstrip().startswith("{"):  # any other text is turns
            return
        try:
            self.run.conversation(text)
        except DataError as error:
            raise DataError(f"{place}: {error}") from None

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        """The conversations of a file in the format of the training files."""
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
        """The pieces of a conversation that were never seen in training."""
        turns = self.run.conversation(text).turns
        return [piece for turn in turns for piece in self.run.task.tokenizer.unknown_in(turn)]

    def write(self, texts: list[str]) -> Iterator[Written]:
        """The response to each conversation; an empty line for one without turns."""
        conversations = [self.run.conversation(text) for text in texts]
        said = [one for one in conversations if one.turns]
        found = iter(self.run.respond(said, self.options["speaker"], num_best=self.options["nbest"], **self._writing))
        for conversation in conversations:
            candidates = next(found) if conversation.turns else []
            self._cut_off += sum(not one.finished for one in candidates)
            self._shortened += bool(candidates) and self.run.num_cut(conversation) > 0
            yield Written(tuple(self._line(conversation, one) for one in candidates) or ("",))

    def _line(self, conversation: Conversation, candidate: Prediction) -> str:
        if self.options["json"]:
            return self._json(conversation, candidate)
        columns = [f"{candidate.score:.4f}"] if self.options["nbest"] > 1 else []
        return "\t".join([*columns, one_line(candidate.text)])

    def _json(self, conversation: Conversation, candidate: Prediction) -> str:
        speaker = self.run.who_responds(conversation, self.options["speaker"])
        values = {
            **object_of(conversation, self.run.columns),
            "response": candidate.text,
            **({"speaker": speaker} if speaker else {}),
            "score": round(candidate.score, 6),
            "log_prob": round(candidate.log_prob, 6),
            "tokens": candidate.tokens,
            "token_probs": [round(p, 6) for p in candidate.token_probs],
            "finished": candidate.finished,
            "turns_cut": self.run.num_cut(conversation),
        }
        return to_json(values)

    @cached_property
    def chat(self) -> Chat:
        """The conversation with the user at the terminal."""
        return Chat(self.run, self.options["speaker"], **self._writing)

    def answer(self, text: str) -> str:
        """The response to the next turn of the conversation, and the number of turns that were not read for it."""
        response = self.chat.say(text)
        return response.text + self._remark(response)

    def _remark(self, response: Prediction) -> str:
        """The remark below a response if turns were not read for it."""
        self._cut_off += not response.finished
        cut = self.chat.num_cut
        return f"\n({first_of(cut, len(self.chat.turns) - 1, 'turn')} not read)" if cut else ""

    @property
    def streams(self) -> bool:
        """True if responses can be shown while they are written: one each, without a beam search, as text."""
        if self.options["json"] or self.options["nbest"] > 1:
            return False
        return self.options["sample"] or options_of(self.run.task, beam_size=self.options["beam"]).beam_size == 1

    def pieces(self, text: str) -> Iterator[str]:
        """The response to the next turn of the conversation, while it is written."""
        if not self.streams:
            yield self.answer(text)
            return
        response = yield from self.chat.write(text)
        yield self._remark(response)

    def grow(self, text: str) -> Iterator[str]:
        """The response to a conversation, while it is written; nothing for one without turns."""
        conversation = self.run.conversation(text)
        if not conversation.turns:
            return
        response = yield from self.run.write(conversation, self.options["speaker"], **self._writing)
        self._cut_off += not response.finished
        self._shortened += self.run.num_cut(conversation) > 0

    def command(self, text: str) -> str | None:
        """The reply to a typed command; None if the text is a turn."""
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
        """The numbers of outputs cut off at the largest length, and of conversations that were not read in full."""
        notes = []
        if self._findings is not None:
            read = f"{counted(self._read_conversations, 'conversation')} of {counted(self._read_turns, 'turn')}"
            notes.append("; ".join([read, *self._findings.remarks]))
        if self._shortened:
            whose = "conversation was too long; its" if self._shortened == 1 else "conversations were too long; their"
            notes.append(f"{self._shortened:,} {whose} first turns were not read (data.history, data.max_length)")
        if self._cut_off:
            length = self.options["length"] or self.run.task.config.generation.max_length or 0
            what = "1 output was" if self._cut_off == 1 else f"{self._cut_off:,} outputs were"
            notes.append(f"{what} cut after {counted(length, 'token')}; --length N allows more")
        return notes
