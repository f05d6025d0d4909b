"""A look as one HTML file: no network, no dependency; it opens from disk, in a notebook's frame, and on paper."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from heed.observe import palette
from heed.observe.draw_shading import shading_to_html
from heed.observe.frames import Look
from heed.observe.html_map import map_to_html
from heed.observe.html_steps import fixed_vector_to_html, steps_to_html
from heed.observe.labels import clean

# The page may run what is written in it and fetch nothing.
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def look_to_html(look: Look, *, steps: bool = False) -> str:
    """Draw a look as a self-contained page.

    Args:
        look: What to draw.
        steps: Whether to add every step of the encoder and the decoder.

    Returns:
        The text of the file; equal looks give equal bytes.
    """
    title = escape(clean(look.title))
    notes = "".join(f'<li dir="auto">{escape(clean(note))}</li>' for note in look.notes)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(CONTENT_POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>",
        f"<style>\n{page_style()}</style></head>",
        f"<body><header><h1>{title}</h1>",
        '<dl class="texts">',
        f'<div><dt>{escape(look.names[0])}</dt><dd dir="auto">{escape(clean(look.source))}</dd></div>',
        f'<div><dt>{escape(look.names[1])}</dt><dd dir="auto">{escape(clean(look.target))}</dd></div>'
        if look.target
        else "",
        "</dl>",
        f'<ul class="notes">{notes}</ul>' if notes else "",
        "</header><main>",
        *map(shading_to_html, look.shadings),
        *(map_to_html(map, i) for i, map in enumerate(look.maps)),
        "" if look.summary is None else fixed_vector_to_html(look.summary),
        steps_to_html(look) if steps else "",
        '</main><footer class="live">Keys: arrows move through a map or the steps; Enter or a click pins a row; '
        "Esc lets it go.</footer>",
        f"<script>\n{page_script()}</script>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


@cache
def _resource(name: str) -> str:
    return files("heed.observe").joinpath(name).read_text(encoding="utf-8")


def page_script() -> str:
    """What brings the maps and steps of a page to life."""
    return _resource("look.js")


@cache
def page_style() -> str:
    """The colours of both schemes, then the style sheet. Paper is always light."""
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{palette.css_variables(palette.DARK)}}}}}"
    levels = "".join(f".w{i}{{background:var(--w{i});color:var(--t{i})}}" for i in range(palette.LEVELS + 1))
    return f":root{{{palette.css_variables(palette.LIGHT)}}}\n{dark}\n{levels}\n{_resource('look.css')}"
