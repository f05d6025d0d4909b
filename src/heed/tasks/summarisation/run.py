"""Runs of summarisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from heed.data.examples import Pair
from heed.data.read.findings import Findings
from heed.data.read.pairs import read_pairs
from heed.errors import DataError
from heed.evaluation.measures import Outcomes
from heed.observe.frames import Look
from heed.tasks.base.contents import advice
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.run import part
from heed.tasks.summarisation.baselines import Lead
from heed.tasks.summarisation.config import DOCUMENT_NAMES
from heed.tasks.summarisation.outputs import SummaryOutputs
from heed.tasks.summarisation.report import body
from heed.tasks.summarisation.task import Summarisation, columns_of
from heed.tasks.translation.look import look_at
from heed.tasks.translation.run import Translator
from heed.tasks.translation.writing import Prediction


class Summariser(Translator):
    """Base of runs and ensembles of summarisation."""

    task_class = Summarisation
    task: Summarisation
    text_columns = DOCUMENT_NAMES
    options = Translator.options - {"engine"}
    body = staticmethod(body)

    def read(self, files: Sequence[str | Path]) -> Sequence[Pair]:
        """Documents and summaries from two parallel files, or from one with both sides."""
        data = self.task.config.data
        findings = Findings.of(data, strict=True)
        columns = columns_of(data, files, findings)
        pairs = list(read_pairs(files, columns.source, columns.target, findings, advice))
        self.reading = findings.lines()
        return pairs

    def outcomes(
        self,
        examples: Sequence[Pair],
        outputs: Sequence[Prediction] | None = None,
        references: Sequence[str] | None = None,
        per_token: bool = True,
    ) -> Outcomes:
        """Outcomes as for translation, with the number of documents that were cut."""
        found = super().outcomes(examples, outputs, references, per_token)
        cut = self.task.cut_in([pair.source for pair in examples])
        places = [examples[n].origin or f"example {n + 1}" for n in cut[:10]]
        details = {"cut": len(cut), "cut_first": places} if cut else {}
        return replace(found, details={**found.details, **details})

    @property
    def by_length(self) -> tuple[str, ...]:  # type: ignore[override]
        """ROUGE-2 and ROUGE-L."""
        return ("rouge2", "rougeL")

    def baselines(self, examples: Sequence[Pair]) -> Mapping[str, Outcomes]:
        """The beginning of the document, and the summary of the nearest training document."""
        documents = [pair.source for pair in examples]
        texts: dict[str, list[str]] = {}
        if self._lead is not None:
            texts[self._lead.name] = [self._lead.of(document) for document in documents]
        if self._nearest is not None:
            texts["nearest training document"] = self._nearest.translate(documents)
        return self._outcomes_of_texts(texts, examples)

    @cached_property
    def _lead(self) -> Lead | None:
        """The lead baseline, chosen on the validation set; None if this can no longer be read."""
        try:
            return Lead.chosen(self.examples("valid"))
        except DataError:
            return None

    def outputs(self, options: Mapping[str, Any]) -> SummaryOutputs:
        """The writer of summaries."""
        return SummaryOutputs(self, {"engine": "torch", **options})


class SummarisationRun(Summariser, LooksAtText):
    """A model that writes a summary of a document."""

    examiner, ensemble = part("comparison"), part("ensemble")

    def _look(self, text: str, **options: Any) -> Look:
        return look_at(self.task, self.model, text, **options)
