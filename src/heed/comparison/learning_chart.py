"""Learning curves as drawings: one large image of the main score, panels for the others, characters for a terminal."""

from __future__ import annotations

import math
from html import escape

from heed.comparison.compared import set_name
from heed.comparison.learning import Learned, Point
from heed.comparison.tables import head_of
from heed.evaluation.measures import Measure
from heed.observe import palette
from heed.observe.curves import Curves, Line, Panel, number, scale_of
from heed.observe.labels import clean, cut

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 380, 56, 20, 44, 50
_ROW, _APART = 20, 9
_STYLE = (
    ".learning text{font:12px 'DejaVu Sans','Noto Sans',Arial,sans-serif;fill:#4a525c}"
    ".learning .title{font-size:14px;font-weight:bold;fill:#1b1f24}.learning .end{text-anchor:end}"
    ".learning .middle{text-anchor:middle}.learning .ground{fill:#fff}.learning .grid{stroke:#d5dae0;fill:none}"
    ".learning .line{stroke-width:1.8;fill:none;stroke-linejoin:round}.learning .seed{fill-opacity:.45}"
    "@media screen and (prefers-color-scheme:dark){.learning text{fill:#a6adb6}.learning .title{fill:#e6e8eb}"
    ".learning .ground{fill:#14161b}.learning .grid{stroke:#363c45}}"
)


def as_curves(learned: Learned) -> Curves:
    """A panel for each measure: mean over seeds with the interval, over the logarithm of the training examples."""
    ticks = tuple((math.log10(size.examples), size.label) for size in learned.sizes)
    panels = [Panel(head_of(measure), tuple(_lines(learned, measure))) for measure in learned.measures]
    title = f"{', '.join(learned.models)} on {learned.data}"
    return Curves(title, (), learned.unit, tuple(panel for panel in panels if panel.lines), ticks=ticks)


def _lines(learned: Learned, measure: Measure) -> list[Line]:
    lines = []
    for model, label in enumerate(learned.models):
        known = _known(learned, measure, model)
        scores = [point.scores[measure.name] for point in known]
        places = [math.log10(learned.sizes[point.size].examples) for point in known]
        scale = _scale(measure)
        points = tuple((x, scale * score.value) for x, score in zip(places, scores, strict=True))
        if points:
            spans = tuple((scale * score.low, scale * score.high) for score in scores)
            lines.append(Line(label, points, model, True, spans))
    return lines


def _known(learned: Learned, measure: Measure, model: int) -> list[Point]:
    return [point for point in learned.of_model(model) if not math.isnan(point.scores[measure.name].value)]


def _scale(measure: Measure) -> int:
    return 100 if measure.is_share else 1


def learning_svg(learned: Learned) -> str:
    """The curves of the main score as a self-contained image, with seeds as small dots and a legend below."""
    measure, shown = learned.measures[0], learned.models
    scale, right, bottom = _scale(measure), _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    known = [point for model in range(len(shown)) for point in _known(learned, measure, model)]
    found = [point.scores[measure.name] for point in known]
    axis = scale_of([scale * end for score in found for end in (score.low, score.high, *score.runs)], 6)
    logs = [math.log10(size.examples) for size in learned.sizes]
    margin = (logs[-1] - logs[0]) / 12 or 1.0

    def across(size: int, model: int) -> float:
        share = (logs[size] - logs[0] + margin) / (logs[-1] - logs[0] + 2 * margin)
        return _LEFT + (right - _LEFT) * share + (model - (len(shown) - 1) / 2) * _APART

    def down(value: float) -> float:
        return bottom - (bottom - _TOP) * axis.share(scale * value)

    title = f"{head_of(measure)} by {learned.unit}: {learned.data}"
    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(clean(cut(title, 80)))}</text>']
    for tick in axis.ticks:
        y = down(tick / scale)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{number(tick)}</text>')
    middle = (len(shown) - 1) / 2
    for place, size in enumerate(learned.sizes):
        x = across(place, 0) + middle * _APART
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(f'<text class="middle" x="{x:.1f}" y="{bottom + 18}">{escape(size.label)}</text>')
    name = f"{learned.unit} (logarithmic)"
    parts.append(f'<text class="middle" x="{(_LEFT + right) / 2:g}" y="{bottom + 38}">{escape(name)}</text>')
    for model, label in enumerate(shown):
        color, dash = _ink(model)
        places = []
        for point in _known(learned, measure, model):
            score, x = point.scores[measure.name], across(point.size, model)
            places.append(f"{x:.1f} {down(score.value):.1f}")
            value, low, high = (f"{scale * n:.{measure.digits}f}" for n in (score.value, score.low, score.high))
            said = f"{label}, {learned.sizes[point.size].label} {learned.unit}: {value} [{low}, {high}]"
            seeds = [] if len(score.runs) < 2 else score.runs
            parts += [
                f'<circle class="seed" cx="{x + 5:.1f}" cy="{down(one):.1f}" r="2" fill="{color}"/>' for one in seeds
            ]
            parts.append(
                f'<path class="line" stroke="{color}" d="M{x:.1f} {down(score.low):.1f}V{down(score.high):.1f}"/>'
                f'<circle cx="{x:.1f}" cy="{down(score.value):.1f}" r="3.6" fill="{color}">'
                f"<title>{escape(clean(said))}</title></circle>"
            )
        parts.append(f'<polyline class="line" stroke="{color}"{dash} points="{" ".join(places)}"/>')
    dots = "; small dots: the seeds" if learned.has_seeds else ""
    note = f"Whiskers: 95 % intervals over {learned.tested:,} {set_name(learned.split)} examples{dots}."
    rows = [_named(model, label, _HEIGHT + _ROW * model) for model, label in enumerate(shown)]
    height = _HEIGHT + _ROW * (len(rows) + 1)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="learning" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" role="img" aria-label="{escape(clean(title))}">',
            f"<style>{_STYLE}</style>",
            f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
            *parts,
            *rows,
            f'<text x="{_LEFT}" y="{height - _ROW + 10}">{note}</text>',
            "</svg>\n",
        ]
    )


def _named(model: int, label: str, y: int) -> str:
    """A model's line of the legend."""
    color, dash = _ink(model)
    return (
        f'<path class="line" stroke="{color}"{dash} d="M{_LEFT} {y}h28"/>'
        f'<circle cx="{_LEFT + 14}" cy="{y}" r="3.6" fill="{color}"/>'
        f'<text x="{_LEFT + 36}" y="{y + 4}">{escape(clean(cut(label, 90)))}</text>'
    )


def _ink(model: int) -> tuple[str, str]:
    """The colour and the dashes of a model's line."""
    return palette.LINES[model % len(palette.LINES)], palette.dashes(model)
