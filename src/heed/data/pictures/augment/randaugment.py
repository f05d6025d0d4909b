"""RandAugment: some random operations of one magnitude for each picture.

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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heed.data.pictures.augment import colour, geometry
from heed.data.pictures.augment.draws import Draws
from heed.data.pictures.augment.geometry import Numbers
from heed.data.pictures.decode import Array

STRONGEST = 30
_TOGETHER = 2**16
"""Values of the pictures that are changed at a time, so that the arrays fit in the processor's cache."""


@dataclass(frozen=True)
class Operation:
    """An operation and its amount as a function of magnitude / 30, height, width, and signs of -1 or 1."""

    run: Callable[[Array, Numbers], Array]
    amount: Callable[[float, int, int, Numbers], Numbers]


def _strength(share: float, height: int, width: int, signs: Numbers) -> Numbers:
    return 1.0 + 0.9 * share * signs


def _shear(share: float, height: int, width: int, signs: Numbers) -> Numbers:
    return 0.3 * share * signs


OPERATIONS: dict[str, Operation] = {
    "identity": Operation(lambda pictures, _: pictures, _strength),
    "autocontrast": Operation(lambda pictures, _: colour.autocontrast(pictures), _strength),
    "equalize": Operation(lambda pictures, _: colour.equalize(pictures), _strength),
    "brightness": Operation(colour.brightness, _strength),
    "colour": Operation(colour.colour, _strength),
    "contrast": Operation(colour.contrast, _strength),
    "sharpness": Operation(colour.sharpness, _strength),
    "rotate": Operation(geometry.rotate, lambda share, height, width, signs: 30.0 * share * signs),
    "shear_x": Operation(geometry.shear_x, _shear),
    "shear_y": Operation(geometry.shear_y, _shear),
    "translate_x": Operation(
        geometry.translate_x, lambda share, height, width, signs: 150.0 / 331.0 * width * share * signs
    ),
    "translate_y": Operation(
        geometry.translate_y, lambda share, height, width, signs: 150.0 / 331.0 * height * share * signs
    ),
    "posterize": Operation(
        colour.posterize, lambda share, height, width, signs: np.full_like(signs, 8.0 - round(4.0 * share))
    ),
    "solarize": Operation(
        colour.solarize, lambda share, height, width, signs: np.full_like(signs, 255.0 * (1.0 - share))
    ),
}


def randaugment(pictures: Array, count: int, magnitude: int, draws: Draws) -> Array:
    """Apply `count` operations, drawn with replacement, to each picture `(batch, height, width, channels)`.

    Pictures with the same operation in a round are changed together, up to the size above.
    """
    _, height, width, channels = pictures.shape
    together = max(1, _TOGETHER // (height * width * channels))
    share = magnitude / STRONGEST
    operations = list(OPERATIONS.values())
    changed = pictures.copy()
    for round_ in range(count):
        which = draws.below(f"randaugment {round_}", len(operations))
        signs = np.where(draws.chance(f"randaugment sign {round_}", 0.5), -1.0, 1.0)
        for number in np.unique(which).tolist():
            operation, places = operations[number], np.flatnonzero(which == number)
            for some in np.split(places, range(together, len(places), together)):
                changed[some] = operation.run(changed[some], operation.amount(share, height, width, signs[some]))
    return changed
