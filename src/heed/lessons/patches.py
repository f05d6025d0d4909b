"""A lesson without training: a picture cut into patches, which a Transformer reads like words.

First the counts of the notes (224 x 224 pixels, patches of 16: 196 vectors of 768 numbers), then a picture of 4 x 4
pixels, cut as `vit` does and computed by hand.
"""

from __future__ import annotations

from functools import partial

import torch

from heed.layers.grid import patches_of
from heed.lessons.parts import Script, Stage, double, table_of

TITLE = "A picture is worth 16 x 16 words."
SOURCE = "The 224 / 16 example is the lecture notes'; the small picture and its weights are ours; nothing is trained."
_SIZES = ((224, 16, 3), (224, 32, 3), (32, 4, 3), (28, 4, 1), (8, 2, 1))
_PICTURE = ((0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0))
_E = ((0.5, -0.5, -0.5), (0.5, 0.5, -0.5), (0.5, -0.5, 0.5), (0.5, 0.5, 0.5))
_CLASS = (1.0, 0.0, 0.0)
_POSITIONS = ((0.0, 0.0, 0.0), (0.0, -0.5, -0.5), (0.0, 0.5, -0.5), (0.0, -0.5, 0.5), (0.0, 0.5, 0.5))
_CORNERS = ("up left", "up right", "low left", "low right")
_PATCHES = ("patch 1", "patch 2", "patch 3", "patch 4")
_shaded = partial(table_of, heat=True)
_stage = Script("patches")


def stages() -> tuple[Stage, ...]:
    """All stages."""
    picture, weights, positions = double(_PICTURE), double(_E), double(_POSITIONS)
    flat, overlapping = (patches_of(picture[None, None].float(), 2, stride)[0].double() for stride in (2, 1))
    embedded = flat @ weights
    states = torch.cat([double([_CLASS]), embedded]) + positions
    units, tokens, numbered = ("brightness", "right - left", "low - up"), ("class token", *_PATCHES), ("z1", "z2", "z3")
    places = (f"row {i // 3}, column {i % 3}" for i in range(9))
    scores = states[:1] @ states.T / states.shape[1] ** 0.5
    looked = torch.softmax(scores, -1)
    sides = [size // patch for size, patch, _ in _SIZES]
    counted = [[n, n * n, c * p * p, (n * n + 1) ** 2] for n, (_, p, c) in zip(sides, _SIZES, strict=True)]
    counts = table_of(
        "counts",
        (f"{size} x {size} x {channels}, patches of {patch}" for size, patch, channels in _SIZES),
        ("per side", "patches", "numbers in each", "weights"),
        counted,
    )
    stated = [("patches of 224 / 16", 196, counted[0][1]), ("numbers in each", 768, counted[0][2])]
    bright = [("brightness of patch 2", 2.0, embedded[1, 0]), ("right - left of patch 4", 0.0, embedded[3, 1])]
    both = torch.cat([scores, looked])
    return (
        _stage("count", counts=counts, checks=stated, every=(224 * 224 + 1) ** 2),
        _stage(
            "cut",
            picture=_shaded("the picture", ("row 0", "row 1", "row 2", "row 3"), ("x1", "x2", "x3", "x4"), picture),
            patches=_shaded("its patches, flattened", _PATCHES, _CORNERS, flat),
        ),
        _stage(
            "embed",
            weights=table_of("E", _CORNERS, units, weights),
            embedded=table_of("embedded patches", _PATCHES, units, embedded),
            checks=bright,
        ),
        _stage(
            "place",
            positions=table_of("positions", tokens, numbered, positions),
            states=table_of("input of the first block", tokens, numbered, states),
        ),
        _stage(
            "look",
            table_of("scores and weights", ("score", "weight"), tokens, both, heat=(False, True)),
            _shaded("weights on the grid", ("upper", "lower"), ("left", "right"), looked[0, 1:].reshape(2, 2)),
            scores=scores,
            weights=looked,
            context=table_of("context", ("class token",), numbered, looked @ states),
            checks=[("sum of the weights", 1.0, looked.sum())],
        ),
        _stage(
            "overlap",
            patches=_shaded("patches of 2 x 2 pixels, one every pixel", places, _CORNERS, overlapping),
            checks=[("patches", 9, len(overlapping))],
        ),
    )
