"""Products of a layer's weights, by the library that is faster on the processor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heed.kernels import private
from heed.kernels.switch import enabled
from heed.shapes import Float

_ENOUGH = 1_500_000
"""Multiplications from which on the other library's longer call pays; four times as many with a gradient."""

_GROUP, _HALF, _FEW, _MANY = 16, 8, 5, 512
"""A product without a gradient of up to `_MANY` rows has a multiple of `_GROUP` rows, or `_HALF`, or at most `_FEW`."""


def linear(
    x: Float[Tensor, "*shape d_in"], weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, " d_out"] | None = None
) -> Float[Tensor, "*shape d_out"]:
    """`x weight' + bias`, as `torch.nn.functional.linear`; large products and their gradients by the faster library."""
    size = x.numel() * len(weight)
    if is_large(x, weight):
        if not torch.is_grad_enabled():
            rows = x.numel() // x.shape[-1]
            group = 1 if rows <= _FEW else _HALF if rows <= _HALF else _GROUP
            if rows < _MANY and (missing := -rows % group):
                # Rows leave a search one by one; code for every number of them would be made at every step. But the
                # rows of a single source stay few, and 16 of them take 1.7 to 6 times as long.
                filled = nn.functional.pad(x.reshape(rows, -1), (0, 0, 0, missing))
                return _product(filled, weight, bias)[:rows].view(*x.shape[:-1], len(weight))
            return _product(x, weight, bias)
        if size >= 4 * _ENOUGH:
            return _Product.apply(x, weight, bias)  # type: ignore[no-any-return]
    return nn.functional.linear(x, weight, bias)


def is_large(x: Tensor, weight: Tensor) -> bool:
    """Whether there is a faster library than torch's default, and the product `x weight'` is large enough for it."""
    return (
        x.numel() * len(weight) >= _ENOUGH
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and enabled()
        and private.onednn_linear() is not None
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()  # a part of a wider matrix takes oneDNN a thousand times as long
    operation = private.onednn_linear()
    assert operation is not None
    return operation(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]


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


def linear_into(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """As `linear` of rows, into the given memory where torch's own library computes it."""
    if x.device.type == "cpu" and private.onednn_linear() is not None:
        return linear(x, weight, bias)
    product = torch.mm(x, weight.t(), out=out)
    # Behind the product it takes less time than to fill the memory with the bias before.
    return product if bias is None else product.add_(bias)


def residual_into(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """`x + y weight' + bias`; `out` may be x where there is no bias."""
    if private.onednn_linear() is not None:
        return linear(y, weight, bias).add_(x)
    total = x if bias is None else torch.add(x, bias, out=out)
    return torch.addmm(total, y, weight.t(), out=out)


def add_outer(
    total: Float[Tensor, "d_out d_in"] | None, rows: Float[Tensor, "n d_out"], columns: Float[Tensor, "n d_in"]
) -> Float[Tensor, "d_out d_in"]:
    """`total + rows' columns` in the memory of the total; without one, in fresh memory."""
    if rows.device.type == "cpu" and private.onednn_linear() is not None:
        product = outer(rows, columns)
        return product if total is None else total.add_(product)
    return torch.mm(rows.t(), columns) if total is None else total.addmm_(rows.t(), columns)


class Linear(nn.Linear):
    """torch's linear layer, computed by `linear`."""

    def forward(self, input: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        """`input weight' + bias`."""
        return linear(input, self.weight, self.bias)
