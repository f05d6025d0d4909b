"""Post-norm encoder block over packed texts, trained on a CPU as one function with a hand-written gradient.

    x = norm(x + dropout(MultiHead(x, x))); x = norm(x + dropout(W_2 g(W_1 x + b_1) + b_2))

The tokens of all texts are the rows of one matrix, without padding; texts of equal length are adjacent, and `groups`
lists their number and length. Attention runs group by group, so that no weight is computed for padding and no mask is
needed; everything else runs over all rows at once.

Savings over autograd on the modules with padded texts: no padding; memory is reused from block to
block and update to update (`Pool`); attention weights stay in the processor's cache between products,
softmax and dropout; dropout uses random bytes (`kernels/elementwise.py`).

Source: the gradients of linear layers, layer normalisation and activations by torch's own operations; that of attention
by hand, as in Dao et al. 2022 (arXiv:2205.14135), appendix B.2; combined by the chain rule.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from heed.kernels import private
from heed.kernels.elementwise import drawn, drop_scale, threshold_of
from heed.kernels.linear import linear_into, outer, residual_into
from heed.kernels.private import enabled
from heed.shapes import Float

_MOST = 2**28
"""Most bytes kept for reuse."""
_STEPS = 8
"""Sizes from a power of two to the next, so that batches of similar size use the same memory."""


class Pool:
    """Float32 tensors on the CPU that are used again, by size: touching fresh pages takes longer than filling them."""

    def __init__(self) -> None:
        self._free: dict[int, list[Tensor]] = defaultdict(list)
        self._bytes = 0

    def take(self, *shape: int) -> Tensor:
        """An uninitialised contiguous tensor."""
        count = math.prod(shape)
        size = _rounded(count)
        if free := self._free[size]:
            flat = free.pop()
            self._bytes -= flat.nbytes
        else:
            flat = torch.empty(size)
        return flat[:count].view(shape)

    def give(self, *tensors: Tensor) -> None:
        """Return tensors from `take`, which must not be read afterwards; memory of other sizes is ignored."""
        for tensor in tensors:
            size = tensor.untyped_storage().nbytes() // 4
            if size != _rounded(size):
                continue
            flat = tensor.detach().as_strided((size,), (1,), 0)
            if self._bytes + flat.nbytes > _MOST:
                self._free.clear()
                self._bytes = 0
            self._free[size].append(flat)
            self._bytes += flat.nbytes


def _rounded(count: int) -> int:
    """The count, rounded up by at most an eighth."""
    step = max(64, (1 << max(0, count.bit_length() - 1)) // _STEPS)
    return -(-count // step) * step


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


Groups = Sequence[tuple[int, int]]
"""Groups of adjacent texts of equal length, from the first row on: (number of texts, tokens per text)."""

_TOGETHER = 2**16
"""Attention weights computed at once: few enough to stay in a processor's cache."""

BlockActivation = Literal["gelu", "gelu_tanh", "relu", "silu"]


class BlockSettings(NamedTuple):
    """Settings of a block other than its parameters."""

    num_heads: int
    scale: float  # of the dot products of query and key
    eps: float  # of both layer normalisations
    activation: BlockActivation
    dropout: float  # of both sublayers' outputs
    attention_dropout: float  # of attention weights


def trains_packed(x: Tensor, activation: BlockActivation) -> bool:
    """Whether `encoder_block` can be used: a float32 gradient on a CPU, without autocast or compilation."""
    return (
        enabled()
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and private.layer_norm() is not None
        and private.activation(activation) is not None
    )


def encoder_block(
    x: Float[Tensor, "rows d"], groups: Groups, settings: BlockSettings, weights: BlockWeights
) -> Float[Tensor, "rows d"]:
    """The block's output, `(rows, d)`, with self-attention within each text; only if `trains_packed`.

    Args:
        x: `(rows, d)` in float32, the tokens of all texts, concatenated.
        groups: Number and length of the texts; the lengths of all texts add up to the rows.
        settings: Heads, activation, dropout.
        weights: All in float32.

    Raises:
        RuntimeError: Backward runs a second time, but the memory has been reused.
    """
    result: Tensor = _EncoderBlock.apply(x, groups, settings, *weights)
    return result


_pool = Pool()


