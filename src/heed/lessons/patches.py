"""A lesson without training: a picture cut into patches, which a Transformer reads like words.

First the counts of the notes (224 x 224 pixels, patches of 16: 196 vectors of 768 numbers), then a picture of 4 x 4
pixels, cut as `vit` does and computed by hand.
"""

from __future__ import annotations

import torch

from heed.layers.grid import patches_of
from heed.lessons.parts import Script, Stage, double

TITLE = "A picture is worth 16 x 16 words."
SOURCE = "The 224 / 16 example is the lecture notes'; the small picture and its weights are ours; nothing is trained."
_SIZES = ((224, 16, 3), (224, 32, 3), (32, 4, 3), (28, 4, 1), (8, 2, 1))
_PICTURE = ((0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0))
_E = ((0.5, -0.5, -0.5), (0.5, 0.5, -0.5), (0.5, -0.5, 0.5), (0.5, 0.5, 0.5))
_CLASS = (1.0, 0.0, 0.0)
_POSITIONS = ((0.0, 0.0, 0.0), (0.0, -0.5, -0.5), (0.0, 0.5, -0.5), (0.0, -0.5, 0.5), (0.0, 0.5, 0.5))
_stage = Script("patches")


def stages() -> tuple[Stage, ...]:
    """All stages."""
    picture, weights, positions = double(_PICTURE), double(_E), double(_POSITIONS)
    flat, overlapping = (patches_of(picture[None, None].float(), 2, stride)[0].double() for stride in (2, 1))
    embedded = flat @ weights
    states = torch.cat([double([_CLASS]), embedded]) + positions
    scores = states[:1] @ states.T / states.shape[1] ** 0.5
    looked = torch.softmax(scores, -1)
    sides = [size // patch for size, patch, _ in _SIZES]
    counts = double([[n, n * n, c * p * p, (n * n + 1) ** 2] for n, (_, p, c) in zip(sides, _SIZES, strict=True)])
    sizes = [f"{size} x {size} x {channels}, patches of {patch}" for size, patch, channels in _SIZES]
    stated = [("patches of 224 / 16", 196, counts[0, 1]), ("numbers in each", 768, counts[0, 2])]
    bright = [("brightness of patch 2", 2.0, embedded[1, 0]), ("right - left of patch 4", 0.0, embedded[3, 1])]
    places = [f"row {i // 3}, column {i % 3}" for i in range(9)]
    sums, whole = [("sum of the weights", 1.0, looked.sum())], [("patches", 9, len(overlapping))]
    grid, context = looked[0, 1:].reshape(2, 2), looked @ states
    return (
        _stage("count", counts=counts, sizes=sizes, checks=stated, every=(224 * 224 + 1) ** 2),
        _stage("cut", picture=picture, patches=flat),
        _stage("embed", weights=weights, embedded=embedded, checks=bright),
        _stage("place", positions=positions, states=states),
        _stage("look", scores=scores, weights=looked, grid=grid, context=context, checks=sums),
        _stage("overlap", patches=overlapping, places=places, checks=whole),
    )
