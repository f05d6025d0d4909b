"""Comparison of classification runs: their labels, scores and attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heed.data.examples import Text, label_order
from heed.data.read.sentences import without_breaks
from heed.evaluation.measures import Outcomes
from heed.tasks.base.comparison import Examiner, shadings_html, token_lengths
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.classification.run import ClassificationRun


class ClassificationExaminer(Examiner[ClassificationRun, Text, LabelPrediction]):
    """Compares the labels of texts."""

    names = ("text", "label")
    targets = "texts"

    @classmethod
    def source_of(cls, example: Text) -> str:
        """The text."""
        return example.text

    @classmethod
    def truth_of(cls, example: Text) -> str:
        """Its labels."""
        return ",".join(label_order(example.labels))

    def _lengths(self) -> tuple[list[int], str]:
        texts = [without_breaks(text) for text in self.sources]
        return token_lengths([run.task.tokenizer for run in self.runs], texts)

    def count_tokens(self, run: ClassificationRun, outputs: Sequence[LabelPrediction]) -> int:
        """Tokens read."""
        return sum(text.length for text in run.task.encode_texts(self.sources))

    def outcomes(self, run: ClassificationRun, outputs: Sequence[LabelPrediction]) -> Outcomes:
        """Accuracy, F1 and calibration, over the labels of all runs and of the examples."""
        found = [label for one in self.runs for label in one.task.labels]
        labels = label_order([*found, *(label for text in self.examples for label in text.labels)])
        several = any(one.task.config.data.several_labels for one in self.runs)
        return run.outcomes(self.examples, outputs, labels, several)

    def drawing(self, run: ClassificationRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """The run's attention to the text, without contributions of words, which take a pass for each word."""
        return shadings_html(run.look(self.sources[index], contributions=False).look)