class _EncoderBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: Groups, settings: BlockSettings, *weights: Tensor) -> Tensor:
        w, s = BlockWeights(*weights), settings
        normalise, _ = _both(private.layer_norm())
        activate, _ = _both(private.activation(s.activation))
        (rows, d), d_inner = x.shape, len(w.inner)

        layers = (w.query, w.query_bias), (w.key, w.key_bias), (w.value, w.value_bias)
        q, k, v = (linear_into(x, weight, bias, _pool.take(rows, d)) for weight, bias in layers)
        context, attention, kept = _attend(q, k, v, groups, s)
        h = linear_into(context, w.out, w.out_bias, _pool.take(rows, d))
        keep_1 = _add_dropped(x, h, s.dropout)
        first, *of_first = normalise(h, (d,), w.norm_1, w.norm_1_bias, s.eps)

        inner = linear_into(first, w.inner, w.inner_bias, _pool.take(rows, d_inner))
        active = activate(inner, _pool.take(rows, d_inner))
        g = linear_into(active, w.outer, w.outer_bias, _pool.take(rows, d))
        keep_2 = _add_dropped(first, g, s.dropout)
        result, *of_second = normalise(g, (d,), w.norm_2, w.norm_2_bias, s.eps)

        saved = x, q, k, v, context, attention, kept, h, keep_1, first, *of_first
        ctx.save_for_backward(*saved, inner, active, g, keep_2, *of_second, *weights)
        ctx.settings = groups, settings
        return result  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        if ctx.settings is None:
            raise RuntimeError(
                "backward cannot run twice through this block, because its memory is reused; run its forward pass "
                "within heed.kernels.plain()"
            )
        (groups, s), ctx.settings = ctx.settings, None
        x, q, k, v, context, attention, kept, h, keep_1, first, mean_1, inverse_1, *rest = ctx.saved_tensors
        inner, active, g, keep_2, mean_2, inverse_2, *weights = rest
        w, (rows, d) = BlockWeights(*weights), x.shape
        _, d_normalise = _both(private.layer_norm())
        _, d_activate = _both(private.activation(s.activation))
        every, ones = [True, True, True], torch.ones(1, rows)
        work = _pool.take(rows, d)

        given = grad_outputs[0].contiguous(), g, (d,), mean_2, inverse_2, w.norm_2, w.norm_2_bias, every
        d_first, *d_norm_2 = d_normalise(*given)
        d_g = _d_dropped(d_first, keep_2, s.dropout, g)
        d_outer = outer(d_g, active), _sum_rows(ones, d_g)
        d_active = linear_into(d_g, w.outer.t(), None, active)
        d_inner = d_activate(d_active, inner)
        d_inner_weight = outer(d_inner, first), _sum_rows(ones, d_inner)
        d_first = residual_into(d_first, d_inner, w.inner.t(), None, d_first)

        given = d_first, h, (d,), mean_1, inverse_1, w.norm_1, w.norm_1_bias, every
        d_x, *d_norm_1 = d_normalise(*given)
        d_h = _d_dropped(d_x, keep_1, s.dropout, h)
        d_out = outer(d_h, context), _sum_rows(ones, d_h)
        d_context = linear_into(d_h, w.out.t(), None, work)
        d_three = _d_attend(d_context, q, k, v, context, attention, kept, groups, s)
        of_three = [gradient for part in d_three for gradient in (outer(part, x), _sum_rows(ones, part))]
        for part, weight in zip(d_three, (w.query, w.key, w.value), strict=True):
            d_x = residual_into(d_x, part, weight.t(), None, d_x)

        _pool.give(work, q, k, v, context, attention, h, inner, active, g, *d_three)
        if kept is not attention:
            _pool.give(kept)
        of_attention = *d_norm_1, *of_three, *d_out
        return (d_x, None, None, *of_attention, *d_norm_2, *d_inner_weight, *d_outer)


def _attend(q: Tensor, k: Tensor, v: Tensor, groups: Groups, s: BlockSettings) -> tuple[Tensor, Tensor, Tensor]:
    """The context `(rows, d)`, and the weights of all groups, flattened, before and after dropout."""
    context, numbers = _pool.take(*q.shape), sum(texts * s.num_heads * length**2 for texts, length in groups)
    attention = _pool.take(numbers)
    kept = attention if s.attention_dropout == 0 else _pool.take(numbers)
    start = 0
    for rows, texts in _places(groups, s.num_heads):
        query, key, value = (_heads(part[rows], texts, s.num_heads) for part in (q, k, v))
        own, start = _square(start, query)
        weights, used = attention[own].view(-1, *2 * key.shape[1:2]), kept[own].view(-1, *2 * key.shape[1:2])
        torch.baddbmm(weights, query, key.transpose(1, 2), beta=0, alpha=s.scale, out=weights)
        torch.softmax(weights, dim=-1, out=weights)
        if s.attention_dropout > 0:
            _drop(weights, used, s.attention_dropout)
        _write(context[rows], torch.bmm(used, value), texts)
    return context, attention, kept


