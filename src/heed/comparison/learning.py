"""Learning curves: models trained on increasing numbers of training examples, scored on one test set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from heed.comparison.compared import Conditions
from heed.comparison.entries import Entry, find_entry
from heed.comparison.examined import Conduct, predict_all, remarks_on
from heed.comparison.results import Differences, Resampling, Scores, scores_of
from heed.evaluation.measures import Measure
from heed.tasks.base.run import Run

L = TypeVar("L", bound="Learned")


@dataclass(frozen=True)
class Size:
    """A size of the training set."""

    asked: int | None  # size as requested; None for all
    examples: int  # actual number of examples

    @property
    def label(self) -> str:
        """The size as text: "1,000", or "3,394 (all)"."""
        return f"{self.examples:,} (all)" if self.asked is None else f"{self.examples:,}"


@dataclass(frozen=True)
class Point:
    """A model trained on one size of the training set, with one or several seeds."""

    model: int  # number of the model
    size: int  # number of the size
    entry: Entry  # its runs
    scores: Scores  # by measure: mean over seeds, 95 % interval over test examples
    against: Differences  # by measure: its score minus those of other models at the same size; `other` is a model


@dataclass(frozen=True)
class Learned:
    """Several models on several sizes of one training set."""

    models: tuple[str, ...]  # the rows, as requested
    sizes: tuple[Size, ...]  # the columns, rising
    points: tuple[Point, ...]  # the trained models; not every model need have every size
    measures: tuple[Measure, ...]  # the main one first
    split: str  # name of the set that was scored
    tested: int  # number of its examples
    unit: str  # name of the training examples, in the plural
    baseline: int  # the model that the others are tested against, in addition to the best
    data: str  # name of the data
    resampling: Resampling  # of intervals and p-values
    conditions: Conditions  # of the outputs
    remarks: tuple[str, ...]  # further remarks for the reader

    def point(self, model: int, size: int) -> Point | None:
        """The result of a model on a size; None if it was not trained on this size."""
        return next((one for one in self.points if (one.model, one.size) == (model, size)), None)

    def of_model(self, model: int) -> list[Point]:
        """The points of one model, by rising size."""
        return sorted((one for one in self.points if one.model == model), key=lambda one: one.size)

    @property
    def has_seeds(self) -> bool:
        """True if a point has several runs."""
        return any(len(point.entry.runs) > 1 for point in self.points)


def learned_of(
    kind: type[L],
    groups: Mapping[int | None, Sequence[Entry]],
    conduct: Conduct,
    baseline: str | None,
    say: Callable[[str], None],
) -> L:
    """Score the runs of every size on their common examples, and test their differences at each size.

    Args:
        kind: The class of the result.
        groups: A row for each model, by the number of training examples, None for all.
        conduct: The options.
        baseline: Label of the model that the others are tested against in addition to the best; the first by default.
        say: Called with progress messages.

    Raises:
        ConfigError: An option does not fit the runs.
        DataError: The runs do not have the same examples.
    """
    entries = list(chain.from_iterable(groups.values()))
    models = tuple(dict.fromkeys(entry.label for entry in entries))
    first = 0 if baseline is None else models.index(entries[find_entry(entries, baseline)].label)
    found = predict_all(entries, conduct, say, timed=False)
    say(f"drawing {found.resampling.count:,} resamples for each size")
    sizes = sorted((Size(asked, _examples(group[0].runs[0], asked)) for asked, group in groups.items()), key=_order)
    outcomes, points = iter(found.outcomes), []
    for asked, group in groups.items():
        here = [models.index(entry.label) for entry in group]
        outputs = [next(outcomes) for _ in group]
        scores, against = scores_of(outputs, here.index(first) if first in here else None, found.resampling)
        number = next(i for i, size in enumerate(sizes) if size.asked == asked)
        for model, entry, scored, tested in zip(here, group, scores, against, strict=True):
            against_models = {
                name: tuple(replace(one, other=here[one.other]) for one in each) for name, each in tested.items()
            }
            points.append(Point(model, number, entry, scored, against_models))
    run = entries[0].runs[0]
    return kind(
        models=models,
        sizes=tuple(sizes),
        points=tuple(points),
        measures=found.outcomes[0][0].measures,
        split=found.split,
        tested=len(found.examiner.examples),
        unit=f"training {_unit(run)}",
        baseline=first,
        data=run.config.data.name,
        resampling=found.resampling,
        conditions=found.conditions,
        remarks=remarks_on(found.examiner, found.split, conduct.beam_size),
    )


def _order(size: Size) -> tuple[bool, int]:
    return size.asked is None, size.examples


def _examples(run: Run[Any, Any], asked: int | None) -> int:
    """The number of examples that a run was trained on."""
    counted = run.report.get("data", {}).get("train", {}).get("examples")
    return counted if asked is None and counted is not None else asked or len(run.task.splits.examples["train"])


def _unit(run: Run[Any, Any]) -> str:
    train = run.task.splits.examples["train"]
    return f"{getattr(train[0], 'unit', 'example')}s"
