"""Curves: panels of lines over updates, minutes or training examples, as data, text and drawings.

In a run of more than 200 updates, each point of training loss and speed is a mean over several updates; a line above
the curves says over how many.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from heed.show.document import as_html, as_scene, as_text
from heed.show.page import Row, draw
from heed.show.scene import GRID, QUIET, Dot, Item, Label, Path, Scene
from heed.visible import clean
from heed.watch import palette
from heed.watch.maps import cut

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 216, 54, 12, 44, 36
_GAP, _MARGIN, _LINE = 12, 16, 18
_LEGEND = 40
"""Maximum number of characters of a panel's legend; a longer one is left to the legend of the page."""
_BARS = "▁▂▃▄▅▆▇█"
_BARS_WIDTH = 48


@dataclass(frozen=True)
class Line:
    """One curve."""

    label: str  # name in the legend: "training", or the name of a run
    points: tuple[tuple[float, float], ...]  # `(x, y)`, x increasing
    color: int = 0  # index of its colour
    dots: bool = False  # True to draw a dot at each point, for separate measurements such as validations
    # interval `(low, high)` of each point, drawn as a whisker, or `()`; none by default
    spans: tuple[tuple[float, ...], ...] = ()
    # further values at each point, drawn as faint dots: the seeds of a mean, the heads of a layer
    others: tuple[tuple[float, ...], ...] = ()
    each: str = ""  # name of one of the others in tooltips ("head"); "" for no tooltips
    joined: bool = True  # False for places on the x axis that have no order


@dataclass(frozen=True)
class Panel:
    """One diagram."""

    title: str  # name of the y axis
    lines: tuple[Line, ...]  # the curves; none of them empty
    mark: tuple[float, str] | None = None  # x of the kept weights, with its label; None for no mark
    whole: bool = False  # True to start the y axis at 0, because ratios of values matter more than differences
    level: tuple[float, str] | None = None  # y of a dashed horizontal line, with its label; None for none


@dataclass(frozen=True)
class Curves:
    """The curves of one run, or of several."""

    title: str
    facts: tuple[str, ...]  # sentences to print above the panels
    x: str  # name of the x axis: "update" or "minutes of training"
    panels: tuple[Panel, ...]  # the diagrams
    from_zero: bool = False  # True to start the x axis at 0 instead of at the first point
    # `(x, label)` of the ticks of the x axis; its two ends by default. With given ticks, points of several lines at
    # the same x are drawn side by side.
    ticks: tuple[tuple[float, str], ...] = ()
    panel = "curves"

    def place_of(self, x: float) -> str:
        """Label of a place on the x axis, for tables and tooltips."""
        return next((label for at, label in self.ticks if at == x), number(x))


@dataclass(frozen=True)
class Scale:
    """An axis: its ends and the numbers on it."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Position of a value, from 0 (low) to 1 (high)."""
        return (value - self.low) / (self.high - self.low)


def scale_of(values: list[float], max_ticks: int = 5, whole: bool = False) -> Scale:
    """An axis that covers all finite values, with about `max_ticks` round ticks; `whole` starts it at 0."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    low = min(0.0, low) if whole else low
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        above = 0.0 if high in (1.0, 100.0) else abs(high) / 2 or 1.0  # shares and percentages end there
        low, high = low - abs(low) / 2, high + above
    step = _step((high - low) / max_ticks)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Scale(first * step, last * step, tuple(i * step for i in range(first, last + 1)))


def _step(minimum: float) -> float:
    """The smallest of 1, 2, 5 and 10 times a power of ten that is at least `minimum`."""
    power = 10.0 ** math.floor(math.log10(minimum))
    return next(base * power for base in (1, 2, 5, 10) if base * power >= minimum * (1 - 1e-9))


def _x_ends(curves: Curves) -> tuple[float, float]:
    """The first and the last x of all panels, which share their axis."""
    places = [x for panel in curves.panels for line in panel.lines for x, _ in line.points]
    if curves.ticks:
        first, last = (end(at for at, _ in curves.ticks) for end in (min, max))
        margin = (last - first) / 12 or 1.0
        return first - margin, last + margin
    return 0.0 if curves.from_zero else min(places, default=0.0), max(places, default=1.0)


def _shifts(curves: Curves, panel: Panel) -> list[float]:
    """Horizontal offset of each line of a panel, so that whiskers do not overlap."""
    middle = (len(panel.lines) - 1) / 2
    return [(number - middle) * 7 if curves.ticks else 0.0 for number in range(len(panel.lines))]


def _heights(panel: Panel) -> list[float]:
    """Every y of a panel, including the ends of intervals."""
    ends = [end for line in panel.lines for span in line.spans for end in span]
    others = [y for line in panel.lines for values in line.others for y in values]
    level = [] if panel.level is None else [panel.level[0]]
    return [*(y for line in panel.lines for _, y in line.points), *ends, *others, *level]


def number(value: float) -> str:
    """Format a number for axes and tables: four digits, thousands separated by commas."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return "0" if abs(value) < 1e-12 else f"{value:.4g}"