def _d_attend(
    d_context: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    context: Tensor,
    attention: Tensor,
    kept: Tensor,
    groups: Groups,
    s: BlockSettings,
) -> list[Tensor]:
    """The gradients of queries, keys and values, `(rows, d)` each.

    With weights w, weights after dropout u = w keep / (1 - p) and the gradient dc of the context c: dv = u' dc,
    du = dc v', and the softmax gives ds = u du - w (dc . c), since the sum over keys of u du is dc . c.
    """
    d_three = [_pool.take(*q.shape) for _ in range(3)]
    start = 0
    for rows, texts in _places(groups, s.num_heads):
        parts = (_heads(part[rows], texts, s.num_heads) for part in (q, k, v, context, d_context))
        query, key, value, seen, d_seen = parts
        own, start = _square(start, query)
        weights, used = attention[own].view(-1, *2 * key.shape[1:2]), kept[own].view(-1, *2 * key.shape[1:2])
        d_value = torch.bmm(used.transpose(1, 2), d_seen)
        dots = (d_seen * seen).sum(-1, keepdim=True)
        d_scores = torch.bmm(d_seen, value.transpose(1, 2)).mul_(used).addcmul_(weights, dots, value=-1.0)
        d_query = torch.bmm(d_scores, key).mul_(s.scale)
        d_key = torch.bmm(d_scores.transpose(1, 2), query).mul_(s.scale)
        for whole, part in zip(d_three, (d_query, d_key, d_value), strict=True):
            _write(whole[rows], part, texts)
    return d_three


def _places(groups: Groups, num_heads: int) -> list[tuple[slice, int]]:
    """Batches of texts of equal length whose weights together fit a processor's cache: (rows, number of texts)."""
    found, start = [], 0
    for texts, length in groups:
        most = max(1, _TOGETHER // (num_heads * length**2))
        for first in range(0, texts, most):
            some = min(most, texts - first)
            found.append((slice(start, start + some * length), some))
            start += some * length
    return found


def _square(start: int, query: Tensor) -> tuple[slice, int]:
    """Slice of the flattened weights for these queries, `(texts * heads, length, d_head)`, and its end."""
    end = start + query.shape[0] * query.shape[1] ** 2
    return slice(start, end), end


def _heads(x: Tensor, texts: int, num_heads: int) -> Tensor:
    """`(texts * length, d)` as `(texts * heads, length, d_head)`; a single text is not copied."""
    return x.view(texts, -1, num_heads, x.shape[1] // num_heads).transpose(1, 2).flatten(0, 1)


def _write(rows: Tensor, x: Tensor, texts: int) -> None:
    """Fill rows `(texts * length, d)` with `(texts * heads, length, d_head)`."""
    heads, length, d = x.shape[0] // texts, *x.shape[1:]
    rows.view(texts, length, heads, d).copy_(x.view(texts, heads, length, d).transpose(1, 2))


def _drop(x: Tensor, out: Tensor, p: float) -> Tensor:
    """Write `dropout(x)` to `out`; returns the mask of kept elements."""
    threshold = threshold_of(p)
    keep = drawn(x, threshold)
    out.copy_(keep.view(torch.uint8)).mul_(x).mul_(drop_scale(threshold))
    return keep


def _add_dropped(x: Tensor, h: Tensor, p: float) -> Tensor:
    """Replace h by `x + dropout(h)`; returns the mask of kept elements, or h without dropout."""
    if p == 0:
        h += x
        return h
    threshold = threshold_of(p)
    keep = drawn(h, threshold)
    work = _pool.take(*h.shape)
    torch.add(x, work.copy_(keep.view(torch.uint8)).mul_(h), alpha=drop_scale(threshold), out=h)
    _pool.give(work)
    return keep


def _d_dropped(d: Tensor, keep: Tensor, p: float, out: Tensor) -> Tensor:
    """The gradient of dropout's input, in `out`; `d` itself without dropout."""
    if p == 0:
        return d
    out.copy_(keep.view(torch.uint8)).mul_(d).mul_(drop_scale(threshold_of(p)))
    return out


def _sum_rows(ones: Tensor, x: Tensor) -> Tensor:
    """The sum over the rows, as a matrix product with `ones` `(1, rows)`, which takes half the time of `sum`."""
    total: Tensor = torch.mm(ones, x)
    return total.squeeze(0)


def _both(operations: tuple[private.Operation, private.Operation] | None) -> tuple[private.Operation, ...]:
    """An operation and its gradient, which `trains_packed` has found."""
    assert operations is not None
    return operations
