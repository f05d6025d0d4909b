"""One map as HTML: the heat map as a table, the words that it shades, and the data of the page's script.

The table is a real one (it can be read aloud, copied to a spreadsheet and printed, and needs no script). Browsers are
slow with more than `CELLS_IN_A_TABLE` cells; then the script draws the same numbers on a canvas instead. It gets them
and the words in packed form (`packed.py`), so that the 12 heads of a layer over 512 tokens are below 5 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from heed.observe import palette
from heed.observe.labels import axes_line, axis_name, cell_name, clean, place_name, plural, visible
from heed.observe.maps import Axis, Map, Traces
from heed.observe.packed import packed
from heed.visible import to_json

CELLS_IN_A_TABLE = 64 * 64


def map_to_html(map: Map, number: int) -> str:
    """Draw one map as a `<section>` of a page; its ids contain `number`, its number on the page, from 0."""
    large = len(map.query) * len(map.key) > CELLS_IN_A_TABLE
    name = f"map-{number}"
    caption = f'<p class="caption" dir="auto">{escape(clean(map.caption))}</p>' if map.caption else ""
    picture = '<canvas tabindex="0" role="img"></canvas>' if large else _table(map, name)
    return "\n".join(
        [
            f'<section class="map" id="{name}">',
            f'<h2 id="{name}-title">{escape(clean(map.title))}</h2>',
            f'<p class="axes">{escape(axes_line(map))}</p>',
            caption,
            _tools(map),
            f'<div class="scroll">{picture}</div>',
            '<p class="status" role="status" aria-live="polite">Point at a cell, or press an arrow key in the map.</p>',
            _words(map, name, large),
            f'<script type="application/json" class="data">{_data(map, large)}</script>',
            "</section>",
        ]
    )


def shaded_words(axis: Axis, weights: Sequence[float | None] | None = None) -> str:
    """The text of an axis, each position in a span of the colour of its weight (None = masked).

    Characters have no space between them, so that Arabic letters keep joining. Without weights the page's script
    colours the spans. Each part of an axis is on a separate line that starts with its name.
    """
    between = "" if axis.kind == "character" else " "
    spans = _spans(axis, weights)
    if not axis.parts:
        return between.join(spans)
    return "\n".join(
        f"<b>{escape(visible(part.label))}</b> {between.join(spans[part.start : part.stop])}" for part in axis.parts
    )


def _spans(axis: Axis, weights: Sequence[float | None] | None) -> list[str]:
    """A coloured span for each position of an axis."""
    spans = []
    for i, label in enumerate(axis.labels):
        weight = None if weights is None else weights[i]
        if weights is None:
            level = ""
        elif weight is None:
            level = ' class="m" title="masked"'
        else:
            level = f' class="w{palette.level(weight)}" title="{weight:.3f}"'
        text = clean(label) if axis.kind == "character" else visible(label)
        inside = escape(text) if axis.kind == "character" else f"<bdi>{escape(text)}</bdi>"
        spans.append(f"<span{level}>{inside}</span>")
    return spans


def _tools(map: Map) -> str:
    swatches = "".join(f'<i class="w{i}"></i>' for i in range(palette.LEVELS + 1))
    return (
        '<div class="tools"><span class="bar"><span>0</span>'
        f'<span class="ramp" aria-hidden="true">{swatches}</span><span class="end">1</span></span>'
        + ('<span class="bar"><i class="m"></i> masked</span>' if map.has_masked else "")
        + '<label class="live"><input type="checkbox" class="per-row"> scale per row</label>'
        '<span class="scale">Colour: fixed scale from 0 to 1.</span></div>'
    )


def _table(map: Map, name: str) -> str:
    begins = {part.start for part in map.key.parts}
    mark = [" data-begins" if j in begins else "" for j in range(len(map.key))]
    labels = zip(map.key.labels, mark, strict=True)
    heads = "".join(f'<th scope="col"{begin}><bdi>{escape(visible(label))}</bdi></th>' for label, begin in labels)
    turned = "turned " if any(len(visible(label)) > 3 for label in map.key.labels) else ""
    dense = "dense" if len(map.key) > 9 else ""
    lines = [
        f'<table role="grid" class="{turned}{dense}" aria-labelledby="{name}-title">',
        f'<thead>{_part_heads(map.key)}<tr><th class="corner" aria-label="{escape(axes_line(map))}"></th>{heads}</tr>'
        "</thead>",
        "<tbody>",
    ]
    for i, (query, row) in enumerate(zip(map.query.labels, map.cells(), strict=True)):
        pairs = enumerate(zip(map.key.labels, row, strict=True))
        cells = "".join(_cell(map, query, key, weight, mark[j], first=i == j == 0) for j, (key, weight) in pairs)
        lines.append(f'<tr><th scope="row"><bdi>{escape(visible(query))}</bdi></th>{cells}</tr>')
    return "\n".join([*lines, "</tbody></table>"])


def _part_heads(axis: Axis) -> str:
    """A table row with the name of each part above its columns."""
    if not axis.parts:
        return ""
    heads = (
        f'<th scope="colgroup" colspan="{part.stop - part.start}" data-begins title="{escape(visible(part.label))}">'
        f"<bdi>{escape(visible(part.label))}</bdi></th>"
        for part in axis.parts
        if part.stop > part.start
    )
    return f'<tr class="parts"><th class="corner"></th>{"".join(heads)}</tr>'


def _cell(map: Map, query: str, key: str, weight: float | None, begin: str, *, first: bool) -> str:
    said = "masked" if weight is None else f"{weight:.3f}"
    label = escape(f"{cell_name(map, query, key)} {said}")
    # A roving tabindex: Tab reaches one cell, the arrow keys move between cells.
    tab = "0" if first else "-1"
    shown = "" if weight is None else f"{weight:.2f}"
    level = "m" if weight is None else f"w{palette.level(weight)}"
    return f'<td class="{level}"{begin} tabindex="{tab}" aria-label="{label}">{shown}</td>'


def _words(map: Map, name: str, large: bool) -> str:
    """Output tokens to choose from, and the source text that the choice shades; for large maps the script adds them."""
    buttons = (
        ""
        if large
        else "".join(
            f'<button type="button" aria-pressed="false"><bdi>{escape(visible(label))}</bdi></button>'
            for label in map.query.labels
        )
    )
    return (
        f'<div class="words live" role="group" aria-label="Words"><h3>Words</h3>'
        f'<p class="hint">{escape(_hint(map))}</p>'
        f'<p class="queries" dir="auto">{buttons}</p>'
        f'<p class="keys {map.key.kind if map.key.kind == "character" else "word"}" dir="auto" '
        f'id="{name}-keys">{"" if large else shaded_words(map.key)}</p></div>'
    )


def _hint(map: Map) -> str:
    if isinstance(map, Traces):
        shaded = f"{clean(map.key.name)} {'are' if map.key.name == plural(map.key.kind) else 'is'} shaded"
        return f"Choose a gate, or the state; the {shaded} by its values."
    return f"Choose from the {axis_name(map.query)}; the {axis_name(map.key)} attended to are shaded."


def _data(map: Map, large: bool) -> str:
    """Names and labels of the axes, and weights in thousandths, -1 for masked; packed for large maps."""
    content: dict[str, Any] = {
        "names": [place_name(map.query), place_name(map.key)],
        "query": [visible(label) for label in map.query.labels],
        "key": [visible(label) for label in map.key.labels],
    }
    if large:
        content["packed"] = packed(map)
        if content["key"] == content["query"]:
            content["key"] = None
        if map.key.parts:
            content["parts"] = [[visible(part.label), part.start] for part in map.key.parts]
        if map.key.kind == "character":
            content["text"] = [clean(label) for label in map.key.labels]
    else:
        content["weights"] = [[-1 if w is None else round(w * 1000) for w in row] for row in map.cells()]
    # Only "<" could end a script element.
    return to_json(content, separators=(",", ":")).replace("<", "\\u003c")
