"""Runs of pretraining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heed.data.read.documents import Document
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.observe.frames import Look
from heed.tasks.base.documents import read_documents
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import Predictions
from heed.tasks.base.run import TextRun, part
from heed.tasks.pretraining.baselines import NAME, OverlapClassifier
from heed.tasks.pretraining.filling import FilledText, RankedWord, fill, rank_words
from heed.tasks.pretraining.following import NextSentence, follow
from heed.tasks.pretraining.look import look_at_row
from heed.tasks.pretraining.measures import outcomes_of
from heed.tasks.pretraining.model import Pretrainer
from heed.tasks.pretraining.outputs import PretrainingOutputs
from heed.tasks.pretraining.passages import Passages
from heed.tasks.pretraining.report import body
from heed.tasks.pretraining.scoring import DocumentScores, by_document, score_passages
from heed.tasks.pretraining.task import Pretraining


class PretrainingRun(TextRun[Pretraining, Pretrainer, FilledText], LooksAtText):
    """A model that fills masks and predicts whether a text follows another."""

    task_class = Pretraining
    body = staticmethod(body)
    examiner = part("comparison")
    options = frozenset(("most",))
    _overlap: OverlapClassifier | None = None

    def read(self, files: Sequence[str | Path]) -> Sequence[Document]:
        """Read documents from files in the format of the run's own; blank ones are left out."""
        return read_documents(self.task.config.data, files)

    def document_scores(self, examples: Sequence[Document]) -> list[DocumentScores]:
        """Score the masked words and pairs of each document; the second text of a pair may be of another one."""
        return score_passages(self.task, self.model, Passages.of(examples, self.task.tokenizer))

    def outcomes(self, examples: Sequence[Document], outputs: Sequence[DocumentScores] | None = None) -> Outcomes:
        """Measure documents; `outputs` are their scores, if known."""
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
        if self._overlap is None:
            self._overlap = OverlapClassifier(self.task)
        passages = Passages.of(examples, self.task.tokenizer)
        rows = self.task.rows_of(passages)
        order = self._overlap.scores(passages, rows)
        found = outcomes_of(by_document(passages, rows, np.zeros((len(rows), 3)), order))
        return {NAME: found} if found.measures else {}

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

    def outputs(self, options: Mapping[str, Any]) -> PretrainingOutputs:
        """The writer of filled masks, ranked words and pairs."""
        return PretrainingOutputs(self, options)

    def _look(self, text: str, **options: Any) -> Look:
        return look_at_row(self.task, self.model, text, **options)
