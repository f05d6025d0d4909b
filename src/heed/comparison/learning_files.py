"""Learning curves as CSV, JSON, LaTeX and a page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from html import escape
from importlib.resources import files
from typing import Any

from heed.comparison.compared import set_name
from heed.comparison.drawn_tables import csv_text, in_html, in_latex, latex_escaped, notes_of
from heed.comparison.learning import Learned, Point
from heed.comparison.learning_chart import as_curves, learning_svg
from heed.comparison.learning_tables import best_at, learning_tables
from heed.comparison.tables import head_of
from heed.observe.draw_curves import page_style, panels_to_html
from heed.observe.draw_html import page_to_html
from heed.observe.labels import clean
from heed.visible import to_json

_MARKS = ("*", "square*", "triangle*", "diamond*", "o", "square", "triangle", "diamond")


def learning_rows(learned: Learned) -> list[dict[str, Any]]:
    """One dictionary per model and size; shares are of 1, None where there is no number."""
    return [dict(_row(learned, point)) for model in range(len(learned.models)) for point in learned.of_model(model)]


def _row(learned: Learned, point: Point) -> Iterator[tuple[str, Any]]:
    runs, size = point.entry.runs, learned.sizes[point.size]
    yield from {
        "run": point.entry.label,
        "model": runs[0].config.model.name,
        "train_size": "all" if size.asked is None else size.asked,
        "train_examples": size.examples,
        "folders": " ".join(str(run.folder) for run in runs),
        "seeds": " ".join(map(str, point.entry.seeds)),
    }.items()
    for measure in learned.measures:
        name, score = measure.name, point.scores[measure.name]
        yield from {
            name: _known(score.value),
            f"{name}_low": _known(score.low),
            f"{name}_high": _known(score.high),
        }.items()
        if learned.has_seeds:
            ends = (math.nan, math.nan) if math.isnan(score.value) else (min(score.runs), max(score.runs))
            yield from {
                f"{name}_sd": score.deviation,
                f"{name}_min": _known(ends[0]),
                f"{name}_max": _known(ends[1]),
            }.items()
        best = best_at(learned, measure, point.size)
        for what, other in (("best", None if best is None else best.model), ("baseline", learned.baseline)):
            found = next((one for one in point.against[name] if one.other == other), None)
            yield f"{name}_{what}", None if other is None else learned.models[other]
            yield f"{name}_minus_{what}", found and found.value
            yield f"{name}_minus_{what}_low", found and found.low
            yield f"{name}_minus_{what}_high", found and found.high
            yield f"{name}_p_{what}", found and found.p
    for name, key, scale in (("updates", "updates", 1.0), ("training_minutes", "seconds", 1 / 60)):
        values = [run.report.get("training", {}).get(key) for run in runs]
        yield name, None if None in values else scale * sum(values) / len(values)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def learning_csv(learned: Learned) -> str:
    """`learning_rows` with a header; an empty cell where there is no number."""
    return csv_text(learning_rows(learned))


def learning_json(learned: Learned) -> str:
    """`learning_rows`, and notes on them."""
    content = {
        "split": learned.split,
        "examples": learned.tested,
        "rows": learning_rows(learned),
        "resampling": asdict(learned.resampling),
        "conditions": asdict(learned.conditions),
        "notes": notes_of(learning_tables(learned)),
    }
    return to_json(content, indent=1) + "\n"


def learning_latex(learned: Learned) -> str:
    """The curves of the main score as a pgfplots `figure`, and a `table` for each table."""
    head = (
        "% made by heed compare; needs \\usepackage{booktabs} and \\usepackage{pgfplots}, "
        "with \\pgfplotsset{compat=1.12} or newer"
    )
    return "\n\n".join([head, _figure(learned), *map(in_latex, learning_tables(learned))]) + "\n"


def _figure(learned: Learned) -> str:
    measure = learned.measures[0]
    scale = 100 if measure.is_share else 1
    places = ",".join(str(size.examples) for size in learned.sizes)
    labels = ",".join("{" + latex_escaped(size.label) + "}" for size in learned.sizes)
    lines = [
        "\\begin{figure}",
        "\\centering",
        "\\begin{tikzpicture}",
        "\\begin{axis}[",
        f"  xmode=log, xtick={{{places}}}, xticklabels={{{labels}}}, minor xtick={{}},",
        f"  xlabel={{{latex_escaped(learned.unit)}}}, ylabel={{{latex_escaped(head_of(measure))}}},",
        "  legend pos=south east, legend cell align=left]",
    ]
    for model, label in enumerate(learned.models):
        points = [
            (point, score)
            for point in learned.of_model(model)
            if not math.isnan((score := point.scores[measure.name]).value)
        ]
        mark = _MARKS[model % len(_MARKS)]
        lines.append(f"\\addplot+[mark={mark}, error bars/.cd, y dir=both, y explicit] coordinates {{")
        for point, score in points:
            value, above, below = (
                f"{scale * n:.{measure.digits + 1}f}"
                for n in (score.value, score.high - score.value, score.value - score.low)
            )
            lines.append(f"  ({learned.sizes[point.size].examples}, {value}) += (0, {above}) -= (0, {below})")
        lines += ["};", f"\\addlegendentry{{{latex_escaped(label)}}}"]
    caption = (
        f"{head_of(measure)} by {learned.unit} ({learned.data}); bars are 95 % intervals over {learned.tested:,} "
        f"{set_name(learned.split)} examples."
    )
    lines += ["\\end{axis}", "\\end{tikzpicture}", f"\\caption{{{latex_escaped(caption)}}}", "\\end{figure}"]
    return "\n".join(lines)


def learning_html(learned: Learned) -> str:
    """One self-contained page: the curves of the main score, the tables, and the curves of the other scores."""
    curves = as_curves(learned)
    others = replace(curves, panels=curves.panels[1:])
    parts = [
        f'<header><h1 dir="auto">{escape(clean(curves.title))}</h1></header><main>',
        f'<figure class="chart">{learning_svg(learned)}</figure>',
        in_html(learning_tables(learned)),
        "<section><h2>Other scores</h2>" + panels_to_html(others, named=False) + "</section>" if others.panels else "",
        "</main>",
    ]
    css = files("heed.comparison").joinpath("compare.css").read_text(encoding="utf-8")
    return page_to_html(curves.title, parts, css=f"\n{css}\n{page_style()}", kind="compare")
