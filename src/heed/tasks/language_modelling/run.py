"""Runs of language modelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heed.data.read.documents import Document
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.tasks.base.documents import read_documents
from heed.tasks.base.run import part
from heed.tasks.language_modelling.measures import outcomes_of
from heed.tasks.language_modelling.outputs import LanguageModelOutputs
from heed.tasks.language_modelling.report import body
from heed.tasks.language_modelling.scoring import TokenScores, score_texts
from heed.tasks.language_modelling.task import LanguageModelling
from heed.tasks.language_modelling.trigram import Trigram
from heed.tasks.language_modelling.units import Units
from heed.tasks.language_modelling.using import ContinuesText


class LanguageModelRun(ContinuesText):
    """A model that continues texts and scores them."""

    task_class = LanguageModelling
    examiner = part("comparison")
    body = staticmethod(body)
    _trigram: Trigram | None = None

    def read(self, files: Sequence[str | Path]) -> Sequence[Document]:
        """Read documents from files in the format of the run's own; blank ones are left out."""
        return read_documents(self.task.config.data, files)

    def token_scores(self, texts: Sequence[str], ranks: bool = True) -> list[TokenScores]:
        """Score every token of each text (`score_texts`), with the run's own stride."""
        return score_texts(self.task, self.model, texts, self.task.config.evaluation.stride, ranks)

    def outcomes(self, examples: Sequence[Document], outputs: Sequence[TokenScores] | None = None) -> Outcomes:
        """Measure documents, or pieces of their text where there are few; `outputs` are their token scores."""
        if not examples:
            raise ConfigError("there is no text to score")
        task, texts = self.task, [document.text for document in examples]
        scores = self.token_scores(texts, ranks=False) if outputs is None else outputs
        changed = sum(task.tokenizer.normalize(text) != text for text in texts)
        found = outcomes_of(Units.of(examples), scores, changed)
        found.details["context"] = None if task.carries else task.context
        found.details["stride"] = None if task.carries else task.config.evaluation.stride or task.context
        return found

    def outputs(self, options: Mapping[str, Any]) -> LanguageModelOutputs:
        """The writer of continuations, rankings and scores."""
        return LanguageModelOutputs(self, options)

    def baselines(self, examples: Sequence[Document]) -> Mapping[str, Outcomes]:
        """A trigram model of the run's tokens, counted on its training set, unless that is unknown or a stream."""
        task = self.task
        if self.known() is None:
            return {}
        if self._trigram is None:
            self._trigram = Trigram(task.stream("train").ids, task.tokenizer.vocab_size)
        scores = []
        for document in examples:
            encoded = task.tokenizer.encode(document.text)
            ids = np.array(encoded.ids, dtype=np.int64)
            log_probs = self._trigram.log_probs(ids, task.first_token)
            seen = np.minimum(np.arange(1, len(ids) + 1), 2).astype(np.int32)
            spans = np.array(encoded.spans, dtype=np.int32).reshape(-1, 2)
            scores.append(TokenScores(log_probs, None, seen, ids, spans, None))
        return {"trigram": outcomes_of(Units.of(examples), scores)}
