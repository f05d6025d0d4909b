"""Augmentation of training pictures: operations on whole batches, and all random changes of a configuration, in order.

Pictures are arrays `(batch, height, width, channels)` from 0 to 255; the strength may differ between pictures. Each
random number is a hash of (seed, pass, example), so neither the order of drawing, nor threads, nor the other examples
of the batch matter, and no generator is needed for each picture.

Moved pictures are bit-identical to Pillow's `Image.transform` with the nearest pixel; pixels from outside are black.
Changes of colour have the same results as Pillow's `ImageOps` and `ImageEnhance`; for the last four, strength 1 leaves
a picture as it is, and 0 makes it black, uniformly grey, colourless or smooth.

Erasing (Zhong et al. 2020, arXiv:1708.04896): a rectangle becomes noise; areas and shapes as in the paper, and its best
filling, noise (RE-R).

Mixing: pictures of a batch are mixed with one another, and their labels in the same proportion. j is the example before
i in its batch (the last one for the first).

mixup:  x = share * x_i + (1 - share) * x_j
cutmix: x = x_i, but x_j within a rectangle of 1 - share of the area
both:   y = share * y_i + (1 - share) * y_j,   share ~ Beta(alpha, alpha)

Source: Zhang et al. 2018, arXiv:1710.09412, equation 1; Yun et al. 2019, arXiv:1905.04899, section 3.1.
Differs from the papers: each picture has a separate share, where their code draws one for each batch.

RandAugment: some random operations of one magnitude for each picture.
Source: Cubuk et al. 2020, arXiv:1909.13719; the largest amounts, at 30, are those of torchvision.

| operation | amount at magnitude m of 30 | sign |
|---|---|---|
| identity, autocontrast, equalize | | |
| brightness, colour, contrast, sharpness | strength 1 + 0.9 m / 30 | random |
| rotate | m degrees | random |
| shear_x, shear_y | 0.3 m / 30 | random |
| translate_x, translate_y | 150 / 331 of the width or height * m / 30 | random |
| posterize | 8 - round(4 m / 30) bits | |
| solarize | threshold 255 (1 - m / 30) | |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from heed.config.pictures import AugmentSection
from heed.data.examples import STEP, mixed
from heed.data.pictures.decode import Array


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


_AREA = 0.02, 0.4
"""Smallest and largest share of the picture."""
_SHAPE = 0.3, 1 / 0.3
"""Smallest and largest ratio of height to width."""
_TRIES = 10
"""Most rectangles drawn for a picture until one fits; if none does, the picture is left as it is."""


def erase(pictures: Array, probability: float, draws: Draws) -> Array:
    """Erase a rectangle in each picture with this probability."""
    _, height, width, channels = pictures.shape
    waiting = draws.chance("erase", probability)
    erased = pictures.copy()
    for attempt in range(_TRIES):
        area = draws.uniform(f"erase area {attempt}", *_AREA) * (height * width)
        shape = np.exp(draws.uniform(f"erase shape {attempt}", *np.log(_SHAPE)))
        heights, widths = (np.maximum(1, np.rint(np.sqrt(area * by))).astype(np.int64) for by in (shape, 1 / shape))
        fits = waiting & (heights < height) & (widths < width)
        tops = draws.below(f"erase top {attempt}", height - heights + 1)
        lefts = draws.below(f"erase left {attempt}", width - widths + 1)
        for i in np.flatnonzero(fits).tolist():
            rows, columns = int(heights[i]), int(widths[i])
            noise = draws.noise("erase noise", i, rows * columns * channels).reshape(rows, columns, channels)
            erased[i, tops[i] : tops[i] + rows, lefts[i] : lefts[i] + columns] = noise
        waiting &= ~fits
        if not waiting.any():
            break
    return erased


_GRID = 4_096
"""Points of the table from which shares are drawn."""


def mix(
    pixels: Tensor, targets: Tensor, num_labels: int, mixup: float, cutmix: float, draws: Draws
) -> tuple[Tensor, Tensor]:
    """Mix a batch; if both alphas are positive, each is used for about half of the pictures.

    Args:
        pixels: Normalised pictures `(batch, channels, height, width)`; not changed.
        targets: Label ids `(batch,)`.
        num_labels: Number of labels.
        mixup: Alpha of mixup; 0 for none.
        cutmix: Alpha of cutmix; 0 for none.
        draws: Random numbers of the batch's examples.

    Returns:
        The mixed pixels, in the shape given, and shares of labels `(batch, num_labels)` that sum to 1.
    """
    cuts = draws.chance("mix by cutting", cutmix > 0 if not (mixup and cutmix) else 0.5)
    shares = np.ones(len(draws))
    if mixup > 0:
        shares = np.where(cuts, shares, beta(mixup, draws.uniform("mixup share")))
    others = pixels.roll(1, 0)
    by = torch.from_numpy(shares).to(pixels.dtype).view(-1, 1, 1, 1)
    mixed = pixels * by + others * (1.0 - by)
    if cutmix > 0:
        shares = np.where(cuts, beta(cutmix, draws.uniform("cutmix share")), shares)
        into, out_of = mixed.numpy(), others.numpy()  # the same memory; slicing tensors takes ten times as long
        for i, (top, bottom, left, right) in _rectangles(shares, cuts, pixels.shape[-2:], draws).items():
            into[i, :, top:bottom, left:right] = out_of[i, :, top:bottom, left:right]
            shares[i] = 1.0 - (bottom - top) * (right - left) / (pixels.shape[-2] * pixels.shape[-1])
    labels = one_hot(targets, num_labels).to(torch.float32)
    share = torch.from_numpy(shares).to(torch.float32).unsqueeze(1)
    return mixed, labels * share + labels.roll(1, 0) * (1.0 - share)


def _rectangles(
    shares: NDArray[np.float64], cuts: NDArray[np.bool_], size: tuple[int, ...], draws: Draws
) -> dict[int, tuple[int, int, int, int]]:
    """Top, bottom, left and right of each cut picture's rectangle, clipped at the picture's edges."""
    found = []
    for use, length in zip(("rows", "columns"), size, strict=True):
        extent = np.trunc(length * np.sqrt(1.0 - shares)).astype(np.int64)
        middle = draws.below(f"cutmix {use}", length)
        found += [np.maximum(0, middle - extent // 2), np.minimum(length, middle - extent // 2 + extent)]
    return {i: (found[0][i], found[1][i], found[2][i], found[3][i]) for i in np.flatnonzero(cuts).tolist()}


def beta(alpha: float, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers distributed as Beta(alpha, alpha), from numbers uniform on [0, 1), by its inverse distribution function.

    Both halves are symmetric. In the lower one x = s ** (1 / k) / 2 with k = min(alpha, 1), which removes the
    density's pole at 0: x ** (alpha - 1) (1 - x) ** (alpha - 1) dx is proportional to
    s ** (alpha / k - 1) (1 - x) ** (alpha - 1) ds.
    """
    table, below = _lower_half(alpha), 2.0 * np.minimum(uniform, 1.0 - uniform)
    lower = np.interp(below, table, np.linspace(0.0, 1.0, _GRID + 1)) ** (1.0 / min(alpha, 1.0)) / 2
    return np.where(uniform < 0.5, lower, 1.0 - lower)


