"""A lesson without training: a picture cut into patches, which a Transformer reads like words.

First the counts of the notes (224 x 224 pixels, patches of 16: 196 vectors of 768 numbers), then a picture of 4 x 4
pixels, cut as `vit` does and computed by hand.
"""

from __future__ import annotations

import torch

from heed.layers.grid import patches_of
from heed.lessons.parts import Script, Stage, Table, double

TITLE = "A picture is worth 16 x 16 words."
SOURCE = "The 224 / 16 example is the lecture notes'; the small picture and its weights are ours; nothing is trained."
_SIZES = ((224, 16, 3), (224, 32, 3), (32, 4, 3), (28, 4, 1), (8, 2, 1))
_PICTURE = ((0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0))
_E = ((0.5, -0.5, -0.5), (0.5, 0.5, -0.5), (0.5, -0.5, 0.5), (0.5, 0.5, 0.5))
_CLASS = (1.0, 0.0, 0.0)
_POSITIONS = ((0.0, 0.0, 0.0), (0.0, -0.5, -0.5), (0.0, 0.5, -0.5), (0.0, -0.5, 0.5), (0.0, 0.5, 0.5))
_CORNERS = ("up left", "up right", "low left", "low right")
_PATCHES = ("patch 1", "patch 2", "patch 3", "patch 4")
_stage = Script("patches")


def stages() -> tuple[Stage, ...]:
    """All stages."""
    picture, weights, positions = double(_PICTURE), double(_E), double(_POSITIONS)
    flat, overlapping = (patches_of(picture[None, None].float(), 2, stride)[0].double() for stride in (2, 1))
    embedded = flat @ weights
    states = torch.cat([double([_CLASS]), embedded]) + positions
    units, tokens = ("brightness", "right - left", "low - up"), ("class token", *_PATCHES)
    columns, numbered = tuple(f"x{i + 1}" for i in range(4)), ("z1", "z2", "z3")
    rows, places = (tuple(f"row {i}" for i in range(4)), tuple(f"row {i // 3}, column {i % 3}" for i in range(9)))
    bright = [("brightness of patch 2", 2.0, embedded[1, 0]), ("right - left of patch 4", 0.0, embedded[3, 1])]
    scores = states[:1] @ states.T / states.shape[1] ** 0.5
    looked = torch.softmax(scores, -1)
    context, grid = looked @ states, looked[0, 1:].reshape(2, 2)
    weighed = Table("scores and weights", ("score", "weight"), tokens, torch.cat([scores, looked]), heat=(False, True))
    return (
        _count(),
        _stage(
            "cut",
            {"picture": picture, "patches": flat},
            Table("the picture", rows, columns, picture, heat=True),
            Table("its patches, flattened", _PATCHES, _CORNERS, flat, heat=True),
        ),
        _stage(
            "embed",
            {"weights": weights, "embedded": embedded},
            Table("E", _CORNERS, units, weights),
            Table("embedded patches", _PATCHES, units, embedded),
            checks=bright,
        ),
        _stage(
            "place",
            {"positions": positions, "states": states},
            Table("positions", tokens, numbered, positions),
            Table("input of the first block", tokens, numbered, states),
        ),
        _stage(
            "look",
            {"scores": scores, "weights": looked, "context": context},
            weighed,
            Table("weights on the grid", ("upper", "lower"), ("left", "right"), grid, heat=True),
            Table("context", ("class token",), numbered, context),
            checks=[("sum of the weights", 1.0, looked.sum())],
        ),
        _stage(
            "overlap",
            {"patches": overlapping},
            Table("patches of 2 x 2 pixels, one every pixel", places, _CORNERS, overlapping, heat=True),
            checks=[("patches", 9, len(overlapping))],
        ),
    )


def _count() -> Stage:
    rows, labels = [], []
    for size, patch, channels in _SIZES:
        side = size // patch
        rows.append([side, side * side, channels * patch * patch, (side * side + 1) ** 2])
        labels.append(f"{size} x {size} x {channels}, patches of {patch}")
    values = double(rows)
    table = Table("counts", tuple(labels), ("per side", "patches", "numbers in each", "weights"), values)
    checks = [("patches of 224 / 16", 196, values[0, 1]), ("numbers in each", 768, values[0, 2])]
    return _stage("count", {"counts": values}, table, checks=checks, every=(224 * 224 + 1) ** 2)
