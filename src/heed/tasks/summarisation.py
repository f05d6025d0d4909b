"""Summarisation: a short text for a long one, perhaps with words copied from it; scored by ROUGE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from heed.config.data import Sources
from heed.config.sections import Section, TokenizerConfig, WritingEvaluation
from heed.data.examples import Pair, split_sentences
from heed.errors import DataError, whole_number
from heed.evaluation.text_scores import rouge_measures
from heed.tasks.base.writing import scores_beside_baselines
from heed.tasks.heads.alignment import align
from heed.tasks.heads.written import TextScores, settings
from heed.tasks.inputs.few_pairs import with_body
from heed.tasks.inputs.pairs import Pairs as PairInput
from heed.tasks.inputs.pairs import pair_kind
from heed.tasks.translation import (
    LOOKS,
    Pairs,
    Translated,
    TranslationConfig,
    TranslationExaminer,
    TranslationOutputs,
    export,
    nearest,
    taken_from,
)
from heed.tasks.work import Baselines, Task

if TYPE_CHECKING:
    from heed.tasks.run import Run


DOCUMENT_NAMES = ("document", "body", "article", "text", "dialogue", "content", "story", "source", "input")
"""Column names that are recognised as documents, the most certain first."""
SUMMARY_NAMES = ("summary", "subject", "highlights", "headline", "title", "abstract", "target", "output")
"""Column names that are recognised as summaries, the most certain first."""


class SummaryTokenizer(TokenizerConfig):
    """How text becomes tokens; documents and summaries are in the same language and share a vocabulary."""

    shared: bool = True
    """One vocabulary for both sides."""
    min_count: int = Field(3, gt=0)
    """How often a word must occur in training to be in the vocabulary (word only); 3, since a word in one document and
    its summary already occurs twice."""


class SummaryEvaluation(WritingEvaluation):
    """Scoring of summaries."""

    select_by: Literal[
        "auto", "rouge1", "rouge2", "rougeL", "bleu", "chrf", "exact_match", "token_accuracy", "loss"
    ] = "auto"
    """Validation score that chooses the best checkpoint: auto is rougeL."""


class SummarisationHead(Section):
    """The parts of the model other than its body."""

    pointer: bool = False
    """Allow tokens to be copied from the document, by a separate attention (See et al. 2017); with tokenizer.shared,
    and a model that attends to its source."""


class SummarisationConfig(TranslationConfig):
    """Complete configuration of a run of summarisation."""

    task: Literal["summarisation"] = "summarisation"  # type: ignore[assignment]  # a separate task
    """The task."""
    data: Annotated[Pairs, Sources(Pairs, "summarisation", hub=True, own_data={"max_source": 400, "max_length": 500})]
    """Where the examples come from."""
    tokenizer: SummaryTokenizer = SummaryTokenizer()
    """How text becomes tokens."""
    evaluation: SummaryEvaluation = SummaryEvaluation()  # type: ignore[assignment]  # its own scores
    """How it is scored."""

    @model_validator(mode="after")
    def _can_copy(self) -> Self:
        if self.model.settings.get("pointer") and not self.tokenizer.shared:
            raise ValueError(
                "model.pointer is true, which copies tokens of the document, but with tokenizer.shared=false documents "
                "and summaries have different tokens; set tokenizer.shared=true or model.pointer=false"
            )
        return self


MAX_DOCUMENTS = 500
"""Largest number of documents on which the length is chosen."""
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
        pairs = pairs[:MAX_DOCUMENTS]
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
        match = re.fullmatch(r"first (?:(\d+) )?(word|sentence)s?", name)
        return None if match is None else cls(whole_number(match[1] or "1"), match[2])

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
    """The lead in the report, or one chosen on the validation set; None if that set can no longer be read."""
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
    # Setting a field to its own value marks it as set by the user, so that settling keeps it.
    training = config.training.model_copy(update={"guided_attention": config.training.guided_attention})
    return with_body(config.model_copy(update={"training": training}))


TASK = Task(
    "summarisation",
    input=PairInput(pair_kind((DOCUMENT_NAMES, SUMMARY_NAMES)), text_columns=DOCUMENT_NAMES, documents=True),
    head=Translated(scores=SCORES, section=SummarisationHead),
    config=SummarisationConfig,
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
