"""Random changes of training pictures as functions of whole batches, and the random numbers that they draw.

Pictures are arrays `(batch, height, width, channels)` from 0 to 255; the strength may differ between pictures. Each
random number is a hash of (seed, pass, example), so neither the order of drawing, nor threads, nor the other examples
of the batch matter, and no generator is needed for each picture.

Moved pictures are bit-identical to Pillow's `Image.transform` with the nearest pixel; pixels from outside are black.
Changes of colour have the same results as Pillow's `ImageOps` and `ImageEnhance`; for the last four, strength 1 leaves
a picture as it is, and 0 makes it black, uniformly grey, colourless or smooth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from heed.data.pictures.decode import Array
from heed.data.sequences import STEP, mixed


class Draws:
    """The random numbers of some examples in one pass; each named use has separate numbers."""

    def __init__(self, seed: int, epoch: int, indices: Sequence[int] | NDArray[np.int64]) -> None:
        digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8).digest()
        start = np.frombuffer(digest, dtype=np.uint64)
        self._states = mixed(mixed(np.asarray(indices, dtype=np.uint64) * STEP + start) + start)

    def __len__(self) -> int:
        return len(self._states)

    def of(self, places: NDArray[np.int64]) -> Draws:
        """The random numbers of some of the examples."""
        part = Draws.__new__(Draws)
        part._states = self._states[places]
        return part

    def bits(self, use: str) -> NDArray[np.uint64]:
        """64 random bits for each example."""
        return mixed(self._states ^ np.frombuffer(hashlib.blake2b(use.encode(), digest_size=8).digest(), np.uint64))

    def uniform(self, use: str, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
        """A number in [`low`, `high`) for each example."""
        return low + (high - low) * (self.bits(use) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, use: str, counts: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """A whole number from 0 to `counts` - 1 for each example."""
        return (self.uniform(use) * counts).astype(np.int64)

    def chance(self, use: str, probability: float) -> NDArray[np.bool_]:
        """True for each example with this probability."""
        return self.uniform(use) < probability

    def noise(self, use: str, example: int, count: int) -> NDArray[np.uint8]:
        """`count` random bytes for one example."""
        words = np.arange(-(-count // 8), dtype=np.uint64) * STEP + self.bits(use)[example : example + 1]
        return mixed(words).view(np.uint8)[:count]


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


_VALUES = np.arange(256)
_LUMA = np.array([19595, 38470, 7471], dtype=np.uint32)  # / 65536, ITU-R 601-2 as in Pillow's mode "L"


def autocontrast(pictures: Array) -> Array:
    """Stretch each channel so that its darkest pixel is 0 and its brightest 255."""
    found = _histograms(pictures) > 0
    low, high = found.argmax(-1)[..., None], 255 - found[..., ::-1].argmax(-1)[..., None]
    scale = 255.0 / np.maximum(1.0, high - low)
    table = np.clip(np.trunc(_VALUES * scale - low * scale), 0, 255)
    return _looked_up(pictures, np.where(high > low, table, _VALUES))


def equalize(pictures: Array) -> Array:
    """Spread the pixels of each channel evenly over all values."""
    counts = _histograms(pictures)
    last = np.take_along_axis(counts, 255 - (counts[..., ::-1] > 0).argmax(-1)[..., None], axis=-1)
    step = (counts.sum(-1, keepdims=True) - last) // 255
    before = np.cumsum(counts, axis=-1) - counts
    table = np.minimum(255, (step // 2 + before) // np.maximum(1, step))
    return _looked_up(pictures, np.where(step > 0, table, _VALUES))


def solarize(pictures: Array, thresholds: Numbers) -> Array:
    """Invert the pixel values from a threshold upwards."""
    table = np.where(thresholds[:, None, None] > _VALUES, _VALUES, 255 - _VALUES)
    return _looked_up(pictures, table)


def posterize(pictures: Array, bits: Numbers) -> Array:
    """Keep the highest bits of each value."""
    dropped = 8 - bits.astype(np.int64)[:, None, None]
    return _looked_up(pictures, _VALUES >> dropped << dropped)


def brightness(pictures: Array, strengths: Numbers) -> Array:
    """Brighten with a strength above 1, darken below."""
    return _looked_up(pictures, _blended(0, _VALUES, strengths[:, None, None]))


def contrast(pictures: Array, strengths: Numbers) -> Array:
    """Raise the contrast with a strength above 1: values move away from the picture's mean grey."""
    mean = np.floor(_luma(pictures).mean((1, 2)) + 0.5)[:, None, None]
    return _looked_up(pictures, _blended(mean, _VALUES, strengths[:, None, None]))


def colour(pictures: Array, strengths: Numbers) -> Array:
    """Raise the saturation with a strength above 1; a grey picture is left as it is."""
    if pictures.shape[-1] == 1:
        return pictures
    return _blended(_luma(pictures)[..., None], pictures, strengths[:, None, None, None])


def sharpness(pictures: Array, strengths: Numbers) -> Array:
    """Sharpen with a strength above 1, smooth below; the outermost pixels are left as they are."""
    smooth = pictures.copy()
    if min(pictures.shape[1:3]) > 2:
        wide = pictures.astype(np.uint16)
        across = wide[:, :, :-2] + wide[:, :, 1:-1] + wide[:, :, 2:]
        total = across[:, :-2] + across[:, 1:-1] + across[:, 2:] + 4 * wide[:, 1:-1, 1:-1]
        smooth[:, 1:-1, 1:-1] = (total + 6) // 13  # rounded: 13 is odd
    return _blended(smooth, pictures, strengths[:, None, None, None])


def _blended(zero: NDArray[np.generic] | int, one: NDArray[np.generic], strengths: Numbers) -> Array:
    """`zero + strength * (one - zero)` in single precision, rounded down, from 0 to 255."""
    start = np.asarray(zero, dtype=np.float32)
    values = start + strengths.astype(np.float32) * (one.astype(np.float32) - start)
    return np.clip(values, 0, 255).astype(np.uint8)


def _luma(pictures: Array) -> NDArray[np.uint32]:
    """Grey values `(batch, height, width)`."""
    if pictures.shape[-1] == 1:
        return pictures[..., 0].astype(np.uint32)
    red, green, blue = (pictures[..., i] * _LUMA[i] for i in range(3))
    luma: NDArray[np.uint32] = (red + green + blue + np.uint32(0x8000)) >> np.uint32(16)
    return luma


def _looked_up(pictures: Array, tables: NDArray[np.generic]) -> Array:
    """Replace each value by its entry in a table `(batch, channels or 1, 256)`.

    `bytes.translate` takes a twentieth of the time of an array of indices.
    """
    out = np.empty_like(pictures)
    for i, of_picture in enumerate(tables.astype(np.uint8)):
        for channel, table in enumerate(of_picture):
            part = (i, ..., channel) if len(of_picture) > 1 else (i,)
            values = pictures[part].tobytes().translate(table.tobytes())
            out[part] = np.frombuffer(values, dtype=np.uint8).reshape(out[part].shape)
    return out


def _histograms(pictures: Array) -> NDArray[np.int64]:
    """Counts of each value, `(batch, channels, 256)`."""
    planes = pictures.transpose(0, 3, 1, 2).reshape(-1, pictures[0, ..., 0].size)
    counts = [np.bincount(plane, minlength=256) for plane in planes]
    return np.stack(counts).reshape(len(pictures), -1, 256)
