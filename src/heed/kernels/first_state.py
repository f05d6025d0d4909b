"""Self-attention of a pre-norm block for the first position only, trained on a CPU without keys and values.

    h = W_out MultiHead(norm(x)[0], norm(x)) + b_out

With one query per sequence, keys and values need not be computed at every position: with y = norm(x) and head h,

    q_h . (W_k[h] y_i + b_k[h]) = (q_h W_k[h]) . y_i + a constant over i, which cancels in the softmax
    sum_i w_i (W_v[h] y_i + b_v[h]) = W_v[h] (sum_i w_i y_i) + b_v[h]

so both layers are applied once per sequence and head instead of once per position (benchmarks/NOTES.md). The gradient
of b_k is therefore exactly zero; with the modules it is zero up to rounding.

Source: the gradient by the chain rule, that of layer normalisation by torch's own operation; the block is that of
Dosovitskiy et al. 2021 (arXiv:2010.11929), where only the class token of the last block is used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heed.kernels import private
from heed.kernels.blocks import BlockWeights
from heed.kernels.pre_norm_block import PreNormSettings
from heed.shapes import Float


def attend_first(
    x: Float[Tensor, "batch length d"], settings: PreNormSettings, weights: BlockWeights
) -> tuple[Float[Tensor, "batch d"], Float[Tensor, "batch d"]]:
    """Attention's output at the first position, before dropout, and `x[:, 0]`; only if `trains_pre_norm`.

    Args:
        x: `(batch, length, d)` in float32, without padding.
        settings: Only heads, scale and eps are used.
        weights: Only those of attention and of the normalisation before it are used.
    """
    w = weights
    parts = w.norm_1, w.norm_1_bias, w.query, w.query_bias, w.key, w.key_bias, w.value, w.value_bias, w.out, w.out_bias
    return _AttendFirst.apply(x, settings, *parts)  # type: ignore[no-any-return]


class _AttendFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, s: PreNormSettings, *weights: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift, w_query, b_query, w_key, _, w_value, b_value, w_out, b_out = weights
        found = private.layer_norm()
        assert found is not None
        seen, mean, inverse = found[0](x, x.shape[2:], scale, shift, s.eps)

        query = _by_head(torch.addmm(b_query, seen[:, 0], w_query.t()), s.num_heads)  # (H, B, d_head)
        asked = torch.bmm(query, w_key.view(s.num_heads, -1, x.shape[2])).transpose(0, 1).contiguous()  # (B, H, d)
        kept = torch.softmax(s.scale * torch.bmm(asked, seen.transpose(1, 2)), dim=-1)
        pooled = torch.bmm(kept, seen)  # (B, H, d)
        context = torch.bmm(pooled.transpose(0, 1), w_value.view(s.num_heads, -1, x.shape[2]).transpose(1, 2))
        context = context.transpose(0, 1).flatten(1).add_(b_value)  # (B, d)

        ctx.save_for_backward(x, seen, mean, inverse, query, asked, kept, pooled, context, *weights)
        ctx.settings = s
        return torch.addmm(b_out, context, w_out.t()), x[:, 0].clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        d_h, d_first = grad_outputs
        x, seen, mean, inverse, query, asked, kept, pooled, context, *weights = ctx.saved_tensors
        scale, shift, w_query, _, w_key, b_key, w_value, _, w_out, _ = weights
        s, d = ctx.settings, x.shape[2]
        found = private.layer_norm()
        assert found is not None
        of_head = s.num_heads, -1, d  # shape of a layer by head, (H, d_head, d)

        d_context = d_h @ w_out
        d_out = d_h.t() @ context, d_h.sum(0)
        by_head = _by_head(d_context, s.num_heads)
        d_value = torch.bmm(by_head.transpose(1, 2), pooled.transpose(0, 1)).view_as(w_value), d_context.sum(0)
        d_pooled = torch.bmm(by_head, w_value.view(of_head)).transpose(0, 1)
        # softmax: ds = w (dw - sum over positions of w dw)
        weighed = torch.bmm(d_pooled, seen.transpose(1, 2)).mul_(kept)
        d_scores = weighed.addcmul_(kept, weighed.sum(-1, keepdim=True), value=-1.0).mul_(s.scale)
        d_asked = torch.bmm(d_scores, seen).transpose(0, 1)
        d_seen = torch.bmm(torch.cat([kept, d_scores], 1).transpose(1, 2), torch.cat([d_pooled, asked], 1))

        d_key = torch.bmm(query.transpose(1, 2), d_asked).view_as(w_key), torch.zeros_like(b_key)
        d_query = torch.bmm(d_asked, w_key.view(of_head).transpose(1, 2)).transpose(0, 1).flatten(1)
        d_seen[:, 0] += d_query @ w_query
        d_layer = d_query.t() @ seen[:, 0], d_query.sum(0)
        given = d_seen, x, (d,), mean, inverse, scale, shift, [True, True, True]
        d_x, *d_norm = found[1](*given)
        d_x[:, 0] += d_first
        return (d_x, None, *d_norm, *d_layer, *d_key, *d_value, *d_out)


def _by_head(x: Tensor, num_heads: int) -> Tensor:
    """`(batch, d)` as `(heads, batch, d_head)`."""
    return x.view(len(x), num_heads, -1).transpose(0, 1)
