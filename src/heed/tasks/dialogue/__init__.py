"""Dialogue: responses to the turns of a conversation, in Python, as output of `heed predict`, and typed in a chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from markupsafe import Markup
from pydantic import Field, field_validator, model_validator

from heed.config.data import Source, Sources, section
from heed.config.sections import ModelSection, RunConfig, SearchConfig, TrainingConfig, WritingEvaluation
from heed.data.examples import Conversation
from heed.data.findings import BadLine, Findings
from heed.data.kinds.conversations import object_of, read_conversations
from heed.data.text_files import Numbered, with_gaps
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Measure, Outcomes, length_buckets, rate, share
from heed.evaluation.text_scores import commonest_outputs, commonest_share, distinct
from heed.generation import SamplingOptions
from heed.tasks.base.predictions import short
from heed.tasks.base.report import counted, first_of, length_lines, note_lines, score_lines, signature_lines
from heed.tasks.base.writing import (
    SEARCH,
    NearestSentence,
    WritingExaminer,
    WritingOutputs,
    WrittenText,
    map_html,
    output_measures,
)
from heed.tasks.dialogue.look import explain, histories_of, look_at, readable
from heed.tasks.heads.written import Written, settings
from heed.tasks.inputs.turns import History, Turns
from heed.tasks.work import Baselines, Looks, Task
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.run import Run


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
        """Add a turn and respond to it; the response becomes the next turn.

        Raises:
            ConfigError: The text is blank.
        """
        with self._turn(text) as history:
            response = self._run.candidates([history], speaker=self.speaker or None, **self._options)[0][0]
        return self._with_response(history, response)

    def write(self, text: str) -> Generator[str, None, WrittenText]:
        """As `say`, but yields the response piece by piece while it is written, which excludes beam search.

        Raises:
            ConfigError: The text is blank, or the options ask for a beam search.
        """
        with self._turn(text) as history:
            response = yield from self._run.write(history, self.speaker or None, **self._options)
        return self._with_response(history, response)

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

    def _with_response(self, history: Conversation, response: WrittenText) -> WrittenText:
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
        for number, conversation in enumerate(with_gaps(read_conversations([path], data, findings), findings), start=1):
            if isinstance(conversation, BadLine):
                yield number, conversation
                continue
            self._read_conversations += 1
            self._read_turns += len(conversation.turns)
            line = int(conversation.origin.rpartition(":")[2])
            yield line, to_json(object_of(conversation, columns))

    def unknown_in(self, text: str) -> Sequence[str]:
        turns = self.run.input.conversation(text).turns
        return [piece for turn in turns for piece in self.run.input.tokenizer.unknown_in(turn)]

    def candidates(self, texts: list[str], num_best: int) -> list[list[WrittenText]]:
        conversations = [self.run.input.conversation(text) for text in texts]
        filled = [conversation for conversation in conversations if conversation.turns]
        responses = iter(self.run.candidates(filled, speaker=self.options["speaker"], num_best=num_best, **self.search))
        self._shortened += sum(self.run.input.num_cut(conversation) > 0 for conversation in filled)
        return [next(responses) if conversation.turns else [] for conversation in conversations]

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
        options = self.run.head.search_options(self.run.model, beam_size=self.options["beam_size"])
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
    grouped = []
    for measure in measures:
        sums = np.zeros((count, measure.statistics.shape[1]))
        np.add.at(sums, np.asarray(owners, dtype=np.int64), measure.statistics)
        grouped.append(replace(measure, statistics=sums))
    return tuple(grouped)


def by_turns_read(measure: Measure, read: Sequence[int]) -> list[dict[str, Any]]:
    """The score of responses by the number of turns before them, in at most five ranges."""
    scores = []
    for first, last in length_buckets(read):
        inside = [n for n, count in enumerate(read) if first <= count <= last]
        score = measure.of(inside).score()
        scores.append({"first": first, "last": last, "responses": len(inside), measure.name: score})
    return scores


_SCORES = {
    **{"responses": "responses", "perplexity": "perplexity", "bleu": "BLEU", "chrf": "chrF"},
    "exact_match": "exact match",
    "token_accuracy": "token accuracy",
    "distinct_1": "distinct-1",
    "distinct_2": "distinct-2",
    "commonest": "10 commonest outputs",
}
_SHOWN = 3
"""Number of most common outputs that are shown."""


@dataclass(frozen=True)
class Responses(Written):
    """Responses to the turns of a conversation."""

    names: ClassVar[str] = "responses"
    keywords: ClassVar = {"speaker": None, **SEARCH}
    longest_output: ClassVar[int | None] = 100

    targets: str = "tokens"

    # Writing --------------------------------------------------------------------------------------------------

    def respond(
        self,
        work: Any,
        model: Any,
        histories: Sequence[History],
        sampling: SamplingOptions | None = None,
        **search: Any,
    ) -> list[list[WrittenText]]:
        """The candidates for the response to each history, best first; `search` are options of `search_options`."""
        return self.write(work.input, model, histories, self.search_options(model, **search), sampling)

    def candidates(
        self,
        run: Any,
        examples: Sequence[Conversation],
        speaker: str | None = None,
        **options: Any,
    ) -> list[list[WrittenText]]:
        """The `num_best` best responses to each conversation, best first.

        Raises:
            ConfigError: The speaker does not exist, or a conversation has no turn.
        """
        return self.respond(run.task, run.model, histories_of(run.input, examples, speaker), **options)

    def grow(
        self,
        run: Any,
        inputs: Any,
        speaker: str | None = None,
        *,
        sampling: SamplingOptions | None = None,
        **search: Any,
    ) -> Generator[str, None, WrittenText]:
        """The response to a conversation, piece by piece while it is written; options of `predict`, without a beam.

        Raises:
            ConfigError: The speaker does not exist, the conversation has no turn, or the options ask for a beam search.
        """
        options = self.search_options(run.model, **search)
        if not (options.num_best == 1 and (options.beam_size == 1 or sampling is not None)):
            raise ConfigError(
                "a response is shown while it is written by greedy search or sampling only; set beam_size=1 and "
                "num_best=1"
            )
        (history,) = histories_of(run.input, [run.input.conversation(inputs)], speaker)
        return self.stream(run.input, run.model, history, options, sampling)

    # Scores ---------------------------------------------------------------------------------------------------

    def answers(self, run: Any, conversations: Iterable[Conversation], **options: Any) -> list[list[WrittenText]]:
        """The model's output for each response of each conversation, given the actual turns before it."""
        conversations = list(conversations)
        talk = run.input.encode(conversations)
        answers: list[list[WrittenText]] = [[] for _ in conversations]
        written = self.respond(run.task, run.model, [response.history for response in talk.responses], **options)
        for response, candidates in zip(talk.responses, written, strict=True):
            answers[response.conversation].append(candidates[0])
        return answers

    def scored(self, run: Any, examples: Sequence[Conversation], outputs: Any, others: Any) -> Outcomes:
        """Outputs for each response of each conversation and their measures, sums over a conversation's responses.

        Of a comparison: whether scores of tokens are added, whether differences count that the run's tokenizer does not
        make, and the tokenizer of BLEU.
        """
        per_token, literal, bleu = others or (True, False, None)
        outputs = self.answers(run, examples) if outputs is None else outputs
        texts = [answer.text for answers in outputs for answer in answers]
        talk = run.input.encode(examples)
        nats, correct, tokens = run.task.judged(run.model, talk).T.tolist()
        references = [each.turns[turn] for each in examples for turn in run.input.responses(each)]
        tokenizer = None if literal else self.tokenizer
        measures = text_measures(texts, references, tokenizer, bleu or self.bleu_tokenize)
        perplexity = rate("perplexity", "perplexity", nats, tokens, 2, np.exp)
        if per_token:
            measures.insert(0, perplexity)
            measures.append(share("token_accuracy", "token accuracy", correct, tokens))
        by_talk = by_conversation(measures, [response.conversation for response in talk.responses], len(examples))
        details = {
            "responses": len(texts),
            "common": [{"text": text, "count": count} for text, count in commonest_outputs(texts)],
            "by_turns_read": by_turns_read(perplexity, [response.turn for response in talk.responses]),
            "history_cut": sum(run.input.reading.read(response.history.turns).first > 0 for response in talk.responses),
            "cut_off": sum(not response.finished for answers in outputs for response in answers),
        }
        joined = tuple("\n".join(answer.text for answer in answers) for answers in outputs)
        return Outcomes(joined, by_talk, lengths=tuple(len(talk.turns) for talk in examples), details=details)

    def baseline_outcomes(
        self, run: Any, examples: Sequence[Conversation], predict: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> Outcomes:
        every = [(n, talk, turn) for n, talk in enumerate(examples) for turn in run.input.responses(talk)]
        texts = predict([Conversation(talk.turns[:turn], talk.speakers[:turn]) for _, talk, turn in every])
        references = [talk.turns[turn] for _, talk, turn in every]
        measures = text_measures(texts, references, self.tokenizer, self.bleu_tokenize)
        return Outcomes(tuple(texts), by_conversation(measures, [n for n, _, _ in every], len(examples)))

    def report(self, scores: dict[str, Any]) -> list[str]:
        lines = score_lines(scores, _SCORES, 21)
        lines[0] += ", intervals over conversations"
        common = [f"{short(output['text'])} ({output['count']:,})" for output in scores["common"][:_SHOWN]]
        lines.append(f"  most frequent responses: {', '.join(common)}")
        title = "perplexity by turns before the response"
        lines += length_lines(title, scores["by_turns_read"], "perplexity", "responses")
        return [*lines, *signature_lines(scores), *note_lines(scores, "history_cut", "cut_off")]


_LAST = 2
"""Last turns that are compared to find the nearest history: with more, the topic would decide, not the question."""


def _last(conversation: Conversation, turn: int) -> str:
    """The last turns before a turn."""
    return "\n".join(conversation.turns[max(0, turn - _LAST) : turn])


def baselines(run: Run) -> Baselines:
    """The most frequent response of the training set, and its response to the nearest history."""
    input: Any = run.input

    @cache
    def fitted() -> tuple[str, NearestSentence]:
        """The most frequent training response, and a lookup of responses by the turns before them."""
        train = run.examples("train")
        pairs = [(_last(talk, turn), talk.turns[turn]) for talk in train for turn in input.responses(talk)]
        frequent = Counter(response for _, response in pairs).most_common(1)
        return frequent[0][0] if frequent else "", NearestSentence(pairs)

    return {
        "most frequent response": lambda some: [fitted()[0]] * len(some),
        "response to the nearest history": lambda some: fitted()[1].translate([_last(a, len(a.turns)) for a in some]),
    }


_LOOKS = ("turns", "words", "cross")
"""Attention to the conversation, from the widest view on."""


class DialogueExaminer(WritingExaminer):
    """Conversations and the responses in them, each to the turns that come before it in the data."""

    kind = "conversations"
    per_token_scores = "perplexity and scores per token"
    written = "response"

    def __init__(self, runs: Sequence[Any], examples: Sequence[Conversation]) -> None:
        responds = {run.config.data.respond for run in runs}
        if len(responds) > 1:
            listed = ", ".join(f"{run.folder.name}: {run.config.data.respond}" for run in runs)
            raise ConfigError(f"the runs were trained on responses of different speakers (data.respond: {listed})")
        super().__init__(runs, examples)

    def _references(self) -> tuple[list[str], list[str]]:
        remark = "An example is a whole conversation: intervals and tests draw conversations, not single responses."
        input, (_, remarks) = self.runs[0].input, super()._references()
        references = ["\n".join(talk.turns[turn] for turn in input.responses(talk)) for talk in self.examples]
        return references, [remark, *remarks]

    def _lengths(self) -> tuple[list[int], str]:
        return [len(talk.turns) for talk in self.examples], "turns"

    def predict(self, run: Any, examples: Sequence[Conversation], beam_size: int | None) -> list[list[WrittenText]]:
        return run.head.answers(run, examples, beam_size=beam_size)  # type: ignore[no-any-return]

    def count_tokens(self, run: Any, outputs: Sequence[list[WrittenText]]) -> int:
        return sum(len(answer.tokens) for answers in outputs for answer in answers)

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        conversation = self.examples[index]
        responses = run.input.responses(conversation)
        if not responses:
            return Markup('<p class="hint">This conversation has no response.</p>')
        turn = responses[-1]
        before = Conversation(conversation.turns[:turn], conversation.speakers[:turn])
        speaker = conversation.speaker(turn) if conversation.speaker(turn) in run.input.speakers.named else None
        shown = run.look(before, speaker=speaker, beam_size=beam_size)
        return map_html(shown.look, _LOOKS, "This model does not attend to the turns while it writes.", numbers)


TASK = Task(
    "dialogue",
    input=Turns(),
    head=Responses(),
    config=DialogueConfig,
    looks=Looks(look_at, explain, readable=readable),
    baselines=baselines,
    defaults=settings,
    outputs=DialogueOutputs,
    examiner=lambda: DialogueExaminer,
    chat=Chat,
    cannot={"ensemble": ""},
)
