"""Pretraining: documents as rows of one or two texts, masked words and next sentences, for use in other tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup

from heed.data.kinds.documents import Document
from heed.data.kinds.inputs import pairs_typed
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Array, Outcomes
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.looking import readable
from heed.tasks.base.predictions import TextOutputs, Written, check_choices, one_line
from heed.tasks.pretraining.config import objectives
from heed.tasks.pretraining.filling import FilledText, NextSentence, check_masks, rank_words
from heed.tasks.pretraining.look import explain, look_at_row
from heed.tasks.pretraining.masked import MEASURES, Masked, answers, by_document, outcomes_of, with_objective
from heed.tasks.pretraining.passages import TextRows
from heed.tasks.pretraining.rows import NO_QUESTION, Rows
from heed.tasks.run import Run
from heed.tasks.work import Baselines, Looks, Task
from heed.visible import to_json

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

    def _predicted(self, texts: Sequence[Any], most: int) -> Sequence[FilledText | NextSentence | None]:
        """Filled texts or, with --next, answers for pairs; None for a blank pair."""
        if not self.pairs:
            return self.run.predict(texts, most=most)  # type: ignore[no-any-return]
        found = iter(self.run.follows([pair for pair in texts if "".join(pair).strip()]))
        return [next(found) if "".join(pair).strip() else None for pair in texts]

    def _ranked(self, text: str) -> tuple[str, ...]:
        """The given words as a table; of a line of a file, below the text."""
        ranked = self.run.rank(text, self.options["choice"]) if text.strip() else []
        if self.options["json"]:
            return (to_json({"text": text, "choices": [one.as_json() for one in ranked]}),)
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
_MOST_PAIRS = 20_000
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
    known = pairs_of(run.task.encoded("train"))
    known = known.select(range(0, len(known), max(1, -(-len(known) // _MOST_PAIRS))))
    if len({*known.labels.tolist()}) < 2:
        return {}
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=1e3, solver="newton-cholesky"))
    classifier.fit(table(known), known.labels)

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
            given = [{name: getattr(run.config.data, name) for name in fields} for run in self.runs]
            if different := [name for name in fields if any(one[name] != given[0][name] for one in given)]:
                remarks.append(f"The runs {what} in different ways ({', '.join(f'data.{n}' for n in different)}).")
        if len({head.next_sentence for head in heads}) > 1:
            remarks.append("Some runs read pairs and others single texts, so masked words have different context.")
        return references, remarks

    def predict(self, run: Any, examples: Sequence[Document], beam_size: int | None) -> Any:
        return run.head.document_scores(run, examples)  # of pairs from the same documents

    def count_tokens(self, run: Any, outputs: Any) -> int:
        return int(run.input.scored_rows(run.input.encode(self.examples)).lengths.sum())

    def outcomes(self, run: Any, outputs: Any) -> Outcomes:
        found = outcomes_of(outputs)
        kept = [tuple(m for m in measures if m.name in self._names) for measures in (found.measures, found.further)]
        return replace(found, measures=kept[0], further=kept[1])

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        """A hint instead of a drawing, because the words of a document are masked at random."""
        return Markup('<p class="hint">To look at a text with your own masks: heed look RUN TEXT.</p>')


TASK = Task(
    "pretraining",
    input=TextRows(),
    head=Masked(),
    looks=Looks(look_at_row, explain, readable=lambda work, text: readable(text, isinstance(text, tuple))),
    baselines=baselines,
    outputs=PretrainingOutputs,
    examiner=lambda: PretrainingExaminer,
    before=with_objective,
    ranks=rank_words,
    follows=True,
    cannot={"ensemble": "", "errors": ""},
)
