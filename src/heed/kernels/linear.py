"""Matrix products of linear layers, by the library that is faster on the processor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heed.kernels import private
from heed.kernels.private import enabled
from heed.shapes import Float, ReturnsTensor

_ENOUGH = 1_500_000
"""Multiplications from which the other library pays off despite its slower call; four times as many with a gradient."""

_GROUP, _HALF, _FEW, _MANY = 16, 8, 5, 512
"""A product without a gradient has at most `_FEW` rows, `_HALF`, a multiple of `_GROUP`, or at least `_MANY`."""


def linear(
    x: Float[Tensor, "*shape d_in"], weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, " d_out"] | None = None
) -> Float[Tensor, "*shape d_out"]:
    """`x weight' + bias`, as `torch.nn.functional.linear`; large products and gradients use the faster library."""
    size = x.numel() * len(weight)
    if is_large(x, weight):
        if not torch.is_grad_enabled():
            rows = x.numel() // x.shape[-1]
            group = 1 if rows <= _FEW else _HALF if rows <= _HALF else _GROUP
            if rows < _MANY and (missing := -rows % group):
                # The rows of a search decrease one by one; oneDNN would generate code for each number of rows. A single
                # source keeps few rows, for which padding to 16 takes 1.7 to 6 times as long.
                filled = nn.functional.pad(x.reshape(rows, -1), (0, 0, 0, missing))
                return _product(filled, weight, bias)[:rows].view(*x.shape[:-1], len(weight))
            return _product(x, weight, bias)
        if size >= 4 * _ENOUGH:
            return _Product.apply(x, weight, bias)  # type: ignore[no-any-return]
    return nn.functional.linear(x, weight, bias)


def is_large(x: Tensor, weight: Tensor) -> bool:
    """Whether a library faster than torch's default is available and the product `x weight'` is large enough for it."""
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
        weight = weight.contiguous()  # oneDNN is a thousand times slower on column slices
    operation = private.onednn_linear()
    assert operation is not None
    return operation(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]


class _Product(torch.autograd.Function):
    """The faster library's product; its gradient is two products by `linear`, which can be differentiated again."""

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
    """`rows' columns`, summed over all axes but the last: the gradient of a linear layer's weight.

    Uses the faster library, as `linear` does. Of the two orders, the one with the smaller left factor is up to 1.7
    times as fast; the result may be a transposed view.
    """
    rows, columns = rows.flatten(0, -2), columns.flatten(0, -2)
    if rows.shape[1] > columns.shape[1]:
        return linear(columns.t(), rows.t()).t()
    return linear(rows.t(), columns.t())


def linear_into(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """`linear` of a matrix `x`; written to `out` unless the faster library computes it."""
    if x.device.type == "cpu" and private.onednn_linear() is not None:
        return linear(x, weight, bias)
    product = torch.mm(x, weight.t(), out=out)
    # Adding the bias afterwards is faster than `addmm`, which first fills the memory with it.
    return product if bias is None else product.add_(bias)


def residual_into(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """`x + y weight' + bias`, in `out` or new memory; `out` may be x if there is no bias."""
    if private.onednn_linear() is not None:
        return linear(y, weight, bias).add_(x)
    total = x if bias is None else torch.add(x, bias, out=out)
    return torch.addmm(total, y, weight.t(), out=out)


class Linear(ReturnsTensor, nn.Linear):
    """torch's linear layer, computed by `heed.kernels.linear`."""

    def forward(self, input: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        """`input weight' + bias`."""
        return linear(input, self.weight, self.bias)
