"""A look at a picture as one page: maps, an interactive viewer of patches, heads, distances, steps."""

from __future__ import annotations

import base64
from functools import cache
from html import escape
from importlib.resources import files

import numpy as np
import torch

from heed.observe.draw_html import page_to_html
from heed.observe.labels import clean
from heed.observe.pictures.frames import Attentions, Figure, PictureLook, Step, Table
from heed.observe.pictures.layout import (
    DISTANCE_CAPTION,
    distance_words,
    distances_scene,
    gallery_scene,
    maps_scene,
)
from heed.observe.pictures.raster import data_uri, ramp, shape_within, with_seen
from heed.observe.pictures.scene import Scene, to_svg
from heed.visible import to_json

_VIEWER = 480


def look_to_html(look: PictureLook, *, steps: bool = False) -> str:
    """Draw a look as a self-contained page; equal looks give equal bytes."""
    notes = "".join(f'<li dir="auto">{escape(clean(note))}</li>' for note in look.notes)
    texts = {"picture": f"{look.source} ({look.picture.shape[1]} x {look.picture.shape[0]} pixels)", "label": look.said}
    rows = "".join(f'<div><dt>{n}</dt><dd dir="auto">{escape(clean(t))}</dd></div>' for n, t in texts.items() if t)
    parts = [
        f'<header><h1>{escape(clean(look.title))}</h1><dl class="texts">{rows}</dl>',
        f'<ul class="notes">{notes}</ul>' if notes else "",
        "</header><main>",
        _section("maps", "", "", maps_scene(look, head=False)),
        _viewer(look),
    ]
    if look.gallery is not None:
        parts.append(
            _section("heads", look.gallery.title, look.gallery.caption, gallery_scene(look.gallery, look, head=False))
        )
    if look.distances is not None:
        caption = DISTANCE_CAPTION.format(**distance_words(look.distances))
        title = "Mean attention distance by layer"
        parts.append(_section("distances", title, caption, distances_scene(look.distances, head=False)))
    if steps and look.steps:
        shown = "".join(_step(step, i, len(look.steps)) for i, step in enumerate(look.steps, start=1))
        parts.append(f'<section id="steps"><h2>Step by step</h2>{shown}</section>')
    script = f"<script>\n{_resource('viewer.js')}</script>" if look.every is not None else ""
    return page_to_html(look.title, [*parts, "</main>", script], css=f"\n{_resource('pictures.css')}", kind="pictures")


def distances_to_html(look_title: str, scene: Scene, caption: str) -> str:
    """A page with only the plot of distances."""
    section = _section("distances", "", caption, scene)
    head = f"<header><h1>{escape(clean(look_title))}</h1></header><main>"
    return page_to_html(look_title, [head, section, "</main>"], css=f"\n{_resource('pictures.css')}", kind="pictures")


@cache
def _resource(name: str) -> str:
    return files("heed.observe.pictures").joinpath(name).read_text(encoding="utf-8")


def _section(name: str, title: str, caption: str, scene: Scene) -> str:
    head = f"<h2>{escape(clean(title))}</h2>" if title else ""
    said = f'<p class="caption">{escape(clean(caption))}</p>' if caption else ""
    return f'<section id="{name}">{head}{said}<div class="scroll">{_inline(scene, name)}</div></section>'


def _inline(scene: Scene, name: str) -> str:
    """A drawing inside a page, with its style limited to the section `name`."""
    svg = to_svg(scene)
    start, end = svg.index("<style>"), svg.index("</style>")
    rules = svg[start + len("<style>") : end]
    scoped = "".join(f"#{name} {rule}}}" for rule in rules.split("}") if rule)
    return svg[: start + len("<style>")] + scoped + svg[end:]


# The viewer ---------------------------------------------------------------------------------------------------


def _viewer(look: PictureLook) -> str:
    """A canvas with the picture; the page's script draws the attention of the patch under the pointer."""
    if look.every is None:
        return ""
    shape = shape_within((look.picture.shape[0], look.picture.shape[1]), _VIEWER)
    drawn = with_seen(look.picture, look.seen, shape)
    options = "".join(f"<option>{escape(name)}</option>" for name in look.every.weights)
    return "\n".join(
        [
            '<section id="viewer" class="live"><h2>Choose a patch</h2>',
            '<p class="hint">Point at a patch to see where it looked; click to pin it, Esc to unpin it. The arrow keys '
            "move from patch to patch.</p>",
            f'<div class="tools"><label>attention <select>{options}</select></label>'
            '<button type="button" class="class-token" hidden>class token</button></div>',
            f'<canvas tabindex="0" role="img" width="{shape[1]}" height="{shape[0]}" '
            f'aria-label="the picture and where the chosen patch looked"></canvas>',
            '<p class="status" role="status" aria-live="polite"></p>',
            f'<img hidden alt="" src="{data_uri(drawn)}">',
            f'<script type="application/json" class="data">{_data(look.every, look, shape)}</script></section>',
        ]
    )


def _data(every: Attentions, look: PictureLook, shape: tuple[int, int]) -> str:
    """Grid, its place on the drawing, colours, and the rows of all attention in 255ths of their largest weights."""
    area, (rows, columns) = every.area, every.grid
    first = next(iter(every.weights.values()))
    down, across = shape[0] / look.picture.shape[0], shape[1] / look.picture.shape[1]
    content = {
        "grid": [rows, columns],
        "classToken": first.shape[0] - rows * columns,
        "area": [round(v, 3) for v in (area.top * down, area.left * across, area.bottom * down, area.right * across)],
        "ramp": ["#" + bytes(color).hex() for color in ramp(64)[0]],
        "weights": {name: _packed(weights) for name, weights in every.weights.items()},
    }
    return to_json(content, separators=(",", ":")).replace("<", "\\u003c")


def _packed(weights: torch.Tensor) -> list[object]:
    """The largest weight of each row, and all weights as 255ths of it in base 64."""
    values = weights.detach().cpu().double()
    largest = values.amax(1)
    shares = torch.where(largest[:, None] > 0, values / largest[:, None].clamp_min(1e-30), torch.zeros(()).double())
    levels = np.round(shares.numpy() * 255).astype(np.uint8)
    return [[round(float(v), 5) for v in largest], base64.b64encode(levels.tobytes()).decode()]


# Steps --------------------------------------------------------------------------------------------------------


def _step(step: Step, number: int, count: int) -> str:
    prose = "".join(f"<p>{escape(clean(line))}</p>" for line in step.prose)
    figures = "".join(_figure(one) for one in step.figures)
    table = "" if step.table is None else _table(step.table)
    return (
        f'<article class="step"><h3>{number} of {count}: {escape(clean(step.title))}</h3>{prose}'
        f'<div class="figures">{figures}</div>{table}</article>'
    )


def _figure(figure: Figure) -> str:
    height, width = (side * figure.enlarged for side in figure.picture.shape[:2])
    image = f'<img src="{data_uri(figure.picture)}" width="{width}" height="{height}" alt="{escape(figure.caption)}">'
    return f"<figure>{image}<figcaption>{escape(clean(figure.caption))}</figcaption></figure>"


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
    rows = "".join("<tr>" + "".join(f"<td>{escape(clean(c))}</td>" for c in row) + "</tr>" for row in table.rows)
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )
