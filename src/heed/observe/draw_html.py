"""A look as one HTML file without network access or dependencies; works from disk, in a notebook and printed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files

from heed.observe import palette
from heed.observe.draw_shading import shading_to_html
from heed.observe.frames import Look
from heed.observe.html_map import map_to_html
from heed.observe.html_steps import fixed_vector_to_html, steps_to_html
from heed.observe.labels import clean

# The page may run its inline script and fetch nothing.
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


_KEYS = (
    '<footer class="live">Keys: arrows move through a map or the steps; Enter or a click pins a row; '
    "Esc unpins it.</footer>"
)


def look_to_html(look: Look, *, steps: bool = False) -> str:
    """Draw a look as a self-contained page; equal looks give equal bytes."""
    notes = "".join(f'<li dir="auto">{escape(clean(note))}</li>' for note in look.notes)
    texts = zip(look.names, (look.source, look.target), strict=True)
    rows = [f'<div><dt>{escape(name)}</dt><dd dir="auto">{_lines(text)}</dd></div>' for name, text in texts]
    parts = [
        f"<header><h1>{escape(clean(look.title))}</h1>",
        '<dl class="texts">',
        *(rows if look.target else rows[:1]),
        "</dl>",
        f'<ul class="notes">{notes}</ul>' if notes else "",
        "</header><main>",
        *map(shading_to_html, look.shadings),
        *(map_to_html(map, i) for i, map in enumerate(look.maps)),
        "" if look.summary is None else fixed_vector_to_html(look.summary),
        steps_to_html(look) if steps else "",
        f'<p class="hint">{escape(clean(look.no_steps))}</p>' if steps and look.no_steps else "",
        "</main>",
        _KEYS if look.maps or (steps and (look.encoder or look.decoder)) else "",
    ]
    return page_to_html(look.title, parts, script=True)


def _lines(text: str) -> str:
    """A text with its line breaks, which the style sheet preserves."""
    return escape("\n".join(map(clean, text.split("\n"))))


def page_to_html(title: str, parts: Iterable[str], *, css: str = "", kind: str = "", script: bool = False) -> str:
    """An HTML page that may run its inline script and fetch nothing; empty parts are left out.

    `css` is appended to the style of all pages, `kind` is the class of the body, `script` adds the script for maps and
    steps.
    """
    body = "\n".join(part for part in parts if part)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_CONTENT_POLICY)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(clean(title))}</title>",
            f"<style>\n{_page_style()}{css}</style></head>",
            (f'<body class="{kind}">' if kind else "<body>") + body,
            *([f"<script>\n{_resource('look.js')}</script>"] if script else []),
            "</body></html>\n",
        ]
    )


@cache
def _resource(name: str) -> str:
    return files("heed.observe").joinpath(name).read_text(encoding="utf-8")


@cache
def _page_style() -> str:
    """The colours of both schemes, then the style sheet. Printing always uses the light scheme."""
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{palette.css_variables(dark=True)}}}}}"
    light = f":root{{{palette.css_variables(dark=False)}}}"
    return f"{light}\n{dark}\n{palette.css_classes()}\n{_resource('look.css')}"