def _place(x: float) -> str:
    """Format a place on the x axis: updates as whole numbers, minutes with three digits."""
    return number(x) if x == int(x) else f"{x:.3g}"


# Text ---------------------------------------------------------------------------------------------------------


def curves_to_text(curves: Curves, width: int = 100) -> str:
    """One line for each curve: a bar for each part of the x axis, then its first and last values."""
    names = [clean(line.label) or clean(panel.title) for panel in curves.panels for line in panel.lines]
    column = min(24, max(map(len, names), default=0))
    first, last = _x_ends(curves)
    count = max(8, min(_BARS_WIDTH, width - column - 30))
    lines = [curves.title, *curves.facts]
    for panel in curves.panels:
        scale = scale_of(_heights(panel), whole=panel.whole)
        lines += ["", f"{panel.title}: {_BARS[0]} {number(scale.low)} to {_BARS[-1]} {number(scale.high)}"]
        for line in panel.lines:
            label = cut(clean(line.label) or clean(panel.title), column)
            ends = f"{number(line.points[0][1])} -> {number(line.points[-1][1])}"
            lines.append(f"  {label:{column}}  {_bars(line, scale, first, last, count)}  {ends}")
        if panel.mark is not None:
            lines.append(f"  {panel.mark[1]}: {curves.x} {number(panel.mark[0])}")
    across = ", ".join(label for _, label in curves.ticks) or f"{_place(first)} to {_place(last)}"
    return "\n".join(map(clean, [*lines, "", f"from left to right: {curves.x} {across}"]))


@as_text.register
def _(curves: Curves, width: int, color: bool) -> list[str]:
    facts = tuple(part for fact in curves.facts for part in textwrap.wrap(fact, width))
    return [curves_to_text(replace(curves, facts=facts), width)]


def _bars(line: Line, scale: Scale, first: float, last: float, count: int) -> str:
    """The curve at equal distances as bars; blank before its first point and after its last."""
    x, y = zip(*line.points, strict=True)
    width = (last - first) / count or 1.0
    places = first + (np.arange(count) + 0.5) * width
    heights = np.interp(places, x, y)
    inside = (places > x[0] - width) & (places < x[-1] + width)
    levels = [scale.share(value) * (len(_BARS) - 1) for value in heights.tolist()]
    bars = [_BARS[round(min(max(level, 0), len(_BARS) - 1))] for level in levels]
    return "".join(bar if shown else " " for bar, shown in zip(bars, inside, strict=True))


# Drawings -----------------------------------------------------------------------------------------------------


