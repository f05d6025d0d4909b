"""Runs of pretraining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.data.read.documents import Document, document_reader
from heed.data.read.findings import Findings
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.observe.frames import Look
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import Predictions
from heed.tasks.base.run import TextRun
from heed.tasks.pretraining.filling import FilledText, RankedWord, fill, rank_words
from heed.tasks.pretraining.following import NextSentence, follow
from heed.tasks.pretraining.look import look_at_row
from heed.tasks.pretraining.measures import measures_of
from heed.tasks.pretraining.model import Pretrainer
from heed.tasks.pretraining.outputs import PretrainingOutputs
from heed.tasks.pretraining.passages import Passages
from heed.tasks.pretraining.report import body
from heed.tasks.pretraining.rows import FOLLOWS, NO_QUESTION
from heed.tasks.pretraining.scoring import RowScores, score_rows
from heed.tasks.pretraining.task import Pretraining


class PretrainingRun(TextRun[Pretraining, Pretrainer, FilledText], LooksAtText):
    """A model that fills masks and says whether a text follows another."""

    task_class = Pretraining
    body = staticmethod(body)
    options = frozenset(("most",))

    def read(self, files: Sequence[str | Path]) -> Sequence[Document]:
        """Documents from files written as the run's own; blank ones are left out."""
        data = self.task.config.data
        documents = document_reader(data).read([str(file) for file in files], Findings.of(data, strict=True))
        return [document for document in documents if not document.blank]

    def row_scores(self, examples: Sequence[Document]) -> RowScores:
        """What the model says of the rows that documents are cut into."""
        passages = Passages.of(examples, self.task.tokenizer)
        return score_rows(self.task, self.model, passages, self.task.rows_of(passages))

    def outcomes(self, examples: Sequence[Document], outputs: Sequence[RowScores] | None = None) -> Outcomes:
        """The measures of documents, over the rows that they are cut into."""
        if not examples:
            raise ConfigError("there is no text to score")
        scores = self.row_scores(examples) if outputs is None else outputs[0]
        measures = measures_of(scores)
        if not measures:
            raise ConfigError(
                "nothing can be scored: no text is long enough for a pair (data.side_words), or there is one document"
            )
        asked = scores.labels != NO_QUESTION
        details: dict[str, Any] = {"examples": len(examples), "rows": len(scores.labels)}
        if scores.masked is not None:
            details["masked"] = int(scores.masked.sum())
        if scores.follows is not None:
            details |= {"pairs": int(asked.sum()), "follow": int((scores.labels == FOLLOWS).sum())}
        main = tuple(m for m in measures if m.name in ("masked_accuracy", "next_accuracy"))
        further = tuple(m for m in measures if m not in main)
        return Outcomes(tuple("" for _ in scores.labels), main, further, details=details)

    def predictions(self, texts: Sequence[str], most: int = 5) -> list[FilledText]:  # type: ignore[override]
        """Fill the masks of each text: write [MASK] where a word is missing, once or several times.

        Args:
            texts: The texts.
            most: How many candidates for each mask.

        Raises:
            ConfigError: A text has no mask, or the run fills none.
        """
        return fill(self.task, self.model, texts, most)

    def rank(self, text: str, choices: Sequence[str]) -> list[RankedWord]:
        """Rank given words at the one mask of a text, most probable first; see `rank_words`.

        Raises:
            ConfigError: There is not one mask, or a word cannot be scored.
        """
        return rank_words(self.task, self.model, text, choices)

    def follows(self, pairs: Sequence[tuple[str, str]]) -> Predictions[NextSentence]:
        """For each pair of texts the probability that the second follows the first.

        Raises:
            ConfigError: The run has not learned that, or a text is blank.
        """
        return Predictions(follow(self.task, self.model, pairs))

    def outputs(self, options: Mapping[str, Any]) -> PretrainingOutputs:
        """The writer of filled masks, ranked words and pairs."""
        return PretrainingOutputs(self, options)

    def _look(self, text: str, **options: Any) -> Look:
        return look_at_row(self.task, self.model, text, **options)
