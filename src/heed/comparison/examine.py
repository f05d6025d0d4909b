"""What each task hands to a comparison; the part of it that knows the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from heed.comparison.examiner import Examiner
from heed.config import FilesData
from heed.data.examples import Pair, Sentence, Text, label_order
from heed.data.read.sentences import without_breaks
from heed.data.read.tags import OUTSIDE, entities, is_entity_tag
from heed.errors import ConfigError
from heed.evaluation.entities import tag_measures
from heed.evaluation.labels import label_measures
from heed.evaluation.measures import Outcomes, share
from heed.evaluation.text import text_measure
from heed.observe.draw_shading import shading_to_html
from heed.observe.frames import Look
from heed.observe.html_map import map_to_html
from heed.tasks.base.run import Run
from heed.tasks.classification.run import ClassificationRun
from heed.tasks.classification.task import LabelPrediction
from heed.tasks.tagging.look import look_at_tags
from heed.tasks.tagging.run import TaggingRun
from heed.tasks.translation.run import TranslationRun
from heed.tasks.translation.task import Prediction

__all__ = ["examiner_of"]


class TranslationExaminer(Examiner[TranslationRun, Pair, Prediction]):
    """Texts written for texts."""

    names = ("source", "reference")
    targets = "target tokens"
    has_beam = True

    @classmethod
    def source_of(cls, example: Pair) -> str:
        """The source."""
        return example.source

    @classmethod
    def truth_of(cls, example: Pair) -> str:
        """The target."""
        return example.target

    def _references(self) -> tuple[list[str], list[str]]:
        """As the runs normalise text, or as they stand in the data where the runs differ in that."""
        remarks, first = [], self._normal(self.runs[0])
        if any(first != self._normal(run) for run in self.runs[1:]):
            remarks.append("The runs normalise text differently: references are taken as they stand in the data.")
            first = [pair.target for pair in self.examples]
        first_tokens, *others = (run.task.target_tokenizer for run in self.runs)
        self._per_token = not any(first_tokens.first_difference(other) for other in others)
        if not self._per_token:
            remarks.append(
                "The runs write different tokens: scores per token are left out, and tokens a second differ."
            )
        return first, remarks

    def _normal(self, run: TranslationRun) -> list[str]:
        return [run.task.target_tokenizer.normalize(pair.target) for pair in self.examples]

    def _lengths(self) -> tuple[list[int], str]:
        return _token_lengths([run.task.source_tokenizer for run in self.runs], self.sources)

    def predict(self, run: TranslationRun, examples: Sequence[Pair], beam_size: int | None) -> list[Prediction]:
        """What is written for each source."""
        return run.predict([pair.source for pair in examples], beam_size=beam_size)

    def count_tokens(self, run: TranslationRun, outputs: Sequence[Prediction]) -> int:
        """Tokens written."""
        return sum(len(output.tokens) for output in outputs)

    def outcomes(self, run: TranslationRun, outputs: Sequence[Prediction]) -> Outcomes:
        """Scores of texts for people's files, exact match, and what generated data knows besides."""
        texts = [output.text for output in outputs]
        scores = run.pair_scores(self.examples, outputs)
        same = [float(t == r) for t, r in zip(texts, self.references, strict=True)]
        exact = share("exact_match", "exact match", same)
        if isinstance(run.config.data, FilesData):
            measures = [*(text_measure(name, texts, self.references) for name in ("chrf", "bleu", "ter")), exact]
        else:
            measures = [exact]
        if self._per_token:
            measures.append(share("token_accuracy", "token accuracy", scores.correct, scores.tokens))
        if any(pair.links for pair in self.examples):
            wrong = [linked - aligned for aligned, linked in zip(scores.aligned, scores.linked, strict=True)]
            measures.append(share("alignment_error", "alignment error", wrong, scores.linked, higher_is_better=False))
        return Outcomes(tuple(texts), tuple(measures))

    def drawing(self, run: TranslationRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """Where a model looked while it wrote: its last layer's cross attention, the mean over heads."""
        look = run.look(self.sources[index], beam_size=beam_size, layer=-1, head="mean")
        cross = [one for one in look.maps if one.mechanism == "cross"]
        if not cross:
            return '<p class="hint">This model does not look at the source while it writes.</p>'
        return map_to_html(cross[-1], next(numbers))


class ClassificationExaminer(Examiner[ClassificationRun, Text, LabelPrediction]):
    """Labels of texts."""

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
        return _token_lengths([run.task.tokenizer for run in self.runs], texts)

    def predict(self, run: ClassificationRun, examples: Sequence[Text], beam_size: int | None) -> list[LabelPrediction]:
        """The label of each text."""
        return run.predict([text.text for text in examples])

    def count_tokens(self, run: ClassificationRun, outputs: Sequence[LabelPrediction]) -> int:
        """Tokens read."""
        return sum(text.length for text in run.task.encode_texts(self.sources))

    def outcomes(self, run: ClassificationRun, outputs: Sequence[LabelPrediction]) -> Outcomes:
        """Accuracy, F1 and calibration, over the labels of all runs and of the examples."""
        found = [label for one in self.runs for label in one.task.labels]
        labels = label_order([*found, *(label for text in self.examples for label in text.labels)])
        several = any(one.task.config.data.several_labels for one in self.runs)
        true = np.array([[label in text.labels for label in labels] for text in self.examples])
        predicted = np.array([[label in output.labels for label in labels] for output in outputs])
        probabilities = np.array([[output.probabilities.get(label, 0.0) for label in labels] for output in outputs])
        measures = label_measures(true, predicted, probabilities, several)
        return Outcomes(tuple(",".join(label_order(output.labels)) for output in outputs), measures)

    def drawing(self, run: ClassificationRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """The words that the label rests on."""
        return _shadings(run.look(self.sources[index]).look)


class TaggingExaminer(Examiner[TaggingRun, Sentence, list[str]]):
    """Tags of words."""

    names = ("text", "tags")
    targets = "words"

    @classmethod
    def source_of(cls, example: Sentence) -> str:
        """The words, with blanks between them."""
        return " ".join(example.words)

    @classmethod
    def truth_of(cls, example: Sentence) -> str:
        """The words with their tags."""
        return _marked(example.words, example.tags)

    def _lengths(self) -> tuple[list[int], str]:
        return [len(sentence.words) for sentence in self.examples], "words"

    def predict(self, run: TaggingRun, examples: Sequence[Sentence], beam_size: int | None) -> list[list[str]]:
        """The tags of each sentence."""
        return [tags for tags, _ in run.tagged([sentence.words for sentence in examples])]

    def count_tokens(self, run: TaggingRun, outputs: Sequence[list[str]]) -> int:
        """Tokens read."""
        return sum(len(run.task.tokens_of(e)) for e in run.task.encode_words([e.words for e in self.examples]))

    def outcomes(self, run: TaggingRun, outputs: Sequence[list[str]]) -> Outcomes:
        """Entity F1, or the accuracy of plain tags."""
        plain = any(one.task.plain for one in self.runs)
        marked = [_marked(e.words, tags) for e, tags in zip(self.examples, outputs, strict=True)]
        return Outcomes(tuple(marked), tag_measures([e.tags for e in self.examples], outputs, plain))

    def drawing(self, run: TaggingRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """Each word's tag and its probability."""
        return _shadings(look_at_tags(run.task, run.model, self.sources[index], words=self.examples[index].words))


_EXAMINERS: dict[type[Run[Any, Any]], type[Examiner[Any, Any, Any]]] = {
    TranslationRun: TranslationExaminer,
    ClassificationRun: ClassificationExaminer,
    TaggingRun: TaggingExaminer,
}


def examiner_of(runs: Sequence[Run[Any, Any]]) -> type[Examiner[Any, Any, Any]]:
    """What runs of this task are compared by.

    Raises:
        ConfigError: They are of several tasks, or of one that cannot be compared.
    """
    first = runs[0]
    for run in runs[1:]:
        if run.config.task != first.config.task:
            raise ConfigError(
                f"'{first.folder}' is a run of {first.config.task} and '{run.folder}' one of {run.config.task}; only "
                "runs of one task can be compared"
            )
    for of, kind in _EXAMINERS.items():
        if isinstance(first, of):
            return kind
    raise ConfigError(f"'{first.folder}' is a run of {first.config.task}, which cannot be compared")


def _token_lengths(tokenizers: Sequence[Any], texts: Sequence[str]) -> tuple[list[int], str]:
    """Tokens of each text where all tokenizers cut alike, else characters."""
    lengths = [[len(ids) for ids in tokenizer.encode_all(texts)] for tokenizer in tokenizers]
    if all(other == lengths[0] for other in lengths[1:]):
        return lengths[0], f"{tokenizers[0].unit}s"
    return [len(text) for text in texts], "characters"


def _marked(words: Sequence[str], tags: Sequence[str]) -> str:
    """A sentence with its entities in brackets, `[Ann Lee]person left .`; plain tags as `word/tag`."""
    if not all(tag == OUTSIDE or is_entity_tag(tag) for tag in tags):
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
    shown = list(words)
    for kind, start, end in entities(tags):
        shown[start] = "[" + shown[start]
        shown[end - 1] += f"]{kind}"
    return " ".join(shown)


def _shadings(look: Look) -> str:
    if not look.shadings:
        return '<p class="hint">This model weighs no words: it has no attention that its label rests on.</p>'
    return "".join(map(shading_to_html, look.shadings))
