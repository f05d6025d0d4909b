"""A look at a picture in all its forms: drawing, plain characters for a terminal, page and JSON.

A map is laid over the picture in grey. The colour shows the number: the ramp of `palette.DARK` from 0 (dark) to the
largest number of the map (bright), mixed with the background at a fixed strength, so that equal colours mean equal
numbers. In a terminal, a character stands for two pixels: brightness for a picture, shades for weights. The other forms
show colours, every head and the small pictures of the steps.
"""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image as Pillow

from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.errors import ConfigError
from heed.show.curves import Curves, Line, Panel, curves_scene
from heed.show.document import Abreast, Document, Shown, as_html, as_scene, as_text, json_of
from heed.show.number_tables import GAP, Block, side_by_side
from heed.show.overview import Ground, Thumbnails
from heed.show.page import draw
from heed.show.scene import Box as Frame
from heed.show.scene import Image, Item, Scene
from heed.show.shown import ShownNumber
from heed.visible import clean
from heed.watch import palette
from heed.watch.maps import Axis, shaded
from heed.watch.numbers import ShownAttention, break_down
from heed.watch.pictures import (
    Attentions,
    Distances,
    Gallery,
    PictureLook,
    PictureMap,
)

# Pictures with maps laid over them, as arrays ----------------------------------------------------------------------

STRENGTH = 0.56
"""Share of the colour in each pixel; the rest is the picture in grey."""

_FADED, _PAPER = 0.3, 225.0
"""Remaining contrast of parts that the model did not see, and the light grey to which they fade."""

_PNG_UP_TO = 60_000
_QUALITY = 88
_GREY = np.array([0.299, 0.587, 0.114])


def ramp(steps: int = 256, signed: bool = False, grey: bool = False) -> Array:
    """The colours from 0 to the largest number, or from -1 to 1 times that with 0 in the middle, `(1, steps, 3)`."""
    levels = [i / (steps - 1) for i in range(steps)]
    shades = [palette.shades(2 * x - 1 if signed else x, signed, grey)[1] for x in levels]
    return np.array([[[int(shade[i : i + 2], 16) for i in (1, 3, 5)] for shade in shades]], dtype=np.uint8)


def colored(picture: Array) -> Array:
    """A picture converted to three channels."""
    return np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else np.ascontiguousarray(picture[:, :, :3])


def grey(picture: Array) -> NDArray[np.float64]:
    """Luma, `(height, width)`, 0 to 255."""
    luma: NDArray[np.float64] = colored(picture).astype(np.float64) @ _GREY
    return luma


def fitted(picture: Array, height: int, width: int) -> Array:
    """A picture resized: pixels are repeated to enlarge it and averaged to shrink it."""
    if picture.shape[:2] == (height, width):
        return picture
    shrinks = height < picture.shape[0] or width < picture.shape[1]
    flat = picture[:, :, 0] if picture.shape[2] == 1 else picture
    sampling = Pillow.Resampling.BOX if shrinks else Pillow.Resampling.NEAREST
    resized = np.asarray(Pillow.fromarray(np.ascontiguousarray(flat)).resize((width, height), sampling))
    return resized.reshape(height, width, picture.shape[2])


