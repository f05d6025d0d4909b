"""Linear layers that use what the processor has."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heed.shapes import Float

__all__ = ["Linear", "linear", "outer"]

_ENOUGH = 1_500_000
"""Multiplications from which on the other library's longer call pays; four times as many with a gradient."""

_GROUP, _MANY = 16, 512
"""Rows of a product without a gradient are a multiple of this, up to so many."""


@cache
def _onednn() -> Any:
    """The linear layer of oneDNN where it is faster than MKL's, which torch takes by default; else None.

    MKL runs its AVX2 code on processors that are not Intel's. On one with AVX-512 (Zen 5) it reaches 107 GFLOP/s a core
    and oneDNN, which torch has as well, 233 (docs/performance.md).
    """
    capable = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    if not (capable and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return None
    information = Path("/proc/cpuinfo")
    told = information.read_text(errors="replace") if information.is_file() else platform.processor()
    if "GenuineIntel" in told:
        return None
    # The code made for a shape is kept, by oneDNN and by torch, a megabyte for each of the last 1,024 shapes: batches
    # of ever other shapes would fill gigabytes. A pass through a model uses fewer than eight in turn, and making one
    # anew takes a tenth of a millisecond. Read at the first use only; whoever wants another number sets it before.
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, "8")
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def linear(
    x: Float[Tensor, "*shape d_in"], weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, " d_out"] | None = None
) -> Float[Tensor, "*shape d_out"]:
    """`x weight' + bias`, as `torch.nn.functional.linear`; large products and their gradients by the faster library."""
    size = x.numel() * len(weight)
    if _is_faster(size, x, weight):
        if not torch.is_grad_enabled():
            rows = x.numel() // x.shape[-1]
            if rows < _MANY and (missing := -rows % _GROUP):
                # Rows leave a search one by one; code for every number of them would be made at every step.
                filled = nn.functional.pad(x.reshape(rows, -1), (0, 0, 0, missing))
                return _product(filled, weight, bias)[:rows].view(*x.shape[:-1], len(weight))
            return _product(x, weight, bias)
        if size >= 4 * _ENOUGH:
            return _Product.apply(x, weight, bias)  # type: ignore[no-any-return]
    return nn.functional.linear(x, weight, bias)


def _is_faster(size: int, x: Tensor, weight: Tensor) -> bool:
    """Whether there is a faster library, and a product of `size` multiplications pays there."""
    return (
        size >= _ENOUGH
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and _onednn() is not None
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()  # a part of a wider matrix takes oneDNN a thousand times as long
    return _onednn()(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]


class _Product(torch.autograd.Function):
    """The faster library's product, and the two of its gradient, which `linear` computes: it differentiates itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (d_out,), (x, weight) = grad_outputs, ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        d_x = linear(d_out, weight.t()) if of_x else None
        d_weight = outer(d_out, x) if of_weight else None
        return d_x, d_weight, d_out.flatten(0, -2).sum(0) if of_bias else None


def outer(rows: Float[Tensor, "*n d_out"], columns: Float[Tensor, "*n d_in"]) -> Float[Tensor, "d_out d_in"]:
    """`rows' columns`, summed over all that comes before the last axis: the gradient of a linear layer's weight.

    By the faster library as `linear`. Of the two ways round the one with the smaller left side is up to 1.7 times the
    faster one; the result may be a view of its transpose.
    """
    rows, columns = rows.flatten(0, -2), columns.flatten(0, -2)
    if rows.shape[1] > columns.shape[1]:
        return linear(columns.t(), rows.t()).t()
    return linear(rows.t(), columns.t())


class Linear(nn.Linear):
    """torch's linear layer, computed by `linear`."""

    def forward(self, input: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        """`input weight' + bias`."""
        return linear(input, self.weight, self.bias)
