"""Runs of tagging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor

from heed.data.examples import Sentence
from heed.data.read.conll import ColumnFile, read_sentences
from heed.data.read.findings import Findings
from heed.data.tokens.words import join_words, split_words
from heed.errors import ConfigError
from heed.evaluation.entities import entity_errors, mark_entities, score_words, tag_outcomes
from heed.evaluation.measures import Outcomes
from heed.observe.frames import Look
from heed.tasks.base.contents import advice
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.outputs import in_line
from heed.tasks.base.predictions import Predictions
from heed.tasks.base.run import TextRun, part
from heed.tasks.tagging.baselines import FrequentTags
from heed.tasks.tagging.look import look_at_tags
from heed.tasks.tagging.model import Tagger
from heed.tasks.tagging.outputs import ColumnOutputs, TaggingOutputs
from heed.tasks.tagging.prediction import TagPrediction
from heed.tasks.tagging.report import body, error_lines
from heed.tasks.tagging.task import Tagging

_ERRORS = 100
"""Largest number of errors in a report."""


class WordTagger(TextRun[Tagging, Tagger, TagPrediction]):
    """Base class of runs and ensembles: tags of words, and their scores."""

    task_class = Tagging
    options = frozenset()
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
        """The tags of each raw text, cut into words by `heed.data.tokens.words.split_words`."""
        return self._predictions([(one, split_words(one)) for one in texts])

    def predict_words(self, sentences: Sequence[Sequence[str]]) -> list[TagPrediction]:
        """The tags of texts given as words."""
        return self._predictions([join_words(words) for words in sentences])

    def tagged(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[str], Tensor]]:
        """The tags of texts given as words, and the probability of every tag of every word, `(words, labels)`."""
        return self.task.tag(self.model, self.task.encode_words(sentences))

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
        columns = self.task.config.data.columns
        file = ColumnFile.read(path, Findings.of(self.task.config.data, strict=True))
        word = file.column(columns.word, "word")
        width = len(next(row for row in file.rows if isinstance(row, list)))
        label = columns.label if columns.label >= 0 else columns.label + width
        # In a file of words without tags, the tags are a new column.
        label = width if label in (word, -1, width) else file.column(columns.label, "label")
        words = [[row[word] for row in rows] for _, rows in file.sentences() if isinstance(rows, list)]
        tags = iter([in_line(tag) for prediction in self.predict_words(words) for tag in prediction.tags])
        between = "\t" if file.tabs or width == 1 else " "
        return [
            between.join([*row[:label], next(tags), *row[label + 1 :]]) if isinstance(row, list) else line
            for line, row in zip(file.lines, file.rows, strict=True)
        ]

    def read(self, files: Sequence[str | Path]) -> Sequence[Sentence]:
        """Sentences from files with the same columns as the run's own."""
        data = self.task.config.data
        findings = Findings.of(data, strict=True)
        sentences = read_sentences(files, data, findings, advice)
        self.reading = findings.lines()
        return sentences

    def outcomes(
        self, examples: Sequence[Sentence], outputs: Sequence[Sequence[str]] | None = None, plain: bool | None = None
    ) -> Outcomes:
        """Tag and score sentences, with the errors in context; `plain`: the tags mark no entities."""
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
        """The writer of predictions."""
        return ColumnOutputs(self, options) if options["columns"] else TaggingOutputs(self, options)


class TaggingRun(WordTagger, LooksAtText):
    """A trained tagger."""

    examiner, ensemble = part("comparison"), part("ensemble")

    def _look(self, text: str, **options: Any) -> Look:
        return look_at_tags(self.task, self.model, text, **options)


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
