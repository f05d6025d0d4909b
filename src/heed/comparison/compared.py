"""What a comparison found, as data: rows, scores, outputs, speeds."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from heed.comparison.entries import Entry
from heed.comparison.results import Bucket, Resampling, Result, best_of
from heed.evaluation.measures import Measure, Outcomes
from heed.tasks.base.comparison import Examiner, Speed


@dataclass(frozen=True)
class Conditions:
    """Under which all runs gave their outputs."""

    device: str  # where
    threads: int  # processor threads
    beam_size: int | None  # beam of every run; None for each run's own, or where nothing is searched for
    passes: tuple[int, int]  # how often each run predicted the whole set to measure its speed: fewest and most


@dataclass(frozen=True)
class Compared:
    """Several runs on the same examples."""

    entries: tuple[Entry, ...]  # the rows: one run each, or several seeds of one
    results: tuple[Result, ...]  # their scores and differences
    measures: tuple[Measure, ...]  # the main one first (statistics are those of the first run)
    buckets: tuple[Bucket, ...]  # ranges of source length
    split: str  # which set the examples are
    examiner: Examiner[Any, Any, Any]  # of the task: the examples, what outputs were held against, lengths
    outcomes: tuple[tuple[Outcomes, ...], ...]  # per entry and run, the outputs
    speeds: tuple[tuple[Speed, ...], ...]  # per entry and run, how fast they were written
    baseline: int  # the entry that the others are tested against besides the best
    resampling: Resampling  # of intervals and p-values
    conditions: Conditions  # of the outputs
    remarks: tuple[str, ...] = ()  # what a reader must know besides

    examples = property(attrgetter("examiner.examples"))
    references = property(attrgetter("examiner.references"))
    length_unit = property(attrgetter("examiner.length_unit"))

    def best(self, name: str) -> int | None:
        """The entry with the best score of a measure, the first of equal ones; None where no entry has a score."""
        measure = next(measure for measure in self.measures if measure.name == name)
        return best_of(measure, [result.scores[name] for result in self.results])

    def is_best(self, name: str, entry: int) -> bool:
        """Whether no entry has a better score."""
        best = self.best(name)
        return best is not None and self.results[entry].scores[name].value == self.results[best].scores[name].value
