"""Runs of tagging: predicted tags and their lines, scores and their report, the most frequent tag as a baseline."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import torch
from markupsafe import Markup
from torch import Tensor

from heed.data.examples import Sentence
from heed.data.findings import Findings
from heed.data.kinds.contents import content_of
from heed.data.kinds.tagged import ColumnFile, by_sentence, read_sentences
from heed.data.tables import Head, described, has_items
from heed.data.tokens.special import join_words, split_words
from heed.errors import ConfigError, DataError
from heed.evaluation.labels import entity_errors, mark_entities, score_words, tag_outcomes
from heed.evaluation.measures import Outcomes
from heed.tasks import suggest_task
from heed.tasks.base.attributing import Attributes
from heed.tasks.base.comparison import Examiner, shadings_html
from heed.tasks.base.labels import check_same_labels
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import FileOutputs, Predictions, TextOutputs, in_line
from heed.tasks.base.report import interval, per_label, shown_errors
from heed.tasks.base.run import TextRun
from heed.tasks.base.tracing import HasPatching
from heed.tasks.tagging.look import contrast, explain, look_at_tags
from heed.tasks.tagging.task import CrfHead, Tagger, Tagging, TagPrediction
from heed.visible import escaped


class FrequentTags:
    """The most frequent tag of each word in training; for unknown words, the most frequent tag overall.

    Ties are broken alphabetically. Words are compared case-sensitively.
    """

    def __init__(self, sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Count the tags of sentences, each given as its words and their tags."""
        of_word: dict[str, Counter[str]] = defaultdict(Counter)
        every: Counter[str] = Counter()
        for words, tags in sentences:
            every.update(tags)
            for word, tag in zip(words, tags, strict=True):
                of_word[word][tag] += 1
        self._best = {word: _most(counts) for word, counts in of_word.items()}
        self._other = _most(every)

    def tags(self, words: Sequence[str]) -> list[str]:
        """The tag of each word."""
        return [self._best.get(word, self._other) for word in words]


