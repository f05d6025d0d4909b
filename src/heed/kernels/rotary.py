"""Rotation of pairs of elements, for rotary positions; on a CPU as one product of complex numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heed.kernels.switch import enabled
from heed.shapes import Float


def rotate(x: Float[Tensor, "*batch d"], turns: Float[Tensor, "*#batch pairs 2"]) -> Float[Tensor, "*batch d"]:
    """Rotate each pair `(a, b)` of neighbouring elements to `(a cos - b sin, a sin + b cos)`.

    Args:
        x: `(..., d)`.
        turns: `(..., d / 2, 2)`, cosine and sine of each pair's angle.
    """
    if enabled() and x.device.type == "cpu" and x.dtype == torch.float32 and x.stride(-1) == 1:
        return _Rotate.apply(x, torch.view_as_complex(turns))  # type: ignore[no-any-return]
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], turns[..., 0], turns[..., 1]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, turns: Tensor) -> Tensor:
        ctx.save_for_backward(turns)
        return _times(x, turns)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (turns,) = ctx.saved_tensors
        return _times(grad_outputs[0].contiguous(), turns.conj()), None


def _times(x: Tensor, turns: Tensor) -> Tensor:
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(-2)
