"""Rotary positions: queries and keys are rotated by their positions, so scores depend on relative positions only."""

from __future__ import annotations

import torch
from torch import Tensor

from heed.errors import ConfigError
from heed.kernels import rotate
from heed.shapes import Float, Int

_BASE = 10_000.0
_CHUNK = 256
"""Number of positions whose angles are computed at once."""


class Rotation:
    """Rotates the queries or keys of given positions; shared by all layers of a forward pass.

    Attributes:
        turns: Cosine and sine of each pair's angle, `(rows, 1, positions, d_head / 2, 2)`; rows may be 1, for all.
    """

    def __init__(self, turns: Float[Tensor, "rows 1 positions pairs 2"]) -> None:
        self.turns = turns

    def __call__(self, x: Float[Tensor, "rows heads positions d_head"]) -> Float[Tensor, "rows heads positions d_head"]:
        """Rotate the vectors of every head."""
        return rotate(x, self.turns)


class RotaryPositions:
    """`R_p x`: elements 2i and 2i + 1 of a vector at position p, rotated by the angle `p / 10000^(2i/d)`.

    Then `(R_p q)'(R_s k) = q' R_(s - p) k`: a score depends on the distance of query and key, not on their absolute
    positions. There are no parameters and no maximum length.

    Raises:
        ConfigError: `d_head` is odd.

    Source: Su et al. 2021, RoFormer, arXiv:2104.09864, equations 15 and 34.
    """

    def __init__(self, d_head: int) -> None:
        if d_head % 2:
            raise ConfigError(
                f"rotary positions rotate pairs of elements, but a head is {d_head} wide (d_model / num_heads); "
                "choose an even width"
            )
        self.d_head = d_head
        self._table = torch.empty(0, d_head // 2, 2)

    def __call__(self, positions: Int[Tensor, "rows positions"] | int) -> Rotation:
        """The rotation for positions `(rows, positions)`, or for one position of all rows, on the CPU."""
        if isinstance(positions, int):
            return Rotation(self._upto(positions + 1, torch.device("cpu"))[None, None, positions : positions + 1])
        last = int(positions.max()) + 1 if positions.numel() else 0
        return Rotation(self._upto(last, positions.device)[positions].unsqueeze(1))

    def _upto(self, count: int, device: torch.device) -> Tensor:
        if len(self._table) < count or self._table.device != device:
            with torch.inference_mode(False):
                count = -(-count // _CHUNK) * _CHUNK
                powers = torch.arange(0, self.d_head, 2, dtype=torch.float64) / self.d_head
                angles = torch.arange(count, dtype=torch.float64).unsqueeze(1) * _BASE**-powers
                self._table = torch.stack([angles.cos(), angles.sin()], dim=-1).float().to(device)
        return self._table
