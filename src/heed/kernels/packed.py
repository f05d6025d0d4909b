"""Self-attention within texts that lie end to end, trained on a CPU as one function with a hand-written gradient.

The tokens of all texts are the rows of one matrix, without padding; texts of equal length are adjacent, and `groups`
lists their number and length. Attention runs group by group, so that no weight is computed for padding and no mask is
needed, and in pieces whose weights stay in the processor's cache between products, softmax and dropout.

Source: Dao et al. 2022 (arXiv:2205.14135), appendix B.2, for the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from heed.kernels.elementwise import drawn, drop_scale, threshold_of
from heed.shapes import Float

Groups = Sequence[tuple[int, int]]
"""Groups of adjacent texts of equal length, from the first row on: (number of texts, tokens per text)."""

_TOGETHER = 2**16
"""Attention weights computed at once: few enough to stay in a processor's cache."""


def packed_attention(
    query: Float[Tensor, "rows d"],
    key: Float[Tensor, "rows d"],
    value: Float[Tensor, "rows d"],
    groups: Groups,
    num_heads: int,
    scale: float,
    dropout: float = 0.0,
) -> Float[Tensor, "rows d"]:
    """The contexts of all heads, `(rows, d)`: `softmax(scale query key') value` within each text.

    Args:
        query: `(rows, d)`, the tokens of all texts, concatenated; keys and values likewise.
        key: As the queries.
        value: As the queries.
        groups: Number and length of the texts; the lengths of all texts add up to the rows.
        num_heads: Heads, into which d is divided.
        scale: Factor of the scores.
        dropout: Probability with which a weight is dropped (`byte_dropout`).
    """
    settings = groups, num_heads, scale, dropout
    wide = (x.float() if x.itemsize == 2 else x for x in (query, key, value))
    with torch.autocast("cpu", enabled=False):  # these products are too small to gain from 16 bits
        result: Tensor = _PackedAttention.apply(*wide, *settings)
    return result


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *three, groups, num_heads, scale, dropout = inputs
        context, saved = torch.empty_like(three[0]), []
        for rows, texts in pieces(groups, num_heads):
            query, key, value = (heads(part[rows], texts, num_heads) for part in three)
            weights = torch.baddbmm(query.new_empty(()), query, key.transpose(1, 2), beta=0, alpha=scale)
            used = torch.softmax(weights, dim=-1, out=weights)
            if dropout > 0:
                keep = drawn(weights, threshold_of(dropout)).view(torch.uint8)
                used = keep.to(weights.dtype).mul_(drop_scale(threshold_of(dropout))).mul_(weights)
            saved += [weights, used]
            _write(context[rows], torch.bmm(used, value), texts)
        ctx.save_for_backward(*three, context, *saved)
        ctx.settings = groups, num_heads, scale
        return context

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        """The gradients of queries, keys and values.

        With weights w, weights after dropout u = w keep / (1 - p) and the gradient dc of the context c: dv = u' dc,
        du = dc v', and the softmax gives ds = u du - w (dc . c), since the sum over keys of u du is dc . c.
        """
        groups, num_heads, scale = ctx.settings
        saved = iter(ctx.saved_tensors)
        parts = [*islice(saved, 4), grad_outputs[0].contiguous()]
        gradients = [torch.empty_like(part) for part in parts[:3]]
        for rows, texts in pieces(groups, num_heads):
            query, key, value, seen, d_seen = (heads(part[rows], texts, num_heads) for part in parts)
            weights, used = next(saved), next(saved)
            d_value = torch.bmm(used.transpose(1, 2), d_seen)
            dots = (d_seen * seen).sum(-1, keepdim=True)
            d_scores = torch.bmm(d_seen, value.transpose(1, 2)).mul_(used).addcmul_(weights, dots, value=-1.0)
            d_query = torch.bmm(d_scores, key).mul_(scale)
            d_key = torch.bmm(d_scores.transpose(1, 2), query).mul_(scale)
            for whole, part in zip(gradients, (d_query, d_key, d_value), strict=True):
                _write(whole[rows], part, texts)
        return (*gradients, None, None, None, None)


def pieces(groups: Groups, num_heads: int) -> Iterator[tuple[slice, int]]:
    """Texts of equal length whose weights together fit a processor's cache: (rows, number of texts)."""
    start = 0
    for texts, length in groups:
        maximum = max(1, _TOGETHER // (num_heads * length**2))
        for first in range(0, texts, maximum):
            count = min(maximum, texts - first)
            yield slice(start, start + count * length), count
            start += count * length


def heads(x: Tensor, texts: int, num_heads: int) -> Tensor:
    """`(texts * length, d)` as `(texts * heads, length, d_head)`; a single text is not copied."""
    return x.view(texts, -1, num_heads, x.shape[1] // num_heads).transpose(1, 2).flatten(0, 1)


def _write(rows: Tensor, x: Tensor, texts: int) -> None:
    """Fill rows `(texts * length, d)` with `(texts * heads, length, d_head)`."""
    num_heads, length, d = x.shape[0] // texts, *x.shape[1:]
    rows.view(texts, length, num_heads, d).copy_(x.view(texts, num_heads, length, d).transpose(1, 2))
