"""A lesson without training: a picture cut into patches, which a Transformer reads like words.

First the counts of the notes (224 x 224 pixels, patches of 16: 196 vectors of 768 numbers), then a picture of 4 x 4
pixels, cut as `vit` does and computed by hand.
"""

from __future__ import annotations

import torch
from torch import Tensor

from heed.layers.grid import patches_of
from heed.lessons.parts import Check, Stage, Table, double

TITLE = "A picture is worth 16 x 16 words."
SOURCE = "The 224 / 16 example is the lecture notes'; the small picture and its weights are ours; nothing is trained."
_SIZES = ((224, 16, 3), (224, 32, 3), (32, 4, 3), (28, 4, 1), (8, 2, 1))
_PICTURE = ((0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0))
_E = ((0.5, -0.5, -0.5), (0.5, 0.5, -0.5), (0.5, -0.5, 0.5), (0.5, 0.5, 0.5))
_CLASS = (1.0, 0.0, 0.0)
_POSITIONS = ((0.0, 0.0, 0.0), (0.0, -0.5, -0.5), (0.0, 0.5, -0.5), (0.0, -0.5, 0.5), (0.0, 0.5, 0.5))
_SIDE = 2
_CORNERS = ("up left", "up right", "low left", "low right")


def patches_stages() -> tuple[Stage, ...]:
    """All stages."""
    picture = double(_PICTURE)
    flat = patches_of(picture[None, None].float(), _SIDE, _SIDE)[0].double()
    weights = double(_E)
    embedded = flat @ weights
    positions = double(_POSITIONS)
    states = torch.cat([double([_CLASS]), embedded]) + positions
    return (
        _count(),
        _cut(picture, flat),
        _embed(weights, embedded),
        _place(positions, states),
        _look(states),
        _overlap(picture),
    )


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"patch {i + 1}" for i in range(count))


def _count() -> Stage:
    rows, labels = [], []
    for size, patch, channels in _SIZES:
        side = size // patch
        numbers = channels * patch * patch
        rows.append([side, side * side, numbers, (side * side + 1) ** 2])
        labels.append(f"{size} x {size} x {channels}, patches of {patch}")
    values = double(rows)
    every = (224 * 224 + 1) ** 2
    return Stage(
        "count",
        "the number of patches, and of numbers in each",
        (
            "A Transformer compares every token with every other. If every pixel of a 224 x 224 picture were a token, "
            f"one head of one layer would have {every:,} weights.",
            "So the picture is cut into squares of P x P pixels. Each square, with all its channels in one row of "
            "numbers, takes the place of a word: 224 / 16 = 14 rows and 14 columns give 196 patches of 16 x 16 x 3 = "
            "768 numbers.",
        ),
        "N = H W / P^2 patches, each of P^2 C numbers",
        {"counts": values},
        (Table("counts", tuple(labels), ("per side", "patches", "numbers in each", "weights"), values),),
        lines=("Weights: those of one head, one for each pair of tokens, including the class token.",),
        checks=(
            Check("patches of 224 / 16", 196, float(values[0, 1])),
            Check("numbers in each", 768, float(values[0, 2])),
        ),
    )


def _cut(picture: Tensor, flat: Tensor) -> Stage:
    columns = tuple(f"x{i + 1}" for i in range(4))
    return Stage(
        "cut",
        "a picture of 4 x 4 pixels, cut into four patches",
        (
            "The patches are 2 x 2 pixels: upper left, upper right, lower left, lower right.",
            "Each is flattened row by row: the upper two pixels, then the lower two.",
        ),
        "x_p = the P x P pixels of a patch in one row",
        {"picture": picture, "patches": flat},
        (
            Table("the picture", tuple(f"row {i}" for i in range(4)), columns, picture, heat=True),
            Table("its patches, flattened", _names(4), _CORNERS, flat, heat=True),
        ),
        lines=("A row of numbers does not tell where its patch was; the positions will.",),
    )


def _embed(weights: Tensor, embedded: Tensor) -> Stage:
    units = ("brightness", "right - left", "low - up")
    return Stage(
        "embed",
        "the same linear layer for every patch",
        (
            "The same matrix E turns each patch into a vector of the model's width, here 3. Ours was chosen to be "
            "readable: half the sum of the pixels, half of right minus left, half of lower minus upper.",
            "ViT-B/16 has 768 numbers in a patch and a width of 768: 768 x 768 weights and 768 biases, 590,592 in all, "
            "whatever the number of patches. A convolution with a stride of P computes the same.",
        ),
        "z = x_p E",
        {"weights": weights, "embedded": embedded},
        (
            Table("E", _CORNERS, units, weights),
            Table("embedded patches", _names(4), units, embedded),
        ),
        checks=(
            Check("brightness of patch 2", 2.0, float(embedded[1, 0])),
            Check("right - left of patch 4", 0.0, float(embedded[3, 1])),
        ),
    )


def _place(positions: Tensor, states: Tensor) -> Stage:
    names = ("class token", *_names(4))
    units = ("z1", "z2", "z3")
    return Stage(
        "place",
        "a class token before the patches, and a position for each token",
        (
            "Before the patches comes a learned vector, the class token; its last state stands for the whole picture. "
            "A learned vector of its position is added to each token.",
            "Without positions attention could not tell a picture from the same patches in another order: each patch "
            "would get the same state wherever it is.",
        ),
        "z_0 = [x_class; x_1 E; ...; x_N E] + E_pos",
        {"positions": positions, "states": states},
        (Table("positions", names, units, positions), Table("input of the first block", names, units, states)),
        lines=("Patches 1 and 3 are both black: equal before positions are added, different afterwards.",),
    )


def _look(states: Tensor) -> Stage:
    scores = states[:1] @ states.T / states.shape[1] ** 0.5
    weights = torch.softmax(scores, -1)
    context = weights @ states
    grid = weights[0, 1:].reshape(2, 2)
    names = ("class token", *_names(4))
    return Stage(
        "look",
        "the attention of the class token",
        (
            "One head without learned weights: the class token's vector is the query, every token's vector is key and "
            "value. The row of weights, laid out on the grid of patches, is what `heed look` draws over a picture.",
            "The weight on the class token itself has no place in the picture, so the patches' weights sum to less "
            "than 1.",
        ),
        "softmax(q K' / sqrt(3)) V",
        {"scores": scores, "weights": weights, "context": context},
        (
            Table("scores and weights", ("score", "weight"), names, torch.cat([scores, weights]), heat=(False, True)),
            Table("weights on the grid", ("upper", "lower"), ("left", "right"), grid, heat=True),
            Table("context", ("class token",), ("z1", "z2", "z3"), context),
        ),
        lines=("The brightest patch, upper right, gets the largest weight.",),
        checks=(Check("sum of the weights", 1.0, float(weights.sum())),),
    )


def _overlap(picture: Tensor) -> Stage:
    flat = patches_of(picture[None, None].float(), _SIDE, 1)[0].double()
    names = tuple(f"row {i // 3}, column {i % 3}" for i in range(9))
    return Stage(
        "overlap",
        "patches that overlap",
        (
            "With a stride of 1 instead of 2, a patch starts at every pixel: nine patches, and every inner pixel is in "
            "four of them. The sequence gets longer, and the cost of attention grows with the square of its length.",
            "model.stride sets it. With larger patches, a pixel at the edge of one patch is then inside another.",
        ),
        "(H - P) / S + 1 rows and (W - P) / S + 1 columns",
        {"patches": flat},
        (Table("patches of 2 x 2 pixels, one every pixel", names, _CORNERS, flat, heat=True),),
        checks=(Check("patches", 9, float(len(flat))),),
    )
