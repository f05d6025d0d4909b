"""Comparison of ratings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heed.tasks.rating.run import RatingRun
from heed.tasks.rating.task import Rated

from heed.tasks.base.comparison import Examiner


class RatingExaminer(Examiner[RatingRun, Rated, float]):
    """Compares the ratings of texts."""

    names = ("text", "rating")
    targets = "texts"

    @classmethod
    def source_of(cls, example: Rated) -> str:
        return example.text

    @classmethod
    def truth_of(cls, example: Rated) -> str:
        return f"{example.rating:g}"

    def _lengths(self) -> tuple[list[int], str]:
        return [len(one.text) for one in self.examples], "characters"

    def count_tokens(self, run: RatingRun, outputs: Sequence[float]) -> int:
        return sum(len(one.text) for one in self.examples)

    def drawing(self, run: RatingRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        return f"<p>{run.predict(self.sources[index]):.2f}</p>"
