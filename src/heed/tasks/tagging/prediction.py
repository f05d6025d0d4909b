"""The predicted tags of one text: entities with their probabilities, or tags word by word."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from heed.data.read.tags import entities
from heed.tasks.base.outputs import in_line
from heed.tasks.base.predictions import short


@dataclass(frozen=True)
class EntityPrediction:
    """One entity that a model found."""

    label: str  # its type
    text: str  # its characters
    start: int  # place of its first character in the text
    end: int  # place after its last
    probability: float  # product of the probabilities of its words' tags


@dataclass(frozen=True, repr=False)
class TagPrediction:
    """The tags of one text; `others` are each word's next best tags with their probabilities, best first."""

    text: str  # for input given as words: the words, joined by blanks
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]  # the characters `(start, end)` of each word
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    others: tuple[tuple[tuple[str, float], ...], ...]
    plain: bool  # True if the tags mark no entities

    def __repr__(self) -> str:
        if self.plain:
            return f"<{short(self.summary())[1:-1]}>"
        found = "; ".join(f"{short(one.text)} {one.label} {one.probability:.3f}" for one in self.entities)
        return f"<{found or 'no entity'}>"

    def rows(self) -> list[dict[str, Any]]:
        """One table row per word."""
        columns = zip(self.words, self.spans, self.tags, self.probabilities, strict=True)
        return [
            {"word": word, "start": start, "end": end, "tag": tag, "probability": p}
            for word, (start, end), tag, p in columns
        ]

    @property
    def entities(self) -> tuple[EntityPrediction, ...]:
        """The entities, in order."""
        if self.plain:
            return ()
        found = []
        for label, first, stop in entities(self.tags):
            start, end = self.spans[first][0], self.spans[stop - 1][1]
            probability = math.prod(self.probabilities[first:stop])
            found.append(EntityPrediction(label, self.text[start:end], start, end, probability))
        return tuple(found)

    @property
    def uncertainty(self) -> float:
        """1 - the geometric mean of the tags' probabilities; 1 for a blank text.

        Source: Shen et al. 2018 (arXiv:1707.05928), section 4, "maximum normalized log-probability".
        """
        if not self.words:
            return 1.0
        return 1.0 - math.exp(sum(math.log(max(p, 1e-30)) for p in self.probabilities) / len(self.words))

    def summary(self) -> str:
        """Entities as `start-end label probability text`, separated by tabs; plain tags as `word/tag`."""
        if self.plain:
            return " ".join(f"{word}/{in_line(tag)}" for word, tag in zip(self.words, self.tags, strict=True))
        return "\t".join(
            f"{e.start}-{e.end} {in_line(e.label)} {e.probability:.3f} {' '.join(e.text.split())}"
            for e in self.entities
        )

    def as_values(self) -> dict[str, Any]:
        """Words, tags and entities as values for JSON."""
        columns = zip(self.words, self.spans, self.tags, self.probabilities, strict=True)
        return {
            "words": [
                {"text": word, "start": span[0], "end": span[1], "tag": tag, "probability": round(p, 6)}
                for word, span, tag, p in columns
            ],
            "entities": [{**vars(e), "probability": round(e.probability, 6)} for e in self.entities],
        }
