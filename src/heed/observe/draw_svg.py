"""A map, or a fixed vector, as one SVG image, written directly: no plotting library, any browser or paper."""

from __future__ import annotations

from html import escape

from torch import Tensor

from heed.observe import palette
from heed.observe.labels import axes_line, axis_name, clean, visible
from heed.observe.maps import Axis, Map

_FONT = 12
_ADVANCE = 7.3  # a generous mean width of a 12 px character, as no font can be measured here
_LONGEST = 24
_NUMBER_FROM = 28
_MARGIN = 16
_BAR = 160
_UNITS = 64  # of a vector, in one line
_UNIT_WIDTH, _UNIT_HEIGHT = 10, 60
_QUIET = "#4a525c"  # numbers near zero, so that the others stand out
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
    """Draw a map as a self-contained SVG.

    The scale is fixed from 0 to 1, so that two figures can be compared. Cells of 28 px and more hold their number;
    every cell says query, key and weight when pointed at. Masked cells are hatched.

    Args:
        map: What to draw.
        cell: Side of a cell in pixels.

    Returns:
        The text of the file, with a final newline.
    """
    left = _MARGIN + _extent(map.query) + 8 + _FONT + 8  # labels, and the name of the axis beside them
    header = [clean(map.title), axes_line(map), *_wrapped(map.caption, 90)]
    upright = all(len(_label(label)) * _ADVANCE <= cell for label in map.key.labels)
    top = _MARGIN + 18 * len(header) + 24 + (_FONT if upright else int(_extent(map.key) * 0.87) + 6)
    width = max(left + cell * len(map.key) + _MARGIN + (0 if upright else int(_extent(map.key) / 2)), 420)
    widest = max(len(line) for line in header)
    width = max(width, int(widest * 6.6) + 2 * _MARGIN)
    bottom = top + cell * len(map.query)
    height = bottom + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(header[0] + "; " + header[1])}">',
        f"<style>{_STYLE}</style>",
        _HATCH.format(stops=_stops()),
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_header(header),
        *_axis_names(map, left, top, cell, upright),
        *_row_labels(map.query, left, top, cell),
        *_column_labels(map.key, left, top, cell, upright),
        *_cells(map, left, top, cell),
        *_color_bar(map, left, bottom + 24),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def vector_to_svg(vector: Tensor, title: str, caption: str) -> str:
    """Draw a vector as bars, one a unit, in lines of 64; every bar says its unit and value when pointed at.

    Args:
        vector: `(d,)`.
        title: First line.
        caption: What the vector is.

    Returns:
        The text of the file, with a final newline.
    """
    values = vector.detach().double().tolist()
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    header = [clean(title), f"{len(values)} units, bars from -{largest:.2f} to {largest:.2f}", *_wrapped(caption, 90)]
    top = _MARGIN + 18 * len(header) + 12
    lines = -(-len(values) // _UNITS)
    width = 2 * _MARGIN + _UNITS * _UNIT_WIDTH
    height = top + lines * (_UNIT_HEIGHT + 8) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(header[0] + "; " + header[1])}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_header(header),
    ]
    for i, value in enumerate(values):
        middle = top + i // _UNITS * (_UNIT_HEIGHT + 8) + _UNIT_HEIGHT / 2
        length = abs(value) / largest * _UNIT_HEIGHT / 2
        x, y = _MARGIN + i % _UNITS * _UNIT_WIDTH, middle - length if value > 0 else middle
        color = palette.shade(0.7 if value > 0 else 0.4)
        parts.append(
            f'<rect x="{x}" y="{y:.2f}" width="{_UNIT_WIDTH - 2}" height="{length:.2f}" fill="{color}">'
            f"<title>unit {i + 1}: {value:.3f}</title></rect>"
        )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _label(label: str) -> str:
    text = visible(label)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _extent(axis: Axis) -> int:
    return int(max((len(_label(label)) for label in axis.labels), default=0) * _ADVANCE)


