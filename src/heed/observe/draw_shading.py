"""Shaded words in a terminal, on a page and as an image."""

from __future__ import annotations

from html import escape

from heed.observe import palette
from heed.observe.draw_svg import svg_image, svg_text
from heed.observe.labels import clean, lines_up, shaded, visible
from heed.observe.shading import Shading

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
        word = palette.paint(label, shading.level(i)) if color else shaded(shading.level(i), " ") + label
        size = len(label) + (0 if color else 1)
        if length and length + 1 + size > width:
            lines.append(line)
            line, length = "", 0
        line, length = (f"{line} {word}", length + 1 + size) if length else (word, size)
    legend = "" if color else "  (░ under a quarter of that, ▒ half, ▓ three quarters, █ more)"
    return [*lines, line, "", shading.scale + legend]


def shading_to_html(shading: Shading) -> str:
    """A section of a page."""
    spans = []
    for i, label in enumerate(shading.axis.labels):
        word = escape(visible(label))
        said = f"{shading.weights[i]:.3f}" + (f"; {shading.others[i]}" if shading.others else "")
        inside = f"<ruby>{word}<rt>{escape(clean(shading.tags[i]))}</rt></ruby>" if shading.tags else word
        level = palette.level(shading.level(i))
        spans.append(f'<span class="w{level}" title="{escape(clean(said))}"><bdi>{inside}</bdi></span>')
    between = "" if shading.axis.kind == "token" else " "  # tokens have their own blanks, which can be seen
    return (
        f'<section class="shading"><h2>{escape(clean(shading.title))}</h2><p class="axes">{shading.scale}</p>'
        f'<p class="keys word" dir="auto">{between.join(spans)}</p></section>'
    )


def shading_to_svg(shading: Shading) -> str:
    """A self-contained image: the text in lines of fixed width, each word on its ground."""
    title = clean(shading.title)
    parts = [
        svg_text(_MARGIN, _MARGIN + 12, title, "title"),
        svg_text(_MARGIN, _MARGIN + 30, shading.scale, "small"),
    ]
    line = _TAGGED_LINE if shading.tags else _LINE
    x, y = float(_MARGIN), _MARGIN + 44.0
    for i, label in enumerate(shading.axis.labels):
        word, tag = visible(label), shading.tags[i] if shading.tags else ""
        width = max(len(word), len(tag)) * _ADVANCE + 6
        if x > _MARGIN and x + width > _WIDTH - _MARGIN:
            x, y = float(_MARGIN), y + line
        color = palette.shade(shading.level(i))
        said = escape(f"{word} {shading.weights[i]:.3f}", quote=False)
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="20" rx="3" fill="{color}">'
            f"<title>{said}</title></rect>"
            + svg_text(x + 3, y + 14.5, word, more=f' fill="{palette.ink(color)}" pointer-events="none"')
            + (svg_text(x + 3, y + 33, tag, "small") if tag else "")
        )
        x += width + _GAP
    return svg_image(_WIDTH, int(y + line + _MARGIN), title, _STYLE, [], parts)
