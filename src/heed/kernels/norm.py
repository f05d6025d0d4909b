"""Layer normalisation that keeps its result instead of its input for the backward pass.

The layers that read the result keep it in any case, so this frees the input. The normalised input is recovered as
(result - bias) / weight.

Source: Ba et al. 2016, Layer Normalization, arXiv:1607.06450; the backward pass as in Rota Bulò et al. 2018, In-Place
Activated BatchNorm, arXiv:1712.02616, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heed.kernels import private
from heed.kernels.switch import enabled
from heed.shapes import Float

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