def _text(x: float, y: float, content: str, classes: str = "", more: str = "") -> str:
    # Each text element is a bidirectional paragraph of its own; `plaintext` takes the direction from its content.
    attributes = (f' class="{classes}"' if classes else "") + more
    return f'<text x="{x:g}" y="{y:g}"{attributes} style="unicode-bidi:plaintext">{escape(content)}</text>'


def _wrapped(text: str, length: int) -> list[str]:
    lines: list[str] = []
    for word in clean(text).split():
        if lines and len(lines[-1]) + 1 + len(word) <= length:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def _header(lines: list[str]) -> list[str]:
    styles = ["title", "small"] + [""] * len(lines)
    return [_text(_MARGIN, _MARGIN + 12 + 18 * i, line, styles[i]) for i, line in enumerate(lines)]


def _axis_names(map: Map, left: int, top: int, cell: int, upright: bool) -> list[str]:
    above = top - (_FONT + 12 if upright else int(_extent(map.key) * 0.87) + 16)
    middle = top + cell * len(map.query) / 2
    turn = f' transform="rotate(-90 {_MARGIN + 4} {middle:g})"'
    return [
        _text(left, above, f"{axis_name(map.key)} \u2192", "small"),
        _text(_MARGIN + 4, middle, f"\u2190 {axis_name(map.query)}", "small middle", turn),
    ]


def _row_labels(axis: Axis, left: int, top: int, cell: int) -> list[str]:
    middles = (top + cell * (i + 0.5) for i in range(len(axis)))
    return [_text(left - 6, y, _label(label), "row") for y, label in zip(middles, axis.labels, strict=True)]


def _column_labels(axis: Axis, left: int, top: int, cell: int, upright: bool) -> list[str]:
    lines = []
    for i, label in enumerate(axis.labels):
        x, y = left + cell * (i + 0.5), top - 6
        if upright:
            lines.append(_text(x, y, _label(label), "middle"))
        else:
            lines.append(_text(x + 4, y, _label(label), "", f' transform="rotate(-60 {x + 4:g} {y:g})"'))
    return lines


def _cells(map: Map, left: int, top: int, cell: int) -> list[str]:
    weights = map.weights.detach().double().tolist()
    mask = None if map.mask is None else map.mask.tolist()
    lines = []
    for i, query in enumerate(map.query.labels):
        for j, key in enumerate(map.key.labels):
            masked = mask is not None and not mask[i][j]
            x, y, weight = left + cell * j, top + cell * i, weights[i][j]
            said = "masked" if masked else f"{weight:.3f}"
            title = escape(f"query '{visible(query)}' -> key '{visible(key)}' {said}", quote=False)
            color = "url(#masked)" if masked else palette.shade(weight)
            lines.append(
                f'<rect class="cell" x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{color}">'
                f"<title>{title}</title></rect>"
            )
            if cell >= _NUMBER_FROM and not masked:
                lines.append(
                    _number(x + cell / 2, y + cell / 2, weight, _QUIET if weight < 0.025 else palette.ink(color))
                )
    return lines


def _number(x: float, y: float, weight: float, color: str) -> str:
    # The number lies over its cell: it must let the pointer through to the cell's title.
    return f'<text class="number" x="{x:g}" y="{y:g}" style="fill:{color}" pointer-events="none">{weight:.2f}</text>'


def _stops() -> str:
    last = len(palette.LIGHT) - 1
    return "".join(f'<stop offset="{i / last:g}" stop-color="{color}"/>' for i, color in enumerate(palette.LIGHT))


def _color_bar(map: Map, left: int, top: int) -> list[str]:
    lines = [
        f'<rect x="{left}" y="{top}" width="{_BAR}" height="10" fill="url(#ramp)" stroke="#9aa3ad"/>',
        _text(left, top + 24, "0", "small"),
        _text(left + _BAR / 2, top + 24, map.unit, "small middle"),
        _text(left + _BAR, top + 24, "1", "small", ' text-anchor="end"'),
    ]
    if map.mask is not None and not bool(map.mask.all()):
        x = left + _BAR + 24
        lines.append(f'<rect x="{x}" y="{top}" width="10" height="10" fill="url(#masked)" stroke="#9aa3ad"/>')
        lines.append(_text(x + 16, top + 9, "masked", "small"))
    return lines
