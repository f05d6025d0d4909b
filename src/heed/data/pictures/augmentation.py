"""Augmentation of training pictures: operations on whole batches, and all random changes of a configuration, in order.

Pictures are arrays `(batch, height, width, channels)` from 0 to 255. Each random number is a hash of (seed, pass,
example), so neither the order of drawing, nor threads, nor the other examples of the batch matter, and no generator is
needed for each picture.

Erasing (Zhong et al. 2020, arXiv:1708.04896): a rectangle becomes noise; areas and shapes as in the paper, and its best
filling, noise (RE-R).

Mixing: pictures of a batch are mixed with one another, and their labels in the same proportion. j is the example before
i in its batch (the last one for the first).

mixup:  x = share * x_i + (1 - share) * x_j
cutmix: x = x_i, but x_j within a rectangle of 1 - share of the area
both:   y = share * y_i + (1 - share) * y_j,   share ~ Beta(alpha, alpha)

Source: Zhang et al. 2018, arXiv:1710.09412, equation 1; Yun et al. 2019, arXiv:1905.04899, section 3.1.
Differs from the papers: each picture has a separate share, where their code draws one for each batch.

RandAugment: some random operations of one magnitude for each picture, computed by Pillow.
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
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps
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
Operation = Callable[[Image.Image, float, int], Image.Image]
"""Changes a picture by a share of the largest amount, and by a sign of -1 or 1."""


def _enhanced(kind: Callable[[Image.Image], Any]) -> Operation:
    return lambda image, share, sign: kind(image).enhance(1.0 + 0.9 * share * sign)


def _moved(image: Image.Image, *matrix: float) -> Image.Image:
    """Pixel (x, y) is the old one at `(a x + b y + c, d x + e y + f)`; pixels from outside are black."""
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


def _shift(share: float, sign: int, length: int) -> int:
    """Whole pixels."""
    return int(150.0 / 331.0 * length * share * sign)


OPERATIONS: dict[str, Operation] = {
    "identity": lambda image, share, sign: image,
    "autocontrast": lambda image, share, sign: ImageOps.autocontrast(image),
    "equalize": lambda image, share, sign: ImageOps.equalize(image),
    "brightness": _enhanced(ImageEnhance.Brightness),
    "colour": _enhanced(ImageEnhance.Color),
    "contrast": _enhanced(ImageEnhance.Contrast),
    "sharpness": _enhanced(ImageEnhance.Sharpness),
    "rotate": lambda image, share, sign: image.rotate(30.0 * share * sign),
    "shear_x": lambda image, share, sign: _moved(image, 1, 0.3 * share * sign, 0, 0, 1, 0),
    "shear_y": lambda image, share, sign: _moved(image, 1, 0, 0, 0.3 * share * sign, 1, 0),
    "translate_x": lambda image, share, sign: _moved(image, 1, 0, _shift(share, sign, image.width), 0, 1, 0),
    "translate_y": lambda image, share, sign: _moved(image, 1, 0, 0, 0, 1, _shift(share, sign, image.height)),
    "posterize": lambda image, share, sign: ImageOps.posterize(image, 8 - round(4.0 * share)),
    "solarize": lambda image, share, sign: ImageOps.solarize(image, 255.0 * (1.0 - share)),  # type: ignore[arg-type]
}


def randaugment(pictures: Array, count: int, magnitude: int, draws: Draws) -> Array:
    """Apply `count` operations, drawn with replacement, to each picture `(batch, height, width, channels)`."""
    every, share = list(OPERATIONS.values()), magnitude / STRONGEST
    chosen = [draws.below(f"randaugment {n}", len(every)) for n in range(count)]
    signs = [np.where(draws.chance(f"randaugment sign {n}", 0.5), -1, 1) for n in range(count)]
    changed = np.empty_like(pictures)
    for i, picture in enumerate(pictures):
        image = Image.fromarray(np.ascontiguousarray(picture[:, :, 0] if picture.shape[2] == 1 else picture))
        for which, sign in zip(chosen, signs, strict=True):
            image = every[which[i]](image, share, int(sign[i]))
        changed[i] = np.asarray(image).reshape(picture.shape)
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
