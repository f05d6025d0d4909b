"""Runs of dialogue: responses, scores and their report, baselines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from heed.config.data import ConversationColumns, ConversationFiles
from heed.data.examples import Conversation
from heed.data.findings import Findings
from heed.data.kinds.conversations import END_OF_UTTERANCE, conversation_of, object_of, read_conversations
from heed.data.tables import RepeatedKeyError, load_json
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Measure, Outcomes, length_buckets, rate, share
from heed.evaluation.rouge import commonest_outputs, commonest_share, distinct
from heed.generation import SamplingOptions
from heed.models.base import DecoderBody
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import Predictions, short
from heed.tasks.base.report import counted_are, interval, plain, points, span
from heed.tasks.base.run import TextRun
from heed.tasks.base.writing import WrittenText, output_measures
from heed.tasks.base.writing_run import NearestSentence, WritingExaminer, cut_off_lines, map_html
from heed.tasks.dialogue.chat import Chat, DialogueOutputs
from heed.tasks.dialogue.look import look_at
from heed.tasks.dialogue.reading import History, alternate
from heed.tasks.dialogue.task import Dialogue

PER_TOKEN = ("perplexity", "token_accuracy")
"""Measures that cannot be compared across tokenizers."""


def text_measures(texts: Sequence[str], references: Sequence[str], of_people: bool) -> list[Measure]:
    """Scores of written responses, an entry for each response, the most important first.

    For conversations of people (`of_people`), BLEU, chrF and the variety of the outputs come before exact match; for
    embedded data, where every response follows from the turns before it, exact match comes first.
    """
    *of_texts, exact = output_measures(texts, references, ("bleu", "chrf"))
    varied = [distinct(texts, 1), distinct(texts, 2), commonest_share(texts)]
    return [*of_texts, *varied, exact] if of_people else [exact, *of_texts, *varied]


def perplexity(nll: Sequence[float], tokens: Sequence[int]) -> Measure:
    """The exponential of the mean negative log-likelihood of a token, in nats; end tokens are tokens."""
    return rate("perplexity", "perplexity", nll, tokens, 2, np.exp)


def by_conversation(measures: Sequence[Measure], owners: Sequence[int], count: int) -> tuple[Measure, ...]:
    """Measures of responses as measures of conversations, whose responses are not independent of one another.

    Args:
        measures: An entry for each response.
        owners: The conversation of each response.
        count: Number of conversations; those without a response have zeros.
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


