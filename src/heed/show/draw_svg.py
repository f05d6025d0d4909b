"""Maps and shaded words as drawings, made without a plotting library."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from heed.show.document import as_scene
from heed.show.number_tables import nested_table
from heed.show.scene import GROUNDS, MASKED, QUIET, Box, Color, Image, Item, Label, Path, Scene
from heed.visible import clean, visible
from heed.watch import palette
from heed.watch.looks import Shading
from heed.watch.maps import LONG, Axis, Map, Shades, axes_line, axis_name, cell_name, cut, shades
from heed.watch.remarks import remarks

MAX_CELLS = 64 * 64
"""Larger maps are drawn as one embedded picture: an SVG with a rectangle for each cell would be tens of megabytes."""

MASKED_PIXEL = "#d9dde2", "#3a414b"
_STEPS = 250
_FONT = 12
_ADVANCE = 7.3  # a generous mean width of a 12 px character, as SVG text has no measured width
_HEADER_ADVANCE, _TITLE_ADVANCE = 6.6, 8.8
_LONGEST = 24
_NUMBER_FROM = 28
_MARGIN = 16
_BAR = 160
_LARGEST = 1024  # pixels of a large map, on its longer side
_PIXELS = " One square for each cell; not all rows and columns are labelled. Numbers: see the HTML or JSON form."
_BY_ROW = " Colour: each row by its own largest weight."
_QUIET = "#4a525c", "#a6adb6"  # for numbers near zero, so that the others stand out
_FRAME = "#9aa3ad"


def map_scene(map: Map, cell: int = 30) -> Scene:
    """Draw a map with cells of `cell` pixels.

    The scale is fixed from 0 to 1, so that figures can be compared; above `LONG` keys it is that of each row, and cells
    are smaller, so that a map fits a page. Cells of at least 28 px show their number; every cell has a tooltip with its
    labels and weight. Masked cells are hatched. A map of more than `MAX_CELLS` cells is drawn as one embedded picture,
    with masked cells in grey and only some of the labels.
    """
    small = len(map.query) * len(map.key) <= MAX_CELLS
    longest = max(len(map.query), len(map.key))
    if longest > LONG and not (small and map.token_width):
        cell = max(_FONT if small else 1, min(cell, _LARGEST // longest))
    wide = cell + (6 * map.token_width if small else 0)
    step = 1 if cell >= _FONT else -(-_FONT * 5 // (4 * cell))  # between two labels
    left = _MARGIN + _extent(map.query) + 8 + _FONT + 8  # labels, and the name of the axis beside them
    shown = shades(map)
    more = _BY_ROW * shown.by_row + ("" if small else _PIXELS)
    upright = all(len(_label(label)) * _ADVANCE <= wide for label in map.key.labels)
    turned = int(_extent(map.key) * 0.87)
    width = max(left + wide * len(map.key) + _MARGIN + (0 if upright else int(_extent(map.key) / 2)), 420)
    fitting = min(90, int((width - 2 * _MARGIN) / _HEADER_ADVANCE))  # a wide caption would make the map small in print
    header = [clean(map.title), axes_line(map), *_wrapped(map.caption + more, fitting)]
    texts = *map.effects, *(f"Remark: {remark.text}." for remark in remarks(map))
    header += [line for text in texts for line in _wrapped(text, fitting)]
    top = _MARGIN + 18 * len(header) + 24 + (_FONT if upright else turned + 6)
    longest_line = max(len(header[0]) * _TITLE_ADVANCE, *(len(line) * _HEADER_ADVANCE for line in header[1:]))
    width = max(width, int(longest_line) + 2 * _MARGIN)
    bottom = top + cell * len(map.query)
    scene = Scene(width, bottom + 56, f"{header[0]}; {header[1]}", _header(header))
    scene.add([
        Label(left, top - (_FONT + 12 if upright else turned + 16), f"{axis_name(map.key)} \u2192", "small"),
        Label(_MARGIN + 4, top + cell * len(map.query) / 2, f"\u2190 {axis_name(map.query)}", "middle", -90),
    ])  # fmt: skip
    for i in range(0, len(map.query), step):
        scene.add([Label(left - 6, top + cell * (i + 0.5) + 4, _label(map.query.labels[i]), "row")])
    for i in range(0, len(map.key), step):
        x, label = left + wide * (i + 0.5), _label(map.key.labels[i])
        scene.add([Label(x, top - 6, label, "middle") if upright else Label(x + 4, top - 6, label, turn=-60)])
    scene.add(_cells(map, shown, wide, cell) if small else [_pixels(map, shown, cell)], left, top)
    for part in map.query.parts[1:]:
        scene.add([Path(((left - 4, y := top + cell * part.start), (left + wide * len(map.key), y)), QUIET, 1.5)])
    for part in map.key.parts:
        x, room = left + wide * part.start, int(wide * (part.stop - part.start) / _ADVANCE)
        scene.add([Path(((x, top - 4), (x, bottom + 14)), QUIET, 1.5)])
        scene.add([Label(x + 3, bottom + 13, cut(visible(part.label), max(1, room)), "small")])
    scene.add(_color_bar(map, shown.by_row, MASKED if small else MASKED_PIXEL), left, bottom + 24)
    return scene


@as_scene.register
def _(map: Map) -> Scene:
    return map_scene(map, 36 if map.vmin else 30)


def _label(label: str) -> str:
    return cut(visible(label), _LONGEST)


def _extent(axis: Axis) -> int:
    return int(max((len(_label(label)) for label in axis.labels), default=0) * _ADVANCE)


def _wrapped(text: str, fitting: int = 90) -> list[str]:
    return textwrap.wrap(clean(text), fitting, break_long_words=False, break_on_hyphens=False)


def _header(lines: list[str]) -> list[Item]:
    title, *more = lines
    below = [Label(_MARGIN, _MARGIN + 30 + 18 * i, line, "plain" if i else "small") for i, line in enumerate(more)]
    return [Label(_MARGIN, _MARGIN + 12, title, "title"), *below]


def _cells(map: Map, shown: Shades, wide: int, cell: int) -> Iterable[Item]:
    for i, (query, row) in enumerate(zip(map.query.labels, map.cells(), strict=True)):
        for j, (key, weight) in enumerate(zip(map.key.labels, row, strict=True)):
            number = "masked" if weight is None else map.token(i, j, 40) + map.number(weight, 3)
            color = ("", "") if weight is None else map.colors(float(shown.values[i, j]))
            fill = MASKED if weight is None else color
            yield Box(wide * j, cell * i, wide, cell, fill, f"{cell_name(map, query, key)} {number}", kind="cell")
            if cell >= _NUMBER_FROM and weight is not None:
                ink = _QUIET if abs(shown.values[i, j]) < 0.025 * map.vmax else palette.inks(color)
                text = map.token(i, j) + map.number(weight)
                yield Label(wide * (j + 0.5), cell * (i + 0.5) + 3.5, text, "number", color=ink)


def _pixels(map: Map, shown: Shades, cell: int) -> Image:
    """The cells as one picture with a pixel for each; equal maps give equal bytes."""
    places = (shown.values - map.vmin) / (map.vmax - map.vmin)
    return Image(0, 0, cell * len(map.key), cell * len(map.query), colored_uris(places, map))


def colored_uris(places: NDArray[np.float64], map: Map, masked: tuple[str, str] = MASKED_PIXEL) -> tuple[str, str]:
    """Places on the scale of a map, 0 to 1, `(rows, columns)`, in its colours as PNGs in data URIs; NaN is masked."""
    scale = [map.colors(map.vmin + i / _STEPS * (map.vmax - map.vmin)) for i in range(_STEPS + 1)]
    steps = np.where(np.isnan(places), _STEPS + 1, np.rint(np.nan_to_num(places).clip(0, 1) * _STEPS)).astype(np.uint8)
    light, dark = zip(*scale, masked, strict=True)
    return png_uri(steps, light), png_uri(steps, dark)


def png_uri(steps: NDArray[np.uint8], colors: Sequence[str]) -> str:
    """A matrix of numbers of colours as a PNG in a data URI."""
    from PIL import Image as Pillow

    used, places = np.unique(steps, return_inverse=True)  # a palette of all colours is larger than most thumbnails
    image = Pillow.fromarray(places.reshape(steps.shape).astype(np.uint8), "P")
    image.putpalette(b"".join(bytes.fromhex(colors[i][1:]) for i in used))
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _color_bar(map: Map, by_row: bool, masked: Color) -> Iterable[Item]:
    ends = f"{map.vmin:.3g}", "row's largest" if by_row else f"{map.vmax:.3g}"
    yield Image(0, 0, _BAR, 10, colored_uris(np.linspace(0, 1, _BAR)[None], map))
    yield Box(0, 0, _BAR, 10, stroke=_FRAME)
    yield from (
        Label(0, 24, ends[0], "small"),
        Label(_BAR / 2 - 20 * by_row, 24, map.unit, "middle"),
        Label(_BAR, 24, ends[1], "end"),
    )
    if map.has_masked:
        yield from (Box(_BAR + 24, 0, 10, 10, masked, stroke=_FRAME), Label(_BAR + 40, 9, "masked", "small"))


# Shaded words -------------------------------------------------------------------------------------------------

_WORD_ADVANCE = 7.5
_LINE, _TAGGED_LINE, _GAP = 26, 42, 4
_WIDTH = 760
_OTHERS = 90
_PART = 60  # width of the bar of a part with all of the weight
_ROWS = 12  # of the numbers below
_SMALL = 11 / 12  # of a small character, in width


@as_scene.register(Shading)
def shading_scene(shading: Shading) -> Scene:
    """The text in lines of fixed width, each word on its background colour."""
    head = textwrap.wrap(clean(shading.title), 86, break_on_hyphens=False) or [clean(shading.title)]
    scene = Scene(_WIDTH, 0, clean(shading.title))
    top = scene.write(head, _MARGIN, _MARGIN + 12, "title", 18) - 4
    scale = "under each word: its tag and the tag's probability" if shading.tags else shading.scale_with_colors
    effects = [line for effect in shading.effects for line in _wrapped(effect)]
    top = scene.write([scale, *effects], _MARGIN, top + 4, "small") - 19
    grounds = {i: span.color for span in shading.spans for i in range(span.start, span.stop)}
    line = _TAGGED_LINE if shading.tags else _LINE
    sums = {part.start: shading.part_sum(part) for part in shading.axis.parts if part.stop > part.start}
    names = {part.start: f"{sums[part.start]:.3f}  {cut(visible(part.label), 24)}"
             for part in shading.axis.parts if part.start in sums}  # fmt: skip
    left = _MARGIN + (_PART + 2 * _GAP) * shading.nested  # of the names of parts, after their bars
    indent = left + max((len(name) * _WORD_ADVANCE * _SMALL + _GAP for name in names.values()), default=0.0)
    x, y = indent, top + 18.0
    for i, label in enumerate(shading.axis.labels):
        number = shading.number(i)
        word = f"{number}  {cut(visible(label), 80)}" if shading.listed else cut(visible(label), 80)
        tag = f"{clean(shading.tags[i])} {shading.weights[i]:.2f}" if shading.tags else ""
        width = max(len(word), len(tag)) * _WORD_ADVANCE + 6
        begins = i in names and i > 0
        if begins or (x > indent and (shading.listed or x + width > _WIDTH - _MARGIN)):
            x, y = indent, y + line
        if i in names:
            bar = Box(_MARGIN, y + 4, _PART * min(1.0, sums[i]), 12, palette.shades(0.6), f"{names[i]}")
            scene.add([*([bar] if shading.nested else []), Label(left, y + 14.5, names[i], "small")])
        color = _ground(shading, i, grounds.get(i))
        scene.add([Box(x, y, width, 20, color, f"{visible(label)} {number}", corner=3)])
        scene.add([Label(x + 3, y + 14.5, word, color=palette.inks(color))])
        if tag:
            scene.add([Label(x + 3, y + 33, tag, "small")])
        elif shading.listed and shading.others:
            scene.add([Label(x + width + 8, y + 14.5, cut(clean(shading.others[i]), _OTHERS), "small")])
        x += width + _GAP
    scene.height = int(y + line + _MARGIN)
    if shading.nested:
        table = nested_table(shading, _ROWS)
        rows = zip(table.rows, table.values.tolist(), strict=True)
        lines = [f"{part:.3f} \u00d7 {inside:.3f} = {whole:.3f}  {label}" for label, (part, inside, whole) in rows]
        scene.height = scene.write([table.title, *lines], _MARGIN, scene.height + 8, "small") + 8
    return scene


def _ground(shading: Shading, i: int, color: int | None) -> tuple[str, str]:
    if shading.tags:
        tags = palette.TAGS_LIGHT, palette.TAGS_DARK
        return GROUNDS if color is None else (tags[0][color % len(tags[0])], tags[1][color % len(tags[1])])
    return palette.shades(shading.level(i), shading.signed, shading.still)
