"""GELU by its tanh approximation, with its derivative computed in the forward pass on a CPU.

    gelu(x) = 0.5 x (1 + tanh(sqrt(2 / pi) (x + a x^3))) = x s(z),  z = 2 sqrt(2 / pi) (x + a x^3),  a = 0.044715
    slope   = s(z) + gelu(x) (1 - s(z)) dz/dx

with the logistic function s. torch recomputes the tanh in the backward pass; here the slope is kept instead of the
input, and the backward pass is one product (benchmarks/NOTES.md).

Source: Hendrycks and Gimpel 2016, Gaussian Error Linear Units, arXiv:1606.08415, section 2.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from heed.kernels.switch import enabled
from heed.shapes import Float

_FACTOR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_MANY = 2**15
"""Elements from which several faster operations beat torch's single one, without a gradient."""
_PART = 2**16
"""Elements processed at once: few enough to stay, with their intermediate results, in a processor's cache."""


def gelu_tanh(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The tanh approximation of GELU, elementwise."""
    if enabled() and _is_plain(x):
        if x.requires_grad and torch.is_grad_enabled():
            return _Gelu.apply(x)  # type: ignore[no-any-return]
        if x.numel() >= _MANY:
            return _gelu(x.detach())
    return gelu(x, approximate="tanh")


def _gelu(x: Tensor) -> Tensor:
    result, factor = torch.empty_like(x), torch.full((), _FACTOR)
    for inputs, outputs in zip(x.view(-1).split(_PART), result.view(-1).split(_PART), strict=True):
        torch.addcmul(factor, inputs, inputs, value=_FACTOR * _CUBIC, out=outputs)
        outputs.mul_(inputs).sigmoid_().mul_(inputs)
    return result


def gelu_and_slope(x: Tensor, result: Tensor, slope: Tensor) -> None:
    """Write GELU of a contiguous `x` to `result`, its derivative to `slope`; `slope` may be `x`, `result` may not."""
    factor = torch.full((), _FACTOR)
    given = (flat.view(-1).split(_PART) for flat in (x, result, slope))
    size = min(_PART, x.numel())
    work, other = torch.empty(2, size)
    for inputs, outputs, slopes in zip(*given, strict=True):
        some, rest = (work, other) if len(inputs) == size else (work[: len(inputs)], other[: len(inputs)])
        torch.addcmul(factor, inputs, inputs, value=_FACTOR * _CUBIC, out=some)
        some.mul_(inputs).sigmoid_()
        torch.mul(inputs, some, out=outputs)
        # dz/dx may overwrite the inputs where `slope` is `x`
        torch.addcmul(factor, inputs, inputs, value=3 * _FACTOR * _CUBIC, out=slopes)
        slopes.mul_(torch.addcmul(outputs, outputs, some, value=-1.0, out=rest))
        slopes.add_(some)


def _is_plain(x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.is_contiguous()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result, slope = torch.empty_like(x), torch.empty_like(x)
        gelu_and_slope(x, result, slope)
        ctx.save_for_backward(slope)
        return result

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (slope,) = ctx.saved_tensors
        return grad_outputs[0] * slope
