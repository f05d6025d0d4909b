"""Several runs on the same examples: scores, differences, costs; as tables, files, drawings and a page.

Runs that differ in the size of their training set make learning curves: models x sizes instead of one column of scores.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from markupsafe import Markup

from heed.comparison.entries import (
    ComparisonOptions,
    Entry,
    Predicted,
    find_entry,
    looks_of,
    predict_all,
    remarks_on,
    set_name,
)
from heed.comparison.page import (
    UNWRAPPED,
    ScoreTable,
    compare_page,
    csv_text,
    in_latex,
    in_text,
    notes_of,
    panels_of,
    sample,
    scores_scene,
)
from heed.comparison.results import (
    Bucket,
    Difference,
    Result,
    Score,
    best_first,
    best_of,
    deviation_text,
    difference_text,
    head_of,
    interval_text,
    intervals_note,
    results_of,
    score_text,
    test_note,
)
from heed.errors import ConfigError
from heed.evaluation.measures import Measure
from heed.show.curves import Curves, Line, Panel, curves_to_text
from heed.show.document import Shown, framed, plain_values
from heed.show.draw_html import map_to_html
from heed.show.draw_svg import map_scene
from heed.show.page import Cell
from heed.show.scene import Figure, Scene, abreast, check_figure, stacked
from heed.show.shown import map_to_text
from heed.storage.disk import check_output, make_folder, write_outputs
from heed.tasks.base.curves import compared
from heed.visible import clean, to_json
from heed.watch.looks import Look
from heed.watch.maps import FIXED_VECTOR, cut

_AT_RANDOM = 2 / 3
"""Share of the sentences on a page that is drawn at random."""
_MARK, _DAGGER = " (not trained enough)", "†"
"""Marks of a row that was not trained enough, in a paper too."""
_LOOKED = "The attention of the last layer, mean of its heads; where the model writes, of its output to what it read."
_ENDINGS = ("html", "svg", "tex", "csv", "json")
"""Endings of the files that a comparison writes into a folder."""
FORMS = (".html", ".svg", ".png", ".pdf", ".json", ".txt", ".tex", ".csv")
"""Endings of a single file."""
_COSTS = {
    "parameters": "parameters",
    "updates": "updates",
    "training_tokens_per_second": "training {targets}/s",
    "examples_per_second": "inference examples/s",
    "tokens_per_second": "inference tokens/s",
    "peak_memory_mib": "peak memory of training (MiB)",
    "training_minutes": "training minutes",
}


def check_folder(folder: Path) -> None:
    """Make the folder of a comparison; refuse one that its files cannot be written into, before the work."""
    make_folder(folder)
    for ending in _ENDINGS:
        check_output(folder / f"compare.{ending}")


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
class Comparison(Predicted, Shown):
    """Several runs on the same examples; a notebook displays it as a page without sentences."""

    entries: tuple[Entry, ...]  # the rows: one run each, or several seeds of one
    results: tuple[Result, ...]  # their scores and differences
    measures: tuple[Measure, ...]  # the main one first (statistics are those of the first run)
    buckets: tuple[Bucket, ...]  # ranges of source length
    baseline: int  # the entry that the others are tested against, in addition to the best
    remarks: tuple[str, ...] = ()  # further remarks for the reader
    looks: tuple[Look, ...] = ()  # the look of each entry at one text, if one was given

    examples = property(attrgetter("examiner.examples"))
    references = property(attrgetter("examiner.references"))
    length_unit = property(attrgetter("examiner.length_unit"))

    # Sizes of the training set ---------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes of the training set, rising; none if all entries have the same."""
        runs = {entry.train_size: entry.runs[0] for entry in self.entries}
        if len(runs) < 2:  # the data of runs may not be there any more
            return ()
        sizes = []
        for asked, run in runs.items():
            counted = run.report.get("data", {}).get("train", {}).get("examples") if asked is None else asked
            sizes.append(Size(asked, counted or len(run.task.splits.examples["train"])))
        return tuple(sorted(sizes, key=lambda size: (size.asked is None, size.examples)))

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The labels of the entries, each once."""
        return tuple(dict.fromkeys(entry.label for entry in self.entries))

    @cached_property
    def unit(self) -> str:
        """Name of the training examples, in the plural."""
        train = self.entries[0].runs[0].task.splits.examples["train"]
        return f"training {getattr(train[0], 'unit', 'example')}s"

    @property
    def has_seeds(self) -> bool:
        """True if an entry has several runs."""
        return any(len(entry.runs) > 1 for entry in self.entries)

    def at(self, model: int, size: int) -> int | None:
        """The entry of a model and a size; None if it was not trained on this size."""
        row = self.models[model], self.sizes[size].asked
        return next((i for i, entry in enumerate(self.entries) if (entry.label, entry.train_size) == row), None)

    def alike(self, entry: int) -> list[int]:
        """The entries of the same size, which an entry is compared with."""
        return [i for i, other in enumerate(self.entries) if other.train_size == self.entries[entry].train_size]

    # Scores ----------------------------------------------------------------------------------------------------

    def best(self, name: str, entry: int = 0) -> int | None:
        """The entry with the best score of a measure (of those of the same size), the first of equal ones.

        None if no entry that was trained enough has a score.
        """
        measure = next(measure for measure in self.measures if measure.name == name)
        alike = [i for i in self.alike(entry) if not self.entries[i].shortfall]
        return best_of(measure, {i: self.results[i].scores[name] for i in alike})

    def is_best(self, name: str, entry: int) -> bool:
        """True if no entry has a better score, and it was trained enough."""
        best = None if self.entries[entry].shortfall else self.best(name, entry)
        return best is not None and self.results[entry].scores[name].value == self.results[best].scores[name].value

    def baseline_at(self, entry: int) -> int | None:
        """The baseline of an entry: of those of the same size the one with the baseline's label."""
        return _baseline_of(self.entries, self.alike(entry), self.baseline)

    def difference(self, name: str, entry: int, other: int | None) -> Difference | None:
        """The difference of an entry from another that it was tested against."""
        return next((difference for difference in self.results[entry].against[name] if difference.other == other), None)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per entry.

        Shares are of 1; None where there is no number.
        """
        order = list(range(len(self.entries)))
        if self.sizes:
            order.sort(key=lambda i: self.models.index(self.entries[i].label))
        return [{key: _known(value) for key, value in self._row(i)} for i in order]

    def _row(self, place: int) -> Iterator[tuple[str, Any]]:
        entry, result = self.entries[place], self.results[place]
        yield "run", entry.label
        yield "model", entry.runs[0].config.model.name
        if self.sizes:
            yield "train_size", "all" if entry.train_size is None else entry.train_size
            yield "train_examples", next(size.examples for size in self.sizes if size.asked == entry.train_size)
        yield "folders", " ".join(str(run.folder) for run in entry.runs)
        yield "seeds", " ".join(map(str, entry.seeds))
        yield "not_trained_enough", entry.shortfall or None
        for measure in self.measures:
            name, score = measure.name, result.scores[measure.name]
            yield from _with_ends(name, score)
            if self.has_seeds:
                ends = (math.nan, math.nan) if math.isnan(score.value) else (min(score.runs), max(score.runs))
                yield from ((f"{name}_sd", score.deviation), (f"{name}_min", ends[0]), (f"{name}_max", ends[1]))
            best = self.best(name, place)
            labels = None if best is None else self.entries[best].label, self.entries[self.baseline].label
            for what, label, other in zip(("best", "baseline"), labels, (best, self.baseline_at(place)), strict=True):
                difference = self.difference(name, place, other)
                yield f"{name}_{what}", label
                yield from _with_ends(f"{name}_minus_{what}", difference)
                yield f"{name}_p_{what}", difference and difference.p
        for bucket, score in zip(self.buckets, result.by_length, strict=True):
            yield from _with_ends(f"{self.measures[0].name}_length_{bucket.first}_{bucket.last}", score)
        yield from self.costs(place).items()

    def costs(self, place: int) -> dict[str, float | None]:
        """The costs of an entry, as means over its runs; None if the report lacks a number."""
        runs, speeds = self.entries[place].runs, self.speeds[place]

        def reported(name: str, scale: float = 1.0) -> float | None:
            values = [run.report.get("training", {}).get(name) for run in runs]
            reported_values = [scale * value for value in values if value is not None]
            return statistics.fmean(reported_values) if reported_values else None

        inference: dict[str, float | None] = {
            f"{name}_per_second": statistics.fmean(getattr(speed, name) for speed in speeds)
            for name in (("examples", "tokens") if speeds else ())
        }
        return {
            "parameters": float(sum(p.numel() for p in runs[0].model.parameters())),
            "updates": reported("updates"),
            "training_tokens_per_second": reported("target_tokens_per_second"),
            **inference,
            "peak_memory_mib": reported("peak_memory_mib"),
            "training_minutes": reported("seconds", 1 / 60),
        }

    # Tables ----------------------------------------------------------------------------------------------------

    def tables(self) -> list[ScoreTable]:
        """Scores, significance, scores by length, cost."""
        differences = [self._differences("the best", self.best)]
        if len(self.models) > 2:
            label = self.entries[self.baseline].label
            differences.append(self._differences(label, lambda _, entry: self.baseline_at(entry)))
        return [self._scores(), *filter(None, differences), *self._by_length(), self._cost()]

    def _table(
        self, title: str, columns: Sequence[str], cell: Callable[[int, int], Cell], *notes: str, mark: str = _MARK
    ) -> ScoreTable:
        """A table with a row for each entry; `cell` gives the cell of an entry and a column."""
        labels = self.labels(mark)
        rows = (tuple(cell(i, j) for j in range(len(columns))) for i in range(len(self.entries)))
        return ScoreTable(title, tuple(columns), tuple(zip(labels, rows, strict=True)), notes)

    def labels(self, mark: str = "") -> list[str]:
        """The labels of the entries with their sizes, and a mark on those that were not trained enough."""
        sizes = {size.asked: f", {size.label}" for size in self.sizes}
        marks = [mark if entry.shortfall else "" for entry in self.entries]
        return [e.label + sizes.get(e.train_size, "") + m for e, m in zip(self.entries, marks, strict=True)]

    def _scores(self) -> ScoreTable:
        by = f" by {self.unit}," if self.sizes else ""
        title = f"scores{by} on {len(self.examples):,} {set_name(self.split)} examples"
        explained = [f"{measure.label}: {measure.note}." for measure in self.measures if measure.note]
        notes = (*self.remarks, *self._parts(), self._intervals(), *self._seeds(), *explained)

        def cell(entry: int, column: int) -> Cell:
            return self._score(self.measures[column], entry, score_text)

        return self._table(title, [*map(head_of, self.measures)], cell, *notes)

    def _score(self, measure: Measure, entry: int, text: Callable[[Score, Measure], str]) -> Cell:
        best = len(self.alike(entry)) > 1 and self.is_best(measure.name, entry)
        return Cell(text(self.results[entry].scores[measure.name], measure), best)

    def _parts(self) -> list[str]:
        if not self.sizes:
            return []
        return [
            f"Training sets are random parts of the {self.unit}, drawn by the seed of each run, with labels in the "
            "same shares; a smaller part is contained in a larger one. Vocabulary and tokenizer are also learned from "
            "the part; validation and test sets are the same for all."
        ]

    def _differences(self, name: str, other: Callable[[str, int], int | None]) -> ScoreTable | None:
        """Differences and p-values against the best, or against the baseline; None if nothing was tested.

        None also of the baseline if it is the best everywhere.
        """
        names = [measure.name for measure in self.measures]
        places = [(name, entry) for entry in range(len(self.entries)) for name in names]
        again = name != "the best" and all(self.best(*place) == other(*place) for place in places)
        if again or not any(self.difference(*place, other(*place)) for place in places):
            return None

        def cell(entry: int, column: int) -> Cell:
            against = other(names[column], entry)
            if difference := self.difference(names[column], entry, against):
                return Cell(difference_text(difference, self.measures[column], self.has_seeds))
            return Cell("best" if name == "the best" and against == entry else "-")

        note = test_note(self.resampling, {len(entry.runs) for entry in self.entries})
        title = f"difference from {name}{' at the same size' if self.sizes else ''}"
        return self._table(title, [*map(head_of, self.measures)], cell, note)

    def _by_length(self) -> list[ScoreTable]:
        if len(self.buckets) < 2:
            return []
        measure = self.measures[0]
        columns = [f"{bucket.label} ({bucket.examples:,})" for bucket in self.buckets]
        title = f"{head_of(measure)} by {self.examiner.names[0]} {self.length_unit} (examples)"
        cell = lambda i, j: Cell(score_text(self.results[i].by_length[j], measure))  # noqa: E731
        return [self._table(title, columns, cell, self._intervals())]

    def _cost(self) -> ScoreTable:
        costs = [self.costs(i) for i in range(len(self.entries))]
        # The two speeds are equal for pictures and labels.
        same = all(cost.get("tokens_per_second") == cost.get("examples_per_second") for cost in costs)
        names = [name for name in _COSTS if name in costs[0] and not (same and name == "tokens_per_second")]
        heads = [_COSTS[name].format(targets=self.examiner.targets) for name in names]

        def cell(entry: int, column: int) -> Cell:
            value = costs[entry][names[column]]
            return Cell("-" if value is None else f"{value:,.{int(names[column] == 'training_minutes')}f}")

        return self._table("cost", heads, cell, self._conditions())

    def _intervals(self) -> str:
        return intervals_note(self.resampling, self.has_seeds)

    def _seeds(self) -> list[str]:
        if not self.has_seeds:
            return []
        if self.sizes:
            return [
                f"Scores are means over {self._counted_seeds} seeds; sd is their standard deviation over seeds (the "
                "draw of the part, the initial weights and the order of the data)."
            ]
        listed = [f"seeds {' '.join(map(str, entry.seeds))}" for entry in self.entries]
        if len(set(listed)) > 1:
            listed = [f"{entry.label}: {seeds}" for entry, seeds in zip(self.entries, listed, strict=True)]
        return [
            f"Scores are means over seeds ({'; '.join(dict.fromkeys(listed))}); sd is their standard deviation over "
            "seeds."
        ]

    @property
    def _counted_seeds(self) -> str:
        """The number of seeds of the entries: "3", or "1 to 3"."""
        counts = [len(entry.runs) for entry in self.entries]
        return " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))

    def _conditions(self) -> str:
        of_training = "Training speed, memory and minutes are from each run's report; memory is that of its process."
        if not self.speeds[0]:
            return of_training
        conditions = self.conditions
        few, many = conditions.passes
        passes = "one pass" if many == 1 else f"the median of {few if few == many else f'{few} to {many}'} passes"
        threads = f"{conditions.threads} thread{'s' if conditions.threads > 1 else ''}"
        beam = "each run's own beam" if conditions.beam_size is None else f"beam {conditions.beam_size}"
        return (
            f"Inference was measured in this comparison, one run after the other: {conditions.device}, {threads}, "
            f"{f'{beam}, ' * self.examiner.has_beam}the same batch size, {passes}. {of_training}"
        )

    # Drawings --------------------------------------------------------------------------------------------------

    def curves(self) -> Curves:
        """Scores with their intervals: by size of the training set, a panel for each measure, or by length."""
        title = f"{', '.join(self.models)} on {self.entries[0].runs[0].config.data.name}"
        if not self.sizes:
            ticks = tuple((float(n), bucket.label) for n, bucket in enumerate(self.buckets))
            rows = [[*zip((x for x, _ in ticks), result.by_length, strict=True)] for result in self.results]
            panel = Panel(head_of(self.measures[0]), self._lines(self.measures[0], rows))
            return Curves(title, (), f"{self.examiner.names[0]} {self.length_unit}", (panel,), ticks=ticks)
        ticks = tuple((math.log10(size.examples), size.label) for size in self.sizes)
        at = [[(x, self.at(m, n)) for n, (x, _) in enumerate(ticks)] for m in range(len(self.models))]
        panels = []
        for measure in self.measures:
            rows = [[(x, self.results[i].scores[measure.name]) for x, i in row if i is not None] for row in at]
            panels.append(Panel(head_of(measure), self._lines(measure, rows)))
        return Curves(title, (), self.unit, tuple(panel for panel in panels if panel.lines), ticks=ticks)

    def _lines(self, measure: Measure, rows: Sequence[Sequence[tuple[float, Score]]]) -> tuple[Line, ...]:
        """A line for each row of scores, each with its place on the x axis."""
        scale, lines = measure.scale, []
        labels = self.models if self.sizes else self.labels(_MARK)
        for number, (label, row) in enumerate(zip(labels, rows, strict=True)):
            scored = [(x, score) for x, score in row if not math.isnan(score.value)]
            points = tuple((x, scale * score.value) for x, score in scored)
            spans = tuple(() if math.isnan(s.low) else (scale * s.low, scale * s.high) for _, s in scored)
            runs = (score.runs if len(score.runs) > 1 else () for _, score in scored)
            seeds = tuple(tuple(scale * value for value in values) for values in runs)
            if points:
                lines.append(Line(label, points, number, True, spans, seeds if self.sizes else ()))
        return tuple(lines)

    def scene(self, index: int | None = None) -> Scene:
        """The main score by size of the training set, or by length; below it the maps of the looks.

        Raises:
            ConfigError: There is neither: all examples have the same length.
        """
        looked = zip(self.entries, self.looks, strict=bool(self.looks))
        maps = [map_scene(replace(map, of=entry.label)) for entry, look in looked for map in look.attention]
        chart = self._chart()
        if scenes := [*([chart] if chart else []), *([abreast(maps)] if maps else [])]:
            return stacked(scenes)
        raise ConfigError("there is no picture of this comparison, as all examples have the same length")

    def _chart(self) -> Scene | None:
        curves, measure = self.curves(), self.measures[0]
        if not self.sizes:
            title = f"{measure.label}{' %' if measure.is_share else ''} by {curves.x}"
            note = "Whiskers: 95 % intervals."
            return scores_scene(curves, title, curves.x, note) if len(self.buckets) > 1 else None
        title = f"{head_of(measure)} by {self.unit}: {self.entries[0].runs[0].config.data.name}"
        over, dots = ("seeds and ", "; small dots: the seeds") if self.has_seeds else ("", "")
        note = f"Whiskers: 95 % intervals over {over}{len(self.examples):,} {set_name(self.split)} examples{dots}."
        return scores_scene(curves, title, f"{self.unit} (logarithmic)", note)

    # Output ----------------------------------------------------------------------------------------------------

    def text(self, width: int = 100, color: bool = False) -> str:
        """The tables as text, fitted to the terminal's width; above them the learning curves of the main score."""
        shown = in_text(self.tables(), width, color)
        if self.looks:
            shown += f"\n\n{self._looked_at}\n{_LOOKED}"
        for entry, look in zip(self.entries, self.looks, strict=bool(self.looks)):
            maps = [map_to_text(map, width=width, color=color) for map in look.attention]
            shown += "\n\n".join([f"\n\n{entry.label}: {clean(look.target)}", *(maps or [_without(look)])])
        if not self.sizes:
            return shown
        curves = self.curves()
        main = replace(curves, panels=curves.panels[:1])
        return f"{curves_to_text(main, width)}\n\n{shown}"

    def to_csv(self) -> str:
        """`rows` with a header; an empty cell where there is no number."""
        return csv_text(self.rows)

    def to_json(self) -> str:
        """`rows`, notes on them, and every example with every output (of learning curves only their number)."""
        drawn = {"resampling": asdict(self.resampling), "conditions": asdict(self.conditions)}
        content = {"split": self.split, "rows": self.rows, **drawn, "notes": notes_of(self.tables())}
        if self.looks:
            looks = zip(self.entries, self.looks, strict=True)
            content["looks"] = [{"run": entry.label, **plain_values(look)} for entry, look in looks]
        if self.sizes:
            return to_json({**content, "examples": len(self.examples)}, indent=1) + "\n"
        content |= {"buckets": [asdict(bucket) for bucket in self.buckets], "length_unit": self.length_unit}
        content["examples"] = [
            {
                "source": source,
                "reference": self.references[i],
                "outputs": {
                    entry.label: [run.outputs[i] for run in runs]
                    for entry, runs in zip(self.entries, self.outcomes, strict=True)
                },
            }
            for i, source in enumerate(self.examiner.sources)
        ]
        return to_json(content, indent=1) + "\n"

    def to_latex(self) -> str:
        """A `table` of the scores with their intervals, which needs booktabs.

        The best scores are bold. All tables and notes as text follow as comments.
        """
        over = f", with the standard deviation over {self._counted_seeds} seeds"
        caption = (
            f"Scores on {len(self.examples):,} {cut(set_name(self.split), 40)} examples"
            f"{f' by {self.unit}' * bool(self.sizes)}{over * self.has_seeds}. The best are bold; arrows point to "
            "better scores. The columns of 95 % intervals can be left out."
        )
        if any(entry.shortfall for entry in self.entries):
            caption += f" {_DAGGER}Not trained enough to be compared."
        heads = [head for measure in self.measures for head in (best_first(measure), "95 %")]

        def cell(entry: int, column: int) -> Cell:
            measure = self.measures[column // 2]
            if column % 2:
                return Cell(interval_text(self.results[entry].scores[measure.name], measure))
            return self._score(measure, entry, deviation_text)

        head = "% made by heed compare; needs \\usepackage{booktabs}"
        table = in_latex(self._table(caption, heads, cell, mark=_DAGGER))
        comments = "\n".join(f"% {line}".rstrip() for line in in_text(self.tables(), UNWRAPPED).splitlines())
        return "\n\n".join([head, table, comments]) + "\n"

    def to_html(self, sentences: int = 15) -> str:
        """One self-contained page: the tables, the drawings, and the same sentences for every model with maps.

        Of the `sentences`, two thirds are drawn at random; the others are those on which the models differ most. Of
        learning curves the page has tables and drawings only.
        """
        curves, chart, numbers = self.curves(), self._chart(), count()
        looked = ("One text in every model", _LOOKED, [self._looked(numbers)] if self.looks else [])
        if self.sizes:
            others = panels_of(replace(curves, panels=curves.panels[1:]))
            return compare_page(curves.title, self.tables(), chart=chart, others=others, sections=[looked])
        random_ones, different = self.chosen(sentences)
        kind = self.examiner.kind.capitalize()
        opened = "Click an output to show its model's attention: the last layer, the mean over its heads."
        opened += " Outputs and maps are those of each model's first seed." if self.has_seeds else ""
        typical = "Chosen for the largest distance between the best and the worst output: these are not typical."
        groups = (
            (f"{kind} drawn at random", opened, random_ones),
            (f"{kind} on which the models differ most", f"{typical} {opened}", different),
        )
        sections = [(title, hint, [self._article(i, numbers) for i in chosen]) for title, hint, chosen in groups]
        parts = {"training": self._training(), "sections": [looked, *sections]}
        return compare_page(curves.title, self.tables(), chart=chart, **parts)

    def _looked(self, numbers: Iterator[int]) -> dict[str, Any]:
        """The text of the looks, as `_article` has an example, with every map open."""
        outputs = []
        for entry, look in zip(self.entries, self.looks, strict=True):
            maps = [map_to_html(map, next(numbers)) for map in look.attention]
            drawn = Markup().join(maps) if maps else Markup('<p class="hint">{}</p>').format(_without(look))
            note = look.notes[0] if look.notes else ""
            outputs.append({"label": entry.label, "text": look.target, "said": note, "drawn": drawn, "open": True})
        source = Markup('<dd dir="auto">{}</dd>').format(clean(self._looked_at))
        return {"names": self.looks[0].names, "source": source, "reference": None, "outputs": outputs}

    @property
    def _looked_at(self) -> str:
        """The text of the looks."""
        return "\n".join(text for _, text in self.looks[0].texts[:-1])

    def _training(self) -> dict[str, Any] | None:
        """The training curves of every run, a colour for each entry, for the page; None if no run has a log."""
        runs = [(clean(e.label), n, run.folder, run.config) for n, e in enumerate(self.entries) for run in e.runs]
        if (curves := compared(runs)) is None:
            return None
        hints = (
            f"Horizontal axis: {curves.x}.",
            "Validation scores are those of greedy search." if self.examiner.has_beam else "",
            "Each seed has its own line." if self.has_seeds else "",
        )
        samples = [(entry.label, sample(number)) for number, entry in enumerate(self.entries)]
        return {"panels": panels_of(curves), "samples": samples, "hint": " ".join(filter(None, hints))}

    def chosen(self, number: int) -> tuple[list[int], list[int]]:
        """Examples of a page: random ones, and of the others those with the largest spread of the main measure."""
        total = len(self.examples)
        number = min(number, total)
        drawn = random.Random(self.resampling.seed).sample(range(total), round(number * _AT_RANDOM))
        each = np.stack([runs[0].measures[0].each() for runs in self.outcomes]).astype(np.float32)
        # each: (entries, examples); NaN: nothing to find and nothing found
        spread = np.ptp(np.nan_to_num(each, nan=1.0), axis=0)
        others = sorted(set(range(total)) - set(drawn), key=lambda i: (-spread[i], i))
        different = [i for i in others if spread[i] > 0][: number - len(drawn)]
        return sorted(drawn, key=lambda i: len(self.examiner.sources[i])), different

    def _article(self, index: int, numbers: Iterator[int]) -> dict[str, Any]:
        """One example for the page, with the output of every entry, how it compares with the reference, and a look."""
        measure, reference, names = self.measures[0], self.references[index], self.examiner.names
        outputs = []
        for entry, runs in zip(self.entries, self.outcomes, strict=True):
            output = runs[0].outputs[index]
            score = f"{float(runs[0].measures[0].each()[index]):.{measure.digits - 1}f}"
            verdict = "differs" if measure.is_share else f"{measure.label} {score}"
            if output == reference:
                verdict = f"same as the {names[1]}"
            if self.examiner.sources[index].strip():
                drawn = self.examiner.drawing(entry.runs[0], index, self.conditions.beam_size, numbers)
            else:
                drawn = Markup('<p class="hint">The {} is blank.</p>').format(names[0])
            outputs.append({"label": entry.label, "text": output, "said": verdict, "drawn": drawn, "open": False})
        source = self.examiner.source_html(index)
        return {"names": names, "source": source, "reference": reference, "outputs": outputs}

    html = to_html
    json = to_json

    def forms(self) -> dict[str, Callable[[], str | bytes]]:
        return {**super().forms(), ".tex": self.to_latex, ".csv": self.to_csv}

    def save(  # type: ignore[override]  # a folder has several files
        self, path: str | Path, sentences: int = 15, **figure: Unpack[Figure]
    ) -> list[Path]:
        """Write one file, if the path ends as one of `forms`; else a folder. Returns the files.

        A folder gets compare.html, .tex, .csv, .json and, for learning curves or with options of the figure, .svg.
        Older files are replaced only when all new ones are complete.

        Raises:
            ConfigError: The folder cannot be made, or an option of the figure is wrong or not for this format.
            DiskError: The disk is full or writing fails; older files stay.
        """
        if (path := Path(path)).suffix in self.forms():
            super().save(path, **figure)
            return [path]
        check_figure(figure, "svg")
        texts = {"html": self.to_html(sentences), **({"svg": self.svg(**figure)} if self.sizes or figure else {})}
        texts |= {"tex": self.to_latex(), "csv": self.to_csv(), "json": self.to_json()}
        make_folder(path)
        files = {path / f"compare.{ending}": texts[ending] for ending in _ENDINGS if ending in texts}
        write_outputs(files)
        return list(files)

    def _repr_html_(self) -> str:
        return framed(self.to_html(0), "heed comparison")

    def __repr__(self) -> str:
        if self.sizes:
            sizes = ", ".join(size.label for size in self.sizes)
            return f"<learning curves of {', '.join(self.models)} on {sizes} {self.unit}; print them>"
        return f"<comparison of {', '.join(self.models)} on {len(self.examples):,} examples; print it>"

    def __str__(self) -> str:
        return self.text()


def compare_entries(
    entries: Sequence[Entry], options: ComparisonOptions, baseline: str | None, say: Callable[[str], None]
) -> Comparison:
    """Score the rows of a comparison on their common examples, and test their differences at each size.

    Raises:
        ConfigError: An option does not fit the runs.
        DataError: The runs do not have the same examples.
    """
    first = find_entry(entries, baseline) if baseline is not None else 0
    groups: dict[int | None, list[int]] = {}
    for i, entry in enumerate(entries):
        groups.setdefault(entry.train_size, []).append(i)
    looks = () if options.look is None else looks_of(entries, options.look)
    predicted = predict_all(entries, options, say, timed=len(groups) == 1)
    say(f"drawing {predicted.resampling.count:,} resamples{' for each size' if len(groups) > 1 else ''}")
    lengths = predicted.examiner.lengths if len(groups) == 1 else []
    buckets: list[Bucket] = []
    results: dict[int, Result] = {}
    for group in groups.values():
        untested = [i for i in group if entries[i].shortfall]
        outcomes = {i: predicted.outcomes[i] for i in group}
        against = _baseline_of(entries, group, first)
        of_group, buckets = results_of(outcomes, lengths, against, predicted.resampling, untested)
        results |= of_group
    remarks = remarks_on(predicted.examiner, predicted.split, options.beam_size)
    return Comparison(
        entries=tuple(entries),
        results=tuple(results[i] for i in range(len(entries))),
        measures=predicted.outcomes[0][0].measures,
        buckets=tuple(buckets),
        baseline=first,
        remarks=(*remarks, *_not_trained_enough(entries), *(_uneven(entries) if len(groups) == 1 else ())),
        looks=looks,
        **vars(predicted),
    )


def _without(look: Look) -> str:
    """Why a look has no attention."""
    return "This model has no attention." if look.summary is None else FIXED_VECTOR


def _baseline_of(entries: Sequence[Entry], group: Sequence[int], first: int) -> int | None:
    """The entry of a group that is the baseline, or has its label."""
    return first if first in group else next((i for i in group if entries[i].label == entries[first].label), None)


def _not_trained_enough(entries: Sequence[Entry]) -> Iterator[str]:
    """A remark on the rows that are in no test."""
    lacking = [entry for entry in entries if entry.shortfall]
    if lacking:
        several = len({entry.train_size for entry in entries}) > 1
        size = lambda entry: f" on {entry.train_size or 'all'}" * several  # noqa: E731
        listed = ", ".join(f"{entry.label}{size(entry)} ({entry.shortfall})" for entry in lacking)
        yield f"Not trained enough for a useful model, so in no test and never the best: {listed}."


def _uneven(entries: Sequence[Entry]) -> Iterator[str]:
    """Remarks on seeds with very different numbers of updates, which a time budget on a busy machine may cause."""
    for entry in entries:
        trained = [run.report.get("training", {}) for run in entry.runs]
        updates = [training["updates"] for training in trained if "updates" in training]
        if updates and min(updates) < 0.8 * max(updates):
            yield (
                f"The seeds of {entry.label} were trained for very different numbers of updates "
                f"({', '.join(map(str, updates))}): their spread is not due to the seeds alone."
            )


def _with_ends(name: str, shown: Score | Difference | None) -> Iterator[tuple[str, float | None]]:
    """A score or difference and the ends of its interval, by name."""
    for key, of in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
        yield key, getattr(shown, of, None)


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
