"""Runs of summarisation: outputs and their lines, scores and their report, the lead baseline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from heed.data.examples import Pair, split_sentences
from heed.data.findings import Findings
from heed.data.kinds.inputs import inputs_in
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.errors import DataError, whole_number
from heed.evaluation.measures import Outcomes
from heed.evaluation.text_scores import ROUGE, rouge_measures
from heed.tasks.base.report import counted_are, interval, points, span
from heed.tasks.base.writing import WrittenText
from heed.tasks.base.writing_run import Baselines, cut_off_lines, scores_beside_baselines, signature_lines
from heed.tasks.summarisation.config import DOCUMENT_NAMES, MemorySummaries, SummaryHub
from heed.tasks.summarisation.task import Summarisation
from heed.tasks.translation.run import PairRun, TranslationOutputs

MOST = 500
"""Most documents on which the length is chosen."""
_WORDS = (*range(1, 21), 25, 30, 40, 50, 75, 100)
_SENTENCES = (1, 2, 3, 5)


@dataclass(frozen=True)
class Lead:
    """The first `count` words or sentences of a document; words are separated by spaces.

    Source: a usual baseline of summarisation, such as lead-3 in See et al. 2017 (arXiv:1704.04368).
    """

    count: int
    unit: str  # "word" or "sentence"

    @classmethod
    def chosen(cls, pairs: Sequence[Pair]) -> Lead:
        """The length with the highest ROUGE-2, then ROUGE-1, on documents with known summaries."""
        pairs = pairs[:MOST]
        references = [pair.target for pair in pairs]
        longest = max(len(pair.source.split()) for pair in pairs)
        every = [cls(count, "word") for count in _WORDS if count <= longest]
        every += [cls(count, "sentence") for count in _SENTENCES]

        def score(lead: Lead) -> list[float]:
            outputs = [lead.of(pair.source) for pair in pairs]
            return [measure.score() for measure in rouge_measures(outputs, references, ("rouge2", "rouge1"))]

        return max(every, key=score)

    @classmethod
    def named(cls, name: str) -> Lead | None:
        """The lead of this name; None for a baseline of another kind."""
        found = re.fullmatch(r"first (?:(\d+) )?(word|sentence)s?", name)
        return None if found is None else cls(whole_number(found[1] or "1"), found[2])

    def of(self, document: str) -> str:
        """The beginning of a document."""
        if self.unit == "word":
            return " ".join(document.split()[: self.count])
        spans = split_sentences(document)[: self.count]
        return " ".join(document[start:end] for start, end in spans)

    @property
    def name(self) -> str:
        """The name for people, such as "first 12 words"."""
        return f"first {self.unit}" if self.count == 1 else f"first {self.count} {self.unit}s"


_NAMES = {**ROUGE, "bleu": "BLEU", "chrf": "chrF"}


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    lines = [f"  {label:<20} {points(report[key])}" for key, label in _NAMES.items() if key in report]
    names = {"exact_match": "exact match", "token_accuracy": "token accuracy"}
    lines += [f"  {label:<20} {interval(report[key])}" for key, label in names.items() if key in report]
    lines.append(f"  {'perplexity':<20} {report['perplexity']:.4f}")
    lines.append("  ROUGE-2 by document tokens:")
    for bucket in report["by_source_length"]:
        lines.append(f"    {span(bucket):>8}  {points(bucket['rouge2'])}  ({bucket['examples']})")
    lines += signature_lines(report, {"rouge2": "ROUGE", "bleu": "BLEU", "chrf": "chrF"})
    if report.get("cut"):
        more = ", ..." if report["cut"] > 3 else ""
        lines.append(
            f"  {counted_are(report['cut'], 'document')} longer than data.max_source; only the beginning was read: "
            f"{', '.join(report['cut_first'][:3])}{more}"
        )
    return [*lines, *cut_off_lines(report)]


class SummaryOutputs(TranslationOutputs):
    """Output as for translation, for summaries."""

    run: SummarisationRun
    asks = "a document"
    limit = "data.max_source"

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        data = self.run.task.config.data
        trained = () if isinstance(data, SummaryHub | MemorySummaries) else data.train
        return inputs_in(path, [Field("text", self.run.columns[0], DOCUMENT_NAMES)], findings, trained=trained)


class SummarisationRun(PairRun):
    """A model that writes a summary of a document, or several as an ensemble."""

    task_class = Summarisation
    targets = "summary tokens"
    task: Summarisation
    text_columns = DOCUMENT_NAMES
    options: ClassVar = {name: default for name, default in PairRun.options.items() if name != "engine"}
    body = staticmethod(body)

    def read(self, files: Sequence[str | Path]) -> Sequence[Pair]:
        data = self.task.config.data
        findings = Findings.of(data, strict=True)
        pairs = list(self.read_pairs(files, findings))
        self.reading = findings.lines()
        return pairs

    def outcomes(
        self,
        examples: Sequence[Pair],
        outputs: Sequence[WrittenText] | None = None,
        per_token: bool = True,
        literal: bool = False,
        bleu_tokenize: str | None = None,
    ) -> Outcomes:
        found = super().outcomes(examples, outputs, per_token, literal, bleu_tokenize)
        cut = self.task.cut_in([pair.source for pair in examples])
        places = [examples[n].origin or f"example {n + 1}" for n in cut[:10]]
        details = {"cut": len(cut), "cut_first": places} if cut else {}
        return replace(found, details={**found.details, **details})

    @property
    def by_length(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("rouge2", "rougeL")

    @property
    def baseline_writers(self) -> Baselines:
        lead = self._lead
        return {
            **({} if lead is None else {lead.name: lambda documents: [*map(lead.of, documents)]}),
            "nearest training document": lambda documents: self._nearest.translate(documents),
        }

    @cached_property
    def _lead(self) -> Lead | None:
        """The lead of the report, else the one chosen on the validation set; None if this can no longer be read."""
        for name in scores_beside_baselines(self.members[0].report).get("baselines", {}):
            if (lead := Lead.named(name)) is not None:
                return lead
        try:
            return Lead.chosen(self.examples("valid"))
        except DataError:
            return None

    def outputs(self, options: Mapping[str, Any]) -> SummaryOutputs:
        return SummaryOutputs(self, {"engine": "torch", **options})
