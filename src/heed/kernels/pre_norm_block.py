"""Pre-norm encoder block without padding, trained on a CPU as one function with a hand-written gradient.

    x = x + dropout(MultiHead(norm(x))); x = x + dropout(W_2 dropout(g(W_1 norm(x) + b_1)) + b_2)

Savings over autograd on the modules (benchmarks/NOTES.md): memory is reused from block to block and update to update
(`kernels/pool.py`); queries, keys and values come from one product, and attention reads them in place; sums over rows
are matrix products; dropout uses random bytes (`kernels/dropout.py`). It draws the same dropout masks as the modules.

Source: the gradients of linear layers, layer normalisation, activations and attention by torch's own operations,
combined by the chain rule; the block is that of Dosovitskiy et al. 2021 (arXiv:2010.11929).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.kernels import private
from heed.kernels.blocks import (
    BlockWeights,
    join_heads,
    pair_of,
    split_heads,
    sum_rows,
    take_settings,
    trains_in_float32,
)
from heed.kernels.dropout import drawn, drop_scale, threshold_of
from heed.kernels.encoder_block import BlockActivation
from heed.kernels.linear import linear_into, outer, residual_into
from heed.kernels.pool import Pool
from heed.kernels.switch import enabled
from heed.shapes import Float


class PreNormSettings(NamedTuple):
    """Settings of a block other than its parameters."""

    num_heads: int
    scale: float  # of the dot products of query and key
    eps: float  # of both layer normalisations
    activation: BlockActivation
    dropout: float  # of both sublayers' outputs
    inner_dropout: float  # after the activation


def trains_pre_norm(x: Tensor, activation: BlockActivation) -> bool:
    """Whether `pre_norm_block` can be used: fast forms are on, and a float32 gradient is needed on a CPU."""
    return (
        enabled()
        and trains_in_float32(x)
        and private.flash_attention() is not None
        and private.layer_norm() is not None
        and private.activation(activation) is not None
    )


def pre_norm_block(
    x: Float[Tensor, "batch length d"], settings: PreNormSettings, weights: BlockWeights
) -> Float[Tensor, "batch length d"]:
    """The block's output, `(batch, length, d)`, with unmasked self-attention; only if `trains_pre_norm`.

    Args:
        x: `(batch, length, d)` in float32.
        settings: Heads, activation, dropout.
        weights: All in float32.

    Raises:
        RuntimeError: Backward runs a second time, but the memory has been reused.
    """
    return _PreNormBlock.apply(x, settings, *weights)  # type: ignore[no-any-return]


_pool = Pool()


class _PreNormBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, s: PreNormSettings, *weights: Tensor) -> Tensor:
        w, (batch, length, d) = BlockWeights(*weights), x.shape
        attend, _ = pair_of(private.flash_attention())
        normalise, _ = pair_of(private.layer_norm())
        activate, _ = pair_of(private.activation(s.activation))
        x = x.reshape(-1, d)
        rows, d_inner = len(x), len(w.inner)

        first, *of_first = normalise(x, (d,), w.norm_1, w.norm_1_bias, s.eps)
        three, three_bias = _together(w)
        qkv = linear_into(first, three, three_bias, _pool.take(rows, 3 * d))
        context, log_sums = attend(*_heads(qkv, length, s.num_heads), 0.0, False, scale=s.scale)
        context = join_heads(context)
        middle, keep_1 = _residual(x, context, w.out, w.out_bias, s.dropout, _pool.take(rows, d))

        second, *of_second = normalise(middle, (d,), w.norm_2, w.norm_2_bias, s.eps)
        inner = linear_into(second, w.inner, w.inner_bias, _pool.take(rows, d_inner))
        active = activate(inner, _pool.take(rows, d_inner))
        kept = _drop(active, s.inner_dropout)
        result, keep_2 = _residual(middle, active, w.outer, w.outer_bias, s.dropout, torch.empty_like(x))

        saved = x, first, *of_first, qkv, context, log_sums, keep_1, middle, second, *of_second
        ctx.save_for_backward(*saved, inner, active, kept, keep_2, *weights)
        ctx.settings = s, (batch, length, d)
        return result.view(batch, length, d)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        s, shape = take_settings(ctx)
        x, first, mean_1, inverse_1, qkv, context, log_sums, keep_1, middle, *rest = ctx.saved_tensors
        second, mean_2, inverse_2, inner, active, kept, keep_2, *weights = rest
        (_, length, d), w, rows = shape, BlockWeights(*weights), len(x)
        _, d_attend = pair_of(private.flash_attention())
        _, d_normalise = pair_of(private.layer_norm())
        _, d_activate = pair_of(private.activation(s.activation))
        every, ones, work = [True, True, True], torch.ones(1, rows), _pool.take(rows, d)
        d_result = grad_outputs[0].reshape(-1, d)

        d_g = torch.mul(d_result, keep_2, out=work) if s.dropout else d_result
        d_outer = outer(d_g, active), sum_rows(ones, d_g)
        d_active = linear_into(d_g, w.outer.t(), None, active)
        d_inner = d_activate(d_active.mul_(kept) if s.inner_dropout else d_active, inner)
        d_inner_weight = outer(d_inner, second), sum_rows(ones, d_inner)
        d_second = linear_into(d_inner, w.inner.t(), None, second)
        given = d_second, middle, (d,), mean_2, inverse_2, w.norm_2, w.norm_2_bias, every
        d_middle, *d_norm_2 = d_normalise(*given)
        d_middle += d_result

        d_h = torch.mul(d_middle, keep_1, out=work) if s.dropout else d_middle
        d_out = outer(d_h, context), sum_rows(ones, d_h)
        d_context = linear_into(d_h, w.out.t(), None, second)
        seen = *_heads(qkv, length, s.num_heads), split_heads(context, length, s.num_heads), log_sums
        d_seen = d_attend(split_heads(d_context, length, s.num_heads), *seen, 0.0, False, scale=s.scale)
        d_qkv = torch.cat([join_heads(part) for part in d_seen], dim=1, out=qkv)
        d_three, d_three_bias = outer(d_qkv, first).split(d), sum_rows(ones, d_qkv).split(d)
        d_first = linear_into(d_qkv, _together(w)[0].t(), None, second)
        given = d_first, x, (d,), mean_1, inverse_1, w.norm_1, w.norm_1_bias, every
        d_x, *d_norm_1 = d_normalise(*given)
        d_x += d_middle

        _pool.give(work, qkv, middle, inner, active)
        _pool.give(*((keep_1, keep_2) if s.dropout else ()), *((kept,) if s.inner_dropout else ()))
        of_three = [part for both in zip(d_three, d_three_bias, strict=True) for part in both]
        return (d_x.view(shape), None, *d_norm_1, *of_three, *d_out, *d_norm_2, *d_inner_weight, *d_outer)


def _together(w: BlockWeights) -> tuple[Tensor, Tensor]:
    """The projections to queries, keys and values as one weight and bias."""
    return torch.cat([w.query, w.key, w.value]), torch.cat([w.query_bias, w.key_bias, w.value_bias])


def _heads(qkv: Tensor, length: int, num_heads: int) -> list[Tensor]:
    """Queries, keys and values `(rows, 3 d)` as views, `(batch, heads, length, d_head)` each."""
    return [split_heads(part, length, num_heads) for part in qkv.chunk(3, dim=1)]


def _residual(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, p: float, out: Tensor) -> tuple[Tensor, Tensor]:
    """`x + dropout(y weight' + bias)`, in `out` or new memory, and the dropout factors."""
    if p == 0:
        result = residual_into(x, y, weight, bias, out)
        return result, result
    h = linear_into(y, weight, bias, out)
    keep = _drop(h, p)
    return h.add_(x), keep


def _drop(x: Tensor, p: float) -> Tensor:
    """Apply dropout to x in place; returns the factor of each element, or x without dropout."""
    if p == 0:
        return x
    threshold = threshold_of(p)
    factors = _pool.take(*x.shape).copy_(drawn(x, threshold).view(torch.uint8)).mul_(drop_scale(threshold))
    x.mul_(factors)
    return factors
