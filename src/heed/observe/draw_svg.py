"""A map or a fixed vector as one SVG image, written without a plotting library."""

from __future__ import annotations

import textwrap
from html import escape

from torch import Tensor

from heed.observe import palette, pixels
from heed.observe.labels import axes_line, axis_name, cell_name, clean, cut, visible
from heed.observe.maps import Axis, Map

_FONT = 12
_ADVANCE = 7.3  # a generous mean width of a 12 px character, as no font can be measured here
_LONGEST = 24
_NUMBER_FROM = 28
_MARGIN = 16
_BAR = 160
_LARGEST = 1024  # pixels of a large map, on its longer side
_PIXELS = " One square for each cell; not all rows and columns are labelled. Numbers: see the HTML or JSON form."
_UNITS = 64  # of a vector, in one line
_UNIT_WIDTH, _UNIT_HEIGHT = 10, 60
_QUIET = "#4a525c"  # for numbers near zero, so that the others stand out
_STYLE = (
    "text{font:12px 'DejaVu Sans','Noto Sans',Arial,sans-serif;fill:#1b1f24}"
    ".title{font-size:14px;font-weight:bold}.small{font-size:11px;fill:#4a525c}"
    ".number{font-size:10px;text-anchor:middle;dominant-baseline:central}"
    ".row{text-anchor:end;dominant-baseline:central}.middle{text-anchor:middle}"
    ".cell{stroke:#d5dae0;stroke-width:.5}"
)
_HATCH = (
    '<defs><pattern id="masked" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" fill="#fff"/><path d="M-1 7 7 -1M-1 1 1 -1M5 7 7 5" stroke="#9aa3ad"/></pattern>'
    '<linearGradient id="ramp">{stops}</linearGradient></defs>'
)


