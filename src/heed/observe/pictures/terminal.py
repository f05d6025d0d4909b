"""A look at a picture in a terminal: two pixels per character with half blocks, in colour, grey or plain characters.

With 24-bit colour, the upper pixel is the foreground colour of U+2580 and the lower pixel the background. With 256
colours, the same in 24 greys. In a pipe, a character stands for both pixels: brightness for a picture,
shades for weights.
"""

from __future__ import annotations

import textwrap
from typing import Literal

import numpy as np
import torch

from heed.data.pictures.decode import Array
from heed.observe.blocks import GAP, Block, beside
from heed.observe.labels import clean, cut, shaded
from heed.observe.pictures.distance import Distances
from heed.observe.pictures.frames import Figure, Gallery, PictureLook, PictureMap, Step, Table
from heed.observe.pictures.layout import DISTANCE_CAPTION, distance_words
from heed.observe.pictures.raster import colored, fitted, grey, laid_over, ramp, shares_at, with_seen

Ink = Literal["24-bit", "grey", "none"]
"""Colours of a terminal."""

_COLUMNS, _SMALL = 46, 14
_BRIGHTNESS = " .:-=+*#%@"
_NOTHING = "\u00a0"  # unlike a space, not stripped at the end of a line
_UPPER = "\u2580"
_RESET = "\x1b[0m"
_FIRST_GREY, _GREYS = 232, 24


