"""Attention over few keys, trained on a CPU: batched products over all heads, with a hand-written gradient.

torch's fused kernel processes one head of one sequence at a time, which for a dozen keys is mostly overhead and gains
nothing from a second thread: 5.0 ms against 3.0 ms here, forward and backward, for 140 x 4 heads of 14 positions on two
threads; from about a hundred keys on it is faster (benchmarks/NOTES.md). Here the weights are held in full.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

SHORT = 64
"""Largest number of keys for which this is used."""

VECTOR = 16
"""Elements in a vector register: over fewer, torch's softmax is not vectorised and takes ten times as long."""


def short_attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """`softmax(scale * query key') value`, each `(batch, heads, positions, d)`; zero where all keys are masked."""
    if (missing := VECTOR - key.shape[2]) > 0:
        if mask is None:
            mask = torch.ones(key.shape[2], dtype=torch.bool, device=key.device)
        mask = pad(mask.expand(*mask.shape[:-1], key.shape[2]), (0, missing))
    context: Tensor = _ShortAttention.apply(query, key, value, mask, scale)
    return context


def attend_few(query: Tensor, keys: Tensor, value: Tensor, blocked: Tensor | None) -> Tensor:
    """`softmax(query keys + blocked) value` without a gradient, for one or a few queries of each head.

    Two batched products and a softmax, which for few queries on a CPU are faster than torch's fused kernel.

    Args:
        query: `(batch * heads, queries, d)`; the score's scale is already in the queries or keys.
        keys: `(batch * heads, d, keys)`; with many rows, padding to `VECTOR` keys is faster.
        value: `(batch * heads, keys, d)`.
        blocked: `(batch, 1, queries or 1, keys)`, -inf where a query may not attend, otherwise 0; None allows all.
    """
    scores = torch.bmm(query, keys)
    if blocked is not None:
        scores.view(len(blocked), -1, *scores.shape[1:]).add_(blocked)
    return torch.bmm(torch.softmax(scores, dim=-1), value)


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        shape = (*query.shape[:3], max(key.shape[2], VECTOR))
        q, k, v = query.flatten(0, 1), _filled(key), _filled(value)
        if mask is None:
            scores = torch.bmm(q, k.transpose(1, 2)).mul_(scale)
            weights = torch.softmax(scores, dim=-1, out=scores)
        else:
            # An additive mask saves one pass; the lowest number plus a score acts as minus infinity.
            blocked = torch.zeros(mask.shape, dtype=q.dtype).masked_fill_(~mask, torch.finfo(q.dtype).min)
            scores = torch.baddbmm(blocked.expand(shape).reshape(-1, *shape[2:]), q, k.transpose(1, 2), alpha=scale)
            weights = torch.softmax(scores, dim=-1, out=scores)
            if not mask.any(-1).all():  # a query without allowed keys has uniform weights here
                weights.view(shape).masked_fill_(~mask, 0.0)
        short = shape[3] > key.shape[2]  # then save keys and values without their padding
        ctx.save_for_backward(q, key if short else k, value if short else v, weights)
        ctx.scale, ctx.heads, ctx.short = scale, shape[:2], short
        context: Tensor = torch.bmm(weights, v).unflatten(0, ctx.heads)
        return context

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        q, k, v, weights = ctx.saved_tensors
        num_keys = k.shape[-2]
        if ctx.short:
            k, v = _filled(k), _filled(v)
        d_context = grad_outputs[0].flatten(0, 1)
        d_value = torch.bmm(weights.transpose(1, 2), d_context)
        d_weights = torch.bmm(d_context, v.transpose(1, 2))
        # softmax: ds = w * dw - w * (sum over keys of w * dw)
        weighed = d_weights.mul_(weights)
        d_scores = weighed.addcmul(weights, weighed.sum(-1, keepdim=True), value=-1.0).mul_(ctx.scale)
        d_query, d_key = torch.bmm(d_scores, k), torch.bmm(d_scores.transpose(1, 2), q)
        d_key, d_value = d_key[:, :num_keys], d_value[:, :num_keys]
        return (*(d.unflatten(0, ctx.heads) for d in (d_query, d_key, d_value)), None, None)


def _filled(x: Tensor) -> Tensor:
    """`(batch, heads, key, d)` to `(batch * heads, key, d)`, padded with zeros to at least `VECTOR` keys."""
    missing = VECTOR - x.shape[2]
    return (pad(x, (0, 0, 0, missing)) if missing > 0 else x).flatten(0, 1)
