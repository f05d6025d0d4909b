"""Pictures of a batch mixed with one another, and their labels in the same proportion.

mixup:  x = share * x_i + (1 - share) * x_j
cutmix: x = x_i, but x_j within a rectangle of 1 - share of the area
both:   y = share * y_i + (1 - share) * y_j,   share ~ Beta(alpha, alpha)

j is the example before i in its batch (the last one for the first).

Source: Zhang et al. 2018, arXiv:1710.09412, equation 1; Yun et al. 2019, arXiv:1905.04899, section 3.1.
Differs from the papers: each picture has a separate share, where their code draws one for each batch.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from heed.data.pictures.augment.draws import Draws

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
