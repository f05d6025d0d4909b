"""Layout of the drawing of a look: the picture and its maps, the heads, the distances."""

from __future__ import annotations

import textwrap

from heed.data.pictures.sizing import Box
from heed.observe import palette
from heed.observe.labels import clean
from heed.observe.pictures.distance import Distances
from heed.observe.pictures.frames import Gallery, PictureLook, PictureMap
from heed.observe.pictures.raster import laid_over, ramp, shape_within, with_seen
from heed.observe.pictures.scene import Dot, Drawn, Item, Outline, Path, Scene, Spot, Words, stacked

_MARGIN, _LINE, _GAP = 16, 18, 16
_LARGE, _SMALL = 240, 76
_BAR = 100
_WIDTH = 4 * _LARGE + 3 * _GAP + 2 * _MARGIN
_ADVANCE = 6.4  # a generous mean width of an 11 px character, as no font can be measured here
QUERY, MARKED = "#ff3b6b", "#ff9f1a"
"""Colours of the attending patch and of the receptive field."""
_SPOTS = 64 * 64
_PLOT_WIDTH, _PLOT_HEIGHT, _PLOT_LEFT, _PLOT_BOTTOM = 520, 240, 60, 40
_GRID = "#d5dae0"


def look_scene(look: PictureLook) -> Scene:
    """Everything except the steps, in one drawing."""
    parts = [maps_scene(look)]
    if look.gallery is not None:
        parts.append(gallery_scene(look.gallery, look))
    if look.distances is not None:
        parts.append(distances_scene(look.distances))
    return stacked(parts)


