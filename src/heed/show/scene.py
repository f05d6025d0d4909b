"""A drawing as a list of items, and the one way to write it: as SVG.

Where a colour is a pair, its first is for a light ground and its second for a dark one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.util import find_spec
from pathlib import Path as File
from typing import Any, Literal, TypedDict

from heed.errors import ConfigError
from heed.visible import clean

Color = str | tuple[str, str]

Style = Literal["plain", "title", "small", "middle", "end", "row", "number", "formula"]
"""Size and anchor of a text."""

GRID, QUIET = "grid", "quiet"
"""Colours of lines that follow the reader's colour scheme in drawings that do."""

MASKED = "url(#masked)"
"""The hatching of masked cells."""

_HATCH = (
    '<defs><pattern id="masked" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="ground" width="6" '
    'height="6"/><path d="M-1 7 7 -1M-1 1 1 -1M5 7 7 5" stroke="#9aa3ad"/></pattern></defs>'
)
GROUNDS = "#ffffff", "#14161b"
_DARK = (
    "{0} text{{fill:#e6e8eb}}{0} .small,{0} .middle,{0} .end{{fill:#a6adb6}}{0} .ground{{fill:#14161b}}"
    "{0} .grid,{0} .cell{{stroke:#363c45}}{0} .quiet{{stroke:#a6adb6}}"
)

STYLE = (
    # Each text is a separate bidirectional paragraph, whose direction `plaintext` takes from its content. A text over a
    # cell, which has a separate colour, must not keep pointer events from the cell's tooltip.
    ".figure text{font:12px 'DejaVu Sans','Noto Sans',Arial,sans-serif;fill:#1b1f24;unicode-bidi:plaintext}"
    ".figure text[style]{pointer-events:none}"
    ".figure .title{font-size:14px;font-weight:bold}.figure .formula{font-size:14px;white-space:pre}"
    ".figure .small,.figure .middle,.figure .end{font-size:11px;fill:#4a525c}"
    ".figure .middle,.figure .number{text-anchor:middle}.figure .end,.figure .row{text-anchor:end}"
    ".figure .number{font-size:10px}"
    ".figure .ground{fill:#fff}.figure .grid{stroke:#d5dae0}.figure .quiet{stroke:#4a525c}"
    ".figure .cell{stroke:#d5dae0;stroke-width:.5}.figure .spot{fill-opacity:0;fill:#fff}"
    ".figure image{image-rendering:pixelated}"
    f"{_DARK.format('.dark')}@media screen and (prefers-color-scheme:dark){{{_DARK.format('.follows')}}}"
)
"""Style of all drawings. The colours of lines and cells suit both schemes or are fixed."""


class Figure(TypedDict, total=False):
    """Options of a figure."""

    theme: Literal["light", "dark"]
    """Its ground; by default light, and in an SVG of curves that of its reader."""
    width: str | float
    """Its width: 85mm, 3.3in or 600px; a number is in pixels, of which an inch has 96. By default what it needs."""
    scale: float
    """Of a PNG: pixels for each of these pixels; 2 by default."""
    dpi: float
    """Of a PNG, in place of `scale`: pixels of an inch of the figure (96 of these pixels), recorded in the file too."""
    fonts: Sequence[File]
    """Of a PNG: files of fonts to use before those of the system."""
    panels: Sequence[str]
    """The parts of a look that are drawn, of those that it has: map, words, attribution, ...; all by default."""


THEMES = "light", "dark"
NO_PDF = "PDF needs CairoSVG: pip install 'heed-attention[pdf]', or write .svg or .png"
_ALL = "svg", "png", "pdf"
_OPTIONS = {**dict.fromkeys(("theme", "width", "panels"), _ALL), **dict.fromkeys(("scale", "dpi", "fonts"), ("png",))}


def check_figure(figure: Mapping[str, Any], form: str) -> None:
    """Refuse options that a format does not have, and wrong values.

    Raises:
        ConfigError: As above, or PDF is not installed; the message names the option as the command line does.
    """
    for name in figure:
        option = "font" if name == "fonts" else name
        if name not in _OPTIONS:
            raise ConfigError(f"unknown '{name}' of a figure; valid: {', '.join(_OPTIONS)}")
        if form not in _OPTIONS[name]:
            forms = ", .".join(_OPTIONS[name])
            raise ConfigError(f"--{option} is for .{forms}; end --out in .{_OPTIONS[name][0]}")
    if form == "pdf" and find_spec("cairosvg") is None:
        raise ConfigError(NO_PDF)
    if (theme := figure.get("theme", "light")) not in THEMES:
        raise ConfigError(f"theme is '{theme}'; valid: {', '.join(THEMES)}")


