"""Runs of classification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from markupsafe import Markup
from torch import Tensor

from heed.data.batch import TokenText
from heed.data.corpus import sample_of
from heed.data.examples import Text, is_blank
from heed.data.findings import Findings
from heed.data.kinds.inputs import Input, inputs_in, pair_fields, texts_of
from heed.data.kinds.texts import text_reader
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.evaluation.measures import Outcomes
from heed.tasks import suggest_task
from heed.tasks.base.attributing import Attributes
from heed.tasks.base.comparison import LabelExaminer, shadings_html
from heed.tasks.base.labels import LabelPrediction, LabelRun, label_ensemble
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import TextOutputs
from heed.tasks.base.run import TextRun
from heed.tasks.base.tracing import HasPatching
from heed.tasks.classification.attribution import contrast, explain
from heed.tasks.classification.baselines import ALONE, MOST_FITTED, NAME, NETWORK, TfidfClassifier
from heed.tasks.classification.look import look_at_text
from heed.tasks.classification.task import Classification, Classifier, split_texts, with_ngrams


class ClassificationOutputs(TextOutputs):
    """Labels of texts, which may be in a file such as those of training."""

    run: ClassificationRun

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        data, columns = self.run.task.config.data, self.run.task.config.data.columns
        fields = pair_fields(columns.text, columns.second) if self.pairs else [Field("text", columns.text)]
        trained = () if data.is_embedded else data.train
        return inputs_in(path, fields, findings, self.run.task.labels, trained)

    def unknown_in(self, text: Input) -> Sequence[str]:
        task = self.run.task
        parts = split_texts(task.example_of(text), task.config.data)  # as the model reads it
        return [piece for part in parts for piece in task.tokenizer.unknown_in(part)]


class ClassificationRun(
    LabelRun[Classification, Classifier],
    TextRun[Classification, Classifier, LabelPrediction],
    LooksAtText,
    Attributes,
    HasPatching,
):
    """A trained text classifier, or an ensemble, each member of which tokenizes and cuts texts as in training."""

    task_class = Classification
    outputs_class = ClassificationOutputs
    options: ClassVar = {}
    ensemble = classmethod(label_ensemble)
    look_at = staticmethod(look_at_text)
    explain = staticmethod(explain)
    contrast = staticmethod(contrast)

    def predictions(self, texts: Sequence[Input]) -> list[LabelPrediction]:  # type: ignore[override]  # no options
        """The label of each text, or pair of texts."""
        encoded = self.task.encode_texts(texts)
        return [
            LabelPrediction("", (), 0.0, {}, self.task.several_labels)
            if all(map(is_blank, texts_of(one)))
            else replace(self.task.prediction(row), unread=tokens.cut)
            for one, row, tokens in zip(texts, self.probabilities(texts, encoded), encoded, strict=True)
        ]

    def probabilities(self, texts: Sequence[Input], encoded: Sequence[TokenText] | None = None) -> Tensor:
        """The probability of each label of each text, `(texts, labels)`; `encoded` are the same texts as tokens."""
        if len(self.members) == 1 and encoded is not None:
            return self.task.classify(self.model, encoded)
        return self.mean(lambda run: run.task.classify(run.model, run.task.encode_texts(texts)))

    def read(self, files: Sequence[str | Path]) -> Sequence[Text]:
        """Labelled texts from files in the format of the run's own; blank ones are left out."""
        data = self.task.config.data
        findings = Findings.of(data, strict=True)
        texts = text_reader(data, self.task.labels, suggest_task).read([*map(str, files)], findings)
        found = [text for text in texts if not text.blank]
        self.reading = findings.lines()
        return found

    def input_of(self, example: Text) -> Input:
        return example.text if example.second is None else (example.text, example.second)

    def label(self, examples: Sequence[Text]) -> list[LabelPrediction]:
        return self.predictions([self.input_of(example) for example in examples])

    def outcomes(
        self,
        examples: Sequence[Text],
        outputs: Sequence[LabelPrediction] | None = None,
        labels: Sequence[str] | None = None,
        several: bool | None = None,
    ) -> Outcomes:
        texts = [self.input_of(one) for one in examples]
        read = [replace(self.task.example_of(self.input_of(e)), labels=e.labels, origin=e.origin) for e in examples]
        encoded = self.task.encode(read)
        if outputs is None and examples:
            outputs = [self.task.prediction(row) for row in self.probabilities(texts, encoded)]
        outcomes = super().outcomes(examples, outputs, labels, several)
        outcomes.details["cut"] = sum(text.cut > 0 for text in encoded)
        return outcomes

    def baselines(self, examples: Sequence[Text]) -> Mapping[str, Outcomes]:
        """The run's n-grams and its network, each alone; TF-IDF and a linear SVM, fitted to its training set once."""
        made: dict[str, list[LabelPrediction]] = {}
        if len(self.members) == 1 and self.task.ngrams is not None and examples:
            encoded, words = self.task.encode(examples), self.task.words_of
            alone = self.task.ngrams.logits(map(words, examples))
            network = self.task.logits(self.model, with_ngrams(encoded, torch.zeros_like(alone)))
            for name, logits in ((ALONE, alone), (NETWORK, network)):
                made[name] = [self.task.prediction(row) for row in self.task.probabilities(logits)]
        if self._tfidf is not None and examples:
            made[NAME] = self._tfidf.predict([one.source for one in examples])
        return {name: self.without_probabilities(examples, outputs) for name, outputs in made.items()}

    @cached_property
    def _tfidf(self) -> TfidfClassifier | None:
        known = self.known()
        if known is None:
            return None
        known = sample_of(known, MOST_FITTED)
        return TfidfClassifier([one.source for one in known], [one.labels for one in known], self.task.several_labels)

    @classmethod
    def examiner(cls) -> type[ClassificationExaminer]:
        return ClassificationExaminer


class ClassificationExaminer(LabelExaminer[ClassificationRun, Text, LabelPrediction]):
    """Texts, drawn without the contributions of words, which take a pass for each word."""

    def count_tokens(self, run: ClassificationRun, outputs: Sequence[LabelPrediction]) -> int:
        return sum(text.length for text in run.task.encode_texts([run.input_of(one) for one in self.examples]))

    def drawing(self, run: ClassificationRun, index: int, *given: Any) -> Markup:
        return shadings_html(run.look(run.input_of(self.examples[index]), contributions=False).look)
