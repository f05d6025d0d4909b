"""Pretraining: documents as rows of one or two texts, masked words and next sentences, for use in other tasks.

A look shows attention, filled masks or the answer for a pair, and what is attributed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor, nn

from heed.data.batch import frame, pad_rows
from heed.data.kinds.documents import Document
from heed.data.kinds.texts import pairs_typed
from heed.data.tokens import MASK
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Array, Outcomes
from heed.tasks.base.attributing import Explained, chosen, padded, placed, table_of
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.looking import Words, readable, watched
from heed.tasks.base.predictions import TextOutputs, Written, check_choices, one_line
from heed.tasks.look import look_of
from heed.tasks.pretraining.filling import (
    ANSWERS,
    FilledText,
    NextSentence,
    PretrainingConfig,
    check_masks,
    check_objective,
    objectives,
    parts_of,
    rank_words,
    word_at_mask,
)
from heed.tasks.pretraining.masked import (
    MEASURES,
    Masked,
    Pretrainer,
    Question,
    TextRows,
    answers,
    by_document,
    outcomes_of,
    with_objective,
)
from heed.tasks.pretraining.rows import NO_QUESTION, Rows
from heed.tasks.run import Run
from heed.tasks.work import Baselines, Looks, Task
from heed.visible import to_json, visible
from heed.watch.attribution import LEFT_OUT, Scored
from heed.watch.edits import Edit
from heed.watch.effects import Answer
from heed.watch.looks import Look
from heed.watch.trace import edit


def look_at_row(
    work: Any,
    model: Pretrainer,
    text: Question,
    *,
    edits: Sequence[Edit] = (),
    pair: str | None = None,
    pieces: bool = False,
    **options: Any,
) -> Look:
    """Look at a text, whose masks are filled, or, with a second text `pair`, at both.

    The options are those of `heed.tasks.base.looking.look`.

    Raises:
        ConfigError: The chosen attention does not exist, or the text is longer than the model can read.
    """
    text, pair = (text, pair) if isinstance(text, str) else text
    ids = _framed_ids(work, text, pair)
    with edit(model, *edits):
        with watched(model) as seen:
            tokens, real = (t.to(next(model.parameters()).device) for t in pad_rows([ids]))
            model(tokens, real)
        output, notes = _answers(work, model, text, pair)
    words = _words(work, ids, pieces)
    look = look_of(
        work,
        seen,
        words,
        len(ids),
        text,
        output,
        notes,
        unknown=work.input.unknown_in(text if pair is None else (text, pair)),
        edits=edits,
        **options,
    )
    return replace(
        look,
        names=("text", "filled" if pair is None else "answer"),
        second=pair or "",
        answer=_answer(work, model, ids, pair is not None),
    )


def _framed_ids(work: Any, text: str, pair: str | None) -> list[int]:
    """The tokens of a text, or of two, with their start and end tokens.

    Raises:
        ConfigError: There are more than the model can read.
    """
    tokenizer, texts = work.input.tokenizer, []
    for part in [text] if pair is None else [text, pair]:
        plain = work.input.as_read(part)
        texts.append(tokenizer.encode(plain).ids if tokenizer.mask is None else tokenizer.encode_masked(plain))
    room = work.input.room(pair is not None)
    if (size := sum(map(len, texts))) > room:
        raise ConfigError(
            f"the text has {size:,} tokens, but the model reads at most {room:,} at once; look at a part of it"
        )
    return frame(texts[0], texts[1] if pair is not None else None, work.input.double_separator, tokenizer.special)


def _scores(model: Any, rows: Tensor, places: Sequence[int]) -> Tensor:
    """Scores of the words at some places, `(rows, places, vocabulary)`, or without places of the answers for a pair.

    Tokens of the rows may be left out.
    """
    read, real = padded(rows)
    hidden = model(read, real)
    if not places:
        return model.order_scores(hidden, real).unsqueeze(1)  # type: ignore[no-any-return]
    at = torch.stack([(rows[:, :place] != LEFT_OUT).sum(1) for place in places], dim=1)
    return model.words(hidden.gather(1, at.unsqueeze(2).expand(-1, -1, hidden.shape[2])))  # type: ignore[no-any-return]


def _answer(work: Any, model: Pretrainer, ids: list[int], pair: bool) -> Answer | None:
    """The words at masks, or whether the second of two texts follows; None without masks and second text."""
    tokenizer, mask = work.input.tokenizer, work.input.tokenizer.mask
    places = [n for n, token in enumerate(ids) if token == mask]
    if model.order is None if pair else model.words is None or not places:
        return None
    tokens = torch.tensor(ids, device=next(model.parameters()).device)

    def logits(rows: Tensor, mechanism: str) -> Tensor:
        return _scores(model, rows, [] if pair else places)

    def named(output: int, number: int) -> str:
        return f'"{ANSWERS[number]}"' if pair else f'{MASK} {output + 1} "{visible(tokenizer.label(number))}"'

    return Answer(model, tokens, logits, named)


def explain(
    work: Any,
    model: Pretrainer,
    text: Question,
    target: str | None = None,
    rather_than: str | None = None,
    pair: str | None = None,
) -> Explained:
    """The log-probability of a word at a mask, by default the most probable at the first, or of the label of a pair.

    Masks, start and end tokens stay as they are. `pair` is the second text of a pair.

    Raises:
        ConfigError: The text has no mask, or the run no head for masks or pairs; there is no such word, mask or label.
    """
    first, second = (text, pair) if isinstance(text, str) else text
    tokenizer, ids = work.input.tokenizer, _framed_ids(work, first, second)
    device = next(model.parameters()).device
    tokens = torch.tensor(ids, device=device)
    special = (tokenizer.special.start, tokenizer.special.end, tokenizer.mask)
    fixed = torch.isin(tokens, torch.tensor([token for token in special if token is not None], device=device))
    check_objective(work.input.objectives, tokenizer, second is not None)
    if second is not None:
        answers, place, where = list(ANSWERS), None, "that the second text"
    else:
        check_masks(first, tokenizer)
        target, number = (None, None) if target is None else placed(target)
        places = [n for n, token in enumerate(ids) if token == tokenizer.mask]
        if not 0 <= (number or 0) < len(places):
            raise ConfigError(f"no mask {number}: the text has {len(places)}, counted from 0")
        place, where = places[number or 0], f"at {MASK}" + (f" {number or 0}" if len(places) > 1 else "")

    def log_probs(model: nn.Module, rows: Tensor) -> Tensor:
        return torch.log_softmax(_scores(model, rows, [] if place is None else [place])[:, 0].float(), -1)

    def number_of(name: str) -> int:
        return chosen(name, answers, "label") if place is None else word_at_mask(tokenizer, first, name)

    with torch.no_grad():
        best = int(log_probs(model.eval(), tokens.unsqueeze(0)).argmax())
    numbers = [best if target is None else number_of(target)]
    numbers += [] if rather_than is None else [number_of(rather_than)]

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        values = log_probs(model, rows)[:, numbers]
        return values[:, 0] if len(numbers) == 1 else values[:, 0] - values[:, 1]

    named = [answers[number] if place is None else f"'{tokenizer.label(number)}'" for number in numbers]
    minus = f" minus that of {named[1]}" if len(named) > 1 else ""
    name = f"the log-probability {where} {named[0]}" if place is None else f"the log-probability of {named[0]} {where}"
    words = _words(work, ids, pieces=False)
    words = words.only([n for n, word in enumerate(words.tokens) if not fixed[word.start]])
    return Explained(
        Scored(model, table_of(model), tokens, score, tokenizer.special.unknown, fixed), words, name + minus
    )


def _answers(work: Any, model: Pretrainer, text: str, second: str | None) -> tuple[str, list[str]]:
    """The filled text, or the answer for a pair; and notes with probabilities."""
    if second is not None:
        if model.order is None:
            return "", ["this run has no head for pairs (model.next_sentence is false)"]
        answer = _answered(work, model, (text, second))
        return answer.answer, [f"probability that the second text follows: {answer.probability:.4f}"]
    if model.words is None or len(parts_of(text, work.input.tokenizer)) < 2:
        return text, [] if model.words is None else [f"to see what the model expects, replace a word with {MASK}"]
    filled = _answered(work, model, text)
    return filled.text, filled.summary().split("\n")[1:]


def _answered(work: Any, model: Pretrainer, question: Question) -> Any:
    """The prediction for a question."""
    (answer,) = work.answers(model, work.input.encode([question]))
    return work.head.predict(answer, question, work.input)


def _words(work: Any, ids: Sequence[int], pieces: bool) -> Words:
    """The words of framed texts, or their tokens; start and end tokens and masks by name."""
    tokenizer = work.input.tokenizer
    ends = tokenizer.special
    special = {token: tokenizer.token(token) for token in (ends.start, ends.end, tokenizer.mask) if token is not None}
    return Words.of(tokenizer, ids, "text", special, pieces=pieces)


_ASKED = 5
"""Candidates shown for a text that was typed interactively."""
_CUT = ("max_length", "side_words")
_MASKS = ("mask_share", "mask_token_share", "random_token_share", "whole_words")


class PretrainingOutputs(TextOutputs):
    """One output line per input line: the filled text, then each mask's word and probability, separated by tabs.

    With --nbest the candidates of each mask, one `probability TAB word` per line; with --choice the given words,
    most probable first; with --next `follows` or `does not follow` and the probability that it follows, for each pair:
    two arguments, or two columns of a line.
    """

    limit = "model.max_length"

    def __init__(self, run: Run, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._in_lines = False
        if options["choice"]:
            check_choices(options["choice"], "words")
        flags = ["choice"] * bool(options["choice"]) + ["nbest"] * (options["nbest"] != 1)
        if self.pairs and flags:
            raise ConfigError(f"--next reads pairs of texts and fills no mask, so --{flags[0]} does not apply")
        if len(flags) > 1:
            raise ConfigError("--choice ranks all given words, so --nbest does not apply")

    @property
    def pairs(self) -> bool:
        return bool(self.options["next"])

    def arguments(self, texts: list[str]) -> list[Any]:
        return pairs_typed(texts, "--next reads") if self.pairs else texts

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        self._in_lines = where is not None

    def read(self, line: Any, place: str) -> Any:
        read = super().read(line, place)
        if not self.pairs and read.strip():
            check_masks(read, self.run.tokenizer, place)
        return read

    def write(self, texts: list[Any]) -> Iterator[Written]:
        if self.options["choice"]:
            yield from (Written(self._ranked(text)) for text in texts)
            return
        for text, answer in zip(texts, self._predicted(texts, self.options["nbest"]), strict=True):
            yield Written(("",)) if answer is None else Written(self.lines(text, answer), unread=answer.unread)

    def _predicted(self, texts: Sequence[Any], num_candidates: int) -> Sequence[FilledText | NextSentence | None]:
        """Filled texts or, with --next, answers for pairs; None for a blank pair."""
        if not self.pairs:
            return self.run.predict(texts, most=num_candidates)  # type: ignore[no-any-return]
        answers = iter(self.run.follows([pair for pair in texts if "".join(pair).strip()]))
        return [next(answers) if "".join(pair).strip() else None for pair in texts]

    def _ranked(self, text: str) -> tuple[str, ...]:
        """The ranked words as a table, for a line of a file below its text."""
        ranked = self.run.rank(text, self.options["choice"]) if text.strip() else []
        if self.options["json"]:
            return (to_json({"text": text, "choices": [word.as_json() for word in ranked]}),)
        if not ranked:
            return ("",)
        lines = [one_line(text)] if self._in_lines else []
        return (*lines, "probability  log-prob  pieces  choice", *map(str, ranked))

    def answer(self, text: Any) -> str:
        if self.options["choice"]:
            return "\n".join(self._ranked(text))
        (answer,) = self._predicted([text], max(_ASKED, self.options["nbest"]))
        return "" if answer is None else answer.summary() + self.not_read(answer)


_WORD = re.compile(r"\w+")
_MAX_PAIRS = 20_000
"""Largest number of training pairs that the baseline is fitted to."""


def baselines(run: Run) -> Baselines:
    """For pairs, a logistic regression of word overlap and lengths, fitted once to the training set.

    Its numbers are the count of shared words, their share of all words of the two, and the distinct words and the
    characters of each text, standardised.
    """
    from sklearn.linear_model import LogisticRegression  # heavy
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    input: Any = run.input

    def pairs_of(passages: Any) -> Rows:
        rows: Rows = input.scored_rows(passages)
        pairs = rows.select(np.flatnonzero(rows.labels != NO_QUESTION))
        return replace(pairs, masked=np.zeros(len(pairs), bool))

    def table(pairs: Rows) -> Array:
        numbers = np.zeros((len(pairs), 6))
        sides = (pairs.first, pairs.first_end), (pairs.second, pairs.second_end)
        for n in range(len(pairs)):
            ids = (pairs.passages.ids[start[n] : stop[n]].tolist() for start, stop in sides)
            a, b = (run.tokenizer.decode(some).lower() for some in ids)
            words, others = set(_WORD.findall(a)), set(_WORD.findall(b))
            both = len(words & others)
            numbers[n] = both, both / max(1, len(words | others)), len(words), len(others), len(a), len(b)
        return numbers

    if not objectives(run.config).next_sentence or run.training_examples() is None:
        return {}
    train = pairs_of(run.task.encoded("train"))
    train = train.select(range(0, len(train), max(1, -(-len(train) // _MAX_PAIRS))))
    if len({*train.labels.tolist()}) < 2:
        return {}
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=1e3, solver="newton-cholesky"))
    classifier.fit(table(train), train.labels)

    def scores(documents: Sequence[Document]) -> Any:
        pairs = pairs_of(input.encode(documents))
        if not len(pairs):
            raise DataError("there are no pairs to score")
        return by_document(pairs, answers(classifier.predict_log_proba(table(pairs)), pairs.labels))

    return {"word overlap and lengths": scores}


class PretrainingExaminer(Examiner):
    """Compares the masked words and pairs of the same documents, by the measures that all runs have."""

    def _references(self) -> tuple[list[str], list[str]]:
        """Choose the measures that all runs have, and remark on different tokens, masking or pairs."""
        references, remarks = super()._references()
        heads = [objectives(run.config) for run in self.runs]
        learned = all(head.masked_words for head in heads), all(head.next_sentence for head in heads)
        kinds = [kind for kind, is_common in zip(MEASURES.values(), learned, strict=True) if is_common]
        self._names = [name for (right, _), (loss, _), _ in kinds for name in (right, loss)]
        if not self._names:
            raise ConfigError(
                "the runs have no task in common: some predict only masked words, others only pairs; compare runs that "
                "all have model.masked_words, or all model.next_sentence"
            )
        if any(self.runs[0].tokenizer.first_difference(run.tokenizer) for run in self.runs[1:]):
            remarks.append(
                "The runs split text into different tokens, so the masked words and some rows differ: a piece of a "
                "word is easier to predict than a word."
            )
        for fields, what in ((_CUT, "cut documents"), (_MASKS, "mask words")):
            settings = [{name: getattr(run.config.data, name) for name in fields} for run in self.runs]
            if different := [name for name in fields if any(s[name] != settings[0][name] for s in settings)]:
                remarks.append(f"The runs {what} in different ways ({', '.join(f'data.{n}' for n in different)}).")
        if len({head.next_sentence for head in heads}) > 1:
            remarks.append("Some runs read pairs and others single texts, so masked words have different context.")
        return references, remarks

    def predict(self, run: Any, examples: Sequence[Document], beam_size: int | None) -> Any:
        return run.head.document_scores(run, examples)  # its pairs come from these documents only

    def count_tokens(self, run: Any, outputs: Any) -> int:
        return int(run.input.scored_rows(run.input.encode(self.examples)).lengths.sum())

    def outcomes(self, run: Any, outputs: Any) -> Outcomes:
        outcomes = outcomes_of(outputs)
        both = outcomes.measures, outcomes.further
        measures, further = (tuple(m for m in each if m.name in self._names) for each in both)
        return replace(outcomes, measures=measures, further=further)

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        """A hint instead of a drawing, because the words of a document are masked at random."""
        return Markup('<p class="hint">To look at a text with your own masks: heed look RUN TEXT.</p>')


TASK = Task(
    "pretraining",
    input=TextRows(),
    head=Masked(),
    config=PretrainingConfig,
    looks=Looks(look_at_row, explain, readable=lambda work, text: readable(text, isinstance(text, tuple))),
    baselines=baselines,
    outputs=PretrainingOutputs,
    examiner=lambda: PretrainingExaminer,
    before=with_objective,
    ranks=rank_words,
    follows=True,
    cannot={"ensemble": "", "errors": ""},
)
