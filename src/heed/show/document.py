"""The view of a result, as blocks: each kind of block is drawn once as text, once as HTML, once as a figure.

A block is plain data (a map, shaded words, a table, curves, ...). Its module registers its drawings with `as_text`,
`as_html` and `as_scene`; blocks without a figure (steps) are left out of figures.

As JSON (`json_of`), a dataclass is an object with its fields, a tuple a list, a tensor a list of rounded numbers.
Fields that are not compared (`compare=False`) are left out; `metadata={"json": name}` gives a field another name there.
"""

from __future__ import annotations

import base64
import math
import textwrap
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import singledispatch
from itertools import count
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from heed.errors import ConfigError
from heed.show.page import draw, look_page
from heed.show.scene import Figure, Scene, abreast, check_figure, stacked, to_svg
from heed.storage.disk import write_outputs
from heed.visible import clean, to_json
from heed.watch.maps import Map
from heed.watch.remarks import remarks, worded


@singledispatch
def as_text(block: Any, width: int, color: bool) -> list[str]:
    """A block as lines for a terminal."""
    raise NotImplementedError(type(block))


@singledispatch
def as_html(block: Any, numbers: Iterator[int]) -> Markup:
    """A block as a part of a page; `numbers` are for the ids of its maps."""
    raise NotImplementedError(type(block))


@singledispatch
def as_scene(block: Any) -> Scene | None:
    """A block as a figure; None for one that is not drawn."""
    return None


@dataclass(frozen=True)
class Abreast:
    """Blocks side by side where there is room, each with its name on a page."""

    blocks: tuple[tuple[str, Any], ...]


@as_text.register
def _(row: Abreast, width: int, color: bool) -> list[str]:
    return ["\n\n".join("\n".join(as_text(block, width, color)) for _, block in row.blocks)]


@as_html.register
def _(row: Abreast, numbers: Iterator[int]) -> Markup:
    return draw("abreast", [(name, as_html(block, numbers)) for name, block in row.blocks])


@as_scene.register
def _(row: Abreast) -> Scene | None:
    scenes = [scene for _, block in row.blocks if (scene := as_scene(block)) is not None]
    return abreast(scenes) if scenes else None


_MARGIN, _ADVANCE = 16, 6.4