@as_scene.register(Curves)
def curves_scene(curves: Curves, wide: bool = False, headed: bool = True) -> Scene:
    """Draw curves as one image, in two columns of panels, or in one of `wide` panels."""
    head = [clean(curves.title), *(clean(fact) for fact in curves.facts)] if headed else []
    columns, width = (1, 2 * _WIDTH + _GAP) if wide else (min(2, len(curves.panels)) or 1, _WIDTH)
    top = _MARGIN + _LINE * len(head) + 6
    rows = -(-len(curves.panels) // columns)
    height = top + rows * (_HEIGHT + _GAP) + _MARGIN - _GAP
    scene = Scene(2 * _MARGIN + 2 * _WIDTH + _GAP, height, clean(curves.title), follows_scheme=True)
    scene.write(head[:1], _MARGIN, _MARGIN + 12, "title")
    scene.write((cut(line, 120) for line in head[1:]), _MARGIN, _MARGIN + 12 + _LINE, "small", _LINE)
    for i, panel in enumerate(curves.panels):
        x, y = _MARGIN + i % columns * (_WIDTH + _GAP), top + i // columns * (_HEIGHT + _GAP)
        scene.add(panel_scene(panel, curves, width=width).items, x, y)
    return scene


def panel_scene(
    panel: Panel, curves: Curves, named: bool = True, width: float = _WIDTH, height: float = _HEIGHT
) -> Scene:
    """Draw one panel; `named` adds a legend if there is room."""
    scale, (first, last) = scale_of(_heights(panel), whole=panel.whole), _x_ends(curves)
    right, bottom = width - _RIGHT, height - _BOTTOM
    middle, under = (_LEFT + right) / 2, bottom + 14

    def across(x: float) -> float:
        return round(_LEFT + (right - _LEFT) * ((x - first) / (last - first) if last > first else 0.5), 1)

    def down(y: float) -> float:
        return round(bottom - (bottom - _TOP) * scale.share(y), 1)

    scene = Scene(width, height, panel.title, follows_scheme=True)
    scene.add([*([Label(_LEFT, 14, panel.title, "title")] if panel.title else []), *(_legend(panel) if named else [])])
    for tick in scale.ticks:
        scene.add([Path(((_LEFT, down(tick)), (right, down(tick))), GRID)])
        scene.add([Label(_LEFT - 5, down(tick) + 4, number(tick), "end")])
    if curves.ticks:
        scene.add(Label(across(at), under, label, "middle") for at, label in curves.ticks)
    else:
        scene.add([Label(_LEFT, under, _place(first), "small"), Label(right, under, _place(last), "end")])
    scene.add([Label(middle, under + 14, curves.x, "middle")])
    if panel.mark is not None and first <= panel.mark[0] <= last:
        x, tooltip = across(panel.mark[0]), f"{panel.mark[1]}: {curves.x} {number(panel.mark[0])}"
        scene.add([Path(((x, _TOP), (x, bottom)), QUIET, dashes="3 3", tooltip=tooltip)])
        left = x > middle
        scene.add([Label(x - 4 if left else x + 4, bottom - 5, panel.mark[1], "end" if left else "small")])
    if panel.level is not None:
        y = down(panel.level[0])
        scene.add([Path(((_LEFT, y), (right, y)), QUIET, dashes="5 3")])
        scene.add([Label(right, y - 4, panel.level[1], "end")] if panel.level[1] else [])
    for line, shift in zip(panel.lines, _shifts(curves, panel), strict=True):
        color = palette.LINES[line.color % len(palette.LINES)]
        places = [(across(x) + shift, down(y)) for x, y in line.points]
        for (x, _), span in zip(places, line.spans, strict=bool(line.spans)):
            scene.add([Path(tuple((x, down(end)) for end in span), color, 1.6)] if span else [])
        for (x, _), (at, _), values in zip(places, line.points, line.others, strict=bool(line.others)):
            for i, value in enumerate(values):
                tooltip = f"{curves.x} {curves.place_of(at)}, {line.each} {i}: {number(value)}" if line.each else ""
                scene.add([Dot(x + (5 if line.spans else 0), down(value), 2.4, color, tooltip, 0.7)])
        if line.joined and len(places) > 1:
            scene.add([Path(tuple(places), color, 1.6, palette.dashes(line.color))])
        if line.dots or len(places) == 1:
            for (x, y), (at, value), span in zip(places, line.points, line.spans or [()] * len(places), strict=True):
                ends = f" [{', '.join(map(number, span))}]" if span else ""
                tooltip = f"{line.label} {curves.x} {curves.place_of(at)}: {number(value)}{ends}".strip()
                scene.add([Dot(x, y, 2.6, color, tooltip)])
    return scene


def legend(line: Line, x: float, y: float) -> list[Item]:
    """A sample of a line and its name; (x, y) is the start of the baseline."""
    color = palette.LINES[line.color % len(palette.LINES)]
    sample: list[Item] = [Path(((x, y - 4), (x + 16, y - 4)), color, 1.6, palette.dashes(line.color))] * line.joined
    dot: list[Item] = [Dot(x + 8, y - 4, 2.6, color)] if line.dots else []
    return [*sample, *dot, *([Label(x + 21, y, line.label, "small")] if line.label else [])]


def _legend(panel: Panel) -> list[Item]:
    """Legend above a panel, if there is room."""
    labels = [clean(line.label) for line in panel.lines]
    if not any(labels) or sum(map(len, labels)) > _LEGEND or len(labels) > 3:
        return []
    items, x = [], float(_LEFT)
    for line, label in zip(panel.lines, labels, strict=True):
        items += legend(line, x, 32)
        x += 36 + 6.8 * len(label)
    return items


# Pages --------------------------------------------------------------------------------------------------------


@as_html.register
def _(curves: Curves, numbers: Iterator[int]) -> Markup:
    """The panels, with a table of the validation scores."""
    columns = [(panel, line) for panel in curves.panels for line in panel.lines if line.dots]
    values = [dict(line.points) for _, line in columns]
    marks = {panel.mark[0] for panel, _ in columns if panel.mark is not None}
    rows = [
        Row(
            curves.place_of(x),
            [number(column[x]) if x in column else "" for column in values],
            "kept" if x in marks else "",
        )
        for x in sorted({x for column in values for x in column})
    ]
    heads = [curves.x, *(panel.title for panel, _ in columns)]
    parts = [draw("panels", [panel_scene(panel, curves) for panel in curves.panels])]
    parts += [draw("validations", heads, rows, any(row.kind for row in rows))] if rows else []
    return Markup().join(parts)
