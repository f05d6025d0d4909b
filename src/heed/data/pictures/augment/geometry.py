"""Shifting, shearing, rotating and cropping pictures; pixels from outside are black.

Results are bit-identical to Pillow's `Image.transform` with the nearest pixel.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from heed.data.pictures.decode import Array

Numbers = NDArray[np.float64]
"""One number for each picture of a batch."""


def flip(pictures: Array, chosen: NDArray[np.bool_]) -> Array:
    """Mirror the chosen pictures, left to right."""
    flipped = pictures.copy()
    flipped[chosen] = pictures[chosen][:, :, ::-1]
    return flipped


def crop(pictures: Array, border: int, tops: NDArray[np.int64], lefts: NDArray[np.int64]) -> Array:
    """Cut pictures of the same size out of pictures with a black border, at these rows and columns.

    Args:
        pictures: `(batch, height, width, channels)`.
        border: Pixels of black on each side.
        tops: First row of each, from 0 to `2 * border`.
        lefts: First column of each, from 0 to `2 * border`.

    Source: He et al. 2016, arXiv:1512.03385, section 4.2.
    """
    batch, height, width, channels = pictures.shape
    wide = np.zeros((batch, height + 2 * border, width + 2 * border, channels), dtype=np.uint8)
    wide[:, border : border + height, border : border + width] = pictures
    # A view of every possible crop, so that one access copies all chosen ones.
    steps = wide.strides
    shape = (batch, 2 * border + 1, 2 * border + 1, height, width * channels)
    cuts = as_strided(wide, shape, (steps[0], steps[1], steps[2], steps[1], 1), writeable=False)
    return cuts[np.arange(batch), tops, lefts].reshape(pictures.shape)


def shear_x(pictures: Array, amounts: Numbers) -> Array:
    """Shift each row by its index times the amount."""
    return _moved(pictures, [1.0, amounts, 0.0, 0.0, 1.0, 0.0])


def shear_y(pictures: Array, amounts: Numbers) -> Array:
    """Shift each column by its index times the amount."""
    return _moved(pictures, [1.0, 0.0, 0.0, amounts, 1.0, 0.0])


def translate_x(pictures: Array, amounts: Numbers) -> Array:
    """Shift by whole pixels, to the left if positive."""
    return _moved(pictures, [1.0, 0.0, np.trunc(amounts), 0.0, 1.0, 0.0])


def translate_y(pictures: Array, amounts: Numbers) -> Array:
    """Shift by whole pixels, up if positive."""
    return _moved(pictures, [1.0, 0.0, 0.0, 0.0, 1.0, np.trunc(amounts)])


def rotate(pictures: Array, degrees: Numbers) -> Array:
    """Rotate around the centre, counter-clockwise if positive."""
    angle = -np.deg2rad(degrees)
    _, height, width, _ = pictures.shape
    cosine, sine = np.cos(angle), np.sin(angle)
    x, y = width / 2, height / 2
    return _moved(pictures, [cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y])


def _moved(pictures: Array, matrix: list[float | Numbers]) -> Array:
    """Affine transformation: pixel (x, y) is the old pixel `(a x + b y + c, d x + e y + f)`, between pixel centres.

    Computed in fixed point with 16 fractional bits, as in Pillow.
    """
    batch, height, width, channels = pictures.shape
    a, b, c, d, e, f = (np.broadcast_to(np.asarray(value, dtype=np.float64), batch) for value in matrix)
    x, y = np.arange(width), np.arange(height)[:, None]
    columns, rows = (
        (part[:, :1, None] * x + part[:, 1:2, None] * y + part[:, 2:, None]) >> 16
        for part in (_fixed(a, b, c), _fixed(d, e, f))
    )
    outside = (columns < 0) | (columns >= width) | (rows < 0) | (rows >= height)
    places = np.arange(0, batch * height * width, height * width)[:, None, None] + rows * width + columns
    places[outside] = 0
    moved: Array = pictures.reshape(-1, channels).take(places.reshape(-1), axis=0).reshape(pictures.shape)
    moved[outside] = 0
    return moved


def _fixed(by_x: Numbers, by_y: Numbers, start: Numbers) -> NDArray[np.int64]:
    """Fixed-point coefficients `(batch, 3)` of one coordinate, shifted to pixel centres."""
    values = np.stack([by_x, by_y, start + by_x / 2 + by_y / 2], axis=1)
    return np.floor(values * 65536.0 + 0.5).astype(np.int64)
