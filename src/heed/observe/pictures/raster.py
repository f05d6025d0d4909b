"""Pictures with maps laid over them, as arrays; and arrays as data URIs for pages.

The background is the picture in grey. The colour shows the number: the ramp of `palette.DARK` from 0 (dark) to the
largest number of the map (bright), mixed with the background at a fixed strength, so that equal colours mean equal
numbers.
"""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.observe import palette
from heed.observe.pictures.looks import PictureMap

STRENGTH = 0.56
"""Share of the colour in each pixel; the rest is the picture in grey."""

_FADED, _PAPER = 0.3, 225.0
"""Remaining contrast of parts that the model did not see, and the light grey to which they fade."""

_PNG_UP_TO = 60_000
_QUALITY = 88
_GREY = np.array([0.299, 0.587, 0.114])


def ramp(steps: int = 256) -> Array:
    """The colours from 0 to the largest number, `(1, steps, 3)`."""
    return _ramp(steps)[None]


def _ramp(steps: int) -> Array:
    shades = [palette.shade(i / (steps - 1), palette.DARK) for i in range(steps)]
    return np.array([[int(shade[i : i + 2], 16) for i in (1, 3, 5)] for shade in shades], dtype=np.uint8)


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
    sampling = Image.Resampling.BOX if shrinks else Image.Resampling.NEAREST
    resized = np.asarray(Image.fromarray(np.ascontiguousarray(flat)).resize((width, height), sampling))
    return resized.reshape(height, width, picture.shape[2])


def shape_within(size: tuple[int, int], most: int) -> tuple[int, int]:
    """Height and width at which to draw a picture of size `size`, the longer side near `most`.

    Small pictures are enlarged by a whole factor, so that their pixels stay equal squares.
    """
    height, width = size
    longer = max(height, width)
    if longer <= most // 2:
        return height * (most // longer), width * (most // longer)
    scale = most / longer if longer > most else 1.0
    return max(1, round(height * scale)), max(1, round(width * scale))


def shares_at(one: PictureMap, size: tuple[int, int], shape: tuple[int, int]) -> NDArray[np.float64]:
    """The level of a map at each pixel of a drawing, 0 to 1, NaN outside the map.

    Args:
        one: The map.
        size: Height and width of the picture.
        shape: Height and width of the drawing of the whole picture.
    """
    (rows, columns), area, reach = one.grid, one.area, one.reach or one.area
    y = (np.arange(shape[0]) + 0.5) * size[0] / shape[0]
    x = (np.arange(shape[1]) + 0.5) * size[1] / shape[1]
    down = np.floor((y - area.top) / (area.bottom - area.top) * rows).astype(int)
    across = np.floor((x - area.left) / (area.right - area.left) * columns).astype(int)
    values: NDArray[np.float64] = (
        one.levels().numpy()[np.clip(down, 0, rows - 1)[:, None], np.clip(across, 0, columns - 1)].astype(np.float64)
    )
    values[~_inside(reach, y, x)] = np.nan
    return values


def _inside(box: Box, y: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = ((y >= box.top) & (y < box.bottom))[:, None] & ((x >= box.left) & (x < box.right))
    return inside


def laid_over(picture: Array, one: PictureMap, shape: tuple[int, int]) -> Array:
    """A map over a picture, `(height, width, 3)`; the picture is faded outside the map."""
    ground = grey(fitted(colored(picture), *shape))[:, :, None]
    levels = shares_at(one, (picture.shape[0], picture.shape[1]), shape)
    outside = np.isnan(levels)
    colors = _ramp(256)[np.round(np.where(outside, 0.0, levels) * 255).astype(int)]
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
    image = Image.fromarray(colored(picture))
    buffer, kind = io.BytesIO(), "png"
    image.save(buffer, "PNG", optimize=False)
    if buffer.tell() > _PNG_UP_TO:
        buffer, kind = io.BytesIO(), "jpeg"
        image.save(buffer, "JPEG", quality=_QUALITY)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
