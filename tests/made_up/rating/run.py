"""Runs of rating: `predictions` and `outcomes`, from which evaluate, compare, reports and `heed predict` follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from heed.tasks.rating.kind import Rated, rating_reader
from heed.tasks.rating.task import Rater, Rating

from heed.data.findings import Findings
from heed.evaluation.measures import Measure, Outcomes
from heed.observe.looks import Choice, Look
from heed.tasks.base.looking import LooksAtText, Words, networks, watched
from heed.tasks.base.predictions import Prediction
from heed.tasks.base.report import with_interval
from heed.tasks.base.run import TextRun


@dataclass(frozen=True)
class Stars(Prediction):
    """The rating of one text."""

    rating: float

    def as_json(self) -> dict[str, Any]:
        return {"rating": self.rating}

    def lines(self, given: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (f"{self.rating:.{options['digits']}f}",)

    def summary(self) -> str:
        return f"{self.rating:.2f}"


def look_at(task: Rating, model: Rater, text: str, *, title: str, choice: Choice, **options: Any) -> Look:
    """The states of recurrent networks over a text."""
    encoded = task.encode([Rated(text, 0.0)])
    with watched(model) as seen:
        (rating,) = task.forwarded(model, encoded).tolist()
    ids = encoded[0][0]
    words = Words.of(task.tokenizer, ids, "text", {})
    maps = tuple(net.traces(words) for net in networks(seen, len(ids)))
    return Look(title, text, f"{rating:.2f}", maps, (), (), (), names=("text", "rating"))


class RatingRun(TextRun[Rating, Rater, Stars], LooksAtText):
    """A model that rates texts."""

    task_class = Rating
    names = ("text", "rating")
    look_at = staticmethod(look_at)

    def predictions(self, texts: Sequence[str]) -> list[Stars]:
        encoded = self.task.encode([Rated(one, 0.0) for one in texts])
        return [Stars(rating) for rating in self.task.forwarded(self.model, encoded).tolist()]

    def read(self, files: Sequence[str | Path]) -> Sequence[Rated]:
        data = self.task.config.data
        return [*rating_reader(data).read([*map(str, files)], Findings.of(data, strict=True))]

    def outcomes(self, examples: Sequence[Rated], outputs: Sequence[Stars] | None = None) -> Outcomes:
        outputs = self.predictions([one.text for one in examples]) if outputs is None else outputs
        errors = np.array([[abs(said.rating - one.rating), 1.0] for said, one in zip(outputs, examples, strict=True)])
        mean = Measure("absolute_error", "absolute error", errors, lambda s: s[:, 0] / s[:, 1], higher_is_better=False)
        return Outcomes(tuple(said.summary() for said in outputs), (mean,))

    def baselines(self, examples: Sequence[Rated]) -> Mapping[str, Outcomes]:
        mean = float(np.mean([one.rating for one in self.examples("train")]))
        return {"mean rating": self.outcomes(examples, [Stars(mean)] * len(examples))}

    @staticmethod
    def body(report: dict[str, Any]) -> list[str]:
        return [f"  absolute error       {with_interval(report['absolute_error'])}"]
