"""Dropout and layer normalisation, on a CPU with cheaper gradients than torch's.

Dropout: one random byte decides for each element, and one draw gives eight bytes: forward and backward are six times as
fast as with torch's Bernoulli draws, which took a ninth of a Transformer's training step. The
mask kept for the backward pass has one byte per element. The probability is rounded to a multiple of 1/256. Masks are
drawn in the same way when fast forms are turned off.

Layer normalisation keeps its result instead of its input for the backward pass. The layers that read the result keep it
in any case, so this frees the input. The normalised input is recovered as (result - bias) / weight.

Source: Ba et al. 2016, Layer Normalization, arXiv:1607.06450; the backward pass as in Rota Bulò et al. 2018, In-Place
Activated BatchNorm, arXiv:1712.02616, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heed.kernels import private
from heed.kernels.private import enabled
from heed.shapes import Float


def byte_dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Zero each element of `x` with probability `p`, and scale up the others so that the mean is unchanged."""
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
    """The result is positive exactly where an element was positive and kept, so it serves as the mask."""

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
    """The smallest random byte for which an element is kept."""
    return max(1, min(255, round(p * 256)))


def drawn(x: Tensor, threshold: int) -> Tensor:
    """Bool mask, shaped as `x`: True where the element's random byte is at least `threshold`."""
    draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    return (draws.view(torch.uint8)[: x.numel()] >= threshold).view(x.shape)


def drop_scale(threshold: int) -> float:
    """Factor of the kept elements, so that the mean is unchanged."""
    return 256 / (256 - threshold)


def _kept(x: Tensor, keep: Tensor, scale: float) -> Tensor:
    """`x * keep * scale`; the mask is viewed as bytes: converting bools takes 20 times as long as the product."""
    return keep.view(torch.uint8).to(x.dtype).mul_(scale).mul_(x)


_SMALL = 0.01
"""With a weight below this the division would magnify rounding errors a hundredfold, so the input is kept instead."""


def layer_norm(
    x: Float[Tensor, "*shape d"], weight: Float[Tensor, " d"], bias: Float[Tensor, " d"] | None, eps: float
) -> Float[Tensor, "*shape d"]:
    """`(x - mean) / sqrt(variance + eps) * weight + bias` over the last axis."""
    if x.requires_grad and torch.is_grad_enabled() and enabled() and _can_keep_result(x, weight):
        return _KeepsResult.apply(x, weight, bias, eps)  # type: ignore[no-any-return]
    return nn.functional.layer_norm(x, weight.shape, weight, bias, eps)


def _can_keep_result(x: Tensor, weight: Tensor) -> bool:
    if x.device.type != "cpu" or x.dtype != weight.dtype or torch.is_autocast_enabled("cpu"):
        return False
    if torch.compiler.is_compiling() or private.layer_norm() is None:
        return False
    return bool(weight.detach().abs().amin() > _SMALL)


class _KeepsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
        operations = private.layer_norm()
        assert operations is not None
        ctx.operation = operations[1]
        result, _, inverse = operations[0](x, weight.shape, weight, bias, eps)
        ctx.save_for_backward(result, inverse, weight, bias)
        return result  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (d_result,), (result, inverse, weight, bias) = grad_outputs, ctx.saved_tensors
        normal = result / weight if bias is None else (result - bias).div_(weight)
        # The gradient as if the normalised values (mean 0, deviation 1) were the input, over the input's deviation.
        like = torch.zeros_like(inverse), torch.ones_like(inverse)
        given = d_result.contiguous(), normal, weight.shape, *like, weight, bias, [True, True, bias is not None]
        d_x, d_weight, d_bias = ctx.operation(*given)
        return d_x.mul_(inverse), d_weight, d_bias, None