@dataclass(frozen=True)
class Document:
    """Title, named texts and notes of a result, and its blocks from top to bottom."""

    title: str
    blocks: tuple[Any, ...]
    texts: tuple[tuple[str, str], ...] = ()  # source and output, each with its name
    notes: tuple[str, ...] = ()
    headed: bool = True  # False if its figure has no heading, since each block has one
    scripted: bool = False  # True if its page needs the script of looks
    has_keys: bool = False  # True to say on the page which keys move through its blocks

    def text(self, width: int, color: bool) -> str:
        """Everything as text."""
        column = max([7, *(len(name) for name, _ in self.texts)])
        lines, room = [clean(self.title)], width - column - 1
        for name, text in (*self.texts, *(("note", note) for note in self.notes)):
            each = [clean(line) for line in text.split("\n")]
            wrapped = [part for line in each for part in textwrap.wrap(line, room) or [""]] if self.headed else each
            lines += [f"{name if n == 0 else '':{column}} {part}" for n, part in enumerate(wrapped)]
        drawn = [lines, *(as_text(block, width, color) for block in self.blocks)]
        return "\n\n".join("\n".join(block) for block in drawn if block)

    def html(self) -> str:
        """A self-contained page; equal documents give equal bytes."""
        numbers = count()
        parts = [as_html(block, numbers) for block in self.blocks]
        more = {"has_keys": self.has_keys, "scripted": self.scripted}
        return look_page(self.title, parts, texts=self.texts, notes=self.notes, **more)

    def scene(self) -> Scene:
        """The figure: the blocks below one another."""
        scenes = [scene for block in self.blocks if (scene := as_scene(block)) is not None]
        if not self.headed and scenes:
            return stacked(scenes)
        head = Scene(max([600, *(scene.width for scene in scenes)]), 0, clean(self.title))
        fitting = int((head.width - 2 * _MARGIN) / _ADVANCE)
        lines = [*(f"{name}: {text}" for name, text in self.texts), *self.notes]
        y = head.write(textwrap.wrap(clean(self.title), fitting * 3 // 4), _MARGIN, _MARGIN + 12, "title", 18)
        wrapped = [part for line in lines for part in textwrap.wrap(clean(line), fitting, break_on_hyphens=False)]
        head.height = head.write(wrapped, _MARGIN, y, "small")
        return stacked([head, *scenes])

    def only(self, panels: Sequence[str]) -> Document:
        """Only the blocks of some panels.

        Raises:
            ConfigError: There is no such panel.
        """
        every = [panel_of(inner) for block in self.blocks for inner in _inside(block)]
        if unknown := [name for name in panels if name not in every]:
            there = ", ".join(filter(None, dict.fromkeys(every)))
            raise ConfigError(f"--panels: no '{unknown[0]}' in this figure; it has {there or 'none'}")
        blocks: list[Any] = []
        for block in self.blocks:
            if isinstance(block, Abreast):
                selected = tuple(named for named in block.blocks if panel_of(named[1]) in panels)
                blocks += [replace(block, blocks=selected)] if selected else []
            elif panel_of(block) in panels:
                blocks.append(block)
        return replace(self, blocks=tuple(blocks))


def panel_of(block: Any) -> str:
    """The name by which `--panels` chooses a block; "" for one without a figure."""
    return str(getattr(block, "panel", ""))


def _inside(block: Any) -> list[Any]:
    return [inner for _, inner in block.blocks] if isinstance(block, Abreast) else [block]


class Shown(ABC):
    """Base of results that can be drawn in all formats; a notebook shows a page, `print` shows text."""

    in_python = False  # True if hints in notes name arguments in place of options of the command line

    def document(self) -> Document:
        """The blocks of which text, page and figure are made."""
        raise ConfigError("--panels chooses parts of a look, and this figure has none")

    @abstractmethod
    def json(self) -> str:
        """Everything as JSON."""

    def text(self, width: int = 100, color: bool = False) -> str:
        """Text for a terminal of `width` columns; weights in 24-bit colours if `color`."""
        return self._worded().text(width, color)

    def html(self) -> str:
        """One self-contained HTML page."""
        return self._worded().html()

    def scene(self, index: int | None = None) -> Scene:
        """The drawing, of which SVG, PNG and PDF are made."""
        return self._worded().scene()

    def _worded(self) -> Document:
        document = self.document()
        return replace(document, notes=tuple(worded(note, self.in_python) for note in document.notes))

    def _figure(self, form: str, index: int | None, figure: Figure) -> Scene:
        check_figure(figure, form)
        return self._worded().only(panels).scene() if (panels := figure.get("panels")) else self.scene(index)

    def svg(self, index: int | None = None, **figure: Unpack[Figure]) -> str:
        """One SVG image.

        Raises:
            ConfigError: An option of the figure is wrong, or not for SVG.
        """
        scene = self._figure("svg", index, figure)
        return to_svg(scene, theme=figure.get("theme"), width=figure.get("width"))

    def png(self, index: int | None = None, **figure: Unpack[Figure]) -> bytes:
        """The image of `svg` as a PNG.

        Raises:
            ConfigError: No font has some character of the drawing, or an option of the figure is wrong.
        """
        from heed.show.image_files import to_png  # loads the renderer

        scene = self._figure("png", index, figure)
        names = ("fonts", "theme", "width", "scale", "dpi")
        return to_png(scene, **{name: figure[name] for name in names if name in figure})  # type: ignore[literal-required]

    def pdf(self, index: int | None = None, **figure: Unpack[Figure]) -> bytes:
        """The image of `svg` as a PDF of one page.

        Raises:
            ConfigError: The extra `pdf` is not installed, a font or a script is missing, or an option is wrong.
        """
        from heed.show.image_files import to_pdf

        scene = self._figure("pdf", index, figure)
        return to_pdf(scene, theme=figure.get("theme"), width=figure.get("width"))

    def forms(self) -> dict[str, Callable[[], str | bytes]]:
        """The formats of `save` by the ending of the file name."""
        forms: dict[str, Callable[[], str | bytes]] = {".html": self.html, ".svg": self.svg, ".png": self.png}
        return {**forms, ".pdf": self.pdf, ".json": self.json, ".txt": self.text}

    def save(self, path: str | Path, **figure: Unpack[Figure]) -> None:
        """Write a file in the format of its ending, one of `forms`; another ending is a ConfigError.

        Raises:
            ConfigError: The ending is of no format, or an option of the figure is wrong or not for this format.
        """
        save_as(path, self.forms(), figure)

    def _for_python(self) -> Self:
        shown = copy(self)
        shown.in_python = True
        return shown

    def __str__(self) -> str:
        return self._for_python().text()

    def _repr_html_(self) -> str:
        return framed(self._for_python().html(), "heed look")


def save_as(path: str | Path, kinds: Mapping[str, Callable[..., str | bytes]], figure: Figure | None = None) -> None:
    """Write a file in the format of its ending; an ending not in `kinds` is a ConfigError."""
    ending = Path(path).suffix
    if ending not in kinds:
        raise ConfigError(f"'{path}' ends in '{ending}'; valid: {', '.join(kinds)}")
    check_figure(figure or {}, ending[1:])
    content = kinds[ending](**(figure or {}))
    write_outputs({Path(path): content})


_FIT = (
    "(f=>{const w=f.contentWindow,d=w.document.documentElement,"
    "fit=()=>{f.style.height=Math.ceil(d.getBoundingClientRect().height)+2+'px'};"
    "fit();new w.ResizeObserver(fit).observe(d)})(this)"
)
"""Sets a frame's height to that of its page's root element, now and whenever that changes (a step is taken, a table is
opened, the window is narrowed). It measures the root element, because the scroll height never shrinks."""


_THEMES = (
    "<style>[data-jp-theme-light=true] .heed-page,.vscode-light .heed-page,.vscode-high-contrast-light .heed-page"
    "{color-scheme:light}[data-jp-theme-light=false] .heed-page,.vscode-dark .heed-page,"
    ".vscode-high-contrast:not(.vscode-high-contrast-light) .heed-page{color-scheme:dark}</style>"
)
"""A frame's `color-scheme` is what its page sees as preferred (CSS Working Group, issue 7493); these are the marks of
the themes of JupyterLab and of VS Code."""


def framed(page: str, title: str) -> str:
    """A page in a notebook, in an iframe that keeps its style and script apart from the notebook's.

    The frame follows the notebook's theme, and elsewhere the system's. It is as high as the page; in a viewer without
    scripts it is 640 pixels high and the page scrolls.
    """
    look = 'class="heed-page" style="width:100%;height:640px;border:0"'
    frame = f'<iframe {look} srcdoc="{{}}" title="{{}}" onload="{{}}"></iframe>'
    return _THEMES + str(Markup(frame).format(page, title, _FIT))


# JSON ----------------------------------------------------------------------------------------------------------------


def plain_values(value: Any) -> Any:
    """Tensors, dataclasses and their containers as plain values.

    Numbers are rounded: those of tensors to six decimals, others to six decimals or six digits, whichever is finer.
    Minus infinity (the score of a masked key) becomes None; "inf" and "nan" are the other numbers that JSON cannot
    express.
    """
    if isinstance(value, Tensor | np.ndarray):
        return _plain_array(value)
    if isinstance(value, float):
        if not -math.inf < value < math.inf:
            return None if value == -math.inf else str(value)
        finer = round(value, 6) if abs(value) >= 1 else float(f"{value:.6g}")
        return finer + 0.0  # turns -0.0 into 0.0
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if isinstance(value, dict):
        return {name: plain_values(item) for name, item in value.items()}
    if is_dataclass(value):
        extra = {}
        if isinstance(value, Map):
            extra = {"title": value.title}
            extra |= {"remarks": plain_values(noted)} if (noted := remarks(value)) else {}
        compared = [field for field in fields(value) if field.compare]
        return extra | {f.metadata.get("json", f.name): plain_values(getattr(value, f.name)) for f in compared}
    return value


def _plain_array(value: Tensor | np.ndarray[Any, Any]) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
    if value.dtype == np.uint8 or not value.size:
        packed = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes())).decode()
        return {"type": str(value.dtype), "shape": list(value.shape), "zlib": packed}
    if value.dtype.kind != "f":
        return value.tolist()
    rounded = np.round(value.astype(np.float64), 6) + 0.0
    return rounded.tolist() if np.isfinite(rounded).all() else plain_values(rounded.tolist())


def json_of(form: str, value: Any, **more: Any) -> str:
    """A dataclass as one JSON object of a format, with a final newline; equal ones give equal bytes."""
    content = {"format": form, **plain_values(more), **plain_values(value)}
    return to_json(content, separators=(",", ":")) + "\n"
