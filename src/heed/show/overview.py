"""All maps of a look at once: a thumbnail of each, by mechanism, layers from above and heads from left.

Where a map has more cells than a thumbnail has squares, each square shows the largest of several weights, so that a
single strong one is not lost.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heed.errors import ConfigError, suggest
from heed.show.document import as_scene, as_text
from heed.show.draw_svg import colored_uris
from heed.show.scene import Image, Label, Scene
from heed.visible import clean
from heed.watch import palette
from heed.watch.maps import LONG, Map, plural, shaded, shades
from heed.watch.remarks import Remark, entropy, remarks

FEW = 8
"""A page shows more attention maps than these as an overview."""
SORTS = {"entropy": "smallest first", "untrained": "largest distance from the untrained network first"}
"""Measures by which an overview can be ordered."""
DISTANCE = "Δ: distance from the map of the untrained network, the mean total variation of the rows"
MEASURE = "entropy: mean over the rows, as a share of the largest possible"
_SIDE = 64
_GAP = 14
_SHORT = {"same as untrained": "untr", "near-uniform": "even", "same": "diag", "previous": "prev", "alignment": "align"}


@dataclass(frozen=True)
class Entry:
    """A map of an overview; `index` is its place among all maps of the look."""

    index: int
    map: Map
    entropy: float
    remarks: list[Remark]

    @property
    def name(self) -> str:
        """Layer and head, in short."""
        return f"L{self.map.layer}" + ("" if self.map.head is None else f" H{self.map.head}")

    def place(self, sort: str) -> float:
        """Its place in the order of a measure: smaller is earlier, maps without the measure come last."""
        return self.entropy if sort == "entropy" else -(-1.0 if self.map.untrained is None else self.map.untrained)

    def label(self, sort: str | None) -> str:
        """The label of its thumbnail: the head, and the layer too where rows are not layers; its measure."""
        head = "mean" if self.map.head is None else f"H{self.map.head}"
        by_distance = sort == "untrained" and self.map.untrained is not None
        measure = f"Δ{self.map.untrained:.2f}" if by_distance else f"{self.entropy:.2f}"
        return f"{self.name if sort else head} {measure}"

    @property
    def description(self) -> str:
        """Title, entropy and remarks in words."""
        parts, untrained = [self.map.title, f"entropy {self.entropy:.2f}"], self.map.untrained
        parts += [] if untrained is None else [f"distance from the untrained network {untrained:.2f}"]
        return "; ".join([*parts, *(remark.text for remark in self.remarks)])

    @property
    def short(self) -> str:
        """The first remark in one word; "" if there is none."""
        return _SHORT.get(self.remarks[0].kind, self.remarks[0].kind) if self.remarks else ""


def check_sort(sort: str | None) -> None:
    """Refuse an unknown measure.

    Raises:
        ConfigError: There is no such measure.
    """
    if sort is not None and sort not in SORTS:
        raise ConfigError(f"sort is '{sort}'; valid: {', '.join(SORTS)}{suggest(sort, SORTS)}")


def groups(maps: Sequence[Map], sort: str | None = None) -> dict[str, list[list[Entry]]]:
    """The attention maps by mechanism and network, in rows: one for each layer, or with `sort` by that measure."""
    result: dict[str, list[list[Entry]]] = {}
    for index, shown in enumerate(maps):
        if not shown.is_distribution:
            continue
        rows = result.setdefault(f"{shown.mechanism} attention{shown.whose}", [])
        if not rows or rows[-1][0].map.layer != shown.layer:
            rows.append([])
        spread = entropy(shown)
        rows[-1].append(Entry(index, shown, spread, remarks(shown, spread)))
    if sort is None:
        return result
    order = {name: sorted((entry for row in rows for entry in row), key=lambda entry: entry.place(sort))
             for name, rows in result.items()}  # fmt: skip
    wide = {name: max(map(len, rows)) for name, rows in result.items()}
    return {name: [each[i : i + wide[name]] for i in range(0, len(each), wide[name])] for name, each in order.items()}


def heading(name: str, rows: Sequence[Sequence[Entry]]) -> str:
    """Name of a group, number of maps and their size."""
    first = rows[0][0].map
    count = sum(map(len, rows))
    sizes = f"{len(first.query)} x {len(first.key)} {plural(first.key.kind)}"
    return f"{clean(name)}: {count} map{'' if count == 1 else 's'}, {sizes}"


def thumbnail_legend(maps: Sequence[Map], sort: str | None = None) -> str:
    """How to read the thumbnails."""
    measure = MEASURE + (f". {DISTANCE}" if any(map.untrained is not None for map in maps) else "")
    order = f" Ordered by {sort}, {SORTS[sort]}." if sort else ""
    long = any(len(map.key) > LONG for map in maps if map.is_distribution)
    colour = "each row by its own largest weight" if long else "weights from 0 to 1"
    measure = measure[:1].upper() + measure[1:]
    return f"Colour: {colour}. Where a square stands for several weights, it shows the largest. {measure}.{order}"


def thumbnail(map: Map, rows: int, columns: int) -> NDArray[np.float64]:
    """The largest shade in each of at most `rows` x `columns` squares, NaN where all are masked."""
    values = shades(map).values
    for axis, squares in enumerate((rows, columns)):
        size = values.shape[axis]
        if size > squares:
            starts = np.arange(squares) * size // squares
            values = np.fmax.reduceat(values, starts, axis=axis)
    return values


@dataclass(frozen=True)
class Ground:
    """A picture whose patches are the positions of maps: on a page, those of the chosen row are drawn over it."""

    uri: str
    size: tuple[int, int]  # height and width of the drawing
    grid: tuple[int, int]  # rows and columns of patches
    leading: int  # number of positions before the patches
    area: tuple[float, float, float, float]  # top, left, bottom and right of the patches, in pixels of the drawing


@dataclass(frozen=True)
class Thumbnails:
    """All maps of a look at once."""

    maps: tuple[Map, ...]
    title: str = ""  # of the look
    sort: str | None = None
    in_text: bool = True  # False if `each` of its maps is drawn in a terminal instead
    each: tuple[Map, ...] = ()
    ground: Ground | None = None  # drawn on pages only
    panel = "overview"


@as_text.register
def _(overview: Thumbnails, width: int, color: bool) -> list[str]:
    if overview.in_text:
        return overview_to_text(overview.maps, overview.sort, width, color)
    return [] if overview.ground else ["\n\n".join("\n".join(as_text(map, width, color)) for map in overview.each)]


@as_scene.register
def _(overview: Thumbnails) -> Scene | None:
    return None if overview.ground else overview_scene(overview.maps, overview.title, overview.sort)


def overview_to_text(maps: Sequence[Map], sort: str | None, width: int, color: bool) -> list[str]:
    """Thumbnails in block characters, with the entropy and the first remark of each map; then remarks by kind."""
    blocks = []
    for name, rows in groups(maps, sort).items():
        longest_row, label = max(map(len, rows)), 0 if sort else len(f"L{max(row[0].map.layer for row in rows)} ")
        longest = max(len(_head(entry, sort)) for row in rows for entry in row)
        columns = max(longest, min(12, (width - label) // longest_row - 1))
        per_line = max(1, (width - label) // (columns + 1))
        lines = [heading(name, rows)]
        for row in rows:
            for start in range(0, len(row), per_line):
                part = row[start : start + per_line]
                lines += _line_of_thumbnails(part, sort, label, columns, color)
        kinds = _by_kind(rows, width)
        blocks += [*lines, *kinds, *([""] if kinds else [])]
    return [*blocks, *textwrap.wrap(thumbnail_legend(maps, sort), width)]


def _head(entry: Entry, sort: str | None) -> str:
    """The label in few columns: H11 .53."""
    return entry.label(sort).replace(" 0.", " .").replace("1.00", "1.0")


def _line_of_thumbnails(part: Sequence[Entry], sort: str | None, label: int, columns: int, color: bool) -> list[str]:
    height, layer = max(1, columns // 2), "" if sort else f"L{part[0].map.layer}"
    heads = [_head(entry, sort) for entry in part]
    pictures = [_blocks(entry.map, height, columns, color) for entry in part]
    lines = [f"{layer:{label}}" + " ".join(f"{head:{columns}}" for head in heads)]
    lines += [" " * label + " ".join(picture[k] for picture in pictures) for k in range(max(map(len, pictures)))]
    shorts = " ".join(f"{entry.short[:columns]:{columns}}" for entry in part)
    lines += [" " * label + shorts] if shorts.strip() else []
    return [*(line.rstrip() for line in lines), ""]


def _blocks(map: Map, height: int, columns: int, color: bool) -> list[str]:
    """A thumbnail as lines, each of `columns` columns; in colour each character has an upper and a lower square."""
    values = thumbnail(map, height * 2 if color else height, columns)
    blank = " " * (columns - values.shape[1])
    if not color:
        cells = [["/" if math.isnan(v) else shaded(v, "·") for v in row] for row in values]
        return ["".join(row) + blank for row in cells] + [" " * columns] * (height - len(cells))
    lines: list[str] = []
    for top in range(0, len(values), 2):
        lower = values[top + 1] if top + 1 < len(values) else np.full(values.shape[1], np.nan)
        pairs = [[None if math.isnan(v) else float(v) for v in both] for both in zip(values[top], lower, strict=True)]
        lines.append("".join(palette.halves(*pair) for pair in pairs) + blank)
    return lines + [" " * columns] * (height - len(lines))


def _by_kind(rows: Sequence[Sequence[Entry]], width: int) -> list[str]:
    """A line for each kind of remark: the maps with it, and its number in each."""
    maps_by_kind: dict[str, list[str]] = {}
    pairs = ((entry, remark) for row in rows for entry in row for remark in entry.remarks)
    for entry, remark in pairs:
        maps_by_kind.setdefault(remark.kind, []).append(f"{entry.name} {remark.value:.2f}")
    lines = []
    for kind, each in maps_by_kind.items():
        more = f", and {len(each) - 8} more" if len(each) > 8 else ""
        lines += textwrap.wrap(f"{_SHORT.get(kind, kind)}: {', '.join(each[:8])}{more}", width, subsequent_indent="  ")
    return lines


def overview_scene(maps: Sequence[Map], title: str, sort: str | None = None) -> Scene:
    """Thumbnails of at most 64 pixels as one drawing, with the entropy and the first remark of each map."""
    rows_by_group = groups(maps, sort)
    every_row = [row for rows in rows_by_group.values() for row in rows]
    widest = max(map(len, every_row), default=1)
    longest = max((len(entry.label(sort)) for row in every_row for entry in row), default=0)
    left, step = 16 + 26, max(_SIDE + _GAP, 6.2 * longest + 8)
    scene = Scene(max(520, left + widest * step), 0, f"{clean(title)}: overview of {len(maps)} maps")
    y = scene.write([clean(title)], 16, 28, "title", 22)
    for name, rows in rows_by_group.items():
        y = scene.write([heading(name, rows)], 16, y + 14, "plain", 14)
        for row in rows:
            sizes = [_drawn_size(entry.map) for entry in row]
            if sort is None:
                scene.add([Label(16, y + 22, f"L{row[0].map.layer}", "small")])
            for k, (entry, (width, height)) in enumerate(zip(row, sizes, strict=True)):
                x = left + k * step
                scene.add([Label(x, y + 10, entry.label(sort), "small"),
                           Image(x, y + 14, width, height, _picture(entry.map), entry.description),
                           Label(x, y + 26 + height, entry.short, "small")])  # fmt: skip
            y += max(height for _, height in sizes) + 38
    y = scene.write(textwrap.wrap(thumbnail_legend(maps, sort), int(scene.width / 6.2)), 16, y + 8, "small")
    scene.height = y
    return scene


def _drawn_size(map: Map) -> tuple[float, float]:
    scale = _SIDE / max(1, len(map.query), len(map.key))
    return max(4.0, len(map.key) * scale), max(4.0, len(map.query) * scale)


def _picture(map: Map) -> tuple[str, str]:
    return colored_uris(thumbnail(map, _SIDE, _SIDE), map, ("#eceff2", "#2b3038"))
