"""Runs of classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from heed.data.batch.texts import TokenText
from heed.data.examples import Text
from heed.data.read.findings import Findings
from heed.data.read.sentences import is_blank
from heed.data.read.texts import read_texts
from heed.data.read.two_texts import BETWEEN, is_pair, joined, one_pair, pairs_of
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.observe.frames import Look
from heed.observe.shown import ShownLook
from heed.tasks.base.labels import LabelPrediction, outcomes_of
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.report import label_body, label_errors
from heed.tasks.base.run import TextRun, part
from heed.tasks.classification.baselines import NAME, TfidfClassifier
from heed.tasks.classification.look import look_at_text
from heed.tasks.classification.model import Classifier
from heed.tasks.classification.outputs import ClassificationOutputs
from heed.tasks.classification.task import Classification
from heed.tasks.classification.texts import text_format


class Labeller(TextRun[Classification, Classifier, LabelPrediction]):
    """Base class of runs and ensembles: labels of texts, and their scores."""

    task_class = Classification
    options = frozenset()
    body = staticmethod(label_body)
    errors = staticmethod(label_errors)

    def predict(self, text: Any, **options: Any) -> Any:
        """As for every run of texts; if the run reads pairs, a pair is a tuple of two texts."""
        if not self.task.pairs:
            return super().predict(text, **options)
        columns = self.task.config.data.columns
        given = one_pair(text) if is_pair(text) else pairs_of(text, "texts", (columns.text, columns.second))
        return super().predict(given, **options)

    def typed(self, texts: Sequence[str]) -> list[str]:
        """The inputs typed by the user; if the run reads pairs, each is two arguments, or one with a tab.

        Raises:
            ConfigError: A second text is missing.
        """
        if not self.task.pairs or all(BETWEEN in text for text in texts):
            return list(texts)
        if len(texts) % 2:
            given = "1 text was" if len(texts) == 1 else f"{len(texts)} texts were"
            raise ConfigError(
                f"this run reads pairs of texts, but {given} given; give two for each pair: 'FIRST' 'SECOND'"
            )
        return [joined(*pair) for pair in zip(texts[::2], texts[1::2], strict=True)]

    def predictions(self, texts: Sequence[str]) -> list[LabelPrediction]:  # type: ignore[override]  # no options
        """The label of each text."""
        return [
            LabelPrediction("", (), 0.0, {}) if is_blank(one) else self.task.prediction(row)
            for one, row in zip(texts, self.probabilities(texts), strict=True)
        ]

    def probabilities(self, texts: Sequence[str], encoded: Sequence[TokenText] | None = None) -> Tensor:
        """The probability of each label of each text, `(texts, labels)`; `encoded` are the same texts as tokens."""
        return self.task.classify(self.model, self.task.encode_texts(texts) if encoded is None else encoded)

    def read(self, files: Sequence[str | Path]) -> Sequence[Text]:
        """Labelled texts from files in the format of the run's own; blank ones are left out."""
        data = self.task.config.data
        findings = Findings.of(data, strict=True)
        texts = read_texts(files, text_format(data, self.task.labels), findings)
        found = [text for text in texts if not is_blank(text.text)]
        self.reading = findings.lines()
        return found

    def outcomes(
        self,
        examples: Sequence[Text],
        outputs: Sequence[LabelPrediction] | None = None,
        labels: Sequence[str] | None = None,
        several: bool | None = None,
    ) -> Outcomes:
        """Label and score texts; errors are sorted by confidence, highest first. `labels` defaults to the run's own."""
        if not examples:
            raise ConfigError("there are no texts to score")
        task = self.task
        encoded = task.encode([replace(example, text=example.text.strip()) for example in examples])
        if outputs is None:
            outputs = [task.prediction(row) for row in self.probabilities([e.text for e in examples], encoded)]
        outcomes = outcomes_of(
            outputs,
            [example.labels for example in examples],
            task.labels if labels is None else labels,
            task.config.data.several_labels if several is None else several,
            lambda i: (examples[i].origin, _excerpt(examples[i].text)),
        )
        outcomes.details["cut"] = sum(text.cut > 0 for text in encoded)
        return outcomes

    def baselines(self, examples: Sequence[Text]) -> Mapping[str, Outcomes]:
        """TF-IDF and a linear SVM, fitted to the run's training set once."""
        if self._tfidf is None or not examples:
            return {}
        made = self.outcomes(examples, self._tfidf.predict([example.text for example in examples]))
        kept = tuple(m for m in made.measures if m.name in ("accuracy", "macro_f1", "micro_f1"))
        return {NAME: replace(made, measures=kept, further=())}

    @cached_property
    def _tfidf(self) -> TfidfClassifier | None:
        known = self.known()
        if known is None:
            return None
        several = self.task.config.data.several_labels
        return TfidfClassifier([one.text for one in known], [one.labels for one in known], several)

    def outputs(self, options: Mapping[str, Any]) -> ClassificationOutputs:
        """The writer of predictions."""
        return ClassificationOutputs(self, options)


class ClassificationRun(Labeller, LooksAtText):
    """A trained text classifier."""

    examiner, ensemble = part("comparison"), part("ensemble")

    def look(self, text: Any, **options: Any) -> ShownLook:
        """As for every run of texts; if the run reads pairs, a pair is a tuple of two texts."""
        return super().look(one_pair(text) if self.task.pairs else text, **options)

    def _look(self, text: str, **options: Any) -> Look:
        return look_at_text(self.task, self.model, text, **options)


def _excerpt(text: str) -> str:
    """The first 200 characters of a text on one line, with an ellipsis where more follow."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:197]}..."
