"""Dropout whose mask costs little on a CPU.

One random byte per element decides, eight of them from one draw: six times as fast, forward and backward, as torch's
Bernoulli draws, which took a ninth of a Transformer's training step (benchmarks/NOTES.md), and the mask kept for the
backward pass has one byte per element. The probability is rounded to a multiple of 1/256. The mask is drawn the same
way where fast forms are turned off.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heed.kernels import private
from heed.kernels.switch import enabled
from heed.shapes import Float


def byte_dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """`x` with each element zero with probability `p`, and the others scaled up so that the mean stays."""
    if enabled():
        return _ByteDropout.apply(x, threshold_of(p))  # type: ignore[no-any-return]
    return x * _kept(torch.ones_like(x), drawn(x, threshold_of(p)), drop_scale(threshold_of(p)))


def relu_dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """`byte_dropout(relu(x), p)`; only the result is kept for the backward pass."""
    if enabled():
        return _ReluDropout.apply(x, threshold_of(p))  # type: ignore[no-any-return]
    return byte_dropout(torch.relu(x), p)


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        keep = drawn(x, threshold)
        ctx.scale = drop_scale(threshold)
        ctx.save_for_backward(keep)
        return _kept(x, keep, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (keep,) = ctx.saved_tensors
        return _kept(grad_outputs[0], keep, ctx.scale), None


class _ReluDropout(torch.autograd.Function):
    """The result is positive where an element was positive and kept, so that it is its own mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        ctx.scale = drop_scale(threshold)
        result = _kept(x, drawn(x, threshold), ctx.scale).relu_()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (result,) = ctx.saved_tensors
        if (operation := private.threshold_backward()) is not None:
            return operation(grad_outputs[0], result, 0).mul_(ctx.scale), None
        return (grad_outputs[0] * (result > 0)).mul_(ctx.scale), None


def threshold_of(p: float) -> int:
    """The least random byte with which an element is kept."""
    return max(1, min(255, round(p * 256)))


def drawn(x: Tensor, threshold: int) -> Tensor:
    """One random byte for each element, at least the threshold or not, `(*shape)`."""
    draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    return (draws.view(torch.uint8)[: x.numel()] >= threshold).view(x.shape)


def drop_scale(threshold: int) -> float:
    """What kept elements are multiplied by, so that the mean stays."""
    return 256 / (256 - threshold)


def _kept(x: Tensor, keep: Tensor, scale: float) -> Tensor:
    """`x * keep * scale`; as numbers and not as truths, whose conversion takes twenty times as long as the product."""
    return keep.view(torch.uint8).to(x.dtype).mul_(scale).mul_(x)
