"""Shaded words in a terminal, on a page, as an image and as values."""

from __future__ import annotations

from html import escape
from typing import Any

from heed.observe import palette
from heed.observe.labels import clean, lines_up, visible
from heed.observe.shading import Shading

_SHADES = ((0.05, " "), (0.25, "░"), (0.5, "▒"), (0.75, "▓"), (float("inf"), "█"))
_ADVANCE = 8.0  # a generous mean width of a 13 px character, as no font can be measured here
_LINE, _TAGGED_LINE, _MARGIN, _GAP = 26, 42, 16, 4
_WIDTH = 760
_STYLE = (
    "text{font:13px 'DejaVu Sans','Noto Sans',Arial,sans-serif}"
    ".title{font-size:14px;font-weight:bold;fill:#1b1f24}.small{font-size:11px;fill:#4a525c}"
)


def shading_to_text(shading: Shading, width: int, color: bool) -> list[str]:
    """Lines for a terminal: running text, or one line a word where there are tags."""
    labels = [visible(label) for label in shading.axis.labels]
    lines = [clean(shading.title), ""]
    if shading.tags:
        width_of = [min(24, max(map(len, column))) for column in (labels, shading.tags)]
        for i, label in enumerate(labels):
            number = f"{shading.weights[i]:.3f}"
            shown = palette.paint(number, shading.level(i)) if color else number
            others = f"  {shading.others[i]}" if shading.others else ""
            word = f"{label:{width_of[0]}}" if lines_up(label) else label
            lines.append(f"{shown}  {shading.tags[i]:{width_of[1]}}  {word}{others}")
        return lines
    line, length = "", 0
    for i, label in enumerate(labels):
        word = palette.paint(label, shading.level(i)) if color else _mark(shading.level(i)) + label
        size = len(label) + (0 if color else 1)
        if length and length + 1 + size > width:
            lines.append(line)
            line, length = "", 0
        line, length = (f"{line} {word}", length + 1 + size) if length else (word, size)
    legend = "" if color else "  (░ under a quarter of that, ▒ half, ▓ three quarters, █ more)"
    return [*lines, line, "", shading.scale + legend]


def _mark(level: float) -> str:
    return next(sign for limit, sign in _SHADES if level < limit)


def shading_to_html(shading: Shading) -> str:
    """A section of a page."""
    spans = []
    for i, label in enumerate(shading.axis.labels):
        word = escape(visible(label))
        said = f"{shading.weights[i]:.3f}" + (f"; {shading.others[i]}" if shading.others else "")
        inside = f"<ruby>{word}<rt>{escape(clean(shading.tags[i]))}</rt></ruby>" if shading.tags else word
        level = palette.level(shading.level(i))
        spans.append(f'<span class="w{level}" title="{escape(clean(said))}"><bdi>{inside}</bdi></span>')
    return (
        f'<section class="shading"><h2>{escape(clean(shading.title))}</h2><p class="axes">{shading.scale}</p>'
        f'<p class="keys word" dir="auto">{" ".join(spans)}</p></section>'
    )


def shading_to_svg(shading: Shading) -> str:
    """A self-contained image: the text in lines of fixed width, each word on its ground."""
    parts: list[str] = []
    line = _TAGGED_LINE if shading.tags else _LINE
    x, y = float(_MARGIN), _MARGIN + 44.0
    for i, label in enumerate(shading.axis.labels):
        word, tag = visible(label), shading.tags[i] if shading.tags else ""
        width = max(len(word), len(tag)) * _ADVANCE + 6
        if x > _MARGIN and x + width > _WIDTH - _MARGIN:
            x, y = float(_MARGIN), y + line
        color = palette.shade(shading.level(i))
        title = escape(f"{word} {shading.weights[i]:.3f}", quote=False)
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="20" rx="3" fill="{color}">'
            f"<title>{title}</title></rect>"
            + _text(x + 3, y + 14.5, word, f' fill="{palette.ink(color)}" pointer-events="none"')
            + (_text(x + 3, y + 33, tag, ' class="small"') if tag else "")
        )
        x += width + _GAP
    height = int(y + line + _MARGIN)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" role="img" aria-label="{escape(clean(shading.title))}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
            _text(_MARGIN, _MARGIN + 12, clean(shading.title), ' class="title"'),
            _text(_MARGIN, _MARGIN + 30, shading.scale, ' class="small"'),
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, content: str, more: str) -> str:
    return f'<text x="{x:g}" y="{y:g}"{more} style="unicode-bidi:plaintext">{escape(content)}</text>'


def shading_values(shading: Shading) -> dict[str, Any]:
    """The shading as plain values, six decimals."""
    values: dict[str, Any] = {
        "title": shading.title,
        "axis": {"name": shading.axis.name, "kind": shading.axis.kind, "labels": list(shading.axis.labels)},
        "weights": [round(weight, 6) for weight in shading.weights],
    }
    if shading.tags:
        values |= {"tags": list(shading.tags), "others": list(shading.others)}
    return values
