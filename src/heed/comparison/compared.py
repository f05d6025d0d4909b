"""The results of a comparison as data: rows, scores, outputs, speeds."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from heed.comparison.entries import Entry
from heed.comparison.results import Bucket, Resampling, Result, best_of
from heed.evaluation.measures import Measure, Outcomes
from heed.tasks.base.comparison import Examiner, Speed


def set_name(split: str) -> str:
    """A set of examples as named in sentences: "validation" for the split "valid"."""
    return "validation" if split == "valid" else split


@dataclass(frozen=True)
class Conditions:
    """The conditions under which all runs made their predictions."""

    device: str  # device of the predictions
    threads: int  # processor threads
    beam_size: int | None  # beam of every run; None for each run's own, or for tasks without beam search
    passes: tuple[int, int]  # fewest and most predictions of the whole set by a run, to measure its speed


@dataclass(frozen=True)
class Compared:
    """Several runs on the same examples."""

    entries: tuple[Entry, ...]  # the rows: one run each, or several seeds of one
    results: tuple[Result, ...]  # their scores and differences
    measures: tuple[Measure, ...]  # the main one first (statistics are those of the first run)
    buckets: tuple[Bucket, ...]  # ranges of source length
    split: str  # name of the set of examples
    examiner: Examiner[Any, Any, Any]  # of the task: examples, references, lengths
    outcomes: tuple[tuple[Outcomes, ...], ...]  # per entry and run, the outputs
    speeds: tuple[tuple[Speed, ...], ...]  # per entry and run, the speed of prediction
    baseline: int  # the entry that the others are tested against, in addition to the best
    resampling: Resampling  # of intervals and p-values
    conditions: Conditions  # of the outputs
    remarks: tuple[str, ...] = ()  # further remarks for the reader

    examples = property(attrgetter("examiner.examples"))
    references = property(attrgetter("examiner.references"))
    length_unit = property(attrgetter("examiner.length_unit"))

    def best(self, name: str) -> int | None:
        """The entry with the best score of a measure, the first of equal ones; None if no entry has a score."""
        measure = next(measure for measure in self.measures if measure.name == name)
        return best_of(measure, [result.scores[name] for result in self.results])

    def is_best(self, name: str, entry: int) -> bool:
        """True if no entry has a better score."""
        best = self.best(name)
        return best is not None and self.results[entry].scores[name].value == self.results[best].scores[name].value
