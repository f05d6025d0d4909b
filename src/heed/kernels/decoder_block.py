"""Decoder block without cross-attention, trained on a CPU as one function with a hand-written gradient.

    x = x + MultiHead(norm(x), causal); x = x + W_2 gelu(W_1 norm(x) + b_1) + b_2

Savings over autograd on the modules (benchmarks/NOTES.md): memory is reused from update to update, since the first
touch of fresh pages takes longer than filling them; queries, keys and values are read in place, without a copy for each
head; the products include the residual additions and overwrite tensors that are no longer needed; the derivative of
gelu is computed together with gelu.

Source: the gradients of linear layers, layer normalisation and attention by torch's own operations, combined by the
chain rule; the block is that of Radford et al. 2019.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heed.kernels import private
from heed.kernels.blocks import BlockWeights, join_heads, pair_of, split_heads, take_settings, trains_in_float32
from heed.kernels.gelu import gelu_and_slope
from heed.kernels.linear import linear_into, outer, residual_into
from heed.kernels.pool import Pool
from heed.kernels.switch import enabled
from heed.shapes import Float


def trains_whole_block(x: Tensor) -> bool:
    """Whether `decoder_block` can be used: fast forms are on, and a float32 gradient is needed on a CPU."""
    return (
        enabled()
        and trains_in_float32(x)
        and private.flash_attention() is not None
        and private.layer_norm() is not None
    )


def decoder_block(
    x: Float[Tensor, "batch length d"], weights: BlockWeights, num_heads: int, scale: float, eps: float
) -> Float[Tensor, "batch length d"]:
    """The block's output, `(batch, length, d)`, with causal self-attention; only if `trains_whole_block`.

    Args:
        x: `(batch, length, d)`.
        weights: All in float32.
        num_heads: Number of heads, each of width d / num_heads.
        scale: Factor of the dot products of query and key.
        eps: Epsilon of both layer normalisations.

    Raises:
        RuntimeError: Backward runs a second time, but the memory has been reused.
    """
    result: Tensor = _Block.apply(x, num_heads, scale, eps, *weights)
    return result


_memory = Pool()


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, num_heads: int, scale: float, eps: float, *weights: Tensor) -> Tensor:
        w = BlockWeights(*weights)
        attend, _ = pair_of(private.flash_attention())
        normalise, _ = pair_of(private.layer_norm())
        length, d = x.shape[1:]
        x = x.reshape(-1, d)
        rows, d_inner = len(x), len(w.inner)

        first, *of_first = normalise(x, (d,), w.norm_1, w.norm_1_bias, eps)
        layers = (w.query, w.query_bias), (w.key, w.key_bias), (w.value, w.value_bias)
        q, k, v = (linear_into(first, weight, bias, _memory.take(rows, d)) for weight, bias in layers)
        heads = (split_heads(part, length, num_heads) for part in (q, k, v))
        context, log_sums = attend(*heads, 0.0, True, scale=scale)
        middle = residual_into(x, join_heads(context), w.out, w.out_bias, _memory.take(rows, d))

        second, *of_second = normalise(middle, (d,), w.norm_2, w.norm_2_bias, eps)
        inner, slope = _memory.take(rows, d_inner), _memory.take(rows, d_inner)
        gelu_and_slope(linear_into(second, w.inner, w.inner_bias, slope), inner, slope)
        result = residual_into(middle, inner, w.outer, w.outer_bias, torch.empty_like(x))

        ctx.save_for_backward(
            *(x, first, *of_first, q, k, v, context, log_sums, middle, second, *of_second, inner, slope), *weights
        )
        ctx.settings = num_heads, scale, length
        return result.view(-1, length, d)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        num_heads, scale, length = take_settings(ctx)
        x, first, mean_1, inverse_1, q, k, v, context, log_sums, middle, second, *rest = ctx.saved_tensors
        mean_2, inverse_2, inner, slope, *weights = rest
        w, d = BlockWeights(*weights), x.shape[1]
        _, d_attend = pair_of(private.flash_attention())
        _, d_normalise = pair_of(private.layer_norm())
        every = [True, True, True]
        d_result = grad_outputs[0].reshape(-1, d)

        d_outer, d_outer_bias = outer(d_result, inner), d_result.sum(0)
        d_inner = linear_into(d_result, w.outer.t(), None, inner).mul_(slope)
        d_inner_weight, d_inner_bias = outer(d_inner, second), d_inner.sum(0)
        d_second = linear_into(d_inner, w.inner.t(), None, second)
        given = d_second, middle, (d,), mean_2, inverse_2, w.norm_2, w.norm_2_bias, every
        d_middle, *d_norm_2 = d_normalise(*given)
        d_middle += d_result

        d_out, d_out_bias = outer(d_middle, join_heads(context)), d_middle.sum(0)
        d_context = split_heads(linear_into(d_middle, w.out.t(), None, second), length, num_heads)
        heads = (split_heads(part, length, num_heads) for part in (q, k, v))
        d_heads = d_attend(d_context, *heads, context, log_sums, 0.0, True, scale=scale)
        d_q, d_k, d_v = (join_heads(part) for part in d_heads)
        d_three = [gradient for part in (d_q, d_k, d_v) for gradient in (outer(part, first), part.sum(0))]
        d_first = linear_into(d_q, w.query.t(), None, second)
        for part, weight in ((d_k, w.key), (d_v, w.value)):
            d_first = residual_into(d_first, part, weight.t(), None, d_first)
        given = d_first, x, (d,), mean_1, inverse_1, w.norm_1, w.norm_1_bias, every
        d_x, *d_norm_1 = d_normalise(*given)
        d_x += d_middle

        _memory.give(q, k, v, middle, inner, slope)
        of_attention = *d_norm_1, *d_three, d_out, d_out_bias
        of_net = *d_norm_2, d_inner_weight, d_inner_bias, d_outer, d_outer_bias
        return (d_x.view(grad_outputs[0].shape), None, None, None, *of_attention, *of_net)
