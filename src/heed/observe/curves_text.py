"""Curves in a terminal, drawn with Braille characters (two by four dots each)."""

from __future__ import annotations

from itertools import pairwise

from heed.observe.curves import Curves, Line, Panel, Scale, heights, number, place, scale_of, shifts, x_ends
from heed.observe.labels import clean, cut

_ROWS = 8
_WIDEST = 76
_NARROWEST = 40
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille character, by row and column of its dots."""
_SIGNS = "o+x*#@"
"""Markers of the points of lines with `dots`, by index of colour."""
_COLORS = (34, 33, 32, 35, 31, 36)
"""Terminal colour codes, by index of colour."""


def curves_to_text(curves: Curves, *, width: int = 100, color: bool = False, rows: int = _ROWS) -> str:
    """Draw curves as text, two panels side by side where the width allows it, each `rows` lines high."""
    head = [clean(curves.title), *(clean(fact) for fact in curves.facts)]
    columns = 2 if width >= 2 * _NARROWEST + 3 and len(curves.panels) > 1 else 1
    each = min(_WIDEST, (width - 3 * (columns - 1)) // columns)
    drawn = [_panel(panel, curves, max(each, 24), color, rows) for panel in curves.panels]
    blocks = []
    for start in range(0, len(drawn), columns):
        row = drawn[start : start + columns]
        blocks.append("\n".join("   ".join(parts).rstrip() for parts in zip(*row, strict=True)))
    return "\n\n".join(["\n".join(head), *blocks])


def _panel(panel: Panel, curves: Curves, width: int, color: bool, rows: int) -> list[str]:
    """The lines of one panel, each `width` characters wide (without colour codes)."""
    scale = scale_of(heights(panel), 4, panel.whole)
    left = max(len(number(tick)) for tick in scale.ticks)
    columns = width - left - 2
    ends = x_ends(curves)
    cells = _cells(panel, curves, scale, columns, rows)
    named = {round((1 - scale.share(tick)) * (rows - 1)): number(tick) for tick in scale.ticks}
    lines = [_title(panel, width, color)]
    for row in range(rows):
        body = "".join(_paint(sign, by, color) for sign, by in cells[row])
        lines.append(f"{named.get(row, ''):>{left}} {'┤' if row in named else '│'}{body}")
    lines.append(f"{'':{left}} └{'─' * columns}")
    if curves.ticks:
        return [
            *lines,
            f"{'':{left}}  {_ticks(curves, ends, columns)}",
            f"{'':{left}}  {cut(curves.x, columns):^{columns}}",
        ]
    first, last = (place(x) for x in ends)
    middle = cut(curves.x, max(1, columns - len(first) - len(last) - 2))
    gap = columns - len(first) - len(last)
    lines.append(f"{'':{left}}  {first}{middle:^{gap}}{last}")
    return lines


def _ticks(curves: Curves, ends: tuple[float, float], columns: int) -> str:
    """The labels of the x axis, each under its tick; a label that would touch the previous one is left out."""
    line, end = " " * columns, -1
    for at, label in sorted(curves.ticks):
        middle = (at - ends[0]) / (ends[1] - ends[0]) * (columns - 1)
        start = max(0, min(round(middle - (len(label) - 1) / 2), columns - len(label)))
        if start > end and len(label) <= columns:
            line = line[:start] + label + line[start + len(label) :]
            end = start + len(label)
    return line


def _title(panel: Panel, width: int, color: bool) -> str:
    """Title and legend of a panel, as wide as the panel."""
    parts: list[tuple[str, int | None]] = [(clean(panel.title), None)]
    if len(panel.lines) > 1 or panel.lines[0].label:
        parts += [(f"{_sign(line)} {clean(line.label)}", line.color) for line in panel.lines]
    shown, room = [], width
    for i, (text, by) in enumerate(parts):
        text = cut(text, max(1, room - 2 * (i > 0)))
        if i and room < 6:
            break
        shown.append(_paint(text, by, color))
        room -= len(text) + 2 * (i > 0)
    return "  ".join(shown) + " " * room


def _sign(line: Line) -> str:
    return _SIGNS[line.color % len(_SIGNS)] if line.dots else "⠒"


def _cells(panel: Panel, curves: Curves, scale: Scale, columns: int, rows: int) -> list[list[tuple[str, int | None]]]:
    """Each character of a panel with its index of colour, None for a space."""
    first, last = x_ends(curves)
    span = (last - first) or 1.0
    bits = [[0] * columns for _ in range(rows)]
    owner: list[list[int | None]] = [[None] * columns for _ in range(rows)]
    signs: dict[tuple[int, int], str] = {}

    def height(y: float) -> int:
        return round((1 - scale.share(y)) * (4 * rows - 1))

    for line, shift in zip(panel.lines, shifts(curves, panel, 4), strict=True):
        places = [
            (min(max(round((x - first) / span * (2 * columns - 1) + shift), 0), 2 * columns - 1), height(y))
            for x, y in line.points
        ]
        whiskers = [
            [(across, height(low)), (across, height(high))]
            for (across, _), (low, high) in zip(places, line.spans, strict=bool(line.spans))
        ]
        for across, down in [*_joined(places), *(dot for whisker in whiskers for dot in _joined(whisker))]:
            bits[down // 4][across // 2] |= _DOTS[down % 4][across % 2]
            owner[down // 4][across // 2] = line.color
        if line.dots:
            for across, down in places:
                signs[down // 4, across // 2] = _sign(line)
                owner[down // 4][across // 2] = line.color
    return [
        [
            (signs.get((row, column)) or (chr(0x2800 + bits[row][column]) if bits[row][column] else " "), by)
            for column, by in enumerate(owner[row])
        ]
        for row in range(rows)
    ]


def _joined(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Dots from each place to the next."""
    dots = places[:1]
    for (x0, y0), (x1, y1) in pairwise(places):
        count = max(abs(x1 - x0), abs(y1 - y0))
        dots += [(round(x0 + (x1 - x0) * i / count), round(y0 + (y1 - y0) * i / count)) for i in range(1, count + 1)]
    return dots


def _paint(text: str, by: int | None, color: bool) -> str:
    return f"\x1b[{_COLORS[by % len(_COLORS)]}m{text}\x1b[0m" if color and by is not None and text.strip() else text
