"""Parts that the kernels of Transformer blocks share: weights, the condition for their use, heads, sums over rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.kernels import private


class BlockWeights(NamedTuple):
    """The parameters of a block, in the order of use."""

    norm_1: Tensor
    norm_1_bias: Tensor
    query: Tensor
    query_bias: Tensor
    key: Tensor
    key_bias: Tensor
    value: Tensor
    value_bias: Tensor
    out: Tensor
    out_bias: Tensor
    norm_2: Tensor
    norm_2_bias: Tensor
    inner: Tensor
    inner_bias: Tensor
    outer: Tensor
    outer_bias: Tensor


def trains_in_float32(x: Tensor) -> bool:
    """Whether a float32 gradient is needed on a CPU, without autocast or compilation."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def pair_of(operations: tuple[private.Operation, private.Operation] | None) -> tuple[private.Operation, ...]:
    """An operation and its gradient, which the condition for the kernel's use has found."""
    assert operations is not None
    return operations


def take_settings(ctx: Any) -> Any:
    """The settings that the forward pass left, for one backward pass.

    Raises:
        RuntimeError: Backward runs a second time, but the memory has been reused.
    """
    if ctx.settings is None:
        raise RuntimeError(
            "backward cannot run twice through this block, because its memory is reused; run its forward pass "
            "within heed.kernels.plain()"
        )
    settings, ctx.settings = ctx.settings, None
    return settings


def split_heads(x: Tensor, length: int, num_heads: int) -> Tensor:
    """`(rows, d)` as `(batch, heads, length, d_head)`."""
    return x.view(-1, length, num_heads, x.shape[1] // num_heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """`(batch, heads, length, d_head)` as `(rows, d)`."""
    return x.transpose(1, 2).reshape(-1, x.shape[1] * x.shape[3])


def sum_rows(ones: Tensor, x: Tensor) -> Tensor:
    """The sum over the rows, as a matrix product with `ones` `(1, rows)`, which takes half the time of `sum`."""
    total: Tensor = torch.mm(ones, x)
    return total.squeeze(0)
