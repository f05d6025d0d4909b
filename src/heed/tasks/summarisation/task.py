"""Summarisation: a short text for a long one, perhaps with words copied from it; scored by ROUGE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heed.data.examples import Pair, split_sentences
from heed.errors import DataError, whole_number
from heed.evaluation.text_scores import rouge_measures
from heed.tasks.base.writing import scores_beside_baselines
from heed.tasks.heads.alignment import align
from heed.tasks.heads.written import TextScores, settings
from heed.tasks.inputs.few_pairs import with_body
from heed.tasks.inputs.pairs import Pairs, pair_kind
from heed.tasks.summarisation.config import DOCUMENT_NAMES, SUMMARY_NAMES, SummarisationHead
from heed.tasks.translation.task import (
    LOOKS,
    Translated,
    TranslationExaminer,
    TranslationOutputs,
    export,
    nearest,
    taken_from,
)
from heed.tasks.work import Baselines, Task

if TYPE_CHECKING:
    from heed.tasks.run import Run

MOST = 500
"""Most documents on which the length is chosen."""
_WORDS = (*range(1, 21), 25, 30, 40, 50, 75, 100)
_SENTENCES = (1, 2, 3, 5)
_TEXTS = ("rouge1", "rouge2", "rougeL", "bleu", "chrf")
SCORES = TextScores(_TEXTS, _TEXTS, ("rouge2", "rougeL"), "rougeL")


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
    input=Pairs(pair_kind((DOCUMENT_NAMES, SUMMARY_NAMES)), text_columns=DOCUMENT_NAMES, documents=True),
    head=Translated(scores=SCORES, section=SummarisationHead),
    looks=LOOKS,
    baselines=baselines,
    defaults=settings,
    outputs=TranslationOutputs,
    examiner=lambda: TranslationExaminer,
    before=before,
    taken_from=taken_from,
    aligns=align,
    export=export,
)
