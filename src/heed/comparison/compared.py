"""What a comparison found, as data: rows, scores, outputs, speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heed.comparison.entries import Entry
from heed.comparison.results import Bucket, Resampling, Result, best_of
from heed.evaluation.measures import Measure, Outcomes
from heed.tasks.base.comparison import Examiner, Speed


@dataclass(frozen=True)
class Conditions:
    """Under which all runs gave their outputs.

    Attributes:
        device: Where.
        threads: Processor threads.
        beam_size: Beam of every run; None for each run's own, or where nothing is searched for.
        passes: How often each run predicted the whole set to measure its speed: fewest and most.
    """

    device: str
    threads: int
    beam_size: int | None
    passes: tuple[int, int]


@dataclass(frozen=True)
class Compared:
    """Several runs on the same examples.

    Attributes:
        entries: The rows: one run each, or several seeds of one.
        results: Their scores and differences.
        measures: What was measured, the main one first (statistics are those of the first run).
        buckets: Ranges of source length.
        split: Which set the examples are.
        examiner: What is known of the task: the examples, what outputs were held against, lengths.
        outcomes: Per entry and run, the outputs.
        speeds: Per entry and run, how fast they were written.
        baseline: The entry that the others are tested against besides the best.
        resampling: Of intervals and p-values.
        conditions: Of the outputs.
        remarks: What a reader must know besides.
    """

    entries: tuple[Entry, ...]
    results: tuple[Result, ...]
    measures: tuple[Measure, ...]
    buckets: tuple[Bucket, ...]
    split: str
    examiner: Examiner[Any, Any, Any]
    outcomes: tuple[tuple[Outcomes, ...], ...]
    speeds: tuple[tuple[Speed, ...], ...]
    baseline: int
    resampling: Resampling
    conditions: Conditions
    remarks: tuple[str, ...] = ()

    @property
    def examples(self) -> Sequence[Any]:
        """The examples."""
        return self.examiner.examples

    @property
    def references(self) -> Sequence[str]:
        """What outputs were held against."""
        return self.examiner.references

    @property
    def length_unit(self) -> str:
        """What lengths count."""
        return self.examiner.length_unit

    def best(self, name: str) -> int | None:
        """The entry with the best score of a measure, the first of equal ones; None where no entry has a score."""
        measure = next(measure for measure in self.measures if measure.name == name)
        return best_of(measure, [result.scores[name] for result in self.results])

    def is_best(self, name: str, entry: int) -> bool:
        """Whether no entry has a better score."""
        best = self.best(name)
        return best is not None and self.results[entry].scores[name].value == self.results[best].scores[name].value
