"""Comparison of tagging runs: entities or tags, and each word's tag with its probability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heed.data.examples import Sentence
from heed.evaluation.entities import mark_entities
from heed.evaluation.measures import Outcomes
from heed.tasks.base.comparison import Examiner, shadings_html
from heed.tasks.tagging.look import look_at_tags
from heed.tasks.tagging.run import TaggingRun


class TaggingExaminer(Examiner[TaggingRun, Sentence, list[str]]):
    """Compares the tags of words."""

    names = ("text", "tags")
    targets = "words"

    @classmethod
    def source_of(cls, example: Sentence) -> str:
        """The words, joined by blanks."""
        return " ".join(example.words)

    @classmethod
    def truth_of(cls, example: Sentence) -> str:
        """The words with their tags."""
        return mark_entities(example.words, example.tags)

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
        return run.outcomes(self.examples, outputs, plain=any(one.task.plain for one in self.runs))

    def drawing(self, run: TaggingRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """Each word's tag and its probability."""
        return shadings_html(look_at_tags(run.task, run.model, self.sources[index], words=self.examples[index].words))