def common(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The most common outputs, for a report."""
    return [{"text": text, "count": count} for text, count in commonest_outputs(texts)]


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
    lines.append(f"  {'perplexity':<21} {plain(report['perplexity'])}")
    lines += [f"  {label:<21} {points(report[key])}" for key, label in _POINTS.items() if key in report]
    lines += [f"  {label:<21} {interval(report[key])}" for key, label in _SHARES.items() if key in report]
    common = [f"{short(one['text'])} ({one['count']:,})" for one in report["common"][:_SHOWN]]
    lines.append(f"  most frequent responses: {', '.join(common)}")
    lines.append("  perplexity by turns before the response:")
    for bucket in report["by_turns_read"]:
        lines.append(f"    {span(bucket):>8}  {bucket['perplexity']:7.2f}  ({bucket['responses']:,})")
    lines += [f"  {label}: {report[key]['signature']}" for key, label in _POINTS.items() if key in report]
    if report["history_cut"]:
        lines.append(f"  {counted_are(report['history_cut'], 'response')} to a history whose first turns were not read")
    return [*lines, *cut_off_lines(report)]


_LAST = 2
"""Last turns that are compared to find the nearest history: with more, the topic would decide, not the question."""


class PlainResponses:
    """Baseline responses, copied from the training conversations."""

    def __init__(self, task: Dialogue, conversations: Sequence[Conversation]) -> None:
        """Keep the responses in conversations and the turns before them."""
        self._task = task
        found = [(one, turn) for one in conversations for turn in task.responses(one)]
        self.most_frequent = Counter(one.turns[turn] for one, turn in found).most_common(1)[0][0] if found else ""
        self._nearest = NearestSentence((_last(one, turn), one.turns[turn]) for one, turn in found)

    def of(self, conversations: Sequence[Conversation]) -> dict[str, list[str]]:
        """For each baseline, by name, its output for every response in these conversations, in order."""
        histories = [_last(one, turn) for one in conversations for turn in self._task.responses(one)]
        return {
            "most frequent response": [self.most_frequent] * len(histories),
            "response to the nearest history": self._nearest.translate(histories),
        }


def _last(conversation: Conversation, turn: int) -> str:
    """The last turns before a turn."""
    return "\n".join(conversation.turns[max(0, turn - _LAST) : turn])


Said = str | Sequence[str] | Mapping[str, Any] | Conversation
"""A conversation: its turns; a dict, as in JSON lines; or a text with turns separated by tabs or `data.separator`."""


class DialogueRun(TextRun[Dialogue, DecoderBody, WrittenText], LooksAtText):
    """A model that responds to the turns of a conversation."""

    task_class = Dialogue
    targets = "response tokens"
    text_columns = ("turns", "text")
    options = frozenset(("speaker", "beam_size", "length_penalty", "min_length", "max_length", "sampling", "num_best"))
    body = staticmethod(body)
    look_at = staticmethod(look_at)
    names = ("conversation", "responses")

    @classmethod
    def examiner(cls) -> type[DialogueExaminer]:
        return DialogueExaminer

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

    def respond(
        self, conversations: Sequence[Conversation], speaker: str | None = None, **options: Any
    ) -> list[list[WrittenText]]:
        """The `num_best` best responses to each conversation, best first; options as of `predict`.

        Raises:
            ConfigError: The speaker does not exist, or a conversation has no turn.
        """
        return self.task.respond(self.model, self._histories(conversations, speaker), **options)

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
                configuration's by default), `num_best`, `sampling` (`heed.generation.SamplingOptions`).

        Returns:
            A `WrittenText`, or for several conversations a list of them.
        """
        self.check_options(options)
        if isinstance(conversation, str | Mapping | Conversation):
            return self.predictions([conversation], **options)[0]
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
        """Start a conversation with the model as a speaker; `say` returns its response, `undo` removes an exchange.

        Raises:
            ConfigError: The speaker does not exist.
        """
        return Chat(self, speaker, **options)

    def outputs(self, options: Mapping[str, Any]) -> DialogueOutputs:
        """The writer of responses."""
        return DialogueOutputs(self, options)

    def readable(self, text: Said) -> Conversation:
        """The conversation to look at.

        Raises:
            DataError: The text is not a conversation, or the conversation has no turn.
        """
        conversation = self.conversation(text)
        if not conversation.turns:
            raise DataError("the conversation has no turns; give at least one to look at the response to it")
        return conversation

    # Scoring --------------------------------------------------------------------------------------------------

    def read(self, files: Sequence[str | Path]) -> list[Conversation]:
        findings = Findings.of(self.task.config.data, strict=True)
        found = [one for one in read_conversations(files, self.task.config.data, findings) if not one.blank]
        self.reading = findings.lines()
        if not any(map(self.task.responses, found)):
            respond = self.task.config.data.respond
            raise DataError(f"{', '.join(map(str, files))}: no conversation has a response (data.respond {respond})")
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
    ) -> Outcomes:
        """Outputs for each response of each conversation and their measures; `per_token` also scores tokens.

        The statistics of the measures are sums over the responses of a conversation.
        """
        task = self.task
        outputs = self.answers(examples) if outputs is None else outputs
        texts = [one.text for answers in outputs for one in answers]
        talk = task.encode(examples)
        scores = task.forced_scores(self.model, task.units_of(talk))
        measures = text_measures(texts, self._references(examples), self._of_people)
        known = perplexity(scores.nll, scores.tokens)
        if per_token:
            measures.insert(0 if self._of_people else 1, known)
            measures.append(share("token_accuracy", "token accuracy", scores.correct, scores.tokens))
        made = by_conversation(measures, [one.conversation for one in talk.responses], len(examples))
        read = [one.turn for one in talk.responses]
        details = {
            "responses": len(texts),
            "common": common(texts),
            "by_turns_read": by_turns_read(known, read),
            "history_cut": sum(task.reading.read(one.history.turns).first > 0 for one in talk.responses),
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
        return run.outcomes(self.examples, outputs, per_token=self.per_token)

    def drawing(self, run: DialogueRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        one = self.examples[index]
        responses = run.task.responses(one)
        if not responses:
            return Markup('<p class="hint">This conversation has no response.</p>')
        turn = responses[-1]
        before = Conversation(one.turns[:turn], one.speakers[:turn])
        speaker = one.speaker(turn) if one.speaker(turn) in run.task.speakers.known else None
        look = run.look(before, speaker=speaker, beam_size=beam_size).look
        return map_html(look, _LOOKS, "This model does not attend to the turns while it writes.", numbers)