def maps_scene(look: PictureLook, head: bool = True) -> Scene:
    """Title, labels and notes; the picture and all maps over it."""
    lines: list[tuple[str, bool]] = [(look.title, True)]
    said = f"{look.source}: {look.said}" if look.said else look.source
    lines += [(line, False) for line in _wrapped(said, _WIDTH)]
    lines += [(line, False) for note in look.notes for line in _wrapped(note, _WIDTH)]
    scene = Scene(_WIDTH, 0, clean(look.title))
    top = float(_MARGIN)
    for line, is_title in lines if head else []:
        scene.items.append(Words(_MARGIN, top + 12, line, "title" if is_title else "plain"))
        top += _LINE
    top += 8 if head else 0
    shape = shape_within((look.picture.shape[0], look.picture.shape[1]), _LARGE)
    panels = [_picture(look, shape), *(_map(one, look, shape) for one in look.maps)]
    per_row = max(1, (_WIDTH - 2 * _MARGIN + _GAP) // (_LARGE + _GAP))
    for start in range(0, len(panels), per_row):
        row = panels[start : start + per_row]
        for i, (items, _) in enumerate(row):
            scene.add(items, _MARGIN + i * (_LARGE + _GAP), top)
        top += max(height for _, height in row) + _GAP
    scene.height = int(top)
    return scene


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(clean(text), int(width / _ADVANCE), break_on_hyphens=False) or [""]


def _picture(look: PictureLook, shape: tuple[int, int]) -> tuple[list[Item], float]:
    height, width = shape
    size = (look.picture.shape[0], look.picture.shape[1])
    items: list[Item] = [
        Drawn(0, 0, width, height, with_seen(look.picture, look.seen, shape) if not _tiny(look) else
              with_seen(look.picture, look.seen, size))
    ]  # fmt: skip
    lines = [f"the picture, {size[1]} x {size[0]} pixels"]
    whole = look.seen.top <= 0 and look.seen.left <= 0 and look.seen.bottom >= size[0] and look.seen.right >= size[1]
    if not whole:
        items.append(_outline(look.seen, size, shape, "#ffffff", dashed=True))
        lines += ["the model does not see the faded part"]
    lines += [f"the model reads {look.size[1]} x {look.size[0]} pixels"]
    items += [Words(0, height + 16 + 15 * i, line, "small") for i, line in enumerate(lines)]
    return items, height + 16 + 15 * len(lines)


def _tiny(look: PictureLook) -> bool:
    """True if the drawing enlarges every pixel, so that the picture can be embedded at its own size."""
    return bool(max(look.picture.shape[:2]) <= _LARGE // 2)


def _outline(box: Box, size: tuple[int, int], shape: tuple[int, int], color: str, dashed: bool = False) -> Outline:
    """The outline of a part of the picture, clipped to the picture."""
    down, across = shape[0] / size[0], shape[1] / size[1]
    top, bottom = (min(max(y, 0), size[0]) * down for y in (box.top, box.bottom))
    left, right = (min(max(x, 0), size[1]) * across for x in (box.left, box.right))
    return Outline(left, top, right - left, bottom - top, color, dashed)


def _map(one: PictureMap, look: PictureLook, shape: tuple[int, int]) -> tuple[list[Item], float]:
    height, width = shape
    size = (look.picture.shape[0], look.picture.shape[1])
    items: list[Item] = [Drawn(0, 0, width, height, laid_over(look.picture, one, shape))]
    items += _spots(one, size, shape)
    if one.marked is not None:
        items.append(_outline(one.marked, size, shape, MARKED))
    if one.query is not None:
        items.append(_outline(one.cell(*one.query), size, shape, QUERY))
    top = height + 8.0
    if one.unit != "":
        items += [
            Drawn(0, top, _BAR, 9, ramp(64)),
            Words(_BAR + 8, top + 9, f"0 to {one.largest:.3g} ({one.unit})", "small"),
        ]
        top += 14
    lines = (
        [*_wrapped(one.title, _LARGE), *_wrapped(one.caption, _LARGE)] if one.caption else _wrapped(one.title, _LARGE)
    )
    items += [Words(0, top + 14 + 15 * i, line, "small") for i, line in enumerate(lines)]
    return items, top + 14 + 15 * len(lines)


def _spots(one: PictureMap, size: tuple[int, int], shape: tuple[int, int]) -> list[Item]:
    """The tooltips of the cells."""
    rows, columns = one.grid
    if rows * columns > _SPOTS:
        return []
    spots: list[Item] = []
    for row in range(rows):
        for column in range(columns):
            edge = _outline(one.cell(row, column), size, shape, "")
            if edge.width > 0 and edge.height > 0:
                said = f"row {row}, column {column}: {float(one.weights[row, column]):.4f}"
                x, y, wide, high = (round(v, 2) for v in (edge.x, edge.y, edge.width, edge.height))
                spots.append(Spot(x, y, wide, high, said))
    return spots


def gallery_scene(gallery: Gallery, look: PictureLook, head: bool = True) -> Scene:
    """Small maps in rows, each row after its name."""
    size = (look.picture.shape[0], look.picture.shape[1])
    shape = shape_within(size, _SMALL)
    left = _MARGIN + max(int(len(name) * _ADVANCE) for name, _ in gallery.rows) + 10
    widest = max(len(maps) for _, maps in gallery.rows)
    scene = Scene(max(_WIDTH, left + widest * (_SMALL + 8) + _MARGIN), 0, clean(gallery.title))
    top = float(_MARGIN if head else 4)
    if head:
        scene.items.append(Words(_MARGIN, top + 12, gallery.title, "title"))
        top += _LINE + 4
        for line in _wrapped(gallery.caption, _WIDTH):
            scene.items.append(Words(_MARGIN, top + 8, line, "small"))
            top += 15
    top += 6
    for name, maps in gallery.rows:
        scene.items.append(Words(_MARGIN, top + shape[0] / 2, name, "small"))
        for i, one in enumerate(maps):
            x = left + i * (_SMALL + 8)
            drawn = laid_over(look.picture, one, shape)
            scene.items.append(Drawn(x, top, shape[1], shape[0], drawn, f"{one.title}: up to {one.largest:.3f}"))
            if one.query is not None:
                scene.add([_outline(one.cell(*one.query), size, shape, QUERY)], x, top)
            scene.items.append(Words(x, top + shape[0] + 12, one.short or f"{one.largest:.2f}", "small"))
        top += shape[0] + 22
    scene.height = int(top + 4)
    return scene


def distances_scene(distances: Distances, head: bool = True) -> Scene:
    """Mean attention distance by layer: dots for heads, a line through their means, another for uniform attention."""
    layers, heads = distances.values.shape
    scene = Scene(_WIDTH, 0, "Mean attention distance by layer")
    top = float(_MARGIN if head else 4)
    if head:
        scene.items.append(Words(_MARGIN, top + 12, "Mean attention distance by layer", "title"))
        top += _LINE + 4
        for line in _wrapped(DISTANCE_CAPTION.format(**distance_words(distances)), _WIDTH):
            scene.items.append(Words(_MARGIN, top + 8, line, "small"))
            top += 15
        top += 8
    values = distances.values.double()
    highest = nice_end(max(float(values.max()), distances.even) * 1.08)
    left, width, height = _MARGIN + _PLOT_LEFT, _PLOT_WIDTH, _PLOT_HEIGHT

    def y_of(value: float) -> float:
        return round(top + height * (1 - value / highest), 2)

    def x_of(layer: int) -> float:
        return round(left + width * (layer + 0.5) / layers, 2)

    for i in range(5):
        value = highest * i / 4
        scene.items.append(Path(((left, y_of(value)), (left + width, y_of(value))), _GRID))
        scene.items.append(Words(left - 6, y_of(value) + 4, f"{value:.3g}", "end"))
    even = y_of(distances.even)
    scene.items.append(Path(((left, even), (left + width, even)), "#4a525c", dashed=True))
    scene.items.append(Words(left + width + 6, even + 4, f"uniform attention {distances.even:.3g}", "small"))
    means = tuple((x_of(i), y_of(float(values[i].mean()))) for i in range(layers))
    scene.items.append(Path(means, palette.LINES[0], thick=1.6))
    for i in range(layers):
        for j in range(heads):
            value = float(values[i, j])
            scene.items.append(
                Dot(x_of(i), y_of(value), 3, palette.LINES[1], f"layer {i}, head {j}: {value:.2f} pixels")
            )
        if layers <= 24 or i % 4 == 0:
            scene.items.append(Words(x_of(i), top + height + 16, str(i), "middle"))
    scene.items.append(Words(left + width / 2, top + height + 32, "layer", "middle"))
    scene.height = int(top + height + _PLOT_BOTTOM)
    return scene


DISTANCE_CAPTION = (
    "Dots: heads; line: their mean. Distance in pixels between attending and attended patches, weighted by attention "
    "(the model reads {size} pixels; {pictures}). Dashed: uniform attention."
)


def distance_words(distances: Distances) -> dict[str, str]:
    """The values for the placeholders of `DISTANCE_CAPTION`."""
    count = distances.pictures
    return {
        "size": f"{distances.size[1]} x {distances.size[0]}",
        "pictures": "this picture" if count == 1 else f"mean of {count:,} pictures",
    }


def nice_end(value: float) -> float:
    """A round number at or above a value."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if power * step >= value)