def shape_within(size: tuple[int, int], longest: int) -> tuple[int, int]:
    """Height and width at which to draw a picture of size `size`, the longer side near `most`.

    Small pictures are enlarged by a whole factor, so that their pixels stay equal squares.
    """
    height, width = size
    longer = max(height, width)
    if longer <= longest // 2:
        return height * (longest // longer), width * (longest // longer)
    scale = longest / longer if longer > longest else 1.0
    return max(1, round(height * scale)), max(1, round(width * scale))


def levels_at(map: PictureMap, size: tuple[int, int], shape: tuple[int, int]) -> NDArray[np.float64]:
    """The level of a map at each pixel of a drawing, 0 to 1 (signed: -1 to 1), NaN outside the map.

    Args:
        map: The map.
        size: Height and width of the picture.
        shape: Height and width of the drawing of the whole picture.
    """
    (rows, columns), area, reach = map.grid, map.area, map.reach or map.area
    y = (np.arange(shape[0]) + 0.5) * size[0] / shape[0]
    x = (np.arange(shape[1]) + 0.5) * size[1] / shape[1]
    down = np.floor((y - area.top) / (area.bottom - area.top) * rows).astype(int)
    across = np.floor((x - area.left) / (area.right - area.left) * columns).astype(int)
    values: NDArray[np.float64] = (
        map.levels().numpy()[np.clip(down, 0, rows - 1)[:, None], np.clip(across, 0, columns - 1)].astype(np.float64)
    )
    values[~_inside(reach, y, x)] = np.nan
    return values


def _inside(box: Box, y: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = ((y >= box.top) & (y < box.bottom))[:, None] & ((x >= box.left) & (x < box.right))
    return inside


def laid_over(picture: Array, map: PictureMap, shape: tuple[int, int]) -> Array:
    """A map over a picture, `(height, width, 3)`; the picture is faded outside the map."""
    ground = grey(fitted(colored(picture), *shape))[:, :, None]
    levels = levels_at(map, (picture.shape[0], picture.shape[1]), shape)
    outside = np.isnan(levels)
    places = (levels + 1) / 2 if map.signed else levels
    colors = ramp(signed=map.signed, grey=map.still)[0][np.round(np.where(outside, 0.0, places) * 255).astype(int)]
    mixed = STRENGTH * colors + (1 - STRENGTH) * ground
    mixed[outside] = faded(ground).repeat(3, axis=2)[outside]
    drawn: Array = np.round(mixed).clip(0, 255).astype(np.uint8)
    return drawn


def faded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The colours of a part that the model did not see."""
    return values * _FADED + _PAPER * (1 - _FADED)


def with_seen(picture: Array, seen: Box, shape: tuple[int, int]) -> Array:
    """A picture, faded outside the part that the model saw."""
    drawn = fitted(colored(picture), *shape).astype(np.float64)
    y = (np.arange(shape[0]) + 0.5) * picture.shape[0] / shape[0]
    x = (np.arange(shape[1]) + 0.5) * picture.shape[1] / shape[1]
    inside = _inside(seen, y, x)
    drawn[~inside] = faded(drawn[~inside])
    return np.round(drawn).astype(np.uint8)


def data_uri(picture: Array) -> str:
    """An array as a data URI: a PNG if that is small, else a JPEG."""
    image = Pillow.fromarray(colored(picture))
    buffer, kind = io.BytesIO(), "png"
    image.save(buffer, "PNG", optimize=False)
    if buffer.tell() > _PNG_UP_TO:
        buffer, kind = io.BytesIO(), "jpeg"
        image.save(buffer, "JPEG", quality=_QUALITY)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


_MARGIN, _LINE, _GAP = 16, 18, 16
_LARGE, _SMALL = 240, 76
_BAR = 100
_WIDTH = 4 * _LARGE + 3 * _GAP + 2 * _MARGIN
_ADVANCE = 6.4  # a generous mean width of an 11 px character, as SVG text has no measured width
_QUERY, _MARKED = "#ff3b6b", "#ff9f1a"  # the attending patch, and the receptive field
_SPOTS = 64 * 64


# Drawing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OverPicture:
    """A map over the picture of a look; None for the picture itself."""

    look: PictureLook
    map: PictureMap | None

    @property
    def panel(self) -> str:
        """Its name for `--panels`."""
        return "picture" if self.map is None else self.map.panel

    def drawn(self) -> Scene:
        """The picture with the map, and lines below it."""
        shape = shape_within(self.look.pixels, _LARGE)
        scene = _picture_panel(self.look, shape) if self.map is None else _map_panel(self.map, self.look, shape)
        scene.follows_scheme = True
        return scene


class Pictures(Abreast):
    """A picture and maps over it."""


@as_text.register
def _(row: Pictures, width: int, color: bool) -> list[str]:
    blocks = []
    for _, panel in row.blocks:
        look, shape = panel.look, _text_shape(panel.look, max(8, min(_COLUMNS, (width - GAP) // 2)))
        blocks.append(_picture_block(look, shape) if panel.map is None else _map_block(panel.map, look, shape))
    return side_by_side(blocks, width)


@as_html.register
def _(row: Pictures, numbers: Iterator[int]) -> Markup:
    return draw("pictures", "maps", "", "", [panel.drawn() for _, panel in row.blocks])


@as_scene.register
def _(row: Pictures) -> Scene:
    """Four in a line."""
    scene, panels = Scene(_WIDTH, 0, ""), [panel.drawn() for _, panel in row.blocks]
    for start in range(0, len(panels), 4):
        for i, panel in enumerate(panels[start : start + 4]):
            scene.add(panel.items, _MARGIN + i * (_LARGE + _GAP), scene.height)
        scene.height += max(panel.height for panel in panels[start : start + 4]) + _GAP
    return scene


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(clean(text), int(width / _ADVANCE), break_on_hyphens=False) or [""]


def _picture_panel(look: PictureLook, shape: tuple[int, int]) -> Scene:
    # If every pixel is enlarged, the picture is embedded at its own size.
    fitted = look.pixels if max(look.pixels) <= _LARGE // 2 else shape
    picture = data_uri(with_seen(look.picture, look.seen, fitted))
    scene = Scene(_LARGE, 0, "", [Image(0, 0, shape[1], shape[0], picture)])
    lines = [f"the picture, {look.pixels[1]} x {look.pixels[0]} pixels"]
    if not look.sees_all:
        scene.add([_outline(look.seen, look.pixels, shape, "#ffffff", "5 3")])
        lines.append("the model does not see the faded part")
    lines.append(f"the model reads {look.size[1]} x {look.size[0]} pixels")
    scene.height = scene.write(lines, 0, shape[0] + 16, "small")
    return scene


def _map_panel(map: PictureMap, look: PictureLook, shape: tuple[int, int]) -> Scene:
    scene = Scene(_LARGE, 0, "", [Image(0, 0, shape[1], shape[0], data_uri(laid_over(look.picture, map, shape)))])
    scene.add(_spots(map, look.pixels, shape))
    if map.marked is not None:
        scene.add([_outline(map.marked, look.pixels, shape, _MARKED)])
    if map.query is not None:
        scene.add([_outline(map.cell(*map.query), look.pixels, shape, _QUERY)])
    top = shape[0] + 8
    scene.add([Image(0, top, _BAR, 9, data_uri(ramp(64, map.signed, map.still)))])
    has_room = len(map.scale) * _ADVANCE <= _LARGE - _BAR - 8
    if has_room:
        scene.write([map.scale], _BAR + 8, top + 9, "small")
    texts = (*([] if has_room else [map.scale]), map.title, map.caption, *map.effects)
    lines = [line for text in texts if text for line in _wrapped(text, _LARGE)]
    scene.height = scene.write(lines, 0, top + 28, "small")
    return scene


def _outline(box: Box, size: tuple[int, int], shape: tuple[int, int], color: str, dashes: str = "") -> Frame:
    """The outline of a part of the picture, clipped to the picture."""
    down, across = shape[0] / size[0], shape[1] / size[1]
    top, bottom = (min(max(y, 0), size[0]) * down for y in (box.top, box.bottom))
    left, right = (min(max(x, 0), size[1]) * across for x in (box.left, box.right))
    return Frame(left, top, right - left, bottom - top, stroke=color, thick=2, dashes=dashes)


def _spots(map: PictureMap, size: tuple[int, int], shape: tuple[int, int]) -> Iterator[Item]:
    """The tooltips of the cells."""
    rows, columns = map.grid
    for row, column in product(range(rows), range(columns)) if rows * columns <= _SPOTS else ():
        edge = _outline(map.cell(row, column), size, shape, "")
        if edge.width > 0 and edge.height > 0:
            tooltip = f"row {row}, column {column}: {float(map.weights[row, column]):.4f}"
            yield replace(edge, tooltip=tooltip, kind="spot")


@dataclass(frozen=True)
class Heads:
    """The gallery of a look."""

    look: PictureLook
    gallery: Gallery
    panel = "heads"


@as_text.register
def _(heads: Heads, width: int, color: bool) -> list[str]:
    """The place of each head's largest weight: shades of small maps would be illegible."""
    lines = [heads.gallery.title, *textwrap.wrap(heads.gallery.caption, width)]
    for name, maps in heads.gallery.rows:
        places = "; ".join(f"{map.short}: row {map.best()[0]}, column {map.best()[1]}" for map in maps)
        lines += textwrap.wrap(f"{name}  largest weight at  {places}", width, subsequent_indent="    ")
    return lines


@as_html.register
def _(heads: Heads, numbers: Iterator[int]) -> Markup:
    scene = gallery_scene(heads.gallery, heads.look, head=False)
    scene.follows_scheme = True
    return draw("pictures", "heads", heads.gallery.title, heads.gallery.caption, [scene])


@as_scene.register
def _(heads: Heads) -> Scene:
    return gallery_scene(heads.gallery, heads.look)


def gallery_scene(gallery: Gallery, look: PictureLook, head: bool = True) -> Scene:
    """Small maps in rows, each row after its name."""
    shape = shape_within(look.pixels, _SMALL)
    left = _MARGIN + max(int(len(name) * _ADVANCE) for name, _ in gallery.rows) + 10
    widest = max(len(maps) for _, maps in gallery.rows)
    scene = Scene(max(_WIDTH, left + widest * (_SMALL + 8) + _MARGIN), 10, clean(gallery.title))
    if head:
        scene.write([gallery.title], _MARGIN, _MARGIN + 12, "title")
        scene.height = scene.write(_wrapped(gallery.caption, _WIDTH), _MARGIN, _MARGIN + _LINE + 12, "small") - 2
    for name, maps in gallery.rows:
        scene.write([name], _MARGIN, scene.height + shape[0] / 2, "small")
        for i, map in enumerate(maps):
            x = left + i * (_SMALL + 8)
            drawn = data_uri(laid_over(look.picture, map, shape))
            tooltip = f"{map.title}: up to {map.largest:.3f}"
            scene.add([Image(x, scene.height, shape[1], shape[0], drawn, tooltip)])
            if map.query is not None:
                scene.add([_outline(map.cell(*map.query), look.pixels, shape, _QUERY)], x, scene.height)
            scene.write([map.short or f"{map.largest:.2f}"], x, scene.height + shape[0] + 12, "small")
        scene.height += shape[0] + 22
    scene.height += 4
    return scene


class DistanceCurves(Curves):
    """Mean attention distance by layer."""

    panel = "distances"


def curves_of(distances: Distances) -> DistanceCurves:
    """A line through the means of the heads of each layer, a dot for each head, and a line for uniform attention."""
    values = distances.values.double()
    ticks = tuple((float(i), str(i)) for i in range(0, len(values), max(1, -(-len(values) // 24))))
    means, heads = enumerate(values.mean(1).tolist()), tuple(map(tuple, values.tolist()))
    line = Line("mean of the heads", tuple(means), others=heads, each="head")
    panel = Panel("pixels", (line,), whole=True, level=(distances.even, ""))
    legend = f"Dots: heads; line: their mean; dashed: uniform attention, {distances.even:.3g}."
    caption = (legend, *textwrap.wrap(distances.caption, 110))
    return DistanceCurves("Mean attention distance by layer", caption, "layer", (panel,), ticks=ticks)


@as_html.register
def _(curves: DistanceCurves, numbers: Iterator[int]) -> Markup:
    return draw("pictures", "distances", curves.title, " ".join(curves.facts), [curves_scene(curves, headed=False)])


# Text ---------------------------------------------------------------------------------------------------------

_COLUMNS = 46
_BRIGHTNESS = " .:-=+*#%@"
_NOTHING = "\u00a0"  # unlike a space, not stripped at the end of a line


def _text_shape(look: PictureLook, columns: int) -> tuple[int, int]:
    """Rows and columns of pixels of a drawing; small pictures are enlarged by a whole factor."""
    height, width = look.pixels
    times = columns // width
    return (height * times, width * times) if times else (max(2, round(height * columns / width)), columns)


def _block(rows: Sequence[Sequence[str]], lines: Sequence[str]) -> Block:
    """Rows of characters, and lines below them."""
    columns = len(rows[0])
    below = [part for line in lines for part in textwrap.wrap(clean(line), max(columns, 20))]
    return [*(("".join(row), columns) for row in rows), *((line, len(line)) for line in below)]


def _picture_block(look: PictureLook, shape: tuple[int, int]) -> Block:
    size = f"the model reads {look.size[1]} x {look.size[0]} pixels"
    picture = with_seen(look.picture, look.seen, shape)
    if shape[0] % 2:
        picture = np.concatenate([picture, picture[-1:]])
    levels = (grey(picture[::2]) + grey(picture[1::2])) / 2 / 256 * len(_BRIGHTNESS)
    seen = ~np.isnan(levels_at(PictureMap("", torch.ones(1, 1), look.seen), look.pixels, (len(levels), shape[1])))
    shown = [
        [_BRIGHTNESS[int(v)] if inside else _NOTHING for v, inside in zip(*row, strict=True)]
        for row in zip(levels, seen, strict=True)
    ]
    return _block(shown, [size if look.sees_all else f"{size}; it does not see the blank part"])


def _sign(level: float) -> str:
    return "-" if level < -0.05 else shaded(level, "\u00b7")


def _map_block(map: PictureMap, look: PictureLook, shape: tuple[int, int]) -> Block:
    """Shades for weights; "o" in the middle of the attending patch; blank outside the map."""
    levels = levels_at(map, look.pixels, (max(1, shape[0] // 2), shape[1]))
    rows = [[_NOTHING if np.isnan(v) else _sign(float(v)) for v in row] for row in levels]
    if map.query is not None:
        cell, (height, width) = map.cell(*map.query), look.pixels
        y = min(int((cell.top + cell.bottom) / 2 * len(rows) / height), len(rows) - 1)
        rows[y][min(int((cell.left + cell.right) / 2 * shape[1] / width), shape[1] - 1)] = "o"
    legend = f"\u00b7 \u2591 \u2592 \u2593 \u2588 0 to {map.largest:.3g} ({map.unit})" + "; - below 0" * map.signed
    return _block(rows, [legend, map.title, map.caption, *map.effects])


# Page ---------------------------------------------------------------------------------------------------------

_VIEWER = 480


def _ground(look: PictureLook, every: Attentions) -> Ground:
    """The picture of a look, for a page with a choice of patch, layer and head."""
    height, width = shape = shape_within(look.pixels, _VIEWER)
    down, across, area = height / look.pixels[0], width / look.pixels[1], every.area
    place = (area.top * down, area.left * across, area.bottom * down, area.right * across)
    picture = data_uri(with_seen(look.picture, look.seen, shape))
    return Ground(picture, shape, every.grid, every.leading, place)


class ShownPicture(Shown):
    """The result of `run.look(picture)`."""

    def __init__(self, look: PictureLook) -> None:
        self.look = look

    @property
    def maps(self) -> tuple[PictureMap, ...]:
        """The maps over the picture."""
        return self.look.maps

    def number(self, query: str, key: str, *, every: bool = False) -> ShownNumber:
        """One weight of attention opened into what it came from.

        Args:
            query: The attending patch as "ROW,COLUMN", counted from 0, or "class" for the class token.
            key: The patch attended to, likewise.
            every: Whether to show all components and keys, not only those that count most.

        Raises:
            ConfigError: There is no such patch; or no attention is shown, or several are.
        """
        recorded = [map for map in self.maps if map.weight_source is not None]
        axis = self.look.every.maps[0].key if self.look.every else Axis("patches", "patch", ())
        labels, places = axis.labels, list[int]()
        for name, patch in (("query", query), ("key", key)):
            label = str(patch).replace(" ", "")
            if recorded and label not in labels:
                raise ConfigError(
                    f"the {name} is '{patch}'; give row and column of a patch, from 0,0 to {labels[-1]}"
                    + (", or class" if labels[0] == "class" else "")
                )
            places.append(labels.index(label) if recorded else 0)
        nothing = torch.empty(0, 0)  # the drawing has one row, or a mean of all of them, so there is nothing to compare
        attentions: list[ShownAttention] = [
            (map.title.partition(": ")[2], (axis, axis), map.weight_source, nothing) for map in recorded
        ]
        return ShownNumber(break_down(attentions, *places), every)

    def document(self) -> Document:
        look = self.look
        blocks: list[Any] = [Pictures(tuple(("", OverPicture(look, map)) for map in (None, *look.maps)))]
        if look.every is not None:
            blocks.append(Thumbnails(look.every.maps, look.title, in_text=False, ground=_ground(look, look.every)))
        blocks += [] if look.gallery is None else [Heads(look, look.gallery)]
        blocks += [] if look.distances is None else [curves_of(look.distances)]
        texts = [("picture", f"{look.source} ({look.pixels[1]} x {look.pixels[0]})")]
        texts += [(look.kind, look.prediction)] if look.prediction else []
        return Document(look.title, tuple(blocks), tuple(texts), look.notes, scripted=look.every is not None)

    def scene(self, index: int | None = None) -> Scene:
        """The picture and its maps; with an index, only that map."""
        return super().scene() if index is None else ShownPicture(self.look.only(index)).scene()

    def json(self) -> str:
        return json_of("heed-picture-look-3", self.look)

    def __repr__(self) -> str:
        count = len(self.maps)
        return f"<look at {self.look.source!r}: {count} map{'' if count == 1 else 's'}; print it, or save it as .html>"