def look_to_lines(look: PictureLook, *, steps: bool, width: int, ink: Ink) -> list[str]:
    """A look as lines; with `steps` also every step from the picture to its label."""
    lines = [clean(look.title), f"picture {clean(look.source)} ({look.picture.shape[1]} x {look.picture.shape[0]})"]
    lines += [f"label   {clean(look.said)}"] if look.said else []
    lines += [f"note    {clean(note)}" for note in look.notes]
    columns = max(8, min(_COLUMNS, (width - GAP) // 2))
    blocks = [_picture_block(look, columns, ink), *(_map_block(one, look, columns, ink) for one in look.maps)]
    lines += ["", *beside(blocks, width)]
    if look.gallery is not None:
        lines += ["", *_gallery(look.gallery, look, width, ink)]
    if look.distances is not None:
        lines += ["", *distances_to_lines(look.distances, width)]
    for number, step in enumerate(look.steps if steps else (), start=1):
        lines += ["", *_step(step, number, len(look.steps), width, ink)]
    return lines


def blocks_of(picture: Array, ink: Ink) -> Block:
    """A picture `(rows, columns, 3)` as lines, one for every two rows of pixels."""
    if picture.shape[0] % 2:
        picture = np.concatenate([picture, picture[-1:]])
    upper, lower = picture[::2], picture[1::2]
    columns = picture.shape[1]
    if ink == "none":
        levels = (grey(upper) + grey(lower)) / 2 / 256 * len(_BRIGHTNESS)
        return [("".join(_BRIGHTNESS[int(level)] for level in row), columns) for row in levels]
    if ink == "grey":
        above, below = (np.round(grey(part) / 255 * (_GREYS - 1)).astype(int) + _FIRST_GREY for part in (upper, lower))
        return [
            ("".join(f"\x1b[38;5;{a};48;5;{b}m{_UPPER}" for a, b in zip(*pair, strict=True)) + _RESET, columns)
            for pair in zip(above, below, strict=True)
        ]
    lines = []
    for top, bottom in zip(upper, lower, strict=True):
        cells = (
            f"\x1b[38;2;{a[0]};{a[1]};{a[2]};48;2;{b[0]};{b[1]};{b[2]}m{_UPPER}"
            for a, b in zip(top.tolist(), bottom.tolist(), strict=True)
        )
        lines.append(("".join(cells) + _RESET, columns))
    return lines


def _shape(look: PictureLook, columns: int) -> tuple[int, int]:
    """Rows and columns of pixels of a drawing; small pictures are enlarged by a whole factor."""
    height, width = look.picture.shape[:2]
    times = columns // width
    if times:
        return height * times, width * times
    return max(2, round(height * columns / width)), columns


def _texts(lines: list[str], columns: int) -> Block:
    wrapped = [part for line in lines for part in textwrap.wrap(clean(line), columns) or [""]]
    return [(line, len(line)) for line in wrapped]


def _picture_block(look: PictureLook, columns: int, ink: Ink) -> Block:
    shape = _shape(look, columns)
    lines = [f"the model reads {look.size[1]} x {look.size[0]} pixels"]
    top, left, bottom, right = look.seen
    if top > 0 or left > 0 or bottom < look.picture.shape[0] or right < look.picture.shape[1]:
        lines[0] += "; it does not see the faded part"
    drawn = blocks_of(with_seen(look.picture, look.seen, shape), ink)
    if ink == "none":
        whole = PictureMap("", torch.ones(1, 1), look.seen)
        reached = shares_at(whole, (look.picture.shape[0], look.picture.shape[1]), (len(drawn), shape[1]))
        drawn = [
            ("".join(_NOTHING if np.isnan(v) else sign for v, sign in zip(row, line, strict=True)), columns)
            for row, (line, columns) in zip(reached, drawn, strict=True)
        ]
    return drawn + _texts(lines, max(shape[1], 20))


def _map_block(one: PictureMap, look: PictureLook, columns: int, ink: Ink) -> Block:
    shape = _shape(look, columns)
    drawn = _plain_map(one, look, shape) if ink == "none" else blocks_of(_marked(one, look, shape), ink)
    below = [one.title, *([one.caption] if one.caption else [])]
    scale = f"0 to {one.largest:.3g} ({one.unit})"
    bar: Block = []
    if ink == "24-bit":
        colors = "".join(f"\x1b[48;2;{r};{g};{b}m " for r, g, b in ramp(12)[0].tolist())
        bar = [(f"{colors}{_RESET} {scale}", 13 + len(scale))]
    else:
        legend = f"\u00b7 \u2591 \u2592 \u2593 \u2588 {scale}" if ink == "none" else f"dark to bright: {scale}"
        bar = [(legend, len(legend))]
    return drawn + bar + _texts(below, max(shape[1], 20))


def _marked(one: PictureMap, look: PictureLook, shape: tuple[int, int]) -> Array:
    """A map with a dot in the middle of the attending patch."""
    drawn = laid_over(look.picture, one, shape).copy()
    if one.query is not None:
        cell, size = one.cell(*one.query), look.picture.shape
        y = int((cell.top + cell.bottom) / 2 * shape[0] / size[0])
        x = int((cell.left + cell.right) / 2 * shape[1] / size[1])
        if 0 <= y < shape[0] and 0 <= x < shape[1]:
            drawn[y, x] = (255, 59, 107)
    return drawn


def _plain_map(one: PictureMap, look: PictureLook, shape: tuple[int, int]) -> Block:
    """Shades for weights; "o" in the middle of the attending patch; blank outside the map."""
    size = (look.picture.shape[0], look.picture.shape[1])
    levels = shares_at(one, size, (max(1, shape[0] // 2), shape[1]))
    rows = [[_NOTHING if np.isnan(v) else shaded(float(v), "\u00b7") for v in row] for row in levels]
    if one.query is not None:
        cell = one.cell(*one.query)
        y = min(int((cell.top + cell.bottom) / 2 * len(rows) / size[0]), len(rows) - 1)
        rows[y][min(int((cell.left + cell.right) / 2 * shape[1] / size[1]), shape[1] - 1)] = "o"
    return [("".join(row), shape[1]) for row in rows]


def _gallery(gallery: Gallery, look: PictureLook, width: int, ink: Ink) -> list[str]:
    """The heads of each layer; in plain characters only the places of largest weight, as shades would be illegible."""
    lines = [gallery.title, *(textwrap.wrap(gallery.caption, width) if gallery.caption else [])]
    if ink == "none":
        for name, maps in gallery.rows:
            said = [f"{one.short}: row {one.best()[0]}, column {one.best()[1]}" for one in maps]
            lines += textwrap.wrap(f"{name}  largest weight at  " + "; ".join(said), width, subsequent_indent="    ")
        return lines
    columns = min(_SMALL, max(8, (width - 10) // 4))
    height, wide = look.picture.shape[:2]
    shape = (max(2, round(height * columns / wide)), columns)
    for name, maps in gallery.rows:
        blocks = []
        for one in maps:
            label = cut(one.short or one.title, columns)
            blocks.append([*blocks_of(laid_over(look.picture, one, shape), ink), (label, len(label))])
        lines += ["", name, *beside(blocks, width)]
    return lines


def distances_to_lines(distances: Distances, width: int) -> list[str]:
    """A line for each layer: the mean of its heads, also as a bar, and each head."""
    said = DISTANCE_CAPTION.format(**distance_words(distances)).replace("Dots: heads; line: their mean. ", "")
    said = said.replace("Dashed: uniform attention.", f"Uniform attention: {distances.even:.3g}.")
    lines = ["Mean attention distance by layer", *textwrap.wrap(said, width), ""]
    highest = max(float(distances.values.max()), distances.even) or 1.0
    for i, row in enumerate(distances.values.tolist()):
        mean = sum(row) / len(row)
        bar = "\u2588" * round(mean / highest * 24)
        heads = " ".join(f"{value:.1f}" for value in row)
        lines.append(cut(f"layer {i:<2} {mean:6.2f}  {bar:<24}  heads {heads}", width))
    return lines


def _step(step: Step, number: int, count: int, width: int, ink: Ink) -> list[str]:
    lines = [f"step {number} of {count}: {step.title}"]
    lines += [part for line in step.prose for part in textwrap.wrap(clean(line), width - 2, initial_indent="  ",
                                                                    subsequent_indent="  ")]  # fmt: skip
    if step.figures and ink != "none":
        lines += ["", *beside([_figure(one, width, ink) for one in step.figures], width)]
    if step.table is not None:
        lines += ["", *_table(step.table, width)]
    return lines


def _figure(figure: Figure, width: int, ink: Ink) -> Block:
    height, wide = figure.picture.shape[0] * figure.enlarged, figure.picture.shape[1] * figure.enlarged
    most = min(width, 60 if wide > 2 * height else 30)
    scale = min(1.0, most / wide)
    shape = (max(2, round(height * scale)), max(1, round(wide * scale)))
    drawn = blocks_of(fitted(colored(figure.picture), *shape), ink)
    return drawn + _texts([figure.caption], max(shape[1], 20))


def _table(table: Table, width: int) -> list[str]:
    rows = [table.heads, *table.rows]
    sizes = [max(len(row[i]) for row in rows) for i in range(len(table.heads))]
    return [
        cut("  " + "  ".join(f"{cell:<{size}}" for cell, size in zip(row, sizes, strict=True)).rstrip(), width)
        for row in rows
    ]
