"""A drawing as a list of items, written as SVG or as PNG: one layout for both."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import pairwise
from typing import Any, Literal

from PIL import Image, ImageDraw, ImageFont

from heed.data.pictures.decode import Array
from heed.observe.draw_svg import svg_image, svg_text
from heed.observe.labels import clean
from heed.observe.pictures.raster import colored, data_uri, fitted

Style = Literal["title", "plain", "small", "middle", "end"]
_STYLE = (
    "text{font:12px 'DejaVu Sans','Noto Sans',Arial,sans-serif;fill:#1b1f24}"
    ".title{font-size:14px;font-weight:bold}.small{font-size:11px;fill:#4a525c}"
    ".middle{font-size:11px;fill:#4a525c;text-anchor:middle}.end{font-size:11px;fill:#4a525c;text-anchor:end}"
    "image{image-rendering:pixelated}"
)
_INK = {"title": "#1b1f24", "plain": "#1b1f24"}
_QUIET = "#4a525c"
_SIZES = {"title": 14, "plain": 12}
_SYSTEM_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial.ttf")
"""Fonts to search for, since Pillow's built-in font has only the letters of ASCII."""
_SHARPNESS = 2
"""Pixels of a PNG for each unit of the drawing, so that text is legible in print."""


@dataclass(frozen=True)
class Words:
    """A line of text; (x, y) is the start of its baseline, or the middle or end, by style."""

    x: float
    y: float
    text: str
    style: Style = "plain"


