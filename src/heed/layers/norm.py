"""Layer normalisation that keeps its result and not its input for the way back.

The layers that read the result keep it anyway, so that the input need not stay. What was normalised comes back as
(result - bias) / weight.

Source: Ba et al. 2016, Layer Normalization, arXiv:1607.06450; the way back as in Rota Bulò et al. 2018, In-Place
Activated BatchNorm, arXiv:1712.02616, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heed.shapes import Float

__all__ = ["LayerNorm"]

_SMALL = 0.01
"""A weight below this would magnify the rounding of the result a hundredfold: then the input is kept."""


class LayerNorm(nn.LayerNorm):
    """torch's layer normalisation over the last axis; in training on a CPU its input is not kept."""

    def forward(self, input: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        """`(x - mean) / sqrt(variance + eps) * weight + bias`."""
        if not (input.requires_grad and torch.is_grad_enabled() and self._is_plain(input)):
            return super().forward(input)
        return _KeepsResult.apply(input, self.weight, self.bias, self.eps)  # type: ignore[no-any-return]

    def _is_plain(self, input: Tensor) -> bool:
        if input.device.type != "cpu" or input.dtype != self.weight.dtype or torch.is_autocast_enabled("cpu"):
            return False
        return not torch.compiler.is_compiling() and bool(self.weight.detach().abs().amin() > _SMALL)


class _KeepsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        result, _, inverse = torch.native_layer_norm(x, weight.shape, weight, bias, eps)
        ctx.save_for_backward(result, inverse, weight, bias)
        return result

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (d_result,), (result, inverse, weight, bias) = grad_outputs, ctx.saved_tensors
        normal = (result - bias).div_(weight)
        # The gradient of something of mean 0 and deviation 1, which the input was 1 / deviation away from.
        like = torch.zeros_like(inverse), torch.ones_like(inverse)
        given = d_result.contiguous(), normal, weight.shape, *like, weight, bias, [True, True, True]
        d_x, d_weight, d_bias = torch.ops.aten.native_layer_norm_backward(*given)
        return d_x.mul_(inverse), d_weight, d_bias, None
