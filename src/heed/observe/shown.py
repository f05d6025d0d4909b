"""A look that displays itself: as a page in notebooks, as text when printed, and saved in the format of a file name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from markupsafe import Markup

from heed.errors import ConfigError
from heed.observe.curves import Curves, curves_scene, curves_to_html, curves_to_text
from heed.observe.draw_html import look_to_html
from heed.observe.draw_svg import map_scene, shading_scene, vector_scene
from heed.observe.draw_text import look_to_text
from heed.observe.looks import Look, look_to_json
from heed.observe.maps import FIXED_VECTOR, Map
from heed.observe.scene import Scene, to_svg
from heed.storage.disk import write_outputs
from heed.visible import to_json


class Shown(ABC):
    """Base of results that can be drawn in all formats; a notebook shows a page, `print` shows text."""

    @abstractmethod
    def text(self, width: int = 100, color: bool = False) -> str:
        """Text for a terminal of `width` columns; weights in 24-bit colours if `color`."""

    @abstractmethod
    def html(self) -> str:
        """One self-contained HTML page."""

    @abstractmethod
    def scene(self, index: int | None = None) -> Scene:
        """The drawing, of which SVG and PNG are made."""

    @abstractmethod
    def json(self) -> str:
        """Everything as JSON."""

    def svg(self, index: int | None = None) -> str:
        """One SVG image."""
        return to_svg(self.scene(index))

    def png(self, index: int | None = None, fonts: Sequence[Path] = ()) -> bytes:
        """The image of `svg` as a PNG; `fonts` are files of fonts to use before those of the system.

        Raises:
            ConfigError: No font has some character of the drawing.
        """
        from heed.observe.png import to_png  # loads the renderer

        return to_png(self.scene(index), fonts)

    def save(self, path: str | Path) -> None:
        """Write .html, .svg, .png, .json or .txt, by the ending of the file name; another ending is a ConfigError."""
        forms: dict[str, Callable[[], str | bytes]] = {".html": self.html, ".svg": self.svg, ".png": self.png}
        save_as(path, {**forms, ".json": self.json, ".txt": self.text})

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return framed(self.html(), "heed look")


class ShownCurves(Shown):
    """Curves: those of training, or scores by the size of the training set."""

    def __init__(self, curves: Curves) -> None:
        self.curves = curves

    def text(self, width: int = 100, color: bool = False) -> str:
        return curves_to_text(self.curves, width)

    def html(self) -> str:
        return curves_to_html(self.curves)

    def scene(self, index: int | None = None) -> Scene:
        return curves_scene(self.curves)

    def json(self) -> str:
        return to_json(asdict(self.curves), indent=1) + "\n"


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

    def text(self, width: int = 100, color: bool = False) -> str:
        return look_to_text(self.look, steps=self.steps, width=width, color=color)

    def html(self) -> str:
        return look_to_html(self.look, steps=self.steps)

    def scene(self, index: int | None = None) -> Scene:
        """The map of that index; without an index the shaded words, else the last map, else the fixed vector."""
        if index is None and self.look.shadings:
            return shading_scene(self.look.shadings[0])
        if not self.maps and self.look.summary is not None:
            return vector_scene(self.look.summary, self.look.title, FIXED_VECTOR)
        return map_scene(self.maps[-1 if index is None else index])

    def json(self) -> str:
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
    frame = '<iframe srcdoc="{}" style="width:100%;height:640px;border:0" title="{}" onload="{}"></iframe>'
    return str(Markup(frame).format(page, title, _FIT))
