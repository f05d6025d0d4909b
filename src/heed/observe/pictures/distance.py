"""Mean attention distance: how far apart in a picture patches are that attend to each other.

Source: Dosovitskiy et al. 2021 (arXiv:2010.11929), figure 7 right and appendix D.7: the distance between the querying
patch and every other one, weighted by the attention weights, averaged over patches and pictures.
Differs from the paper: distances are between the centres of patches, in pixels of the picture that the model reads;
the weight on the class token is left out, and the rest of the row is rescaled to sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def centre_distances(rows: int, columns: int, step: tuple[float, float]) -> Tensor:
    """Distances in pixels between the centres of the patches of a grid `step` pixels (down, across) apart, `(n, n)`."""
    y = torch.arange(rows, dtype=torch.float64).repeat_interleave(columns) * step[0]
    x = torch.arange(columns, dtype=torch.float64).repeat(rows) * step[1]
    return torch.hypot(y[:, None] - y[None, :], x[:, None] - x[None, :])


def mean_distances(weights: Tensor, rows: int, columns: int, step: tuple[float, float]) -> Tensor:
    """Mean attention distance of every head, in pixels.

    Args:
        weights: `(batch, heads, tokens, tokens)` of one layer; the patches, row by row, are the last tokens, after any
            others (the class token).
        rows: Rows of the grid of patches.
        columns: Columns of the grid.
        step: Pixels from one patch to the next, down and across.

    Returns:
        `(batch, heads)`.
    """
    count = rows * columns
    among = weights[..., -count:, -count:].double()
    among = among / among.sum(-1, keepdim=True).clamp_min(1e-30)
    return (among * centre_distances(rows, columns, step).to(among.device)).sum(-1).mean(-1)


def even_distance(rows: int, columns: int, step: tuple[float, float]) -> float:
    """The mean distance of uniform attention."""
    return float(centre_distances(rows, columns, step).mean())


@dataclass(frozen=True)
class Distances:
    """Mean attention distance by layer, for a plot.

    Attributes:
        values: `(layers, heads)` in pixels, the mean over pictures.
        even: The mean distance of uniform attention.
        size: Height and width of the model's input in pixels.
        pictures: Number of pictures averaged over.
    """

    values: Tensor
    even: float
    size: tuple[int, int]
    pictures: int
