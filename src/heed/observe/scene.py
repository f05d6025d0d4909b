"""A drawing as a list of items, and the one way to write it: as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Literal

from heed.observe import palette
from heed.visible import clean

Style = Literal["plain", "title", "small", "middle", "end", "row", "number"]
"""Size and anchor of a text."""

GRID, QUIET = "grid", "quiet"
"""Colours of lines that follow the reader's colour scheme in drawings that do."""

MASKED = "url(#masked)"
"""The hatching of masked cells; the drawing needs `HATCH`."""

HATCH = (
    '<pattern id="masked" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" fill="#fff"/><path d="M-1 7 7 -1M-1 1 1 -1M5 7 7 5" stroke="#9aa3ad"/></pattern>'
)

STYLE = (
    ".figure text{font:12px 'DejaVu Sans','Noto Sans',Arial,sans-serif;fill:#1b1f24}"
    ".figure .title{font-size:14px;font-weight:bold}"
    ".figure .small,.figure .middle,.figure .end{font-size:11px;fill:#4a525c}"
    ".figure .middle,.figure .number{text-anchor:middle}.figure .end,.figure .row{text-anchor:end}"
    ".figure .number{font-size:10px}"
    ".figure .ground{fill:#fff}.figure .grid{stroke:#d5dae0}.figure .quiet{stroke:#4a525c}"
    ".figure .cell{stroke:#d5dae0;stroke-width:.5}.figure .spot{fill-opacity:0;fill:#fff}"
    ".figure image{image-rendering:pixelated}"
    "@media screen and (prefers-color-scheme:dark){.follows.figure text{fill:#a6adb6}"
    ".follows.figure .title{fill:#e6e8eb}"
    ".follows .ground{fill:#14161b}.follows .grid{stroke:#363c45}.follows .quiet{stroke:#a6adb6}}"
)
"""Style of all drawings. The colours of lines and cells suit both schemes or are fixed."""


@dataclass(frozen=True)
class Label:
    """A line of text; (x, y) is the start of its baseline, or the middle or end, by style; `turn` is in degrees."""

    x: float
    y: float
    text: str
    style: Style = "plain"
    turn: float = 0
    color: str = ""


@dataclass(frozen=True)
class Box:
    """A rectangle; `said` is its tooltip, `kind` its class in the style."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    said: str = ""
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
    said: str = ""


@dataclass(frozen=True)
class Dot:
    """A small disc; `said` is its tooltip."""

    x: float
    y: float
    radius: float
    color: str
    said: str = ""
    opacity: float = 1.0


@dataclass(frozen=True)
class Image:
    """A picture, given as a data URI, stretched over a rectangle; `said` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    uri: str
    said: str = ""


Item = Label | Box | Path | Dot | Image


@dataclass
class Scene:
    """A drawing: its size, its label for screen readers, and its items from back to front."""

    width: float
    height: float
    label: str
    items: list[Item] = field(default_factory=list)
    defs: str = ""  # SVG definitions that items refer to
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


def abreast(scenes: Sequence[Scene], gap: float = 12, most: float = 1800) -> Scene:
    """Drawings side by side on one ground line; stacked if they are wider than `most`."""
    if sum(scene.width + gap for scene in scenes) > most:
        return stacked(scenes, gap)
    height, defs = max(scene.height for scene in scenes), "".join(dict.fromkeys(scene.defs for scene in scenes))
    whole = Scene(-gap, height, scenes[0].label, defs=defs)
    for scene in scenes:
        whole.add(scene.items, whole.width + gap, height - scene.height)
        whole.width += scene.width + gap
    return whole


def stacked(scenes: Sequence[Scene], gap: float = 12) -> Scene:
    """Drawings stacked vertically, `gap` units apart."""
    width, defs = max(scene.width for scene in scenes), "".join(dict.fromkeys(scene.defs for scene in scenes))
    whole = Scene(width, -gap, scenes[0].label, defs=defs)
    for scene in scenes:
        whole.add(scene.items, 0, whole.height + gap)
        whole.height += scene.height + gap
    return whole


def to_svg(scene: Scene, *, inline: bool = False) -> str:
    """A self-contained SVG image; `inline` is for a page that has `STYLE`, and may scale the drawing."""
    label, kind = escape(clean(scene.label)), "figure follows" if scene.follows_scheme else "figure"
    size = f'viewBox="0 0 {scene.width:g} {scene.height:g}"'
    more = "" if inline else f' width="{scene.width:g}" height="{scene.height:g}" xmlns="http://www.w3.org/2000/svg"'
    head = f'<svg class="{kind}" {size}{more} role="img" aria-label="{label}">'
    style = [] if inline else [f"<style>{STYLE}</style>"]
    defs = [f"<defs>{scene.defs}</defs>"] if scene.defs else []
    ground = f'<rect class="ground" width="{scene.width:g}" height="{scene.height:g}"/>'
    return "\n".join([head, *style, *defs, ground, *map(_svg, scene.items), "</svg>\n"])


def _svg(item: Item) -> str:
    """One item as an SVG element."""
    said = ""
    if not isinstance(item, Label) and item.said:
        said = f"<title>{escape(clean(item.said), quote=False)}</title>"
    if isinstance(item, Label):
        kind = f' class="{item.style}"' if item.style != "plain" else ""
        turn = f' transform="rotate({item.turn:g} {item.x:g} {item.y:g})"' if item.turn else ""
        # Each text element is a separate bidirectional paragraph; `plaintext` takes the direction from its content.
        # A text over a cell must not keep pointer events from the cell's tooltip.
        color = f"fill:{item.color};pointer-events:none" if item.color else ""
        style = f' style="unicode-bidi:plaintext;{color}"'
        return f'<text{kind} x="{item.x:g}" y="{item.y:g}"{turn}{style}>{escape(clean(item.text), quote=False)}</text>'
    if isinstance(item, Path):
        points = " ".join(f"{x:.6g},{y:.6g}" for x, y in item.points)
        return f'<polyline points="{points}" fill="none"{_line(item.color, item.thick, item.dashes)}>{said}</polyline>'
    if isinstance(item, Dot):
        pale = f' fill-opacity="{item.opacity:g}"' if item.opacity < 1 else ""
        place = f'cx="{item.x:.6g}" cy="{item.y:.6g}" r="{item.radius:g}"'
        return f'<circle {place} fill="{item.color}"{pale}>{said}</circle>'
    place = f'x="{item.x:.6g}" y="{item.y:.6g}" width="{item.width:.6g}" height="{item.height:.6g}"'
    if isinstance(item, Image):
        return f'<image {place} preserveAspectRatio="none" href="{item.uri}">{said}</image>'
    kind = f' class="{item.kind}"' if item.kind else ""
    corner = f' rx="{item.corner:g}"' if item.corner else ""
    line = _line(item.stroke, item.thick, item.dashes) if item.stroke else ""
    return f'<rect{kind} {place} fill="{item.fill}"{corner}{line}>{said}</rect>'


def _line(color: str, thick: float, dashes: str) -> str:
    stroke = f'class="{color}"' if color in (GRID, QUIET) else f'stroke="{color}"'
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f' {stroke} stroke-width="{thick:g}"{dashed} stroke-linejoin="round"'


def ramp(name: str, colors: Sequence[str] = palette.LIGHT) -> str:
    """The definition of a gradient of colours, by default those of weights from 0 to 1, to fill with `url(#name)`."""
    last = len(colors) - 1
    stops = "".join(f'<stop offset="{i / last:g}" stop-color="{color}"/>' for i, color in enumerate(colors))
    return f'<linearGradient id="{name}">{stops}</linearGradient>'
