"""Curves as SVG and as an HTML page, in the reader's colour scheme (light or dark); equal curves give equal bytes."""

from __future__ import annotations

from html import escape

from heed.observe import palette
from heed.observe.curves import Curves, Line, Panel, heights, number, place, scale_of, shifts, x_ends
from heed.observe.draw_html import page_to_html
from heed.observe.labels import clean, cut

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 216, 54, 12, 44, 36
_GAP, _MARGIN, _LINE = 12, 16, 18
_LEGEND = 40
"""Maximum number of characters of a panel's legend; a longer one is left to the legend of the page."""

STYLE = (
    ".curves text{font:11px 'DejaVu Sans','Noto Sans',Arial,sans-serif;fill:#4a525c}"
    ".curves .title{font-size:13px;font-weight:bold;fill:#1b1f24}.curves .end{text-anchor:end}"
    ".curves .middle{text-anchor:middle}.curves .ground{fill:#fff}.curves .grid{stroke:#d5dae0;fill:none}"
    ".curves .mark{stroke:#4a525c;stroke-dasharray:3 3;fill:none}.curves .line{stroke-width:1.6;fill:none;"
    "stroke-linejoin:round}"
    "@media screen and (prefers-color-scheme:dark){.curves text{fill:#a6adb6}.curves .title{fill:#e6e8eb}"
    ".curves .ground{fill:#14161b}.curves .grid{stroke:#363c45}.curves .mark{stroke:#a6adb6}}"
)
"""Style of all drawings of curves; numbers and grid follow the reader's scheme, line colours suit both."""


def curves_to_svg(curves: Curves) -> str:
    """Draw curves as one self-contained image, in two columns of panels."""
    head = [clean(curves.title), *(clean(fact) for fact in curves.facts)]
    columns = min(2, len(curves.panels)) or 1
    top = _MARGIN + _LINE * len(head) + 6
    rows = -(-len(curves.panels) // columns)
    width = 2 * _MARGIN + 2 * _WIDTH + _GAP
    height = top + rows * (_HEIGHT + _GAP) + _MARGIN - _GAP
    parts = [
        f'<text class="{"title" if i == 0 else ""}" x="{_MARGIN}" y="{_MARGIN + 12 + _LINE * i}">'
        f"{escape(cut(line, 120))}</text>"
        for i, line in enumerate(head)
    ]
    for i, panel in enumerate(curves.panels):
        x, y = _MARGIN + i % columns * (_WIDTH + _GAP), top + i // columns * (_HEIGHT + _GAP)
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel, curves)}</g>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="curves" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(head[0])}">',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{width}" height="{height}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def curves_to_html(curves: Curves) -> str:
    """Draw curves as a self-contained page, with a table of the validation scores."""
    facts = "".join(f'<li dir="auto">{escape(clean(fact))}</li>' for fact in curves.facts)
    parts = [
        f'<header><h1 dir="auto">{escape(clean(curves.title))}</h1>',
        f'<ul class="notes">{facts}</ul></header><main>' if facts else "</header><main>",
        panels_to_html(curves),
        _table(curves),
        "</main>",
    ]
    return page_to_html(f"{curves.title}: training", parts, css=f"\n{page_style()}")


def page_style() -> str:
    """Additional style of pages with curves."""
    return (
        f"{STYLE}.panels{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:.8rem}}"
        ".panels svg{display:block;width:100%}.validations td,.validations th{padding:.15rem .7rem;text-align:right;"
        "font-size:.875rem;border-bottom:1px solid var(--line)}.validations tr.kept{font-weight:bold}"
    )


def panels_to_html(curves: Curves, named: bool = True) -> str:
    """Only the panels, each an `<svg>` that scales with the page; `named` adds a legend to each."""
    drawn = "".join(
        f'<svg class="curves" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(clean(panel.title))}">'
        f"{_panel(panel, curves, named)}</svg>"
        for panel in curves.panels
    )
    return f'<div class="panels">{drawn}</div>'


