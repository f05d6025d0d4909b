"""Summarisation: a short text for a long one, perhaps with words copied from it; scored by ROUGE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from heed.data.examples import Pair, split_sentences
from heed.data.findings import Findings
from heed.data.kinds.inputs import inputs_in
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.errors import ConfigError, DataError, whole_number
from heed.evaluation.measures import Outcomes
from heed.evaluation.text_scores import ROUGE, rouge_measures
from heed.models.base import PairDecoder
from heed.tasks.base.report import counted_are, length_lines, note_lines, score_lines, signature_lines
from heed.tasks.base.writing_run import scores_beside_baselines
from heed.tasks.contracts import Facts
from heed.tasks.heads.alignment import align
from heed.tasks.heads.written import settings
from heed.tasks.inputs.few_pairs import with_body
from heed.tasks.inputs.pairs import Pairs, pair_kind
from heed.tasks.summarisation.config import DOCUMENT_NAMES, SUMMARY_NAMES, SummarisationHead
from heed.tasks.summarisation.pointer import PointerGenerator
from heed.tasks.translation.task import LOOKS, Translated, TranslationExaminer, TranslationOutputs, nearest, taken_from
from heed.tasks.work import Baselines, Task

if TYPE_CHECKING:
    from heed.tasks.run import Run

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


_SCORES = {**ROUGE, "bleu": "BLEU", "chrf": "chrF", "exact_match": "exact match", "token_accuracy": "token accuracy"}
_SCORES |= {"perplexity": "perplexity"}


@dataclass(frozen=True)
class Summaries(Translated):
    """Summaries of documents; with `model.pointer`, their words may be copied."""

    options: ClassVar = SummarisationHead
    keywords: ClassVar = {name: value for name, value in Translated.keywords.items() if name != "engine"}
    of_texts: ClassVar[tuple[str, ...]] = ("rouge1", "rouge2", "rougeL", "bleu", "chrf")

    @property
    def quick_scores(self) -> tuple[str, ...]:
        return self.of_texts

    by_length = ("rouge2", "rougeL")
    select = "rougeL"

    def build(self, body: nn.Module, options: SummarisationHead, facts: Facts) -> nn.Module:
        """The body, or a model that copies.

        Raises:
            ConfigError: `model.pointer` is true, but the model does not attend to its source.
        """
        if not options.pointer:
            return body
        assert isinstance(body, PairDecoder)
        if not body.aligns:
            raise ConfigError(
                f"model.pointer is true, but model '{self.config.model.name}' has no attention to the source, so it "
                "cannot copy; set model.pointer=false or choose another model"
            )
        return PointerGenerator(body)

    def scored(self, run: Any, examples: Sequence[Pair], outputs: Sequence[Any] | None, others: Any) -> Outcomes:
        made = super().scored(run, examples, outputs, others)
        cut = run.input.cut_in([pair.source for pair in examples])
        places = [examples[n].origin or f"example {n + 1}" for n in cut[:10]]
        details = {"cut": len(cut), "cut_first": places} if cut else {}
        return replace(made, details={**made.details, **details})

    def report(self, scores: dict[str, Any]) -> list[str]:
        by_length = length_lines("ROUGE-2 by document tokens", scores["by_source_length"], "rouge2", "examples")
        lines = [*score_lines(scores, _SCORES), *by_length, *signature_lines(scores)]
        if scores.get("cut"):
            more = ", ..." if scores["cut"] > 3 else ""
            lines.append(
                f"  {counted_are(scores['cut'], 'document')} longer than data.max_source; only the beginning was read: "
                f"{', '.join(scores['cut_first'][:3])}{more}"
            )
        return [*lines, *note_lines(scores, "cut_off")]


class SummaryOutputs(TranslationOutputs):
    """Output as for translation, for summaries."""

    asks = "a document"
    limit = "data.max_source"

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        data = self.run.config.data
        trained = data.train if data.origin == "files" else ()
        return inputs_in(path, [Field("text", data.columns.source, DOCUMENT_NAMES)], findings, trained=trained)


def _lead(run: Run) -> Lead | None:
    """The lead of the report, else the one chosen on the validation set; None if this can no longer be read."""
    for name in scores_beside_baselines(run.members[0].report).get("baselines", {}):
        if (lead := Lead.named(name)) is not None:
            return lead
    try:
        return Lead.chosen(run.examples("valid"))
    except DataError:
        return None


def baselines(run: Run) -> Baselines:
    """The beginning of the document, and the summary of the nearest training document."""
    lead = _lead(run)
    leads = {} if lead is None else {lead.name: lambda examples: [lead.of(pair.source) for pair in examples]}
    return {**leads, "nearest training document": nearest(run)}


def before(config: Any) -> Any:
    """Few pairs do not turn on guided attention: summaries are not word for word."""
    # A field counts as given by the user once it is set, and is then kept.
    training = config.training.model_copy(update={"guided_attention": config.training.guided_attention})
    return with_body(config.model_copy(update={"training": training}))


TASK = Task(
    "summarisation",
    input=Pairs(pair_kind((DOCUMENT_NAMES, SUMMARY_NAMES)), asked=DOCUMENT_NAMES, documents=True),
    head=Summaries(),
    looks=LOOKS,
    baselines=baselines,
    defaults=settings,
    outputs=SummaryOutputs,
    examiner=lambda: TranslationExaminer,
    before=before,
    taken_from=taken_from,
    aligns=align,
)