@dataclass(frozen=True)
class Drawn:
    """An array `(rows, columns, channels)` stretched over a rectangle; `said` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    picture: Array
    said: str = ""


@dataclass(frozen=True)
class Spot:
    """An invisible rectangle with a tooltip."""

    x: float
    y: float
    width: float
    height: float
    said: str


@dataclass(frozen=True)
class Outline:
    """The outline of a rectangle."""

    x: float
    y: float
    width: float
    height: float
    color: str
    dashed: bool = False


@dataclass(frozen=True)
class Path:
    """Straight lines from point to point."""

    points: tuple[tuple[float, float], ...]
    color: str
    dashed: bool = False
    thick: float = 1.0


@dataclass(frozen=True)
class Dot:
    """A small disc; `said` is its tooltip."""

    x: float
    y: float
    radius: float
    color: str
    said: str = ""


Item = Words | Drawn | Spot | Outline | Path | Dot


@dataclass
class Scene:
    """A drawing: its size, and its items from back to front."""

    width: int
    height: int
    label: str
    items: list[Item] = field(default_factory=list)

    def add(self, items: Iterable[Item], x: float = 0, y: float = 0) -> None:
        """Add items, shifted by (x, y)."""
        self.items += [_moved(item, x, y) for item in items]


def _moved(item: Item, x: float, y: float) -> Item:
    if isinstance(item, Path):
        return Path(tuple((px + x, py + y) for px, py in item.points), item.color, item.dashed, item.thick)
    values: dict[str, Any] = {**vars(item), "x": item.x + x, "y": item.y + y}
    return type(item)(**values)


def stacked(scenes: Sequence[Scene], gap: int = 12) -> Scene:
    """Drawings stacked vertically, `gap` units apart."""
    height = sum(scene.height for scene in scenes) + gap * (len(scenes) - 1)
    whole = Scene(max(scene.width for scene in scenes), height, scenes[0].label)
    top = 0
    for scene in scenes:
        whole.add(scene.items, 0, top)
        top += scene.height + gap
    return whole


# SVG ----------------------------------------------------------------------------------------------------------


def to_svg(scene: Scene) -> str:
    """A self-contained SVG image on white."""
    return svg_image(scene.width, scene.height, clean(scene.label), _STYLE, [], [_svg(item) for item in scene.items])


def _svg(item: Item) -> str:
    if isinstance(item, Words):
        return svg_text(item.x, item.y, clean(item.text), "" if item.style == "plain" else item.style)
    if isinstance(item, Path):
        points = " ".join(f"{x:g},{y:g}" for x, y in item.points)
        return (
            f'<polyline points="{points}" fill="none" stroke="{item.color}" stroke-width="{item.thick:g}"'
            f"{_dashes(item.dashed)}/>"
        )
    if isinstance(item, Dot):
        return (
            f'<circle cx="{item.x:g}" cy="{item.y:g}" r="{item.radius:g}" fill="{item.color}">{_title(item.said)}'
            "</circle>"
        )
    place = f'x="{item.x:g}" y="{item.y:g}" width="{item.width:g}" height="{item.height:g}"'
    if isinstance(item, Drawn):
        return f'<image {place} preserveAspectRatio="none" href="{data_uri(item.picture)}">{_title(item.said)}</image>'
    if isinstance(item, Spot):
        return f'<rect {place} fill="#fff" fill-opacity="0">{_title(item.said)}</rect>'
    return f'<rect {place} fill="none" stroke="{item.color}" stroke-width="2"{_dashes(item.dashed)}/>'


def _dashes(dashed: bool) -> str:
    return ' stroke-dasharray="5 3"' if dashed else ""


def _title(said: str) -> str:
    return f"<title>{escape(clean(said), quote=False)}</title>" if said else ""


# PNG ----------------------------------------------------------------------------------------------------------


def to_png(scene: Scene) -> bytes:
    """The drawing as a PNG, two pixels for each unit; equal drawings give equal bytes."""
    k = _SHARPNESS
    canvas = Image.new("RGB", (round(scene.width * k), round(scene.height * k)), "#ffffff")
    brush = ImageDraw.Draw(canvas)
    for item in scene.items:
        if isinstance(item, Words):
            _write(brush, item, k)
        elif isinstance(item, Drawn):
            shape = max(1, round(item.height * k)), max(1, round(item.width * k))
            canvas.paste(Image.fromarray(fitted(colored(item.picture), *shape)), (round(item.x * k), round(item.y * k)))
        elif isinstance(item, Outline):
            corners = [item.x, item.y, item.x + item.width, item.y + item.height]
            ends = [(corners[a] * k, corners[b] * k) for a, b in ((0, 1), (2, 1), (2, 3), (0, 3), (0, 1))]
            _line(brush, ends, item.color, item.dashed, 2 * k)
        elif isinstance(item, Path):
            _line(brush, [(x * k, y * k) for x, y in item.points], item.color, item.dashed, item.thick * k)
        elif isinstance(item, Dot):
            r = item.radius * k
            brush.ellipse([item.x * k - r, item.y * k - r, item.x * k + r, item.y * k + r], fill=item.color)
    buffer = io.BytesIO()
    canvas.save(buffer, "PNG")
    return buffer.getvalue()


def _write(brush: ImageDraw.ImageDraw, item: Words, k: int) -> None:
    anchor = {"middle": "ms", "end": "rs"}.get(item.style, "ls")
    text, font = _drawable(clean(item.text), _SIZES.get(item.style, 11) * k)
    color = _INK.get(item.style, _QUIET)
    where = (item.x * k, item.y * k)
    brush.text(where, text, fill=color, font=font, anchor=anchor)
    if item.style == "title":  # the built-in font has no bold form
        brush.text((where[0] + 1, where[1]), text, fill=color, font=font, anchor=anchor)


def _drawable(text: str, size: int) -> tuple[str, Any]:
    """A text and a font that has its letters; without such a font, letters lose their accents."""
    if text.isascii():
        return text, ImageFont.load_default(size)
    font = _system_font(size)
    return (text, font) if font else (_without_accents(text), ImageFont.load_default(size))


@cache
def _system_font(size: int) -> Any:
    for name in _SYSTEM_FONTS:
        with suppress(OSError):
            return ImageFont.truetype(name, size)
    return None


def _without_accents(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def _line(
    brush: ImageDraw.ImageDraw, points: list[tuple[float, float]], color: str, dashed: bool, width: float
) -> None:
    if not dashed:
        brush.line(points, fill=color, width=max(1, round(width)), joint="curve")
        return
    for (x0, y0), (x1, y1) in pairwise(points):
        length = max(1e-9, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
        dash, at = 5.0 * _SHARPNESS, 0.0
        while at < length:
            a, b = at / length, min(1.0, (at + dash) / length)
            ends = [(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part) for part in (a, b)]
            brush.line(ends, fill=color, width=max(1, round(width)))
            at += dash * 1.6