def _panel(panel: Panel, curves: Curves, named: bool = True) -> str:
    scale, (first, last), x_name = scale_of(heights(panel), 5, panel.whole), x_ends(curves), curves.x
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def across(x: float) -> float:
        return _LEFT + (right - _LEFT) * ((x - first) / (last - first) if last > first else 0.5)

    def down(y: float) -> float:
        return bottom - (bottom - _TOP) * scale.share(y)

    parts = [f'<text class="title" x="{_LEFT}" y="14">{escape(clean(panel.title))}</text>']
    parts += [_legend(panel)] if named else []
    for tick in scale.ticks:
        y = down(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 5}" y="{y + 4:.1f}">{number(tick)}</text>')
    under = bottom + 14
    if curves.ticks:
        for at, label in curves.ticks:
            parts.append(f'<text class="middle" x="{across(at):.1f}" y="{under}">{escape(label)}</text>')
    else:
        parts.append(f'<text x="{_LEFT}" y="{under}">{place(first)}</text>')
        parts.append(f'<text class="end" x="{right}" y="{under}">{place(last)}</text>')
    parts.append(f'<text class="middle" x="{(_LEFT + right) / 2:g}" y="{under + 14}">{escape(x_name)}</text>')
    if panel.mark is not None and first <= panel.mark[0] <= last:
        x = across(panel.mark[0])
        said = f"{panel.mark[1]}: {x_name} {number(panel.mark[0])}"
        parts.append(f'<path class="mark" d="M{x:.1f} {_TOP}V{bottom}"><title>{escape(said)}</title></path>')
        ends, beside = (' class="end"', -4) if x > (_LEFT + right) / 2 else ("", 4)
        parts.append(f'<text{ends} x="{x + beside:.1f}" y="{bottom - 5}">{escape(panel.mark[1])}</text>')
    for line, shift in zip(panel.lines, shifts(curves, panel, 5), strict=True):
        places = [(across(x) + shift, down(y)) for x, y in line.points]
        for (x, _), (low, high) in zip(places, line.spans, strict=bool(line.spans)):
            color = palette.LINES[line.color % len(palette.LINES)]
            parts.append(f'<path class="line" stroke="{color}" d="M{x:.1f} {down(low):.1f}V{down(high):.1f}"/>')
        parts.append(_drawn(line, places, curves))
    return "".join(parts)


def _drawn(line: Line, places: list[tuple[float, float]], curves: Curves) -> str:
    color, dash = palette.LINES[line.color % len(palette.LINES)], palette.dashes(line.color)
    joined = " ".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts = [f'<polyline class="line" stroke="{color}"{dash} points="{joined}"/>'] if len(places) > 1 else []
    for (x, y), (at, value) in zip(places, line.points, strict=True):
        if line.dots or len(places) == 1:
            said = escape(clean(f"{line.label} {curves.x} {curves.place_of(at)}: {number(value)}".strip()))
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{color}"><title>{said}</title></circle>')
    return "".join(parts)


def _legend(panel: Panel) -> str:
    """Legend above a panel, if there is room."""
    labels = [clean(line.label) for line in panel.lines]
    if not any(labels) or sum(map(len, labels)) > _LEGEND or len(labels) > 3:
        return ""
    parts, x = [], float(_LEFT)
    for line, label in zip(panel.lines, labels, strict=True):
        color = palette.LINES[line.color % len(palette.LINES)]
        parts.append(f'<path class="line" stroke="{color}"{palette.dashes(line.color)} d="M{x:g} 28h16"/>')
        if line.dots:
            parts.append(f'<circle cx="{x + 8:g}" cy="28" r="2.6" fill="{color}"/>')
        parts.append(f'<text x="{x + 21:g}" y="32">{escape(label)}</text>')
        x += 36 + 6.8 * len(label)
    return "".join(parts)


def _table(curves: Curves) -> str:
    """Table of the lines with `dots`: a row for each x, a column for each line."""
    columns = [(panel, line) for panel in curves.panels for line in panel.lines if line.dots]
    if not columns:
        return ""
    values = [dict(line.points) for _, line in columns]
    places = sorted({x for column in values for x in column})
    marks = {panel.mark[0] for panel, _ in columns if panel.mark is not None}
    names = "".join(f'<th scope="col">{escape(clean(panel.title))}</th>' for panel, _ in columns)
    rows = "".join(
        f'<tr{" class=kept" if x in marks else ""}><th scope="row">{escape(curves.place_of(x))}</th>'
        + "".join(f"<td>{number(column[x]) if x in column else ''}</td>" for column in values)
        + "</tr>"
        for x in places
    )
    hint = '<p class="hint">Bold: the kept weights.</p>' if marks & set(places) else ""
    return (
        f'<section><h2>Validation scores</h2>{hint}<div class="scroll"><table class="validations"><thead><tr>'
        f'<th scope="col">{escape(curves.x)}</th>{names}</tr></thead><tbody>{rows}</tbody></table></div></section>'
    )
