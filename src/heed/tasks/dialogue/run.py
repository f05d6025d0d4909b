"""Runs of dialogue."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from heed.config.conversations import ConversationColumns, ConversationFiles
from heed.data.examples import Conversation
from heed.data.read.conversations import END_OF_UTTERANCE, conversation_of, object_of, read_conversations
from heed.data.read.findings import Findings
from heed.data.read.objects import RepeatedKeyError, load_json
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Outcomes, share
from heed.models.base import DecoderBody
from heed.observe.choice import Choice
from heed.observe.edits import Edit
from heed.observe.shown import ShownLook
from heed.tasks.base.predictions import Predictions
from heed.tasks.base.run import TextRun, part
from heed.tasks.dialogue.baselines import PlainResponses
from heed.tasks.dialogue.chat import Chat
from heed.tasks.dialogue.look import look_at
from heed.tasks.dialogue.measures import by_conversation, by_turns_read, common, perplexity, text_measures
from heed.tasks.dialogue.outputs import DialogueOutputs
from heed.tasks.dialogue.report import body
from heed.tasks.dialogue.streaming import stream_response
from heed.tasks.dialogue.talk import alternate
from heed.tasks.dialogue.task import Dialogue
from heed.tasks.translation.writing import Prediction

Said = str | Sequence[str] | Mapping[str, Any] | Conversation
"""A conversation: its turns; a dict, as in JSON lines; or a text with turns separated by tabs or `data.separator`."""


class DialogueRun(TextRun[Dialogue, DecoderBody, Prediction]):
    """A model that responds to the turns of a conversation."""

    task_class = Dialogue
    text_columns = ("turns", "text")
    options = frozenset(("speaker", "beam_size", "length_penalty", "min_length", "max_length", "sampling", "num_best"))
    body = staticmethod(body)
    examiner = part("comparison")

    # Responding -----------------------------------------------------------------------------------------------

    @property
    def columns(self) -> ConversationColumns:
        """The names of a conversation's fields in JSON."""
        data = self.task.config.data
        return data.columns if isinstance(data, ConversationFiles) else ConversationColumns()

    def conversation(self, said: Said) -> Conversation:
        """Convert user input to a conversation; turns without speakers alternate so that the model responds next.

        Raises:
            DataError: The input is not a conversation.
        """
        if isinstance(said, Conversation):
            return said
        columns = self.columns
        if isinstance(said, str):
            said = self._typed(said)
        made = conversation_of(said, columns, "the conversation", "conversation", "", Findings(hint=False))
        assert isinstance(made, Conversation), "without findings a bad conversation is an error"
        if made.speakers or not made.turns or not self.task.speakers.known:
            return made
        return alternate(self.task.speakers, made.turns, self.parts(None)[0])

    def _typed(self, text: str) -> Any:
        """The turns of a text, or its JSON object."""
        if text.lstrip().startswith("{"):
            try:
                value = load_json(text)
            except RepeatedKeyError as error:
                raise DataError(f"{error}: {text[:60]!r}") from None
            except ValueError:
                value = None
            if isinstance(value, dict):
                return value
        separator = getattr(self.task.config.data, "separator", None) or ""
        for one in filter(None, (separator, END_OF_UTTERANCE, "\t")):
            if one in text:
                return text.split(one)
        return [text]

    def parts(self, speaker: str | None) -> tuple[str, str]:
        """The names of the model and of the user as speakers in a conversation; "" if the data names no speakers.

        Raises:
            ConfigError: The speaker does not exist.
        """
        speakers, respond = self.task.speakers, self.task.config.data.respond
        if speaker is not None:
            speakers.check(speaker, "speaker")
        first = speakers.known[0] if speakers.known else ""
        own = speaker or speakers.next_after(first, respond)
        return own, next((name for name in speakers.known if name != own), own)

    def who_responds(self, conversation: Conversation, speaker: str | None = None) -> str:
        """The next speaker: the given one; else the one in `data.respond`; else one who did not speak last."""
        if speaker is not None:
            return speaker
        last = conversation.speaker(len(conversation.turns) - 1)
        return self.task.speakers.next_after(last, self.task.config.data.respond) if last else ""

    def respond(
        self, conversations: Sequence[Conversation], speaker: str | None = None, **options: Any
    ) -> list[list[Prediction]]:
        """The `num_best` best responses to each conversation, best first; options as of `predict`.

        Raises:
            ConfigError: The speaker does not exist, or a conversation has no turn.
        """
        if speaker is not None:
            self.task.speakers.check(speaker, "speaker")
        for n, one in enumerate(conversations):
            if not one.turns:
                raise ConfigError(f"conversation {n} has no turn to respond to")
        talk = self.task.encode(conversations)
        numbers = [self.task.speakers.number(self.who_responds(one, speaker)) for one in conversations]
        return self.task.respond(self.model, talk.conversations, numbers, **options)

    def write(self, conversation: Said, speaker: str | None = None, **options: Any) -> Generator[str, None, Prediction]:
        """The response to a conversation, piece by piece while it is written; options of `predict`, without a beam."""
        return stream_response(self, self.conversation(conversation), speaker, **options)

    def num_cut(self, conversation: Conversation) -> int:
        """The number of first turns that the model does not read when it responds to a conversation."""
        return self.task.reading.read(self.task.encode([conversation]).conversations[0]).first

    def predict(  # type: ignore[override]  # a list of texts is one conversation
        self, conversation: Any, **options: Any
    ) -> Any:
        """The response to a conversation, or to each of several.

        Args:
            conversation: A text (one turn, or several separated by tabs), a list of turns, a dict as in JSON lines, or
                a `Conversation`; or a list of lists, dicts or `Conversation`s.
            options: `speaker`, the one who responds; `beam_size`, `length_penalty`, `min_length`, `max_length` (the
                configuration's by default), `num_best`, `sampling` (`heed.generation.SamplingOptions`).

        Returns:
            A `Prediction`, or for several conversations a list of them.
        """
        self.check_options(options)
        if isinstance(conversation, str | Mapping | Conversation):
            return self.predictions([conversation], **options)[0]
        several = list(conversation)
        if several and all(isinstance(one, str) for one in several):
            return self.predictions([several], **options)[0]
        return Predictions(self.predictions(several, **options))

    def predictions(self, texts: Sequence[Said], **options: Any) -> list[Prediction]:
        """The response to each conversation."""
        made = [self.conversation(one) for one in texts]
        return [candidates[0] for candidates in self.respond(made, **options)]

    def typed(self, texts: Sequence[str]) -> list[str]:
        """Take several arguments of a command as the turns of one conversation."""
        if len(texts) < 2:
            return list(texts)
        return [json.dumps(object_of(Conversation(tuple(texts), ()), self.columns), ensure_ascii=False)]

    def chat(self, speaker: str | None = None, **options: Any) -> Chat:
        """Start a conversation with the model as a speaker; `say` returns its response, `undo` removes an exchange.

        Raises:
            ConfigError: The speaker does not exist.
        """
        return Chat(self, speaker, **options)

    def outputs(self, options: Mapping[str, Any]) -> DialogueOutputs:
        """The writer of responses."""
        return DialogueOutputs(self, options)

    def look(
        self,
        text: Said,
        *,
        steps: bool = False,
        edits: Sequence[Edit] = (),
        mechanism: str | None = None,
        layer: int | Literal["all"] = -1,
        head: int | Literal["mean", "all"] = "mean",
        speaker: str | None = None,
        **options: Any,
    ) -> ShownLook:
        """Show the turns, and the words in them, that the response to a conversation attends to.

        Args:
            text: The conversation, as `predict` takes it.
            steps: Show every step, turn by turn.
            edits: Changes to the attention weights (`heed.observe.edits`).
            mechanism: Only this attention ("words", "turns", "cross", ...); all by default.
            layer: Number of a layer from 0, from the end if negative, or "all".
            head: Number of a head from 0, the "mean" of all, or "all" one by one.
            speaker: The speaker who responds.
            options: `target`, a given response instead of the model's own, and `beam_size`.

        Raises:
            ConfigError: The speaker does not exist, an edit does not fit the model, or the model lacks that attention.
            DataError: The text is not a conversation, or the conversation has no turn.
        """
        if speaker is not None:
            self.task.speakers.check(speaker, "speaker")
        conversation = self.conversation(text)
        if not conversation.turns:
            raise DataError("the conversation has no turns; give at least one to look at the response to it")
        responds, choice = self.who_responds(conversation, speaker), Choice(mechanism, layer, head)
        about = self.task, self.model, conversation, responds
        return ShownLook(look_at(*about, edits=edits, choice=choice, title=self.title, **options), steps)

    # Scoring --------------------------------------------------------------------------------------------------

    def read(self, files: Sequence[str | Path]) -> list[Conversation]:
        """Read conversations from files in the format of the run's own data."""
        findings = Findings.of(self.task.config.data, strict=True)
        found = [one for one in read_conversations(files, self.task.config.data, findings) if not one.blank]
        self.reading = findings.lines()
        if not any(map(self.task.responses, found)):
            respond = self.task.config.data.respond
            raise DataError(f"{', '.join(map(str, files))}: no conversation has a response (data.respond {respond})")
        return found

    def answers(self, conversations: Iterable[Conversation], **options: Any) -> list[list[Prediction]]:
        """The model's output for each response of each conversation, given the actual turns before it."""
        conversations = list(conversations)
        talk = self.task.encode(conversations)
        histories = [talk.history(one) for one in talk.responses]
        speakers = [talk.target(one).speaker for one in talk.responses]
        found: list[list[Prediction]] = [[] for _ in conversations]
        written = self.task.respond(self.model, histories, speakers, **options)
        for response, candidates in zip(talk.responses, written, strict=True):
            found[response.conversation].append(candidates[0])
        return found

    def outcomes(
        self,
        examples: Sequence[Conversation],
        outputs: Sequence[Sequence[Prediction]] | None = None,
        per_token: bool = True,
    ) -> Outcomes:
        """Outputs for each response of each conversation and their measures; `per_token` also scores tokens.

        The statistics of the measures are sums over the responses of a conversation.
        """
        task = self.task
        outputs = self.answers(examples) if outputs is None else outputs
        texts = [one.text for answers in outputs for one in answers]
        talk = task.encode(examples)
        scores = task.forced_scores(self.model, talk)
        measures = text_measures(texts, self._references(examples), self._of_people)
        known = perplexity(scores.nll, scores.tokens)
        if per_token:
            measures.insert(0 if self._of_people else 1, known)
            measures.append(share("token_accuracy", "token accuracy", scores.correct, scores.tokens))
        made = by_conversation(measures, talk.owners, len(examples))
        read = [one.turn for one in talk.responses]
        details = {
            "responses": len(texts),
            "common": common(texts),
            "by_turns_read": by_turns_read(known, read),
            "history_cut": sum(task.reading.read(talk.history(one)).first > 0 for one in talk.responses),
            "cut_off": sum(not one.finished for answers in outputs for one in answers),
        }
        said = tuple("\n".join(one.text for one in answers) for answers in outputs)
        return Outcomes(said, made, lengths=tuple(len(one.turns) for one in examples), details=details)

    def _references(self, examples: Sequence[Conversation]) -> list[str]:
        return [self.task.tokenizer.normalize(one.turns[turn]) for one in examples for turn in self.task.responses(one)]

    @property
    def _of_people(self) -> bool:
        return isinstance(self.task.config.data, ConversationFiles)

    def baselines(self, examples: Sequence[Conversation]) -> Mapping[str, Outcomes]:
        """The most frequent response of the training set, and its response to the nearest history."""
        if self._plain is None:
            return {}
        normalize, references = self.task.tokenizer.normalize, self._references(examples)
        owners = [n for n, one in enumerate(examples) for _ in self.task.responses(one)]
        found = {}
        for name, texts in self._plain.of(examples).items():
            measures = text_measures([*map(normalize, texts)], references, self._of_people)
            found[name] = Outcomes(tuple(texts), by_conversation(measures, owners, len(examples)))
        return found

    @cached_property
    def _plain(self) -> PlainResponses | None:
        """The training responses; None if they can no longer be read."""
        known = self.known()
        return None if known is None else PlainResponses(self.task, known)

    def validated(self) -> Sequence[Conversation]:
        """The validation conversations."""
        return self.examples("valid")
