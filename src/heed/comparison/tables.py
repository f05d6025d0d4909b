"""The numbers of a comparison as tables of text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from heed.comparison.compared import Compared, set_name
from heed.comparison.drawn_tables import Cell, Table, in_html, in_text, notes_of
from heed.comparison.results import Difference, Resampling, Score
from heed.evaluation.measures import Measure


def tables(comparison: Compared) -> list[Table]:
    """Scores, significance, scores by length, cost."""
    return [_scores(comparison), *_significance(comparison), *_by_length(comparison), _cost(comparison)]


def _scores(comparison: Compared) -> Table:
    measures = comparison.measures
    cells = [
        [Cell(score_text(result.scores[m.name], m), comparison.is_best(m.name, i)) for m in measures]
        for i, result in enumerate(comparison.results)
    ]
    title = f"scores on {len(comparison.examples):,} {set_name(comparison.split)} examples"
    signatures = [f"{measure.label}: {measure.note}." for measure in measures if measure.note]
    notes = (*comparison.remarks, intervals_note(comparison.resampling), *_seeds(comparison), *signatures)
    return _table(comparison, title, map(head_of, measures), cells, *notes)


def _table(
    comparison: Compared, title: str, columns: Iterable[str], cells: Iterable[Sequence[Cell]], *notes: str
) -> Table:
    """A table with a row for each entry."""
    rows = zip((entry.label for entry in comparison.entries), map(tuple, cells), strict=True)
    return Table(title, tuple(columns), tuple(rows), notes)


def _significance(comparison: Compared) -> list[Table]:
    """Differences and p-values: against the best, and against the baseline if it is not the best."""
    best = {measure.name: comparison.best(measure.name) for measure in comparison.measures}
    wanted = [("the best", best)]
    if len(comparison.entries) > 2 and set(best.values()) != {comparison.baseline}:
        baseline = comparison.entries[comparison.baseline].label
        wanted.append((baseline, {measure.name: comparison.baseline for measure in comparison.measures}))
    made = []
    for name, others in wanted:
        rows: list[list[Cell]] = []
        for i, result in enumerate(comparison.results):
            rows.append([])
            for measure in comparison.measures:
                found = [d for d in result.against[measure.name] if d.other == others[measure.name]]
                itself = others[measure.name] == i
                text = ("best" if name == "the best" else "-") if itself else "-"
                if found:
                    text = difference_text(found[0], measure, comparison.resampling)
                rows[-1].append(Cell(text))
        title = f"difference from {name}"
        made.append(
            _table(comparison, title, map(head_of, comparison.measures), rows, test_note(comparison.resampling))
        )
    return made


def _by_length(comparison: Compared) -> list[Table]:
    if len(comparison.buckets) < 2:
        return []
    measure = comparison.measures[0]
    columns = [f"{bucket.label} ({bucket.examples:,})" for bucket in comparison.buckets]
    cells = [[Cell(score_text(score, measure)) for score in result.by_length] for result in comparison.results]
    title = f"{head_of(measure)} by {comparison.examiner.names[0]} {comparison.length_unit} (examples)"
    return [_table(comparison, title, columns, cells, intervals_note(comparison.resampling))]


_COSTS = {
    "parameters": "parameters",
    "updates": "updates",
    "training_tokens_per_second": "training {targets}/s",
    "examples_per_second": "inference examples/s",
    "tokens_per_second": "inference tokens/s",
    "peak_memory_mib": "peak memory of training (MiB)",
    "training_minutes": "training minutes",
}


def costs(comparison: Compared, place: int) -> dict[str, float | None]:
    """The costs of an entry, as means over its runs; None if the report lacks a number."""
    runs, speeds = comparison.entries[place].runs, comparison.speeds[place]

    def reported(name: str, scale: float = 1.0) -> float | None:
        values = [run.report.get("training", {}).get(name) for run in runs]
        known = [scale * value for value in values if value is not None]
        return statistics.fmean(known) if known else None

    return {
        "parameters": float(sum(p.numel() for p in runs[0].model.parameters())),
        "updates": reported("updates"),
        "training_tokens_per_second": reported("target_tokens_per_second"),
        "examples_per_second": statistics.fmean(speed.examples for speed in speeds),
        "tokens_per_second": statistics.fmean(speed.tokens for speed in speeds),
        "peak_memory_mib": reported("peak_memory_mib"),
        "training_minutes": reported("seconds", 1 / 60),
    }


def _cost(comparison: Compared) -> Table:
    found = [costs(comparison, i) for i in range(len(comparison.entries))]
    same = all(one["tokens_per_second"] == one["examples_per_second"] for one in found)  # pictures, labels
    names = [name for name in _COSTS if not (same and name == "tokens_per_second")]
    cells = [[Cell(_number(one[name], int(name == "training_minutes"))) for name in names] for one in found]
    heads = [_COSTS[name].format(targets=comparison.examiner.targets) for name in names]
    return _table(comparison, "cost", heads, cells, _conditions(comparison))


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def head_of(measure: Measure) -> str:
    """The head of a column of scores: the measure with its unit."""
    unit = " %" if measure.is_share else ""
    return f"{measure.label}{unit}" + ("" if measure.higher_is_better else " (less is better)")


def score_text(score: Score, measure: Measure) -> str:
    """A score with its spread over seeds and its interval; "-" if there is none."""
    if math.isnan(score.value):
        return "-"
    scale = 100 if measure.is_share else 1
    value, low, high = (f"{scale * number:.{measure.digits}f}" for number in (score.value, score.low, score.high))
    spread = "" if score.deviation is None else f" sd {scale * score.deviation:.{measure.digits}f}"
    return f"{value}{spread} [{low}, {high}]"


def difference_text(difference: Difference, measure: Measure, resampling: Resampling) -> str:
    """A difference with its interval and its p-value."""
    scale = 100 if measure.is_share else 1
    numbers = (difference.low, difference.value, difference.high)
    low, value, high = (f"{scale * number:+z.{measure.digits}f}" for number in numbers)
    return f"{value} [{low}, {high}] p {p_text(difference.p, resampling.trials)}"


def p_text(p: float, trials: int) -> str:
    """A p-value with the precision that the number of trials allows; never 0."""
    if p * (trials + 1) < 1.5:  # no trial was as extreme
        return f"< {1 / trials:.2g}" if trials < 1000 else f"< {1 / trials:g}"
    return f"{p:.{min(4, max(2, len(str(trials)) - 1))}f}"


def caption(comparison: Compared) -> list[str]:
    """The notes of all tables."""
    return notes_of(tables(comparison))


def intervals_note(drawn: Resampling) -> str:
    """A note on intervals."""
    return (
        f"Intervals: 95 %, percentile bootstrap over the examples ({drawn.count:,} resamples, seed {drawn.seed}); they "
        "cover the choice of test examples, not the variation between training runs."
    )


def _seeds(comparison: Compared) -> list[str]:
    if all(len(entry.runs) == 1 for entry in comparison.entries):
        return []
    listed = [f"seeds {' '.join(map(str, entry.seeds))}" for entry in comparison.entries]
    if len(set(listed)) > 1:
        listed = [f"{entry.label}: {seeds}" for entry, seeds in zip(comparison.entries, listed, strict=True)]
    return [
        f"Scores are means over seeds ({'; '.join(dict.fromkeys(listed))}); sd is their standard deviation over seeds, "
        "which the interval does not cover. The tests use each example's mean over seeds: they too cover the choice of "
        "test examples, given these training runs."
    ]


def test_note(drawn: Resampling) -> str:
    """A note on differences, their intervals and p-values."""
    return (
        "Differences: the row minus the other, with its 95 % interval by paired bootstrap resampling (Koehn 2004; "
        f"{drawn.count:,} resamples); p by paired approximate randomisation, two-sided (Riezler and Maxwell 2005; "
        f"{drawn.trials:,} trials, seed {drawn.seed}), not corrected for the number of comparisons."
    )


def _conditions(comparison: Compared) -> str:
    given = comparison.conditions
    few, many = given.passes
    passes = "one pass" if many == 1 else f"the median of {few if few == many else f'{few} to {many}'} passes"
    threads = f"{given.threads} thread{'s' if given.threads > 1 else ''}"
    beam = ""
    if comparison.examiner.has_beam:
        beam = "each run's own beam, " if given.beam_size is None else f"beam {given.beam_size}, "
    return (
        f"Inference was measured in this comparison, one run after the other: {given.device}, {threads}, {beam}the "
        f"same batch size, {passes}. Training speed, memory and minutes are from each run's report; memory is that of "
        "its process."
    )


def tables_text(comparison: Compared, width: int = 100, color: bool = False) -> str:
    """The tables as text, fitted to the terminal's width."""
    return in_text(tables(comparison), width, color)


def tables_html(comparison: Compared) -> str:
    """The tables and their notes as HTML for a page."""
    return in_html(tables(comparison))
