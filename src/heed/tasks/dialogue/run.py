"""Runs of dialogue: responses, conversations with a model, scores and their report, baselines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from markupsafe import Markup

from heed.config.data import ConversationColumns
from heed.data.examples import Conversation
from heed.data.findings import BadLine, Findings
from heed.data.kinds.conversations import END_OF_UTTERANCE, conversation_of, object_of, read_conversations
from heed.data.tables import RepeatedKeyError, described, has_items, load_json
from heed.data.text_files import Numbered, with_gaps
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Measure, Outcomes, length_buckets, rate, share
from heed.evaluation.text_scores import commonest_outputs, commonest_share, distinct
from heed.generation import SamplingOptions
from heed.models.base import DecoderBody
from heed.tasks.base.attributing import Attributes
from heed.tasks.base.beams import HasBeams
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import Predictions, short
from heed.tasks.base.report import counted, counted_are, first_of, interval, points, span, with_interval
from heed.tasks.base.writing import WrittenText, output_measures
from heed.tasks.base.writing_run import (
    SEARCH,
    Baselines,
    NearestSentence,
    WritingExaminer,
    WritingOutputs,
    WritingRun,
    cut_off_lines,
    map_html,
    signature_lines,
)
from heed.tasks.dialogue.look import conversation_text, explain, look_at
from heed.tasks.dialogue.reading import History, alternate
from heed.tasks.dialogue.task import Dialogue
from heed.visible import to_json


def text_measures(
    texts: Sequence[str], references: Sequence[str], tokenizer: TextTokenizer | None, bleu_tokenize: str
) -> list[Measure]:
    """Scores of written responses (see `output_measures`), an entry for each response, the most important first."""
    *of_texts, exact = output_measures(texts, references, ("bleu", "chrf"), tokenizer, bleu_tokenize)
    return [*of_texts, distinct(texts, 1), distinct(texts, 2), commonest_share(texts), exact]


def by_conversation(measures: Sequence[Measure], owners: Sequence[int], count: int) -> tuple[Measure, ...]:
    """Measures of responses as measures of `count` conversations: responses of one are not independent.

    `owners` are the conversation of each response; conversations without a response have zeros.
    """
    made = []
    for measure in measures:
        sums = np.zeros((count, measure.statistics.shape[1]))
        np.add.at(sums, np.asarray(owners, dtype=np.int64), measure.statistics)
        made.append(replace(measure, statistics=sums))
    return tuple(made)


def by_turns_read(measure: Measure, read: Sequence[int]) -> list[dict[str, Any]]:
    """The score of responses by the number of turns before them, in at most five ranges."""
    found = []
    for first, last in length_buckets(read):
        inside = [n for n, count in enumerate(read) if first <= count <= last]
        found.append({"first": first, "last": last, "responses": len(inside), measure.name: measure.of(inside).score()})
    return found


_POINTS = {"bleu": "BLEU", "chrf": "chrF"}
_SHARES = {
    "exact_match": "exact match",
    "token_accuracy": "token accuracy",
    "distinct_1": "distinct-1",
    "distinct_2": "distinct-2",
    "commonest": "10 commonest outputs",
}
_SHOWN = 3
"""Number of most common outputs that are shown."""


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    lines = [f"  {'responses':<21} {report['responses']:7,}, intervals over conversations"]
    lines.append(f"  {'perplexity':<21} {with_interval(report['perplexity'])}")
    lines += [f"  {label:<21} {points(report[key])}" for key, label in _POINTS.items() if key in report]
    lines += [f"  {label:<21} {interval(report[key])}" for key, label in _SHARES.items() if key in report]
    common = [f"{short(one['text'])} ({one['count']:,})" for one in report["common"][:_SHOWN]]
    lines.append(f"  most frequent responses: {', '.join(common)}")
    lines.append("  perplexity by turns before the response:")
    for bucket in report["by_turns_read"]:
        lines.append(f"    {span(bucket):>8}  {bucket['perplexity']:7.2f}  ({bucket['responses']:,})")
    lines += signature_lines(report, _POINTS)
    if report["history_cut"]:
        lines.append(f"  {counted_are(report['history_cut'], 'response')} to a history whose first turns were not read")
    return [*lines, *cut_off_lines(report)]


_LAST = 2
"""Last turns that are compared to find the nearest history: with more, the topic would decide, not the question."""


def _last(conversation: Conversation, turn: int) -> str:
    """The last turns before a turn."""
    return "\n".join(conversation.turns[max(0, turn - _LAST) : turn])


Said = str | Sequence[str] | Mapping[str, Any] | Conversation
"""A conversation: its turns; a dict, as in JSON lines; or a text with turns separated by tabs or `data.separator`."""


class Chat:
    """A conversation with a `DialogueRun`; made by `run.chat()`, with options of its `predict`."""

    def __init__(self, run: Any, speaker: str | None = None, **options: Any) -> None:
        self._run, self._options = run, options
        self.speaker, self.partner = run.parts(speaker)  # names of model and user; "" if the data names no speakers
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
            response = self._run.respond([history], self.speaker or None, **self._options)[0][0]
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
        self.num_cut = self._run.num_cut(history)
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
            run.task.speakers.check(options["speaker"], "--speaker")

    def arguments(self, texts: list[str]) -> list[str]:
        blank = [n for n, text in enumerate(texts, start=1) if not text.strip()]
        if blank and len(texts) > 1:
            raise ConfigError(f"turn {blank[0]} of the conversation is blank")
        turns: list[str] = self.run.typed(texts)
        return turns

    def read(self, line: Any, place: str) -> str:
        if line.lstrip().startswith("{"):  # any other text is turns
            try:
                self.run.conversation(line)
            except DataError as error:
                raise DataError(f"{place}: {error}") from None
        return str(line)

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
        return Chat(self.run, self.options["speaker"], **self.search)

    def answer(self, text: str) -> str:
        response = self.chat.say(text)
        return response.text + self._remark(response)

    def _remark(self, response: WrittenText) -> str:
        """The remark below a response to a history whose first turns were not read."""
        self.num_cut_off += not response.finished
        cut = self.chat.num_cut
        unread = f"\n({first_of(cut, len(self.chat.turns) - 1, 'turn')} not read)" if cut else ""
        return unread + ("" if response.baseline is None else f"\n({response.baseline})")

    @property
    def streams(self) -> bool:
        if self.options["json"] or self.options["nbest"] > 1 or self.options["with_baseline"]:
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

    def notes(self) -> list[str]:
        notes = []
        if self._findings is not None:
            read = f"{counted(self._read_conversations, 'conversation')} of {counted(self._read_turns, 'turn')}"
            notes.append("; ".join([read, *self._findings.remarks]))
        if self._shortened:
            whose = "conversation was too long; its" if self._shortened == 1 else "conversations were too long; their"
            notes.append(f"{self._shortened:,} {whose} first turns were not read (data.history, data.max_length)")
        return [*notes, *super().notes()]


class DialogueRun(WritingRun[Dialogue, DecoderBody], LooksAtText, Attributes, HasBeams):
    """A model that responds to the turns of a conversation."""

    task_class = Dialogue
    outputs_class = DialogueOutputs
    targets = "response tokens"
    text_columns = ("turns", "text")
    options: ClassVar = {"speaker": None, **SEARCH}
    body = staticmethod(body)
    look_at = staticmethod(look_at)
    explain = staticmethod(explain)
    names = ("conversation", "responses")

    @classmethod
    def examiner(cls) -> type[DialogueExaminer]:
        return DialogueExaminer

    # Responding -----------------------------------------------------------------------------------------------

    @property
    def columns(self) -> ConversationColumns:
        """The names of a conversation's fields in JSON."""
        return self.task.config.data.columns

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

    def respond(
        self,
        conversations: Sequence[Conversation],
        speaker: str | None = None,
        with_baseline: bool = False,
        **options: Any,
    ) -> list[list[WrittenText]]:
        """The `num_best` best responses to each conversation, best first; options as of `predict`.

        Raises:
            ConfigError: The speaker does not exist, or a conversation has no turn.
        """
        found = self.task.respond(self.model, self._histories(conversations, speaker), **options)
        if not with_baseline:
            return found
        return self.beside_baseline([_last(one, len(one.turns)) for one in conversations], found)

    def searched(self, text: Conversation, speaker: str | None = None, **options: Any) -> tuple[str, WrittenText]:
        return conversation_text(text), self.respond([text], speaker, **options)[0][0]

    def _histories(self, conversations: Sequence[Conversation], speaker: str | None) -> list[History]:
        """Conversations as a model reads them, each with the speaker who responds."""
        if speaker is not None:
            self.task.speakers.check(speaker, "speaker")
        for n, one in enumerate(conversations):
            if not one.turns:
                raise ConfigError(f"conversation {n} has no turn to respond to")
        numbers = [self.task.speakers.number(self.task.who_responds(one, speaker)) for one in conversations]
        encoded = self.task.encode(conversations).conversations
        return [History(turns, number) for turns, number in zip(encoded, numbers, strict=True)]

    def write(
        self,
        conversation: Said,
        speaker: str | None = None,
        *,
        sampling: SamplingOptions | None = None,
        **search: Any,
    ) -> Generator[str, None, WrittenText]:
        """The response to a conversation, piece by piece while it is written; options of `predict`, without a beam.

        Raises:
            ConfigError: The speaker does not exist, the conversation has no turn, or the options ask for a beam search.
        """
        options = self.task.search_options(self.model, **search)
        if not (options.num_best == 1 and (options.beam_size == 1 or sampling is not None)):
            raise ConfigError(
                "a response is shown while it is written by greedy search or sampling only; set beam_size=1 and "
                "num_best=1"
            )
        (history,) = self._histories([self.conversation(conversation)], speaker)
        return self.task.stream(self.model, history, options, sampling)

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
                configuration's by default), `num_best`, `sampling` (`heed.generation.SamplingOptions`), `with_baseline`
                (adds the output of the best baseline by the run's report, as `.baseline`).

        Returns:
            A `WrittenText`, or for several conversations a list of them.
        """
        self.check_options(options)
        if isinstance(conversation, str | Mapping | Conversation):
            return self.predictions([conversation], **options)[0]
        if isinstance(conversation, bytes) or not has_items(conversation):
            raise DataError(f"conversation is {described(conversation)}, expected a text or a list of turns")
        several = list(conversation)
        if several and all(isinstance(one, str) for one in several):
            return self.predictions([several], **options)[0]
        return Predictions(self.predictions(several, **options))

    def predictions(self, texts: Sequence[Said], **options: Any) -> list[WrittenText]:
        made = [self.conversation(one) for one in texts]
        return [candidates[0] for candidates in self.respond(made, **options)]

    def typed(self, texts: Sequence[str]) -> list[str]:
        if len(texts) < 2:
            return list(texts)
        return [json.dumps(object_of(Conversation(tuple(texts), ()), self.columns), ensure_ascii=False)]

    def chat(self, speaker: str | None = None, **options: Any) -> Chat:
        """Start a conversation with the model as a speaker; `say` returns its response."""
        return Chat(self, speaker, **options)

    def readable(self, text: Said) -> Conversation:
        """The conversation to look at.

        Raises:
            DataError: The text is not a conversation, or the conversation has no turn.
        """
        conversation = self.conversation(text)
        if not conversation.turns:
            raise DataError("the conversation has no turns; give at least one to look at the response to it")
        return conversation

    def input_of(self, example: Conversation) -> Conversation:
        """The conversation without its last turn."""
        return Conversation(example.turns[:-1], example.speakers[:-1])

    # Scoring --------------------------------------------------------------------------------------------------

    def read(self, files: Sequence[str | Path]) -> list[Conversation]:
        findings = Findings.of(self.task.config.data, strict=True)
        found = [one for one in read_conversations(files, self.task.config.data, findings) if not one.blank]
        self.reading = findings.lines()
        return self._with_responses(found, ", ".join(map(str, files)))

    def held(self, data: Any) -> list[Conversation]:
        return self._with_responses([*super().held(data)], "examples")

    def _with_responses(self, found: list[Conversation], where: str) -> list[Conversation]:
        if not any(map(self.task.responses, found)):
            respond = self.task.config.data.respond
            raise DataError(f"{where}: no conversation has a response (data.respond {respond})")
        return found

    def answers(self, conversations: Iterable[Conversation], **options: Any) -> list[list[WrittenText]]:
        """The model's output for each response of each conversation, given the actual turns before it."""
        conversations = list(conversations)
        talk = self.task.encode(conversations)
        found: list[list[WrittenText]] = [[] for _ in conversations]
        written = self.task.respond(self.model, [one.history for one in talk.responses], **options)
        for response, candidates in zip(talk.responses, written, strict=True):
            found[response.conversation].append(candidates[0])
        return found

    def outcomes(
        self,
        examples: Sequence[Conversation],
        outputs: Sequence[Sequence[WrittenText]] | None = None,
        per_token: bool = True,
        literal: bool = False,
        bleu_tokenize: str | None = None,
    ) -> Outcomes:
        """Outputs for each response of each conversation and their measures; `per_token` also scores tokens.

        With `literal`, also differences count that the run's tokenizer does not make; `bleu_tokenize` replaces the
        run's own.

        The statistics of the measures are sums over the responses of a conversation.
        """
        task = self.task
        outputs = self.answers(examples) if outputs is None else outputs
        texts = [one.text for answers in outputs for one in answers]
        talk = task.encode(examples)
        scores = task.forced_scores(self.model, task.units_of(talk))
        tokenizer = None if literal else task.tokenizer
        measures = text_measures(texts, self._references(examples), tokenizer, bleu_tokenize or task.bleu_tokenize)
        known = rate("perplexity", "perplexity", scores.nll, scores.tokens, 2, np.exp)
        if per_token:
            measures.insert(0, known)
            measures.append(share("token_accuracy", "token accuracy", scores.correct, scores.tokens))
        made = by_conversation(measures, [one.conversation for one in talk.responses], len(examples))
        read = [one.turn for one in talk.responses]
        details = {
            "responses": len(texts),
            "common": [{"text": text, "count": count} for text, count in commonest_outputs(texts)],
            "by_turns_read": by_turns_read(known, read),
            "history_cut": sum(task.reading.read(one.history.turns).first > 0 for one in talk.responses),
            "cut_off": sum(not one.finished for answers in outputs for one in answers),
        }
        said = tuple("\n".join(one.text for one in answers) for answers in outputs)
        return Outcomes(said, made, lengths=tuple(len(one.turns) for one in examples), details=details)

    def _references(self, examples: Sequence[Conversation]) -> list[str]:
        return [one.turns[turn] for one, turn in self._responses(examples)]

    def baselines(self, examples: Sequence[Conversation]) -> Mapping[str, Outcomes]:
        histories = [_last(one, turn) for one, turn in self._responses(examples)]
        references = self._references(examples)
        owners = [n for n, one in enumerate(examples) for _ in self.task.responses(one)]
        found = {}
        for name, texts in self.baseline_texts(histories).items():
            measures = text_measures(texts, references, self.task.tokenizer, self.task.bleu_tokenize)
            found[name] = Outcomes(tuple(texts), by_conversation(measures, owners, len(examples)))
        return found

    @property
    def baseline_writers(self) -> Baselines:
        """The most frequent response of the training set, and its response to the nearest history."""
        return {
            "most frequent response": lambda histories: [self._known_responses[0]] * len(histories),
            "response to the nearest history": lambda histories: self._known_responses[1].translate(histories),
        }

    @cached_property
    def _known_responses(self) -> tuple[str, NearestSentence]:
        """The most frequent training response, and all by the turns before them."""
        found = self._responses(self.learned_from())
        frequent = Counter(one.turns[turn] for one, turn in found).most_common(1)
        nearest = NearestSentence((_last(one, turn), one.turns[turn]) for one, turn in found)
        return frequent[0][0] if frequent else "", nearest

    def _responses(self, conversations: Sequence[Conversation]) -> list[tuple[Conversation, int]]:
        """Each response, as a conversation and the number of a turn."""
        return [(one, turn) for one in conversations for turn in self.task.responses(one)]

    def validated(self) -> Sequence[Conversation]:
        return self.examples("valid")


_LOOKS = ("turns", "words", "cross")
"""Attention to the conversation, from the widest view on."""


class DialogueExaminer(WritingExaminer[DialogueRun, Conversation, list[WrittenText]]):
    """Conversations and the responses in them, each to the turns that come before it in the data."""

    kind = "conversations"
    per_token_scores = "perplexity and scores per token"
    written = "response"

    def __init__(self, runs: Sequence[DialogueRun], examples: Sequence[Conversation]) -> None:
        responds = {run.config.data.respond for run in runs}
        if len(responds) > 1:
            listed = ", ".join(f"{run.folder.name}: {run.config.data.respond}" for run in runs)
            raise ConfigError(f"the runs were trained on responses of different speakers (data.respond: {listed})")
        super().__init__(runs, examples)

    def _references(self) -> tuple[list[str], list[str]]:
        remark = "An example is a whole conversation: intervals and tests draw conversations, not single responses."
        task, (_, remarks) = self.runs[0].task, super()._references()
        return ["\n".join(one.turns[turn] for turn in task.responses(one)) for one in self.examples], [remark, *remarks]

    def _lengths(self) -> tuple[list[int], str]:
        return [len(one.turns) for one in self.examples], "turns"

    def predict(
        self, run: DialogueRun, examples: Sequence[Conversation], beam_size: int | None
    ) -> list[list[WrittenText]]:
        return run.answers(examples, beam_size=beam_size)

    def count_tokens(self, run: DialogueRun, outputs: Sequence[list[WrittenText]]) -> int:
        return sum(len(one.tokens) for answers in outputs for one in answers)

    def outcomes(self, run: DialogueRun, outputs: Sequence[list[WrittenText]]) -> Outcomes:
        return run.outcomes(
            self.examples, outputs, per_token=self.per_token, literal=self.literal, bleu_tokenize=self.bleu_tokenize
        )

    def drawing(self, run: DialogueRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        one = self.examples[index]
        responses = run.task.responses(one)
        if not responses:
            return Markup('<p class="hint">This conversation has no response.</p>')
        turn = responses[-1]
        before = Conversation(one.turns[:turn], one.speakers[:turn])
        speaker = one.speaker(turn) if one.speaker(turn) in run.task.speakers.known else None
        shown = run.look(before, speaker=speaker, beam_size=beam_size)
        return map_html(shown.look, _LOOKS, "This model does not attend to the turns while it writes.", numbers)
