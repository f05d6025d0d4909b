"""Learning curves as tables: a row for each model, a column for each size of the training set."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from heed.comparison.compared import set_name
from heed.comparison.drawn_tables import Cell, Table
from heed.comparison.learning import Learned, Point
from heed.comparison.results import best_of
from heed.comparison.tables import difference_text, head_of, intervals_note, score_text, test_note
from heed.evaluation.measures import Measure


def learning_tables(learned: Learned) -> list[Table]:
    """The main score, its differences from the best and the baseline, the other scores, the training time."""
    main, *others = learned.measures
    differences = [_differences(learned, main, "the best")]
    if len(learned.models) > 2:
        differences.append(_differences(learned, main, learned.models[learned.baseline]))
    return [
        _scores(learned, main),
        *(table for table in differences if any(len(cell.text) > 5 for _, cells in table.rows for cell in cells)),
        *(_scores(learned, measure) for measure in others),
        _minutes(learned),
    ]


def best_at(learned: Learned, measure: Measure, size: int) -> Point | None:
    """The best model on a size, the first of equal ones."""
    here = [point for point in learned.points if point.size == size]
    place = best_of(measure, [point.scores[measure.name] for point in here])
    return None if place is None else here[place]


def _scores(learned: Learned, measure: Measure) -> Table:
    best = [best_at(learned, measure, size) for size in range(len(learned.sizes))]

    def cell(point: Point) -> Cell:
        score, top = point.scores[measure.name], best[point.size]
        is_best = top is not None and top.scores[measure.name].value == score.value and len(learned.models) > 1
        return Cell(score_text(score, measure), is_best)

    title = f"{head_of(measure)} by {learned.unit}, on {learned.tested:,} {set_name(learned.split)} examples"
    notes = [*learned.remarks, size_note(learned), *_seeds(learned), intervals_note(learned.resampling)]
    return _table(learned, title, cell, *notes, *([f"{measure.label}: {measure.note}."] if measure.note else []))


def _table(learned: Learned, title: str, cell: Callable[[Point], Cell], *notes: str) -> Table:
    rows = []
    for model, label in enumerate(learned.models):
        found = [learned.point(model, size) for size in range(len(learned.sizes))]
        rows.append((label, tuple(Cell("") if point is None else cell(point) for point in found)))
    return Table(title, tuple(size.label for size in learned.sizes), tuple(rows), notes)


def _differences(learned: Learned, measure: Measure, other: str) -> Table:
    best = [best_at(learned, measure, size) for size in range(len(learned.sizes))]

    def cell(point: Point) -> Cell:
        top = best[point.size]
        than = learned.baseline if other != "the best" else top.model if top is not None else None
        found = [one for one in point.against[measure.name] if one.other == than]
        if found:
            return Cell(difference_text(found[0], measure, learned.resampling))
        return Cell("best" if other == "the best" and than == point.model else "-")

    title = f"{head_of(measure)}: difference from {other} at the same size"
    return _table(learned, title, cell, test_note(learned.resampling))


def _minutes(learned: Learned) -> Table:
    def cell(point: Point) -> Cell:
        training = [run.report.get("training", {}) for run in point.entry.runs]
        if not all("seconds" in one and "updates" in one for one in training):
            return Cell("-")
        minutes, updates = (statistics.fmean(one[name] for one in training) for name in ("seconds", "updates"))
        return Cell(f"{minutes / 60:,.1f} ({updates:,.0f})")

    return _table(learned, f"training minutes (updates){', means over seeds' if learned.has_seeds else ''}", cell)


def size_note(learned: Learned) -> str:
    """A note on the training sets."""
    return (
        f"Training sets are random parts of the {learned.unit}, drawn by the seed of each run, with labels in the same "
        "shares; a smaller part is contained in a larger one. Vocabulary and tokenizer are also learned from the part; "
        "validation and test sets are the same for all."
    )


def _seeds(learned: Learned) -> list[str]:
    if not learned.has_seeds:
        return []
    counts = sorted({len(point.entry.runs) for point in learned.points})
    several = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return [
        f"Scores are means over {several} seeds; sd is their standard deviation over seeds (the draw of the part, the "
        "initial weights and the order of the data), which the interval does not cover."
    ]
