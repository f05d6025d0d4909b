"""Shaded words as text, HTML and SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape

from heed.observe import palette
from heed.observe.draw_svg import svg_image, svg_text
from heed.observe.labels import clean, cut, lines_up, shaded, visible
from heed.observe.shading import Shading, TagSpan

_ADVANCE = 8.0  # a generous mean width of a 13 px character, as no font can be measured here
_LINE, _TAGGED_LINE, _MARGIN, _GAP = 26, 42, 16, 4
_WIDTH = 760
_STYLE = (
    "text{font:13px 'DejaVu Sans','Noto Sans',Arial,sans-serif}"
    ".title{font-size:14px;font-weight:bold;fill:#1b1f24}.small{font-size:11px;fill:#4a525c}"
)
_SMALL = 11 / 13  # of a small character, in width
_LONGEST_LABEL = 40
_TITLE = 80  # characters of a title in one line of an image


# Text ---------------------------------------------------------------------------------------------------------


def shading_to_text(shading: Shading, width: int, color: bool) -> list[str]:
    """Lines for a terminal: running text, or one line for each position if there are tags or a list is wanted."""
    lines = [clean(shading.title), ""]
    if shading.tags or shading.listed:
        return [*lines, *_listed(shading, color)]
    if shading.axis.parts:
        names = [f"{shading.part_sum(part):.3f}  {visible(part.label)}" for part in shading.axis.parts]
        indent = min(max(map(len, names)) + 2, max(width // 2, 0))
        for name, part in zip(names, shading.axis.parts, strict=True):
            first, *more = _running(shading, range(part.start, part.stop), width - indent, color) or [""]
            lines += [f"{cut(name, indent - 2):{indent}}{first}", *(" " * indent + line for line in more)]
    else:
        lines += _running(shading, range(len(shading.axis)), width, color) or [""]
    legend = "" if color else "  (░ under a quarter of that, ▒ half, ▓ three quarters, █ more)"
    scale = shading.scale + "; - below 0" * shading.signed if not color else _scale(shading)
    return [*lines, "", scale + legend]


def _running(shading: Shading, positions: range, width: int, color: bool) -> list[str]:
    """The given positions as lines of running text."""
    lines: list[str] = []
    length = 0
    for i in positions:
        label, level = visible(shading.axis.labels[i]), shading.level(i)
        mark = "" if color else "-" * (shading.signed and level <= -0.05) + shaded(abs(level), " ")
        word = palette.paint(label, level, shading.signed) if color else mark + label
        size = len(mark) + len(label)
        if lines and length + 1 + size <= width:
            lines[-1], length = f"{lines[-1]} {word}", length + 1 + size
        else:
            lines.append(word)
            length = size
    return lines


def _listed(shading: Shading, color: bool) -> Iterator[str]:
    labels = [visible(label) for label in shading.axis.labels]
    columns = (labels, shading.tags) if shading.tags else (labels,)
    width_of = [min(_LONGEST_LABEL, max(map(len, column), default=0)) for column in columns]
    grounds = {i: span.color for span in shading.spans for i in range(span.start, span.stop)}
    for i, label in enumerate(labels):
        number = f"{shading.weights[i]:+.3f}" if shading.signed else f"{shading.weights[i]:.3f}"
        shown = palette.paint(number, shading.level(i), shading.signed) if color else number
        parts = [shown]
        if shading.tags:
            tag = f"{shading.tags[i]:{width_of[1]}}"
            ground = palette.TAGS_DARK[grounds[i] % len(palette.TAGS_DARK)] if i in grounds else ""
            parts.append(palette.on_ground(tag, ground) if color and ground else tag)
        others = shading.others[i] if shading.others else ""
        parts.append(f"{label:{width_of[0]}}" if others and lines_up(label) else label)
        yield "  ".join([*parts, others] if others else parts)


# HTML ---------------------------------------------------------------------------------------------------------


def shading_to_html(shading: Shading, *, numbers: bool = True) -> str:
    """A section of a page; without `numbers`, tagged text has no table of numbers, only tooltips."""
    head = f'<section class="shading"><h2>{escape(clean(shading.title))}</h2>'
    if shading.tags:
        return f"{head}{_found(shading)}{_table(shading) if numbers else ''}</section>"
    head += f'<p class="axes">{_scale(shading)}</p>'
    if shading.listed:
        return f"{head}{_table(shading)}</section>"
    spans = []
    for i, label in enumerate(shading.axis.labels):
        said = f"{shading.weights[i]:.3f}" + (f"; {shading.others[i]}" if shading.others else "")
        word = escape(visible(label))
        spans.append(f'<span class="{_level(shading, i)}" title="{escape(clean(said))}"><bdi>{word}</bdi></span>')
    between = "" if shading.axis.kind == "token" else " "  # tokens include their spaces, drawn visibly
    text = between.join(spans)
    if shading.axis.parts:
        text = "\n".join(
            f"<b>{shading.part_sum(part):.3f} {escape(visible(part.label))}</b> "
            + between.join(spans[part.start : part.stop])
            for part in shading.axis.parts
        )
    return f'{head}<p class="keys word" dir="auto">{text}</p></section>'


def _scale(shading: Shading) -> str:
    return shading.scale + ("; orange below 0" if shading.signed else "")


def _level(shading: Shading, i: int) -> str:
    level = shading.level(i)
    return palette.signed_level(level) if shading.signed else f"w{palette.level(level)}"


def _runs(shading: Shading) -> Iterator[tuple[TagSpan | None, int, int]]:
    """The tagged spans and the text between them (None), in order."""
    at = 0
    for span in [*shading.spans, None]:
        start = len(shading.axis) if span is None else span.start
        if at < start:
            yield None, at, start
        if span is not None:
            yield span, span.start, span.stop
            at = span.stop


def _found(shading: Shading) -> str:
    """The text, each tagged span on the background colour of its type, followed by the name of the type."""
    parts = []
    for span, start, stop in _runs(shading):
        words = escape(" ".join(visible(label) for label in shading.axis.labels[start:stop]))
        if span is None:
            parts.append(f"<bdi>{words}</bdi>")
            continue
        color = f"c{span.color % len(palette.TAGS_LIGHT)}"
        label = f"<small>{escape(clean(span.label))}</small>"
        said = ", ".join(f"{weight:.3f}" for weight in shading.weights[start:stop])
        parts.append(f'<span class="found {color}" title="{said}"><bdi>{words}</bdi> {label}</span>')
    return f'<p class="tagged" dir="auto">{" ".join(parts)}</p>'


def _table(shading: Shading) -> str:
    """Table of all positions with their numbers."""
    tags, others = bool(shading.tags), bool(shading.others)
    heads = [shading.axis.kind, *(["tag", "probability"] if tags else ["number"]), *([""] if others else [])]
    rows = []
    for i, label in enumerate(shading.axis.labels):
        number = f"{shading.weights[i]:+.3f}" if shading.signed else f"{shading.weights[i]:.3f}"
        cells = [f'<th scope="row"><bdi>{escape(visible(label))}</bdi></th>']
        cells += [f"<td>{escape(clean(shading.tags[i]))}</td>"] if tags else []
        cells.append(_number(shading, i, number))
        cells += [f'<td class="others">{escape(clean(shading.others[i]))}</td>'] if others else []
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in heads)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="numbers"><table class="listed">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _number(shading: Shading, i: int, number: str) -> str:
    """The number on a background colour; for tags a bar instead, because there colours mean types."""
    if not shading.tags:
        return f'<td class="{_level(shading, i)} number">{number}</td>'
    width = min(1.0, max(0.0, shading.weights[i])) * 100
    return f'<td class="number">{number}<span class="meter"><i style="width:{width:.1f}%"></i></span></td>'


# SVG ----------------------------------------------------------------------------------------------------------


def shading_to_svg(shading: Shading) -> str:
    """A self-contained image: the text in lines of fixed width, each word on its background colour."""
    title = clean(shading.title)
    head = textwrap.wrap(title, _TITLE, break_on_hyphens=False) or [title]
    parts = [svg_text(_MARGIN, _MARGIN + 12 + 18 * n, line, "title") for n, line in enumerate(head)]
    top = float(_MARGIN + 26 + 18 * (len(head) - 1))
    scale = "under each word: its tag and the tag's probability" if shading.tags else _scale(shading)
    parts.append(svg_text(_MARGIN, top + 4, scale, "small"))
    grounds = {i: span.color for span in shading.spans for i in range(span.start, span.stop)}
    line = _TAGGED_LINE if shading.tags else _LINE
    left = float(_MARGIN)
    names = {part.start: f"{shading.part_sum(part):.3f}  {cut(visible(part.label), 24)}" for part in shading.axis.parts}
    indent = left + max((len(name) * _ADVANCE * _SMALL + _GAP for name in names.values()), default=0.0)
    x, y = indent, top + 18.0
    for i, label in enumerate(shading.axis.labels):
        word = cut(visible(label), 80)
        tag = f"{clean(shading.tags[i])} {shading.weights[i]:.2f}" if shading.tags else ""
        number = f"{shading.weights[i]:+.3f}" if shading.signed else f"{shading.weights[i]:.3f}"
        word = f"{number}  {word}" if shading.listed else word
        width = max(len(word), len(tag)) * _ADVANCE + 6
        begins = i in names and i > 0
        if begins or (x > indent and (shading.listed or x + width > _WIDTH - _MARGIN)):
            x, y = indent, y + line
        if i in names:
            parts.append(svg_text(left, y + 14.5, names[i], "small"))
        color = _ground(shading, i, grounds.get(i))
        said = escape(f"{visible(label)} {number}", quote=False)
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="20" rx="3" fill="{color}">'
            f"<title>{said}</title></rect>"
            + svg_text(x + 3, y + 14.5, word, more=f' fill="{palette.ink(color)}" pointer-events="none"')
            + (svg_text(x + 3, y + 33, tag, "small") if tag else "")
        )
        x += width + _GAP
    return svg_image(_WIDTH, int(y + line + _MARGIN), title, _STYLE, [], parts)


def _ground(shading: Shading, i: int, color: int | None) -> str:
    if shading.tags:
        return "#ffffff" if color is None else palette.TAGS_LIGHT[color % len(palette.TAGS_LIGHT)]
    level = shading.level(i)
    return palette.signed_shade(level) if shading.signed else palette.shade(level)
