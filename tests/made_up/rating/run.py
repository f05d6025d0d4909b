"""Runs of rating, with every capability that a task can have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from heed.tasks.rating.task import Rated, Rater, Rating, read_ratings

from heed.data.read.findings import Findings
from heed.evaluation.measures import Measure, Outcomes
from heed.observe.frames import Look
from heed.observe.shown import ShownLook
from heed.tasks.base.looking import Words, networks, watched
from heed.tasks.base.outputs import TextOutputs, Written
from heed.tasks.base.report import plain
from heed.tasks.base.run import TextRun, part


class RatingRun(TextRun[Rating, Rater, float]):
    """A model that rates texts."""

    task_class = Rating
    examiner = part("comparison")

    def predictions(self, texts: Sequence[str]) -> list[float]:
        return self.task.rate(self.model, [Rated(one, 0.0) for one in texts])

    def read(self, files: Sequence[str | Path]) -> Sequence[Rated]:
        return list(read_ratings(files, Findings.of(self.task.config.data, strict=True)))

    def outcomes(self, examples: Sequence[Rated], outputs: Sequence[float] | None = None) -> Outcomes:
        said = self.task.rate(self.model, examples) if outputs is None else outputs
        return Outcomes(tuple(f"{one:.2f}" for one in said), (absolute_error(said, examples),))

    def baselines(self, examples: Sequence[Rated]) -> Mapping[str, Outcomes]:
        mean = float(np.mean([one.rating for one in self.examples("train")]))
        return {"mean rating": self.outcomes(examples, [mean] * len(examples))}

    @staticmethod
    def body(report: dict[str, Any]) -> list[str]:
        return [f"  absolute error       {plain(report['absolute_error'])}"]

    def outputs(self, options: Mapping[str, Any]) -> RatingOutputs:
        return RatingOutputs(self, options)

    def look(self, text: str, *, steps: bool = False, **options: Any) -> ShownLook:
        batch = self.task.batch([Rated(text, 0.0)], [0])
        with watched(self.model) as seen:
            self.model(batch.tokens, batch.mask)
        ids = batch.tokens[0].tolist()
        words = Words.of(self.task.tokenizer, ids, "text", {})
        nets = networks(seen, len(ids))
        maps = tuple(net.traces(words) for net in nets)
        look = Look(self.title, text, f"{self.predict(text):.2f}", maps, (), (), (), names=("text", "rating"))
        return ShownLook(look, steps)


def absolute_error(said: Sequence[float], examples: Sequence[Rated]) -> Measure:
    """Mean absolute error."""
    errors = np.array([[abs(one - example.rating), 1.0] for one, example in zip(said, examples, strict=True)])
    return Measure("absolute_error", "absolute error", errors, lambda s: s[:, 0] / s[:, 1], higher_is_better=False)


class RatingOutputs(TextOutputs):
    """One number a line."""

    def write(self, texts: list[str]) -> Iterator[Written]:
        for rated in self.run.predict(texts):
            yield Written((f"{rated:.{self.options['digits']}f}",))

    def answer(self, text: str) -> str:
        return f"{self.run.predict(text):.2f}"
