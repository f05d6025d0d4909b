"""A look that displays itself: as a page in notebooks, as text when printed, and saved in the format of a file name."""

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
    """Base of results that can be drawn in all formats; a notebook shows a page, `print` shows text."""

    @abstractmethod
    def text(self, width: int = 100, color: bool | Literal["grey"] = False) -> str:
        """Text for a terminal of `width` columns; `color` "grey" is for terminals without 24-bit colour."""

    @abstractmethod
    def html(self) -> str:
        """One self-contained HTML page."""

    @abstractmethod
    def svg(self, index: int | None = None) -> str:
        """One SVG image."""

    @abstractmethod
    def json(self) -> str:
        """Everything as JSON."""

    def png(self, index: int | None = None) -> bytes:
        """A PNG image; only for looks at pictures.

        Raises:
            ConfigError: This is not a look at a picture.
        """
        raise ConfigError("PNG is available only for looks at pictures; write .svg or .html")

    def save(self, path: str | Path) -> None:
        """Write .html, .svg, .json or .txt, by the ending of the file name; another ending is a ConfigError."""
        save_as(path, {".html": self.html, ".svg": self.svg, ".json": self.json, ".txt": self.text})

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return framed(self.html(), "heed look")


class ShownLook(Shown):
    """The result of `run.look(...)`: a look, shown with or without its steps."""

    def __init__(self, look: Look, steps: bool) -> None:
        self.look = look
        self.steps = steps

    @property
    def maps(self) -> tuple[Map, ...]:
        """The attention maps."""
        return self.look.maps

    @property
    def target(self) -> str:
        """The output of the model, or the given one."""
        return self.look.target

    def text(self, width: int = 100, color: bool | Literal["grey"] = False) -> str:
        """Text for a terminal."""
        return look_to_text(self.look, steps=self.steps, width=width, color=bool(color))

    def html(self) -> str:
        """One self-contained HTML page."""
        return look_to_html(self.look, steps=self.steps)

    def svg(self, index: int | None = None) -> str:
        """The map of that index as SVG; without an index the shaded words, else the last map, else the fixed vector."""
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
    """Write a file in the format of its ending; an ending not in `kinds` is a ConfigError."""
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
"""Sets a frame's height to that of its page's root element, now and whenever that changes (a step is taken, a table is
opened, the window is narrowed). It measures the root element, because the scroll height never shrinks."""


def framed(page: str, title: str) -> str:
    """A page in a notebook, in an iframe that keeps its style and script apart from the notebook's.

    The frame is as high as the page; in a viewer without scripts it is 640 pixels high and the page scrolls.
    """
    content, fit = html.escape(page, quote=True), html.escape(_FIT, quote=True)
    return (
        f'<iframe srcdoc="{content}" style="width:100%;height:640px;border:0" title="{title}" onload="{fit}"></iframe>'
    )
