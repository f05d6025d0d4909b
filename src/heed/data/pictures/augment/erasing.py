"""Random erasing: a rectangle of a picture becomes noise.

Source: Zhong et al. 2020, arXiv:1708.04896; areas and shapes as in the paper, and its best filling, noise (RE-R).
"""

from __future__ import annotations

import numpy as np

from heed.data.pictures.augment.draws import Draws
from heed.data.pictures.decode import Array

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