@lru_cache(maxsize=8)
def _lower_half(alpha: float) -> NDArray[np.float64]:
    """Distribution function of the lower half at each point s of the grid."""
    points, k = np.linspace(0.0, 1.0, _GRID + 1), min(alpha, 1.0)
    density = points ** (alpha / k - 1.0) * (1.0 - points ** (1.0 / k) / 2) ** (alpha - 1.0)
    sums = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return sums / sums[-1]  # type: ignore[no-any-return]


STRONGEST = 30
_TOGETHER = 2**16
"""Values of the pictures that are changed at a time, so that the arrays fit in the processor's cache."""


class Operation(NamedTuple):
    """An operation and its amount as a function of magnitude / 30, height, width, and signs of -1 or 1."""

    run: Callable[[Array, Numbers], Array]
    amount: Callable[[float, int, int, Numbers], Numbers] = lambda share, h, w, signs: 1.0 + 0.9 * share * signs


def _shear(share: float, height: int, width: int, signs: Numbers) -> Numbers:
    return 0.3 * share * signs


OPERATIONS = {
    "identity": Operation(lambda pictures, _: pictures),
    "autocontrast": Operation(lambda pictures, _: autocontrast(pictures)),
    "equalize": Operation(lambda pictures, _: equalize(pictures)),
    "brightness": Operation(brightness),
    "colour": Operation(colour),
    "contrast": Operation(contrast),
    "sharpness": Operation(sharpness),
    "rotate": Operation(rotate, lambda share, h, w, signs: 30.0 * share * signs),
    "shear_x": Operation(shear_x, _shear),
    "shear_y": Operation(shear_y, _shear),
    "translate_x": Operation(translate_x, lambda share, h, w, signs: 150.0 / 331.0 * w * share * signs),
    "translate_y": Operation(translate_y, lambda share, h, w, signs: 150.0 / 331.0 * h * share * signs),
    "posterize": Operation(posterize, lambda share, h, w, signs: signs * 0.0 + 8.0 - round(4.0 * share)),
    "solarize": Operation(solarize, lambda share, h, w, signs: signs * 0.0 + 255.0 * (1.0 - share)),
}


