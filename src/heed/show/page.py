"""HTML pages: templates of jinja2 with automatic escaping, self-contained, with inline style and script only.

Every text that a template shows is escaped, and its hidden characters are made visible; only what a template has
rendered, and the package's own files, are trusted.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from heed.show.scene import STYLE, Scene, to_svg
from heed.visible import clean, to_json, visible
from heed.watch import palette
from heed.watch.maps import axes_line, cell_name

if TYPE_CHECKING:
    from jinja2 import Environment


class Cell(NamedTuple):
    """A cell of a table: text (emphasised if `best`), class, tooltip, and a share to draw as a bar."""

    text: str
    best: bool = False
    kind: str = ""
    tooltip: str = ""
    bar: float | None = None


class Row(NamedTuple):
    """A row of a table on a page; `kind` is its class."""

    label: str
    cells: Sequence[str | Cell]
    kind: str = ""


def page(template: str, title: str, **values: Any) -> str:
    """A page from a template of the package, such as "show/look.html"."""
    return _templates().get_template(template).render(title=title, **values) + "\n"


def look_page(
    title: str,
    parts: Sequence[Markup],
    *,
    texts: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    has_keys: bool = False,
    scripted: bool = False,
) -> str:
    """A page of texts with their names, notes and drawn parts.

    Args:
        title: Title.
        parts: What `draw` has drawn.
        texts: Names and texts, above the parts.
        notes: Lines above the parts.
        has_keys: True to say below the parts which keys move through them.
        scripted: True if the parts need the script of looks.
    """
    shown = {"texts": texts, "notes": notes, "parts": parts, "has_keys": has_keys, "scripted": scripted}
    return page("show/look.html", title, **shown)


def draw(macro: str, *values: Any, source: str = "show/draw.html", **named: Any) -> Markup:
    """A part of a page, drawn by a macro of `show/draw.html`."""
    drawn: Markup = getattr(_templates().get_template(source).module, macro)(*values, **named)
    return drawn


def packed(numbers: NDArray[np.uint8] | NDArray[np.int16]) -> str:
    """Whole numbers for the page's script, which unpacks them: compressed, in base 64; the lower byte first."""
    return base64.b64encode(zlib.compress(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes(), 9)).decode()


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # not needed for text, SVG and JSON

    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"visible": visible, "lines": _lines}
    environment.globals |= {
        "axes_line": axes_line,
        "cell_name": cell_name,
        "data": _data,
        "figure": _figure,
        "levels": palette.LEVELS,
        "page_style": _page_style,
        "source": lambda name: Markup(_source(name)),
    }
    return environment


def _source(name: str) -> str:
    return files("heed").joinpath(name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """A value as templates show it: texts with their hidden characters made visible."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> Markup:
    """A text with its line breaks, which the style sheet preserves."""
    return Markup("\n").join(map(clean, text.split("\n")))


def _data(values: Mapping[str, Any]) -> Markup:
    """Values for the page's script as JSON; only "<" could end a script element."""
    return Markup(to_json(values, separators=(",", ":")).replace("<", "\\u003c"))


def _figure(scene: Scene) -> Markup:
    """A drawing inside a page."""
    return Markup(to_svg(scene, inline=True))


@cache
def _page_style() -> Markup:
    """The colours of both schemes, then the style sheet. Printing always uses the light scheme."""
    dark = palette.css_variables(dark=True)
    dark = f".sheet{{{dark}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    light = f":root{{{palette.css_variables(dark=False)}}}"
    return Markup(f"{light}\n{dark}\n{palette.css_classes()}\n{STYLE}\n{_source('show/look.css')}")
