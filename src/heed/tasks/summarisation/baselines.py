"""A baseline for summaries: the beginning of the document, of the length that scores best on other documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heed.data.examples import Pair
from heed.data.read.sentences import split_sentences
from heed.evaluation.rouge import rouge_measures

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
