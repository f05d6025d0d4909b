"""Turning pairs of numbers: rotary positions."""

from __future__ import annotations

import torch
from torch import Tensor

from heed.shapes import Float


def rotate(
    x: Float[Tensor, "*batch d"], cos: Float[Tensor, "*#batch pairs"], sin: Float[Tensor, "*#batch pairs"]
) -> Float[Tensor, "*batch d"]:
    """Each pair `(a, b)` of neighbours to `(a cos - b sin, a sin + b cos)`; d = 2 pairs."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)
