"""Augmentation: all random changes of a configuration, in order.

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

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from heed.config.pictures import AugmentSection
from heed.data.pictures import operations
from heed.data.pictures.decode import Array
from heed.data.pictures.operations import Draws, Numbers, crop, flip

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
    "autocontrast": Operation(lambda pictures, _: operations.autocontrast(pictures)),
    "equalize": Operation(lambda pictures, _: operations.equalize(pictures)),
    "brightness": Operation(operations.brightness),
    "colour": Operation(operations.colour),
    "contrast": Operation(operations.contrast),
    "sharpness": Operation(operations.sharpness),
    "rotate": Operation(operations.rotate, lambda share, h, w, signs: 30.0 * share * signs),
    "shear_x": Operation(operations.shear_x, _shear),
    "shear_y": Operation(operations.shear_y, _shear),
    "translate_x": Operation(operations.translate_x, lambda share, h, w, signs: 150.0 / 331.0 * w * share * signs),
    "translate_y": Operation(operations.translate_y, lambda share, h, w, signs: 150.0 / 331.0 * h * share * signs),
    "posterize": Operation(operations.posterize, lambda share, h, w, signs: signs * 0.0 + 8.0 - round(4.0 * share)),
    "solarize": Operation(operations.solarize, lambda share, h, w, signs: signs * 0.0 + 255.0 * (1.0 - share)),
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
