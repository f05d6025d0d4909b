"""Pictures as grids: patches, positions in two dimensions, and receptive fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from heed.layers.embeddings import sinusoids
from heed.shapes import Float, ReturnsTensor

Grid = tuple[int, int]
"""Rows and columns."""


def patches_of(
    pixels: Float[Tensor, "batch channels height width"], size: int, stride: int
) -> Float[Tensor, "batch patches d"]:
    """Cut pictures into squares of `size` pixels, one every `stride` pixels, each flattened to a vector.

    Patches are in row-major order; a vector holds a patch channel by channel, each in row-major order, so
    `d = channels * size * size`. Pixels on the right and at the bottom that do not fill a patch are dropped.
    """
    windows = pixels.unfold(2, size, stride).unfold(3, size, stride)  # (B, C, rows, columns, size, size)
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def sinusoidal_grid(grid: Grid, d: int) -> Float[Tensor, "places d"]:
    """Sinusoidal positions on a grid, in row-major order: half of each vector encodes the row, half the column.

    Source: Chen et al. 2021, An Empirical Study of Training Self-Supervised Vision Transformers (arXiv:2104.02057),
    section 4.1 ("sine-cosine variant in 2-D"); the sinusoids are those of Vaswani et al. 2017.
    """
    rows, columns = grid
    of_row = sinusoids(torch.arange(rows), d - d // 2)
    of_column = sinusoids(torch.arange(columns), d // 2)
    both = [of_row.unsqueeze(1).expand(rows, columns, -1), of_column.unsqueeze(0).expand(rows, columns, -1)]
    return torch.cat(both, dim=-1).flatten(0, 1)


class GridPositions(ReturnsTensor, nn.Module):
    """Sinusoidal positions of a grid, after `leading` zero vectors (a class token)."""

    def __init__(self, grid: Grid, d: int, leading: int = 0) -> None:
        super().__init__()
        table = torch.cat([torch.zeros(leading, d), sinusoidal_grid(grid, d)])
        self.register_buffer("table", table, persistent=False)

    def forward(self) -> Float[Tensor, "places d"]:
        """The whole table, `(leading + rows * columns, d)`."""
        assert isinstance(self.table, Tensor)
        return self.table


def interpolated(table: Float[Tensor, "places d"], old: Grid, new: Grid) -> Float[Tensor, "new_places d"]:
    """Resize learned positions from one grid to another by bicubic interpolation.

    Vectors before those of the grid (a class token's) are kept unchanged.

    Args:
        table: One vector per place, in row-major order, after any number of other vectors.
        old: Rows and columns of the grid for which the table was learned.
        new: Rows and columns of the result.

    Raises:
        ValueError: The table has fewer vectors than the old grid has places.

    Source: Dosovitskiy et al. 2021 (arXiv:2010.11929), section 3.2 ("2D interpolation of the pre-trained position
    embeddings"); bicubic as in `transformers`.
    """
    leading = len(table) - old[0] * old[1]
    if leading < 0:
        raise ValueError(f"a table of {len(table)} positions is too short for a grid of {old[0]} x {old[1]}")
    if old == new:
        return table
    first, places = table[:leading], table[leading:]
    picture = places.t().reshape(1, -1, *old)  # (1, d, rows, columns)
    resized = interpolate(picture.float(), size=new, mode="bicubic", align_corners=False).to(table.dtype)
    return torch.cat([first, resized.flatten(2).squeeze(0).t()])


@dataclass(frozen=True)
class ReceptiveField:
    """The square of a picture on which one place of a feature map can depend."""

    size: int = 1  # side length in pixels
    stride: int = 1  # pixels between the fields of neighbouring places
    # Pixels from the picture's edge to the field of the first place; negative if the field starts outside
    start: int = 0

    def behind(self, kernel: int, stride: int = 1, padding: int = 0) -> ReceptiveField:
        """The field after one more convolution or pooling layer."""
        start = self.start - padding * self.stride
        return ReceptiveField(self.size + (kernel - 1) * self.stride, self.stride * stride, start)

    @classmethod
    def of(cls, layers: Iterable[tuple[int, int, int]]) -> ReceptiveField:
        """The field after layers given as `(kernel, stride, padding)`, from first to last."""
        field = cls()
        for layer in layers:
            field = field.behind(*layer)
        return field

    def box(self, row: int, column: int) -> tuple[int, int, int, int]:
        """Top, left, bottom and right of a place's field in pixels, the last two exclusive; may exceed the picture."""
        top, left = self.start + row * self.stride, self.start + column * self.stride
        return top, left, top + self.size, left + self.size
