"""Chart of the main score by source length: a line per entry, with intervals as whiskers."""

from __future__ import annotations

import math
from html import escape

from heed.comparison.compared import Compared
from heed.observe.labels import clean
from heed.observe.palette import LINES

_DASHES = ("none", "6 3", "2 3", "9 3 2 3")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 680, 260, 48, 46, 14


def chart(comparison: Compared) -> str:
    """An `<svg>` with its legend, or "" if all examples have the same length."""
    if len(comparison.buckets) < 2:
        return ""
    measure, side = comparison.measures[0], comparison.examiner.names[0]
    scale = 100 if measure.is_share else 1
    scores = [score for result in comparison.results for score in result.by_length if not math.isnan(score.value)]
    low, high, step = _axis(scale * min(score.low for score in scores), scale * max(score.high for score in scores))

    def across(bucket: int, entry: int) -> float:
        each = (_WIDTH - _LEFT - 16) / len(comparison.buckets)
        # Whiskers of different entries stand side by side.
        return _LEFT + each * (bucket + 0.5) + (entry - (len(comparison.entries) - 1) / 2) * 7

    def up(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    parts = []
    for tick in range(round((high - low) / step) + 1):
        value = low + tick * step
        y = up(value)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - 8}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{value:g}</text>')
    middle = (len(comparison.entries) - 1) / 2
    for place, bucket in enumerate(comparison.buckets):
        x = across(place, 0) + middle * 7
        parts.append(f'<text class="middle" x="{x:.1f}" y="{_HEIGHT - 26}">{bucket.label}</text>')
    parts.append(
        f'<text class="middle" x="{(_WIDTH + _LEFT) / 2:.1f}" y="{_HEIGHT - 6}">{side} {comparison.length_unit}</text>'
    )
    for number, (entry, result) in enumerate(zip(comparison.entries, comparison.results, strict=True)):
        points = []
        for place, score in enumerate(result.by_length):
            if math.isnan(score.value):
                continue
            x, y = across(place, number), up(scale * score.value)
            points.append(f"{x:.1f} {y:.1f}")
            number_shown = f"{scale * score.value:.{measure.digits}f}"
            said = f"{clean(entry.label)}, {comparison.buckets[place].label}: {number_shown}"
            parts.append(
                f'<path {_ink(number)} d="M{x:.1f} {up(scale * score.low):.1f}V{up(scale * score.high):.1f}"/>'
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{_color(number)}">'
                f"<title>{escape(said)}</title></circle>"
            )
        line = f'stroke-dasharray="{_DASHES[number // len(LINES) % len(_DASHES)]}"'
        parts.append(f'<polyline {_ink(number)} {line} points="{" ".join(points)}"/>' if points else "")
    title = escape(f"{measure.label}{' %' if measure.is_share else ''} by {side} {comparison.length_unit}")
    return (
        f'<figure class="chart"><figcaption>{title}; whiskers are 95 % intervals</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
        f"{legend(comparison)}</figure>"
    )


def legend(comparison: Compared) -> str:
    """The entries with their colours, as a list."""
    items = "".join(
        f'<li><svg viewBox="0 0 28 10" aria-hidden="true"><path {_ink(i)} '
        f'stroke-dasharray="{_DASHES[i // len(LINES) % len(_DASHES)]}" d="M0 5H28"/>'
        f'<circle cx="14" cy="5" r="3.5" fill="{_color(i)}"/></svg><bdi>{escape(clean(entry.label))}</bdi></li>'
        for i, entry in enumerate(comparison.entries)
    )
    return f'<ul class="legend">{items}</ul>'


def _color(number: int) -> str:
    return LINES[number % len(LINES)]


def _ink(number: int) -> str:
    return f'class="line" stroke="{_color(number)}"'


def _axis(low: float, high: float) -> tuple[float, float, float]:
    """Ends and step of an axis of four to ten round ticks that includes both numbers."""
    step = next(s for s in _steps() if max(high - low, 1.0) / s <= 6)
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    return bottom, max(top, bottom + step), step


def _steps() -> list[float]:
    return [base * 10.0**power for power in range(-1, 12) for base in (1, 2, 5)]