def randaugment(pictures: Array, count: int, magnitude: int, draws: Draws) -> Array:
    """Apply `count` operations, drawn with replacement, to each picture `(batch, height, width, channels)`.

    Pictures with the same operation in a round are changed together, up to the size above.
    """
    _, height, width, channels = pictures.shape
    together = max(1, _TOGETHER // (height * width * channels))
    share = magnitude / STRONGEST
    every, changed = list(OPERATIONS.values()), pictures.copy()
    for round_ in range(count):
        which = draws.below(f"randaugment {round_}", len(every))
        signs = np.where(draws.chance(f"randaugment sign {round_}", 0.5), -1.0, 1.0)
        for number in np.unique(which).tolist():
            operation, places = every[number], np.flatnonzero(which == number)
            for some in np.split(places, range(together, len(places), together)):
                changed[some] = operation.run(changed[some], operation.amount(share, height, width, signs[some]))
    return changed


class Augment:
    """The random changes of one run; they depend on (seed, pass, index of the picture) only."""

    def __init__(self, config: AugmentSection, seed: int) -> None:
        self.config = config
        self._seed = seed

    def pictures(self, pictures: Array, indices: Sequence[int] | NDArray[np.int64], epoch: int) -> Array:
        """Change sized pictures `(batch, height, width, channels)` one by one: flip, crop, RandAugment, erase."""
        c = self.config
        if not c.changes_pictures or not len(pictures):
            return pictures
        draws = Draws(self._seed, epoch, indices)
        if c.flip:
            pictures = flip(pictures, draws.chance("flip", 0.5))
        if c.crop:
            tops, lefts = (draws.below(use, 2 * c.crop + 1) for use in ("crop top", "crop left"))
            pictures = crop(pictures, c.crop, tops, lefts)
        if c.randaugment:
            pictures = randaugment(pictures, c.randaugment, c.magnitude, draws)
        if c.erase:
            pictures = erase(pictures, c.erase, draws)
        return pictures

    def picture(self, picture: Array, index: int, epoch: int) -> Array:
        """Change one sized picture `(height, width, channels)`, with the same result as in any batch."""
        changed: Array = self.pictures(picture[None], [index], epoch)[0]
        return changed

    def batch(
        self, pixels: Tensor, targets: Tensor, num_labels: int, indices: Sequence[int] | NDArray[np.int64], epoch: int
    ) -> tuple[Tensor, Tensor]:
        """Mix normalised pictures `(batch, channels, height, width)` with one another: mixup, cutmix.

        Returns:
            The pixels, in the shape given; and label ids `(batch,)` as given or, if pictures are mixed, shares of
            labels `(batch, num_labels)`.
        """
        c = self.config
        if not c.mixes:
            return pixels, targets
        return mix(pixels, targets, num_labels, c.mixup, c.cutmix, Draws(self._seed, epoch, indices))