def _most(counts: Counter[str]) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one split."""
    lines = [f"  {'words':<20} {report['words']:7,}"]
    if "entity_f1" in report:
        lines.append(f"  {'entity F1':<20} {interval(report['entity_f1'])}")
        lines += [f"  {key:<20} {report[key]:7.2%}" for key in ("precision", "recall")]
    lines.append(f"  {'accuracy of tags':<20} {interval(report['accuracy'])}")
    kind = "type" if "per_type" in report else "tag"
    lines += per_label(report[f"per_{kind}"], kind)
    for word, found in report.get("per_word", {}).items():
        lines.append(f"  the word {word!r:<11} {interval(found['accuracy'])}  ({found['support']:,} times)")
    if "never_seen" in report:
        lines.append(f"  never seen in training, so never predicted: {', '.join(map(escaped, report['never_seen']))}")
    return lines


def error_lines(report: Mapping[str, Any], most: int) -> list[str]:
    """Wrong entities in their context, or the most frequent confusions."""
    errors = shown_errors(report, most)
    if not errors:
        return ["no errors"]
    if "count" in errors[0]:
        lines = (f"  {e['count']:>6,}  {e['true']} predicted as {e['predicted']}" for e in errors)
        return ["most frequent errors:", *lines]
    kinds = (" as ".join(kind for kind in (e["true"], e["predicted"]) if kind) for e in errors)
    lines = (f"  {e['origin']}  {e['kind']}: {k}\n    {e['context']}" for e, k in zip(errors, kinds, strict=True))
    return ["errors (true entity in [ ], predicted in { }):", *lines]


class TaggingOutputs(TextOutputs):
    """The entities of a text on one line, separated by tabs: `start-end label probability words`.

    Plain tags are written as `word/tag`.
    """

    run: TaggingRun

    unit = "words"  # whatever the tokens

    def unknown_in(self, text: str) -> Sequence[str]:
        return self.run.task.unknown_in(text[start:end] for start, end in split_words(text))

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        head = Head(Path("input"), tuple(lines[:1_000]), False)
        if head.filled and len(head.objects) == len(head.filled):
            raise ConfigError(f"{where or 'the input'}: each line is a JSON object; expected one text a line")
        content = content_of(head)
        if content is not None and content.kind == "tagged" and content.sure:
            raise ConfigError(
                f"{where or 'the input'}: {content.why}; expected one text per line (column files need --columns)"
            )

    def answer(self, text: str) -> str:
        return super().answer(text) or "(no entity)"


class ColumnOutputs(FileOutputs):
    """The lines of a column file, with the predicted tags in the tag column."""

    run: TaggingRun

    def write_file(self, path: Path) -> Iterable[str]:
        return self.run.tag_columns(path)


_ERRORS = 100
"""Largest number of errors in a report."""


class TaggingRun(TextRun[Tagging, Tagger, TagPrediction], LooksAtText, Attributes, HasPatching):
    """A trained tagger, or an ensemble, whose mean probabilities decide.

    Each word is given the tag with the largest mean. If a member has a CRF, a sentence is given the legal sequence of
    tags with the largest product of means.
    """

    task_class = Tagging
    names = ("text", "tags")
    options: ClassVar = {}
    look_at = staticmethod(look_at_tags)
    explain = staticmethod(explain)
    contrast = staticmethod(contrast)
    body = staticmethod(body)
    errors = staticmethod(error_lines)

    def predict(self, text: Any, **options: Any) -> Any:
        """The tags of a text, or of each of several; texts may be given as lists of words.

        For several texts, `to_frame()` of the result gives a row for each word.
        """
        if isinstance(text, list | tuple) and text and not any(isinstance(one, str) for one in text):
            return Predictions(self.predict_words(text), "sentence")
        found = super().predict(text, **options)
        return found if isinstance(text, str) else Predictions(found, "sentence")

    def predictions(self, texts: Sequence[str]) -> list[TagPrediction]:  # type: ignore[override]  # no options
        return self._predictions([(one, split_words(one)) for one in texts])

    def predict_words(self, sentences: Sequence[Sequence[str]]) -> list[TagPrediction]:
        """The tags of texts given as words."""
        for n, words in enumerate(sentences):
            if not has_items(words) or not all(isinstance(word, str) for word in words):
                raise DataError(f"texts[{n}] is {described(words)}, expected a list of words")
        return self._predictions([join_words(words) for words in sentences])

    def tagged(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[str], Tensor]]:
        """The tags of texts given as words, and the probability of every tag of every word, `(words, labels)`."""
        each = [run.task.tag(run.model, run.task.encode_words(sentences)) for run in self.members]
        if len(each) == 1:
            return list(each[0])
        means = [torch.stack([p for _, p in found]).mean(0) for found in zip(*each, strict=True)]
        return [([self.task.labels[i] for i in self.model.head.choose(mean)], mean) for mean in means]

    def _predictions(self, texts: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> list[TagPrediction]:
        tagged = self.tagged([[text[start:end] for start, end in spans] for text, spans in texts])
        return [self.task.prediction(*text, *found) for text, found in zip(texts, tagged, strict=True)]

    def tag_columns(self, path: Path) -> list[str]:
        """The lines of a column file, with the predicted tags in the tag column.

        If the tag column is missing (words without tags), the tags are added as the last column. Lines without a word
        (blank lines, comments, -DOCSTART-) are unchanged.

        Raises:
            DataError: The file cannot be read, or lacks the columns.
        """
        findings = Findings.of(self.task.config.data, strict=True)
        file = ColumnFile(path, findings)
        file.choose_columns(self.task.config.data.columns, tagged=False)
        label, rows = int(file.columns.get("label", file.width)), list(by_sentence(file))
        tagged = self.predict_words([[row.text("word") for row in sentence] for sentence in rows])
        tags = (in_line(tag) for prediction in tagged for tag in prediction.tags)
        written = {
            row.number: file.written([*row.cells[:label], tag, *row.cells[label + 1 :]])
            for row, tag in zip(chain.from_iterable(rows), tags, strict=True)
        }
        return [written.get(number, line) for number, line in enumerate(file.lines, start=1)]

    def read(self, files: Sequence[str | Path]) -> Sequence[Sentence]:
        data = self.task.config.data
        findings = Findings.of(data, strict=True)
        sentences = read_sentences(files, data, findings, suggest_task)
        self.reading = findings.lines()
        return sentences

    def outcomes(
        self, examples: Sequence[Sentence], outputs: Sequence[Sequence[str]] | None = None, plain: bool | None = None
    ) -> Outcomes:
        if not examples:
            raise ConfigError("there are no sentences to score")
        task = self.task
        plain = task.plain if plain is None else plain
        if outputs is None:
            outputs = [tags for tags, _ in self.tagged([e.words for e in examples])]
        true = [e.tags for e in examples]
        marked = [mark_entities(e.words, tags) for e, tags in zip(examples, outputs, strict=True)]
        outcomes = tag_outcomes(marked, true, outputs, plain)
        evaluation = task.config.evaluation
        if evaluation.words:
            words = [e.words for e in examples]
            outcomes.details["per_word"] = score_words(words, true, outputs, evaluation.words, evaluation.bootstrap)
        if never := {tag for tags in true for tag in tags} - set(task.labels):
            outcomes.details["never_seen"] = sorted(never)
        outcomes.details["errors"] = _confusions(examples, outputs) if plain else _errors(examples, outputs)
        return outcomes

    def baselines(self, examples: Sequence[Sentence]) -> Mapping[str, Outcomes]:
        """The most frequent tag of each word in the training set."""
        if self._frequent is None:
            return {}
        outputs = [self._frequent.tags(example.words) for example in examples]
        return {"most frequent tag of each word": self.outcomes(examples, outputs)}

    @cached_property
    def _frequent(self) -> FrequentTags | None:
        known = self.known()
        return None if known is None else FrequentTags((example.words, example.tags) for example in known)

    def outputs(self, options: Mapping[str, Any]) -> TaggingOutputs | ColumnOutputs:
        return ColumnOutputs(self, options) if options["columns"] else TaggingOutputs(self, options)

    @classmethod
    def ensemble(cls, runs: Sequence[TaggingRun]) -> TaggingRun:
        check_same_labels(runs)
        deciding = next((run for run in runs if isinstance(run.model.head, CrfHead)), runs[0])
        return cls(deciding.folder, runs[0].config, deciding.task, deciding.model, {}, runs)

    @classmethod
    def examiner(cls) -> type[TaggingExaminer]:
        return TaggingExaminer


class TaggingExaminer(Examiner[TaggingRun, Sentence, list[str]]):
    """Compares the tags of words."""

    @classmethod
    def truth_of(cls, example: Sentence) -> str:
        return mark_entities(example.words, example.tags)

    def _lengths(self) -> tuple[list[int], str]:
        return [len(sentence.words) for sentence in self.examples], "words"

    def predict(self, run: TaggingRun, examples: Sequence[Sentence], beam_size: int | None) -> list[list[str]]:
        return [tags for tags, _ in run.tagged([sentence.words for sentence in examples])]

    def count_tokens(self, run: TaggingRun, outputs: Sequence[list[str]]) -> int:
        return sum(len(run.task.tokens_of(e)) for e in run.task.encode_words([e.words for e in self.examples]))

    def outcomes(self, run: TaggingRun, outputs: Sequence[list[str]]) -> Outcomes:
        return run.outcomes(self.examples, outputs, plain=any(one.task.plain for one in self.runs))

    def drawing(self, run: TaggingRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        return shadings_html(look_at_tags(run.task, run.model, self.sources[index], words=self.examples[index].words))


def _errors(examples: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    pairs = zip(examples, predicted, strict=True)
    every = ((example, error) for example, tags in pairs for error in entity_errors(example.tags, tags))
    return [
        {
            "origin": example.origin,
            "kind": error.kind,
            "true": error.true[0] if error.true else "",
            "predicted": error.predicted[0] if error.predicted else "",
            "context": error.context(example.words),
        }
        for example, error in islice(every, _ERRORS)
    ]


def _confusions(examples: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The most frequent confusions of plain tags."""
    tags = (pair for e, said in zip(examples, predicted, strict=True) for pair in zip(e.tags, said, strict=True))
    counts = Counter((true, said) for true, said in tags if true != said)
    return [{"true": t, "predicted": p, "count": count} for (t, p), count in counts.most_common(_ERRORS)]