_UNITS = {"": 1.0, "px": 1.0, "in": 96.0, "mm": 96 / 25.4}
"""Pixels of a unit of length, as SVG defines them."""
_WIDEST = 20_000


def width_of(width: str | float) -> tuple[float, str, float]:
    """The number and the unit of a width, and the width in pixels.

    Raises:
        ConfigError: It is no width, or an extreme one.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d*)?)\s*(px|in|mm|)", str(width))
    number, unit = (float(match[1]), match[2]) if match else (0.0, "")
    if not 1 <= number * _UNITS[unit] <= _WIDEST:
        raise ConfigError(f"width is '{width}'; give one such as 85mm, 3.3in or 600px, from 1 to {_WIDEST:,} pixels")
    return number, unit, number * _UNITS[unit]


@dataclass(frozen=True)
class Label:
    """A line of text; (x, y) is the start of its baseline, or the middle or end, by style; `turn` is in degrees."""

    x: float
    y: float
    text: str
    style: Style = "plain"
    turn: float = 0
    color: Color = ""
    family: str = ""  # of the font; by default that of all drawings
    runs: tuple[tuple[str, int], ...] = ()  # the text in pieces, of which -1 is below the line and 1 above it


@dataclass(frozen=True)
class Box:
    """A rectangle; `tooltip` is shown at the pointer, `kind` its class in the style."""

    x: float
    y: float
    width: float
    height: float
    fill: Color = "none"
    tooltip: str = ""
    stroke: str = ""
    thick: float = 1.0
    dashes: str = ""
    corner: float = 0
    kind: str = ""


@dataclass(frozen=True)
class Path:
    """Straight lines from point to point."""

    points: tuple[tuple[float, float], ...]
    color: str
    thick: float = 1.0
    dashes: str = ""
    tooltip: str = ""


@dataclass(frozen=True)
class Dot:
    """A small disc; `tooltip` is shown at the pointer."""

    x: float
    y: float
    radius: float
    color: str
    tooltip: str = ""
    opacity: float = 1.0


@dataclass(frozen=True)
class Image:
    """A picture, given as a data URI, stretched over a rectangle; `tooltip` is shown at the pointer."""

    x: float
    y: float
    width: float
    height: float
    uri: Color
    tooltip: str = ""


Item = Label | Box | Path | Dot | Image


@dataclass
class Scene:
    """A drawing: its size, its label for screen readers, and its items from back to front."""

    width: float
    height: float
    label: str
    items: list[Item] = field(default_factory=list)
    follows_scheme: bool = False  # True to draw on a dark ground where the reader prefers one; else the ground is white

    def write(self, lines: Iterable[str], x: float, y: float, style: Style, step: float = 15) -> float:
        """Write lines below one another, the first baseline at `y`; returns the next baseline."""
        for line in lines:
            self.items.append(Label(x, y, line, style))
            y += step
        return y

    def add(self, items: Iterable[Item], x: float = 0, y: float = 0) -> None:
        """Add items, shifted by (x, y)."""
        self.items += [_moved(item, x, y) for item in items]


def _moved(item: Item, x: float, y: float) -> Item:
    if isinstance(item, Path):
        return replace(item, points=tuple((px + x, py + y) for px, py in item.points))
    return replace(item, x=item.x + x, y=item.y + y)


def abreast(scenes: Sequence[Scene], gap: float = 12, max_width: float = 1800) -> Scene:
    """Drawings side by side on one ground line; stacked if they are wider than `max_width`."""
    if sum(scene.width + gap for scene in scenes) > max_width:
        return stacked(scenes, gap)
    height = max(scene.height for scene in scenes)
    whole = Scene(-gap, height, scenes[0].label)
    for scene in scenes:
        whole.add(scene.items, whole.width + gap, height - scene.height)
        whole.width += scene.width + gap
    return whole


def stacked(scenes: Sequence[Scene], gap: float = 12) -> Scene:
    """Drawings stacked vertically, `gap` units apart."""
    whole = Scene(max(scene.width for scene in scenes), -gap, scenes[0].label)
    for scene in scenes:
        whole.add(scene.items, 0, whole.height + gap)
        whole.height += scene.height + gap
    return whole


def to_svg(scene: Scene, *, inline: bool = False, theme: str | None = None, width: str | float | None = None) -> str:
    """A self-contained SVG image; equal drawings give equal bytes.

    Args:
        scene: The drawing.
        inline: True for a page that has `STYLE`, which may scale the drawing.
        theme: As in `Figure`.
        width: As in `Figure`.
    """
    label = escape(clean(scene.label))
    kind = f"figure {theme}" if theme else "figure follows" if scene.follows_scheme else "figure"
    wide, unit, _ = (scene.width, "", 0) if width is None else width_of(width)
    size = f' width="{wide:g}{unit}" height="{scene.height * wide / scene.width:g}{unit}"'
    more = "" if inline else f'{size} xmlns="http://www.w3.org/2000/svg"'
    box = f'viewBox="0 0 {scene.width:g} {scene.height:g}"'
    head = f'<svg class="{kind}" {box}{more} role="img" aria-label="{label}">'
    style = [] if inline else [f"<style>{STYLE}</style>"]
    defs = [_HATCH] if any(isinstance(item, Box) and item.fill == MASKED for item in scene.items) else []
    ground = f'<rect class="ground" width="{scene.width:g}" height="{scene.height:g}"/>'
    items = (_svg(item, theme == "dark") for item in scene.items)
    return "\n".join([head, *style, *defs, ground, *items, "</svg>\n"])


def _svg(item: Item, dark: bool) -> str:
    """One item as an SVG element."""
    title = ""
    if not isinstance(item, Label) and item.tooltip:
        title = f"<title>{escape(clean(item.tooltip), quote=False)}</title>"
    if isinstance(item, Label):
        kind = f' class="{item.style}"' if item.style != "plain" else ""
        turn = f' transform="rotate({item.turn:g} {item.x:g} {item.y:g})"' if item.turn else ""
        fill = f"fill:{_of(item.color, dark)}" if item.color else ""
        family = f"font-family:'{item.family}'" if item.family else ""
        style = f' style="{";".join(filter(None, (fill, family)))}"' if fill or family else ""
        shown = _raised(item.runs) if item.runs else escape(clean(item.text), quote=False)
        return f'<text{kind} x="{item.x:g}" y="{item.y:g}"{turn}{style}>{shown}</text>'
    if isinstance(item, Path):
        points = " ".join(f"{x:.6g},{y:.6g}" for x, y in item.points)
        return f'<polyline points="{points}" fill="none"{_line(item.color, item.thick, item.dashes)}>{title}</polyline>'
    if isinstance(item, Dot):
        pale = f' fill-opacity="{item.opacity:g}"' if item.opacity < 1 else ""
        place = f'cx="{item.x:.6g}" cy="{item.y:.6g}" r="{item.radius:g}"'
        return f'<circle {place} fill="{item.color}"{pale}>{title}</circle>'
    place = f'x="{item.x:.6g}" y="{item.y:.6g}" width="{item.width:.6g}" height="{item.height:.6g}"'
    if isinstance(item, Image):
        return f'<image {place} preserveAspectRatio="none" href="{_of(item.uri, dark)}">{title}</image>'
    kind = f' class="{item.kind}"' if item.kind else ""
    corner = f' rx="{item.corner:g}"' if item.corner else ""
    line = _line(item.stroke, item.thick, item.dashes) if item.stroke else ""
    return f'<rect{kind} {place} fill="{_of(item.fill, dark)}"{corner}{line}>{title}</rect>'


def _raised(runs: Iterable[tuple[str, int]]) -> str:
    """Pieces of text below, on and above the line."""
    parts, at = [], 0.0
    for text, level in runs:
        place = -0.35 * level * 14
        size = ' font-size="10"' if level else ""
        parts.append(f'<tspan dy="{place - at:g}"{size}>{escape(clean(text), quote=False)}</tspan>')
        at = place
    return "".join(parts)


def _of(color: Color, dark: bool) -> str:
    return color if isinstance(color, str) else color[dark]


def _line(color: str, thick: float, dashes: str) -> str:
    stroke = f'class="{color}"' if color in (GRID, QUIET) else f'stroke="{color}"'
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f' {stroke} stroke-width="{thick:g}"{dashed} stroke-linejoin="round"'