def map_to_svg(map: Map, *, cell: int = 30) -> str:
    """Draw a map as a self-contained SVG with cells of `cell` pixels.

    The scale is fixed from 0 to 1, so that figures can be compared. Cells of at least 28 px show their number; every
    cell has a tooltip with its labels and weight. Masked cells are hatched. A map of more than `pixels.MOST_CELLS`
    cells is drawn as one embedded picture, with masked cells in grey and only some of the labels.
    """
    small = len(map.query) * len(map.key) <= pixels.MOST_CELLS
    if not small:
        cell = max(1, min(cell, _LARGEST // max(len(map.query), len(map.key))))
    step = 1 if cell >= _FONT else -(-_FONT * 5 // (4 * cell))  # between two labels
    left = _MARGIN + _extent(map.query) + 8 + _FONT + 8  # labels, and the name of the axis beside them
    header = [clean(map.title), axes_line(map), *_wrapped(map.caption + ("" if small else _PIXELS))]
    upright = all(len(_label(label)) * _ADVANCE <= cell for label in map.key.labels)
    top = _MARGIN + 18 * len(header) + 24 + (_FONT if upright else int(_extent(map.key) * 0.87) + 6)
    width = max(left + cell * len(map.key) + _MARGIN + (0 if upright else int(_extent(map.key) / 2)), 420)
    widest = max(len(line) for line in header)
    width = max(width, int(widest * 6.6) + 2 * _MARGIN)
    bottom = top + cell * len(map.query)
    parts = [
        *_header(header),
        *_axis_names(map, left, top, cell, upright),
        *_row_labels(map.query, left, top, cell, step),
        *_column_labels(map.key, left, top, cell, upright, step),
        *(_cells(map, left, top, cell) if small else [pixels.map_to_image(map, left, top, cell)]),
        *_part_lines(map, left, top, bottom, cell),
        *_color_bar(map, left, bottom + 24, "url(#masked)" if small else pixels.MASKED),
    ]
    label, defs = f"{header[0]}; {header[1]}", _HATCH.format(stops=_stops())
    return svg_image(width, bottom + 56, label, _STYLE, [defs], parts)


def vector_to_svg(vector: Tensor, title: str, caption: str) -> str:
    """Draw a vector `(d,)` as bars, one for each unit, in lines of 64; each bar has a tooltip with unit and value."""
    values = vector.detach().double().tolist()
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    header = [clean(title), f"{len(values)} units, bars from -{largest:.2f} to {largest:.2f}", *_wrapped(caption)]
    top = _MARGIN + 18 * len(header) + 12
    lines = -(-len(values) // _UNITS)
    width = 2 * _MARGIN + _UNITS * _UNIT_WIDTH
    height = top + lines * (_UNIT_HEIGHT + 8) + _MARGIN
    parts = _header(header)
    for i, value in enumerate(values):
        middle = top + i // _UNITS * (_UNIT_HEIGHT + 8) + _UNIT_HEIGHT / 2
        length = abs(value) / largest * _UNIT_HEIGHT / 2
        x, y = _MARGIN + i % _UNITS * _UNIT_WIDTH, middle - length if value > 0 else middle
        color = palette.shade(0.7 if value > 0 else 0.4)
        parts.append(
            f'<rect x="{x}" y="{y:.2f}" width="{_UNIT_WIDTH - 2}" height="{length:.2f}" fill="{color}">'
            f"<title>unit {i + 1}: {value:.3f}</title></rect>"
        )
    return svg_image(width, height, f"{header[0]}; {header[1]}", _STYLE, [], parts)


def svg_image(width: int, height: int, label: str, style: str, defs: list[str], parts: list[str]) -> str:
    """The text of an SVG file: a self-contained image on white, with a final newline."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(label)}">',
            f"<style>{style}</style>",
            *defs,
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def svg_text(x: float, y: float, content: str, classes: str = "", more: str = "") -> str:
    """A line of text."""
    # Each text element is a separate bidirectional paragraph; `plaintext` takes the direction from its content.
    attributes = (f' class="{classes}"' if classes else "") + more
    return f'<text x="{x:g}" y="{y:g}"{attributes} style="unicode-bidi:plaintext">{escape(content)}</text>'


def _label(label: str) -> str:
    return cut(visible(label), _LONGEST)


def _extent(axis: Axis) -> int:
    return int(max((len(_label(label)) for label in axis.labels), default=0) * _ADVANCE)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(clean(text), 90, break_long_words=False, break_on_hyphens=False)


def _header(lines: list[str]) -> list[str]:
    styles = ["title", "small"] + [""] * len(lines)
    return [svg_text(_MARGIN, _MARGIN + 12 + 18 * i, line, styles[i]) for i, line in enumerate(lines)]


def _axis_names(map: Map, left: int, top: int, cell: int, upright: bool) -> list[str]:
    above = top - (_FONT + 12 if upright else int(_extent(map.key) * 0.87) + 16)
    middle = top + cell * len(map.query) / 2
    turn = f' transform="rotate(-90 {_MARGIN + 4} {middle:g})"'
    return [
        svg_text(left, above, f"{axis_name(map.key)} \u2192", "small"),
        svg_text(_MARGIN + 4, middle, f"\u2190 {axis_name(map.query)}", "small middle", turn),
    ]


def _row_labels(axis: Axis, left: int, top: int, cell: int, step: int) -> list[str]:
    shown = range(0, len(axis), step)
    return [svg_text(left - 6, top + cell * (i + 0.5), _label(axis.labels[i]), "row") for i in shown]


def _column_labels(axis: Axis, left: int, top: int, cell: int, upright: bool, step: int) -> list[str]:
    lines = []
    for i in range(0, len(axis), step):
        label = axis.labels[i]
        x, y = left + cell * (i + 0.5), top - 6
        if upright:
            lines.append(svg_text(x, y, _label(label), "middle"))
        else:
            lines.append(svg_text(x + 4, y, _label(label), "", f' transform="rotate(-60 {x + 4:g} {y:g})"'))
    return lines


def _cells(map: Map, left: int, top: int, cell: int) -> list[str]:
    lines = []
    for i, (query, row) in enumerate(zip(map.query.labels, map.cells(), strict=True)):
        for j, (key, weight) in enumerate(zip(map.key.labels, row, strict=True)):
            x, y = left + cell * j, top + cell * i
            said = "masked" if weight is None else f"{weight:.3f}"
            title = escape(f"{cell_name(map, query, key)} {said}", quote=False)
            color = "url(#masked)" if weight is None else palette.shade(weight)
            lines.append(
                f'<rect class="cell" x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{color}">'
                f"<title>{title}</title></rect>"
            )
            if cell >= _NUMBER_FROM and weight is not None:
                ink = _QUIET if weight < 0.025 else palette.ink(color)
                lines.append(_number(x + cell / 2, y + cell / 2, weight, ink))
    return lines


def _part_lines(map: Map, left: int, top: int, bottom: int, cell: int) -> list[str]:
    """A line before the columns of each part, and its name below them."""
    lines = []
    for part in map.key.parts:
        x = left + cell * part.start
        name = cut(visible(part.label), max(1, int(cell * (part.stop - part.start) / _ADVANCE)))
        lines.append(f'<path d="M{x} {top - 4}V{bottom + 14}" stroke="#4a525c" stroke-width="1.5" fill="none"/>')
        lines.append(svg_text(x + 3, bottom + 13, name, "small"))
    return lines


def _number(x: float, y: float, weight: float, color: str) -> str:
    # The number is drawn over its cell: pointer events must reach the cell's tooltip.
    return f'<text class="number" x="{x:g}" y="{y:g}" style="fill:{color}" pointer-events="none">{weight:.2f}</text>'


def _stops() -> str:
    last = len(palette.LIGHT) - 1
    return "".join(f'<stop offset="{i / last:g}" stop-color="{color}"/>' for i, color in enumerate(palette.LIGHT))


def _color_bar(map: Map, left: int, top: int, masked: str) -> list[str]:
    lines = [
        f'<rect x="{left}" y="{top}" width="{_BAR}" height="10" fill="url(#ramp)" stroke="#9aa3ad"/>',
        svg_text(left, top + 24, "0", "small"),
        svg_text(left + _BAR / 2, top + 24, map.unit, "small middle"),
        svg_text(left + _BAR, top + 24, "1", "small", ' text-anchor="end"'),
    ]
    if map.has_masked:
        x = left + _BAR + 24
        lines.append(f'<rect x="{x}" y="{top}" width="10" height="10" fill="{masked}" stroke="#9aa3ad"/>')
        lines.append(svg_text(x + 16, top + 9, "masked", "small"))
    return lines
