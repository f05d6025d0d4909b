"""A look that displays itself: in a notebook as a page, printed as text, saved as whatever the file name says."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from heed.errors import ConfigError
from heed.observe.draw_html import look_to_html
from heed.observe.draw_shading import shading_to_svg
from heed.observe.draw_svg import map_to_svg, vector_to_svg
from heed.observe.draw_text import look_to_text
from heed.observe.frames import Look
from heed.observe.labels import FIXED_VECTOR
from heed.observe.maps import Map
from heed.observe.to_json import look_to_json
from heed.storage.outputs import write_outputs


class Shown(ABC):
    """What can be drawn in every form; a notebook shows it as a page, `print` as text."""

    @abstractmethod
    def text(self, width: int = 100, color: bool | Literal["grey"] = False) -> str:
        """As text for a terminal of `width` columns; `color` "grey" for one without 24-bit colour."""

    @abstractmethod
    def html(self) -> str:
        """As one self-contained page."""

    @abstractmethod
    def svg(self, index: int | None = None) -> str:
        """As one image."""

    @abstractmethod
    def json(self) -> str:
        """Everything as JSON."""

    def png(self, index: int | None = None) -> bytes:
        """As pixels; only what shows a picture has this form.

        Raises:
            ConfigError: This look has no such form.
        """
        raise ConfigError("a PNG is for a look at a picture; write .svg or .html")

    def save(self, path: str | Path) -> None:
        """Write .html, .svg, .json or .txt, as the file name says; another ending is a ConfigError."""
        save_as(path, {".html": self.html, ".svg": self.svg, ".json": self.json, ".txt": self.text})

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return framed(self.html(), "heed look")


class ShownLook(Shown):
    """The result of `run.look(...)`: a look, shown with every step or without."""

    def __init__(self, look: Look, steps: bool) -> None:
        self.look = look
        self.steps = steps

    @property
    def maps(self) -> tuple[Map, ...]:
        """The attention maps."""
        return self.look.maps

    @property
    def target(self) -> str:
        """The output that was looked at."""
        return self.look.target

    def text(self, width: int = 100, color: bool | Literal["grey"] = False) -> str:
        """As text for a terminal."""
        return look_to_text(self.look, steps=self.steps, width=width, color=bool(color))

    def html(self) -> str:
        """As one self-contained page."""
        return look_to_html(self.look, steps=self.steps)

    def svg(self, index: int | None = None) -> str:
        """One map as SVG; without an index the shaded words, else the last map, else the one fixed vector."""
        if index is None and self.look.shadings:
            return shading_to_svg(self.look.shadings[0])
        if not self.maps and self.look.summary is not None:
            return vector_to_svg(self.look.summary, self.look.title, FIXED_VECTOR)
        return map_to_svg(self.maps[-1 if index is None else index])

    def json(self) -> str:
        """Everything as JSON."""
        return look_to_json(self.look)

    def __repr__(self) -> str:
        look = self.look
        counts = {"map": len(look.maps), "shading": len(look.shadings)}
        if self.steps:
            counts["step"] = len(look.encoder) + len(look.decoder)
        shown = ", ".join(f"{count} {unit}{'' if count == 1 else 's'}" for unit, count in counts.items() if count)
        source = look.source if len(look.source) <= 40 else f"{look.source[:37]}..."
        return f"<look at {source!r}: {shown or 'no map'}; print it, or save it as .html>"


def save_as(path: str | Path, kinds: Mapping[str, Callable[[], str | bytes]]) -> None:
    """Write a file in the form that its ending names; another ending is a ConfigError."""
    ending = Path(path).suffix
    if ending not in kinds:
        raise ConfigError(f"'{path}' ends in '{ending}'; valid: {', '.join(kinds)}")
    drawn = kinds[ending]()
    write_outputs({Path(path): drawn})


_FIT = (
    "(f=>{const w=f.contentWindow,d=w.document.documentElement,"
    "fit=()=>{f.style.height=Math.ceil(d.getBoundingClientRect().height)+2+'px'};"
    "fit();new w.ResizeObserver(fit).observe(d)})(this)"
)
"""Makes a frame as high as the root element of its page, now and whenever that changes (a step is taken, a table is
opened, the window gets narrower). The root element is measured, not its scroll height, which never shrinks."""


def framed(page: str, title: str) -> str:
    """A page in a notebook: an iframe keeps its style and script apart from the notebook's.

    It is as high as the page; where a viewer runs no scripts, 640 pixels, and the page scrolls in it.
    """
    content, fit = html.escape(page, quote=True), html.escape(_FIT, quote=True)
    return (
        f'<iframe srcdoc="{content}" style="width:100%;height:640px;border:0" title="{title}" onload="{fit}"></iframe>'
    )
