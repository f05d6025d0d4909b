"""Dialogue: responses to the turns of a conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from markupsafe import Markup

from heed.data.examples import Conversation
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.evaluation.measures import Measure, Outcomes, length_buckets, rate, share
from heed.evaluation.text_scores import commonest_outputs, commonest_share, distinct
from heed.generation import SamplingOptions
from heed.tasks.base.predictions import short
from heed.tasks.base.report import length_lines, note_lines, score_lines, signature_lines
from heed.tasks.base.writing import (
    SEARCH,
    NearestSentence,
    WritingExaminer,
    WrittenText,
    map_html,
    output_measures,
)
from heed.tasks.dialogue.chat import Chat, DialogueOutputs
from heed.tasks.dialogue.look import explain, histories_of, look_at, readable
from heed.tasks.heads.written import Written, settings
from heed.tasks.inputs.turns import History, Turns
from heed.tasks.work import Baselines, Looks, Task

if TYPE_CHECKING:
    from heed.tasks.run import Run


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
        given: Any,
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
        (history,) = histories_of(run.input, [run.input.conversation(given)], speaker)
        return self.stream(run.input, run.model, history, options, sampling)

    # Scores ---------------------------------------------------------------------------------------------------

    def answers(self, run: Any, conversations: Iterable[Conversation], **options: Any) -> list[list[WrittenText]]:
        """The model's output for each response of each conversation, given the actual turns before it."""
        conversations = list(conversations)
        talk = run.input.encode(conversations)
        found: list[list[WrittenText]] = [[] for _ in conversations]
        written = self.respond(run.task, run.model, [one.history for one in talk.responses], **options)
        for response, candidates in zip(talk.responses, written, strict=True):
            found[response.conversation].append(candidates[0])
        return found

    def scored(self, run: Any, examples: Sequence[Conversation], outputs: Any, others: Any) -> Outcomes:
        """Outputs for each response of each conversation and their measures, sums over a conversation's responses.

        Of a comparison: whether scores of tokens are added, whether differences count that the run's tokenizer does not
        make, and the tokenizer of BLEU.
        """
        per_token, literal, bleu = others or (True, False, None)
        outputs = self.answers(run, examples) if outputs is None else outputs
        texts = [one.text for answers in outputs for one in answers]
        talk = run.input.encode(examples)
        nats, correct, tokens = run.task.judged(run.model, talk).T.tolist()
        references = [one.turns[turn] for one in examples for turn in run.input.responses(one)]
        tokenizer = None if literal else self.tokenizer
        measures = text_measures(texts, references, tokenizer, bleu or self.bleu_tokenize)
        known = rate("perplexity", "perplexity", nats, tokens, 2, np.exp)
        if per_token:
            measures.insert(0, known)
            measures.append(share("token_accuracy", "token accuracy", correct, tokens))
        made = by_conversation(measures, [one.conversation for one in talk.responses], len(examples))
        details = {
            "responses": len(texts),
            "common": [{"text": text, "count": count} for text, count in commonest_outputs(texts)],
            "by_turns_read": by_turns_read(known, [one.turn for one in talk.responses]),
            "history_cut": sum(run.input.reading.read(one.history.turns).first > 0 for one in talk.responses),
            "cut_off": sum(not one.finished for answers in outputs for one in answers),
        }
        said = tuple("\n".join(one.text for one in answers) for answers in outputs)
        return Outcomes(said, made, lengths=tuple(len(one.turns) for one in examples), details=details)

    def beside(
        self, run: Any, examples: Sequence[Conversation], predict: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> Outcomes:
        every = [(n, one, turn) for n, one in enumerate(examples) for turn in run.input.responses(one)]
        texts = predict([Conversation(one.turns[:turn], one.speakers[:turn]) for _, one, turn in every])
        references = [one.turns[turn] for _, one, turn in every]
        measures = text_measures(texts, references, self.tokenizer, self.bleu_tokenize)
        return Outcomes(tuple(texts), by_conversation(measures, [n for n, _, _ in every], len(examples)))

    def report(self, scores: dict[str, Any]) -> list[str]:
        lines = score_lines(scores, _SCORES, 21)
        lines[0] += ", intervals over conversations"
        common = [f"{short(one['text'])} ({one['count']:,})" for one in scores["common"][:_SHOWN]]
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
    def known() -> tuple[str, NearestSentence]:
        """The most frequent training response, and all by the turns before them."""
        pairs = [(_last(one, turn), one.turns[turn]) for one in run.examples("train") for turn in input.responses(one)]
        frequent = Counter(response for _, response in pairs).most_common(1)
        return frequent[0][0] if frequent else "", NearestSentence(pairs)

    return {
        "most frequent response": lambda some: [known()[0]] * len(some),
        "response to the nearest history": lambda some: known()[1].translate([_last(a, len(a.turns)) for a in some]),
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
        return ["\n".join(one.turns[turn] for turn in input.responses(one)) for one in self.examples], [
            remark,
            *remarks,
        ]

    def _lengths(self) -> tuple[list[int], str]:
        return [len(one.turns) for one in self.examples], "turns"

    def predict(self, run: Any, examples: Sequence[Conversation], beam_size: int | None) -> list[list[WrittenText]]:
        return run.head.answers(run, examples, beam_size=beam_size)  # type: ignore[no-any-return]

    def count_tokens(self, run: Any, outputs: Sequence[list[WrittenText]]) -> int:
        return sum(len(one.tokens) for answers in outputs for one in answers)

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        one = self.examples[index]
        responses = run.input.responses(one)
        if not responses:
            return Markup('<p class="hint">This conversation has no response.</p>')
        turn = responses[-1]
        before = Conversation(one.turns[:turn], one.speakers[:turn])
        speaker = one.speaker(turn) if one.speaker(turn) in run.input.speakers.known else None
        shown = run.look(before, speaker=speaker, beam_size=beam_size)
        return map_html(shown.look, _LOOKS, "This model does not attend to the turns while it writes.", numbers)


TASK = Task(
    "dialogue",
    input=Turns(),
    head=Responses(),
    looks=Looks(look_at, explain, readable=readable),
    baselines=baselines,
    defaults=settings,
    outputs=DialogueOutputs,
    examiner=lambda: DialogueExaminer,
    chat=Chat,
    cannot={"ensemble": ""},
)
