"""Comparison of pretrained models on the masked words and the pairs of the same documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from heed.data.read.documents import Document
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.tasks.base.comparison import Examiner, token_lengths
from heed.tasks.pretraining.measures import PAIRS, WORDS, outcomes_of
from heed.tasks.pretraining.run import PretrainingRun
from heed.tasks.pretraining.scoring import DocumentScores

_CUT = ("max_length", "side_words")
_MASKS = ("mask_share", "mask_token_share", "random_token_share", "whole_words")


class PretrainingExaminer(Examiner[PretrainingRun, Document, DocumentScores]):
    """Documents, of which every run scores its masked words and pairs."""

    names = ("text", "length")
    targets = "tokens"

    @classmethod
    def source_of(cls, example: Document) -> str:
        """The text."""
        return example.text

    @classmethod
    def truth_of(cls, example: Document) -> str:
        """The length of the text."""
        return f"{len(example.text):,} characters"

    def _references(self) -> tuple[list[str], list[str]]:
        """Choose the measures that all runs have, and remark on different tokens, masking or pairs."""
        remarks = []
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
        tokenizers = [run.task.tokenizer for run in self.runs]
        if any(tokenizers[0].first_difference(other) for other in tokenizers[1:]):
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
        return [self.truth_of(example) for example in self.examples], remarks

    def _lengths(self) -> tuple[list[int], str]:
        return token_lengths([run.task.tokenizer for run in self.runs], self.sources)

    def predict(self, run: PretrainingRun, examples: Sequence[Document], beam_size: int | None) -> list[DocumentScores]:
        """Score documents; pairs are made from the same documents."""
        return run.document_scores(examples)

    def count_tokens(self, run: PretrainingRun, outputs: Sequence[DocumentScores]) -> int:
        """Tokens read."""
        return sum(one.tokens for one in outputs)

    def outcomes(self, run: PretrainingRun, outputs: Sequence[DocumentScores]) -> Outcomes:
        """Keep the measures that all runs have."""
        found = outcomes_of(outputs)
        kept = [tuple(m for m in measures if m.name in self._names) for measures in (found.measures, found.further)]
        return replace(found, measures=kept[0], further=kept[1])

    def drawing(self, run: PretrainingRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """A hint instead of a drawing, because the words of a document are masked at random."""
        return '<p class="hint">To look at a text with your own masks: heed look RUN TEXT.</p>'
