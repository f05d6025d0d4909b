"""Runs of pretraining: fill masks, rank words, judge pairs, look at texts; output of `heed predict`; comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor, nn

from heed.data.batch import frame, frame_size, pad_rows
from heed.data.kinds.documents import Document
from heed.data.kinds.encoded_documents import read_documents
from heed.data.kinds.inputs import Input, pairs_typed, texts_of
from heed.data.tokens.special import MASK
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.observe.attribution import LEFT_OUT, Scored
from heed.observe.edits import Edit
from heed.observe.effects import Answer
from heed.observe.looks import Choice, Look
from heed.observe.trace import edit
from heed.tasks.base.attributing import Attributes, Explained, chosen, padded, placed, table_of
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.looking import LooksAtText, Words, encoder_frames, notes_on, views_of_text, watched
from heed.tasks.base.predictions import Predictions, TextOutputs, Written, check_choices, one_line
from heed.tasks.base.run import TextRun
from heed.tasks.pretraining.filling import (
    ANSWERS,
    FilledText,
    NextSentence,
    RankedWord,
    check_masks,
    check_pairs,
    fill,
    follow,
    mask_of,
    parts_of,
    rank_words,
    word_at_mask,
)
from heed.tasks.pretraining.model import Pretrainer
from heed.tasks.pretraining.rows import Passages
from heed.tasks.pretraining.task import (
    NAME,
    PAIRS,
    WORDS,
    DocumentScores,
    OverlapClassifier,
    Pretraining,
    body,
    by_document,
    outcomes_of,
)
from heed.visible import to_json, visible

_CANDIDATES = 5


def look_at_row(
    task: Pretraining,
    model: Pretrainer,
    text: Input,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    pair: str | None = None,
    pieces: bool = False,
) -> Look:
    """Look at a text, whose masks are filled, or, with a second text `pair`, at both; `LooksAtText` has the arguments.

    Raises:
        ConfigError: The chosen attention does not exist, or the text is longer than the model can read.
    """
    text, pair = (text, pair) if isinstance(text, str) else text
    tokenizer, ids = task.tokenizer, _framed_ids(task, text, pair)
    with edit(model, *edits):
        with watched(model) as seen:
            tokens, real = (t.to(next(model.parameters()).device) for t in pad_rows([ids]))
            model(tokens, real)
        output, notes = _answers(task, model, text, pair)
    words = _words(task, ids, pieces)
    choice = choice or Choice()
    choice.check(seen.mechanisms())
    views = views_of_text(seen, choice, words, len(ids))
    states = {f"layer {i}": block[0] for i, block in enumerate(seen.tensors("states"))}
    unknown = [piece for one in filter(None, (text, pair)) for piece in tokenizer.unknown_in(one.replace(MASK, " "))]
    return Look(
        title or task.title,
        text,
        output,
        tuple(view.map for view in views),
        encoder_frames([], words, states, views),
        (),
        (*notes, *notes_on(unknown, edits)),
        names=("text", "filled" if pair is None else "answer"),
        second=pair or "",
        answer=_answer(task, model, text, ids, pair is not None, words),
    )


def _framed_ids(task: Pretraining, text: str, pair: str | None) -> list[int]:
    """The tokens of a text, or of two, with their start and end tokens.

    Raises:
        ConfigError: There are more than the model can read.
    """
    tokenizer, texts = task.tokenizer, []
    for one in [text] if pair is None else [text, pair]:
        plain = task.as_read(one)
        texts.append(tokenizer.encode(plain).ids if tokenizer.mask is None else tokenizer.encode_masked(plain))
    room = task.positions - frame_size(pair is not None, task.double_separator)
    if (size := sum(map(len, texts))) > room:
        raise ConfigError(
            f"the text has {size:,} tokens, but the model reads at most {room:,} at once; look at a part of it"
        )
    return frame(texts[0], texts[1] if pair is not None else None, task.double_separator, tokenizer.special)


def _answer(task: Pretraining, model: Pretrainer, text: str, ids: list[int], pair: bool, words: Words) -> Answer | None:
    """The words at the masks of a text, or whether the second of two texts follows; None where neither is asked."""
    special, mask = task.tokenizer.special, task.tokenizer.mask
    places = [n for n, token in enumerate(ids) if token == mask]
    if model.order is None if pair else model.words is None or not places:
        return None
    tokens = torch.tensor(ids, device=next(model.parameters()).device)

    def logits(rows: Tensor, mechanism: str) -> Tensor:
        read, real = padded(rows)
        hidden = model(read, real)
        if pair:
            return model.order_scores(hidden, real).unsqueeze(1)
        assert model.words is not None
        at = torch.stack([(rows[:, :place] != LEFT_OUT).sum(1) for place in places], dim=1)
        return model.words(hidden.gather(1, at.unsqueeze(2).expand(-1, -1, hidden.shape[2])))  # type: ignore[no-any-return]

    def named(output: int, number: int) -> str:
        return f'"{ANSWERS[number]}"' if pair else f'{MASK} {output + 1} "{visible(task.tokenizer.label(number))}"'

    held = {special.start, special.end, mask}
    parts = [word for word in words.tokens if ids[word.start] not in held]
    return Answer(model, tokens, logits, named, words=parts, axis="text")


def explain(
    task: Pretraining,
    model: Pretrainer,
    text: Input,
    target: str | None = None,
    rather_than: str | None = None,
) -> Explained:
    """The log-probability of a word at a mask, by default the most probable at the first, or of the label of a pair.

    Masks, start and end tokens stay as they are.

    Raises:
        ConfigError: The text has no mask, or the run no head for masks or pairs; there is no such word, mask or label.
    """
    first, second = (text, None) if isinstance(text, str) else text
    tokenizer, ids = task.tokenizer, _framed_ids(task, first, second)
    device = next(model.parameters()).device
    tokens = torch.tensor(ids, device=device)
    special = (tokenizer.special.start, tokenizer.special.end, tokenizer.mask)
    held = torch.isin(tokens, torch.tensor([one for one in special if one is not None], device=device))
    if second is not None:
        answers, place, where = list(ANSWERS), None, "that the second text"
        check_pairs(model)
    else:
        mask = mask_of(task, model)
        check_masks(first, tokenizer)
        target, number = (None, None) if target is None else placed(target)
        places = [n for n, token in enumerate(ids) if token == mask]
        if not 0 <= (number or 0) < len(places):
            raise ConfigError(f"no mask {number}: the text has {len(places)}, counted from 0")
        place, where = places[number or 0], f"at {MASK}" + (f" {number or 0}" if len(places) > 1 else "")

    def log_probs(model: nn.Module, rows: Tensor) -> Tensor:
        assert isinstance(model, Pretrainer)
        read, real = padded(rows)
        hidden = model(read, real)
        if place is None:
            return torch.log_softmax(model.order_scores(hidden, real).float(), -1)
        assert model.words is not None
        at = (rows[:, :place] != LEFT_OUT).sum(1)
        return torch.log_softmax(model.words(hidden[torch.arange(len(rows), device=rows.device), at]).float(), -1)

    def number_of(name: str) -> int:
        return chosen(name, answers, "label") if place is None else word_at_mask(tokenizer, first, name)

    with torch.no_grad():
        best = int(log_probs(model.eval(), tokens.unsqueeze(0)).argmax())
    numbers = [best if target is None else number_of(target)]
    numbers += [] if rather_than is None else [number_of(rather_than)]

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        found = log_probs(model, rows)[:, numbers]
        return found[:, 0] if len(numbers) == 1 else found[:, 0] - found[:, 1]

    named = [answers[one] if place is None else f"'{tokenizer.label(one)}'" for one in numbers]
    minus = f" minus that of {named[1]}" if len(named) > 1 else ""
    name = f"the log-probability {where} {named[0]}" if place is None else f"the log-probability of {named[0]} {where}"
    words = _words(task, ids, pieces=False)
    words = words.only([n for n, word in enumerate(words.tokens) if not held[word.start]])
    return Explained(
        Scored(model, table_of(model), tokens, score, tokenizer.special.unknown, held), words, name + minus
    )


def _answers(task: Pretraining, model: Pretrainer, text: str, second: str | None) -> tuple[str, list[str]]:
    """The filled text, or the answer for a pair; and notes with probabilities."""
    if second is not None:
        if model.order is None:
            return "", ["this run has no head for pairs (model.next_sentence is false)"]
        (found,) = follow(task, model, [(text, second)])
        return found.answer, [f"probability that the second text follows: {found.probability:.4f}"]
    if model.words is None or len(parts_of(text, task.tokenizer)) < 2:
        return text, [] if model.words is None else [f"to see what the model expects, replace a word with {MASK}"]
    (filled,) = fill(task, model, [text], _CANDIDATES)
    return filled.text, filled.summary().split("\n")[1:]


def _words(task: Pretraining, ids: Sequence[int], pieces: bool) -> Words:
    """The words of framed texts, or their tokens; start and end tokens and masks by name."""
    tokenizer = task.tokenizer
    own = tokenizer.special
    special = {token: tokenizer.token(token) for token in (own.start, own.end, tokenizer.mask) if token is not None}
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

    run: PretrainingRun

    def __init__(self, run: PretrainingRun, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._in_lines = False
        self._unread = 0
        choices, is_pair = options["choice"], options["next"]
        if choices:
            check_choices(choices, "words")
        for name, given in (("choice", bool(choices)), ("nbest", options["nbest"] != 1)):
            if is_pair and given:
                raise ConfigError(f"--next reads pairs of texts and fills no mask, so --{name} does not apply")
        if choices and options["nbest"] != 1:
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
            check_masks(read, self.run.task.tokenizer, place)
        return read

    def unknown_in(self, text: Any) -> Sequence[str]:
        tokenizer = self.run.task.tokenizer
        mask = MASK if tokenizer.mask is None else tokenizer.token(tokenizer.mask)
        plain = (self.run.task.as_read(one).replace(MASK, " ").replace(mask, " ") for one in texts_of(text))
        return [piece for one in plain for piece in tokenizer.unknown_in(one)]

    def write(self, texts: list[Any]) -> Iterator[Written]:
        if self.options["choice"]:
            yield from (Written(self._ranked(text, above=self._in_lines)) for text in texts)
        else:
            for text, one in zip(texts, self._predicted(texts, self.options["nbest"]), strict=True):
                self._unread = max(self._unread, 0 if one is None else one.unread)
                yield Written(("",) if one is None else self.lines(text, one))

    def _predicted(self, texts: Sequence[Any], most: int) -> Sequence[FilledText | NextSentence | None]:
        """Filled texts or, with --next, answers for pairs; None for a blank pair."""
        if not self.pairs:
            return self.run.predict(texts, most=most)
        found = iter(self.run.follows([pair for pair in texts if "".join(pair).strip()]))
        return [next(found) if "".join(pair).strip() else None for pair in texts]

    def notes(self) -> list[str]:
        if not self._unread:
            return []
        part = "the part where the two meet" if self.pairs else "the part around the masks"
        most = self.run.task.positions
        return [f"a text is longer than the {most} tokens that the model reads at once: only {part} was read"]

    def _ranked(self, text: str, above: bool = False) -> tuple[str, ...]:
        """The given words as a table, if asked for below the text."""
        ranked = self.run.rank(text, self.options["choice"]) if text.strip() else []
        if self.options["json"]:
            return (to_json({"text": text, "choices": [one.as_json() for one in ranked]}),)
        if not ranked:
            return ("",)
        lines = [one_line(text)] if above else []
        return (*lines, "probability  log-prob  pieces  choice", *(str(one) for one in ranked))

    def answer(self, text: Any) -> str:
        if self.options["choice"]:
            return "\n".join(self._ranked(text))
        (found,) = self._predicted([text], max(_ASKED, self.options["nbest"]))
        if found is None:
            return ""
        return found.summary() if isinstance(found, FilledText) else self.lines(text, found)[0]


class PretrainingRun(TextRun[Pretraining, Pretrainer, FilledText], LooksAtText, Attributes):
    """A model that fills masks and predicts whether a text follows another."""

    task_class = Pretraining
    outputs_class = PretrainingOutputs
    body = staticmethod(body)
    has_outputs = False
    names = ("text", "length")
    options: ClassVar = {"most": 5}
    look_at = staticmethod(look_at_row)
    explain = staticmethod(explain)

    def readable(self, text: Any) -> Any:
        if isinstance(text, tuple) and len(text) == 2:
            return tuple(map(super().readable, text))
        return super().readable(text)

    def read(self, files: Sequence[str | Path]) -> Sequence[Document]:
        return read_documents(self.task.config.data, files)

    def document_scores(self, examples: Sequence[Document]) -> list[DocumentScores]:
        """Score the masked words and pairs of each document; the second text of a pair may be of another one."""
        return self.task.scores_of(self.model, Passages.of(examples, self.task.tokenizer))

    def outcomes(self, examples: Sequence[Document], outputs: Sequence[DocumentScores] | None = None) -> Outcomes:
        if not examples:
            raise ConfigError("there is no text to score")
        found = outcomes_of(self.document_scores(examples) if outputs is None else outputs)
        if not found.measures:
            raise ConfigError(
                "nothing can be scored: no document is long enough for a pair of texts (data.side_words, "
                "data.max_length), or there is only one document"
            )
        return found

    def baselines(self, examples: Sequence[Document]) -> Mapping[str, Outcomes]:
        """For pairs, a linear classifier of word overlap and lengths, fitted once to the training set."""
        if self.model.order is None or self.known() is None:
            return {}
        passages = Passages.of(examples, self.task.tokenizer)
        rows = self.task.rows_of(passages)
        order = self._overlap.scores(passages, rows)
        found = outcomes_of(by_document(passages, rows, np.zeros((len(rows), 3)), order))
        return {NAME: found} if found.measures else {}

    @cached_property
    def _overlap(self) -> OverlapClassifier:
        passages = self.task.passages("train")
        return OverlapClassifier(passages, self.task.rows_of(passages), self.tokenizer.decode)

    def predictions(self, texts: Sequence[str], most: int = 5) -> list[FilledText]:  # type: ignore[override]
        """Fill the masks of each text: write [MASK] where a word is missing, once or several times.

        Args:
            texts: The texts.
            most: Number of candidates for each mask.

        Raises:
            ConfigError: A text has no mask, or the run has no head for masked words.
        """
        return fill(self.task, self.model, texts, most)

    def rank(self, text: str, choices: Sequence[str]) -> list[RankedWord]:
        """Rank given words at the only mask of a text, most probable first; see `rank_words`.

        Raises:
            ConfigError: There is not exactly one mask, or a word cannot be scored.
        """
        return rank_words(self.task, self.model, text, choices)

    def follows(self, pairs: Sequence[tuple[str, str]]) -> Predictions[NextSentence]:
        """Predict for each pair of texts the probability that the second follows the first.

        Raises:
            ConfigError: The run has no head for pairs, or a text is blank.
        """
        return Predictions(follow(self.task, self.model, pairs))

    @classmethod
    def examiner(cls) -> type[PretrainingExaminer]:
        return PretrainingExaminer


class PretrainingExaminer(Examiner[PretrainingRun, Document, DocumentScores]):
    """Compares the masked words and pairs of the same documents, by the measures that all runs have."""

    def _references(self) -> tuple[list[str], list[str]]:
        """Choose the measures that all runs have, and remark on different tokens, masking or pairs."""
        references, remarks = super()._references()
        heads = [run.task.head for run in self.runs]
        self._names = [
            *(WORDS if all(head.masked_words for head in heads) else ()),
            *(PAIRS if all(head.next_sentence for head in heads) else ()),
        ]
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
            given = [{name: getattr(run.task.options, name) for name in fields} for run in self.runs]
            if different := [name for name in fields if any(one[name] != given[0][name] for one in given)]:
                remarks.append(f"The runs {what} in different ways ({', '.join(f'data.{n}' for n in different)}).")
        if len({head.next_sentence for head in heads}) > 1:
            remarks.append("Some runs read pairs and others single texts, so masked words have different context.")
        return references, remarks

    def predict(self, run: PretrainingRun, examples: Sequence[Document], beam_size: int | None) -> list[DocumentScores]:
        return run.document_scores(examples)  # pairs are made from the same documents

    def count_tokens(self, run: PretrainingRun, outputs: Sequence[DocumentScores]) -> int:
        return sum(one.tokens for one in outputs)

    def outcomes(self, run: PretrainingRun, outputs: Sequence[DocumentScores]) -> Outcomes:
        found = outcomes_of(outputs)
        kept = [tuple(m for m in measures if m.name in self._names) for measures in (found.measures, found.further)]
        return replace(found, measures=kept[0], further=kept[1])

    def drawing(self, run: PretrainingRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        """A hint instead of a drawing, because the words of a document are masked at random."""
        return Markup('<p class="hint">To look at a text with your own masks: heed look RUN TEXT.</p>')
