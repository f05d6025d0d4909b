"""A comparison as one page: tables, the score by length, and the same sentences for every model with their maps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import count
from typing import Any

import torch

from heed.comparison.chart import chart, legend
from heed.comparison.compared import Compared
from heed.comparison.tables import tables_html
from heed.observe.draw_curves import page_style, panels_to_html
from heed.observe.draw_html import page_to_html
from heed.observe.labels import clean
from heed.tasks.base.curves import compared
from heed.tasks.base.run import Run

_AT_RANDOM = 2 / 3
"""Share of the sentences drawn at random."""


def to_html(comparison: Compared, sentences: int = 15) -> str:
    """One self-contained page: the tables, the score by length, and the same sentences for every model with maps.

    Of the `sentences`, two thirds are drawn at random; the others are those on which the models differ most.
    """
    models = ", ".join(entry.label for entry in comparison.entries)
    title = f"{models} on {comparison.entries[0].runs[0].config.data.name}"
    random_ones, different = _chosen(comparison, sentences)
    kind = comparison.examiner.kind.capitalize()
    numbers = count()
    parts = [
        f'<header><h1 dir="auto">{escape(clean(title))}</h1></header><main>',
        tables_html(comparison),
        chart(comparison),
        _training(comparison),
        _sentences(comparison, f"{kind} drawn at random", "", random_ones, numbers),
        _sentences(
            comparison,
            f"{kind} on which the models differ most",
            "Chosen for the largest distance between the best and the worst output: these are not typical.",
            different,
            numbers,
        ),
        "</main>",
    ]
    css = files("heed.comparison").joinpath("compare.css").read_text(encoding="utf-8")
    return page_to_html(title, parts, css=f"\n{css}\n{page_style()}", kind="compare", script=True)


def _training(comparison: Compared) -> str:
    """The curves of every run, a colour for each entry; "" if no run has a log."""
    curves = compared(
        [
            (clean(entry.label), number, run.folder, run.config)
            for number, entry in enumerate(comparison.entries)
            for run in entry.runs
        ]
    )
    if curves is None:
        return ""
    several = any(len(entry.runs) > 1 for entry in comparison.entries)
    hints = [
        f"Horizontal axis: {curves.x}.",
        "Validation scores are those of greedy search." if comparison.examiner.has_beam else "",
        "Each seed has its own line." if several else "",
    ]
    said = " ".join(hint for hint in hints if hint)
    return (
        f'<section class="training"><h2>Training</h2><p class="hint">{said}</p>{legend(comparison)}'
        f"{panels_to_html(curves, named=False)}</section>"
    )


def _chosen(comparison: Compared, wanted: int) -> tuple[list[int], list[int]]:
    """Random examples, and of the others those with the largest spread of the main measure."""
    total = len(comparison.examples)
    wanted = min(wanted, total)
    drawn = random.Random(comparison.resampling.seed).sample(range(total), round(wanted * _AT_RANDOM))
    each = torch.tensor([runs[0].measures[0].each().tolist() for runs in comparison.outcomes])  # (entries, examples)
    each = each.nan_to_num(1.0)  # NaN: nothing to find and nothing found
    spread = (each.amax(0) - each.amin(0)).tolist()
    others = sorted(set(range(total)) - set(drawn), key=lambda i: (-spread[i], i))
    different = [i for i in others if spread[i] > 0][: wanted - len(drawn)]
    return sorted(drawn, key=lambda i: len(comparison.examiner.sources[i])), different


def _sentences(comparison: Compared, title: str, hint: str, chosen: Sequence[int], numbers: Iterator[int]) -> str:
    if not chosen:
        return ""
    several = any(len(entry.runs) > 1 for entry in comparison.entries)
    opened = "Click an output to show its model's attention: the last layer, the mean over its heads."
    hints = [hint, opened, "Outputs and maps are those of each model's first seed." if several else ""]
    said = " ".join(part for part in hints if part)
    return "\n".join(
        [
            f'<section class="sentences"><h2>{title}</h2>',
            f'<p class="hint">{said}</p>',
            *(_sentence(comparison, i, numbers) for i in chosen),
            "</section>",
        ]
    )


def _sentence(comparison: Compared, index: int, numbers: Iterator[int]) -> str:
    reference, names = comparison.references[index], comparison.examiner.names
    lines = [
        f'<article><dl class="texts"><div><dt>{names[0]}</dt>{comparison.examiner.source_html(index)}</div>',
        f"<div><dt>{names[1]}</dt>{_text(reference)}</div></dl>",
        '<ul class="outputs">',
    ]
    measure = comparison.measures[0]
    for entry, runs in zip(comparison.entries, comparison.outcomes, strict=True):
        output = runs[0].outputs[index]
        score = f"{float(runs[0].measures[0].each()[index]):.{measure.digits - 1}f}"
        said = "differs" if measure.is_share else f"{measure.label} {score}"
        if output == reference:
            said = f"same as the {names[1]}"
        shown = escape(clean(output)) or "(nothing)"
        lines.append(
            f'<li><details><summary><span class="name"><bdi>{escape(clean(entry.label))}</bdi></span>'
            f'<span class="output" dir="auto">{shown}</span><span class="said">{escape(said)}</span></summary>'
            f"{_maps(entry.runs[0], comparison, index, numbers)}</details></li>"
        )
    return "\n".join([*lines, "</ul></article>"])


def _text(text: str) -> str:
    return f'<dd dir="auto">{escape(clean(text))}</dd>'


def _maps(run: Run[Any, Any], comparison: Compared, index: int, numbers: Iterator[int]) -> str:
    if not comparison.examiner.sources[index].strip():
        return f'<p class="hint">The {comparison.examiner.names[0]} is blank.</p>'
    return comparison.examiner.drawing(run, index, comparison.conditions.beam_size, numbers)
