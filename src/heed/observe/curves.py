"""Curves as plain data: panels of lines over updates, minutes or training examples, and the ticks of their axes.

In a run of more than 200 updates, each point of training loss and speed is a mean over several updates; a line above
the curves says over how many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        label: Name in the legend: "training", or the name of a run.
        points: `(x, y)`, x increasing.
        color: Index of its colour.
        dots: True to draw a dot at each point, for separate measurements such as validations.
        spans: Interval `(low, high)` of each point, drawn as a whisker; none by default.
    """

    label: str
    points: tuple[tuple[float, float], ...]
    color: int = 0
    dots: bool = False
    spans: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Panel:
    """One diagram.

    Attributes:
        title: Name of the y axis.
        lines: The curves; none of them empty.
        mark: x of the kept weights, with its label; None for no mark.
        whole: True to start the y axis at 0, because ratios of values matter more than differences.
    """

    title: str
    lines: tuple[Line, ...]
    mark: tuple[float, str] | None = None
    whole: bool = False


@dataclass(frozen=True)
class Curves:
    """The curves of one run, or of several.

    Attributes:
        title: Title.
        facts: Sentences to print above the panels.
        x: Name of the x axis: "update" or "minutes of training".
        panels: The diagrams.
        from_zero: True to start the x axis at 0 instead of at the first point.
        ticks: `(x, label)` of the ticks of the x axis; its two ends by default. With given ticks, points of several
            lines at the same x are drawn side by side.
    """

    title: str
    facts: tuple[str, ...]
    x: str
    panels: tuple[Panel, ...]
    from_zero: bool = False
    ticks: tuple[tuple[float, str], ...] = ()

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


def scale_of(values: list[float], most: int = 5, whole: bool = False) -> Scale:
    """An axis that covers all finite values, with about `most` round ticks at most; `whole` starts it at 0."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    low = min(0.0, low) if whole else low
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        above = 0.0 if high in (1.0, 100.0) else abs(high) / 2 or 1.0  # shares and percentages end there
        low, high = low - abs(low) / 2, high + above
    step = _step((high - low) / most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Scale(first * step, last * step, tuple(i * step for i in range(first, last + 1)))


def _step(least: float) -> float:
    """The smallest of 1, 2, 5 and 10 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(base * power for base in (1, 2, 5, 10) if base * power >= least * (1 - 1e-9))


def x_ends(curves: Curves) -> tuple[float, float]:
    """The first and the last x of all panels, which share their axis."""
    places = [x for panel in curves.panels for line in panel.lines for x, _ in line.points]
    if curves.ticks:
        first, last = (end(at for at, _ in curves.ticks) for end in (min, max))
        margin = (last - first) / 12 or 1.0
        return first - margin, last + margin
    return 0.0 if curves.from_zero else min(places, default=0.0), max(places, default=1.0)


def shifts(curves: Curves, panel: Panel, each: float) -> list[float]:
    """Horizontal offset of each line of a panel, so that whiskers do not overlap."""
    middle = (len(panel.lines) - 1) / 2
    return [(number - middle) * each if curves.ticks else 0.0 for number in range(len(panel.lines))]


def heights(panel: Panel) -> list[float]:
    """Every y of a panel's lines, including the ends of intervals."""
    ends = [end for line in panel.lines for span in line.spans for end in span]
    return [*(y for line in panel.lines for _, y in line.points), *ends]


def number(value: float) -> str:
    """Format a number for axes and tables: four digits, thousands separated by commas."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return "0" if abs(value) < 1e-12 else f"{value:.4g}"


def place(x: float) -> str:
    """Format a place on the x axis: updates as whole numbers, minutes with three digits."""
    return number(x) if x == int(x) else f"{x:.3g}"
