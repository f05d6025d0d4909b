"""Attention of hierarchies: pooling by learned queries, and two levels, over parts (sentences, turns) and their words.

Shapes: R rows, B sources, Q queries, K keys (the words of all parts, concatenated), P parts, N learned queries, d width
of the keys.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention import watch
from heed.attention.attend import full_mask, weigh
from heed.attention.keys import Keys, Rows, Scope
from heed.attention.modules import Attention
from heed.attention.scores import Dot
from heed.kernels import Linear
from heed.shapes import Bool, Float, Int, ReturnsTensor


class HierarchicalAttention(Attention):
    """Attention to words within each part, with given part weights: a word's weight is the product of both.

        a_ij = b_i softmax_j(score(q, k_ij)),  the softmax over the words j of part i;  context = sum_ij a_ij v_ij

    Source: Yang et al. 2016 (NAACL N16-1174), section 2.2, for the two levels; Xing et al. 2018 (arXiv:1701.07149),
    section 3, compute both again for each word of the response.
    Differs from Xing et al.: the part weights do not depend on the contexts computed within the parts.
    """

    def forward(  # type: ignore[override]
        self,
        query: Float[Tensor, "rows query d_query"],
        keys: Keys,
        part_of: Int[Tensor, "batch key"],
        part_weights: Float[Tensor, "rows query part"],
        **scope: Any,
    ) -> Float[Tensor, "rows query d_value"]:
        """Attend to prepared keys; returns the context, `(rows, query, d_value)`.

        Args:
            query: `(rows, query, d_query)`.
            keys: From `prepare`, with a mask `(batch, key)` or none.
            part_of: `(batch, key)`, index of the part that contains each key.
            part_weights: `(rows, query, part)`, the weight b of each part.
            scope: Fields of `Scope`: rows, also of `part_of`, offset, seen.
        """
        where = Scope(**scope)
        rows = Rows.repeat(len(query), device=query.device) if where.rows is None else where.rows
        where = replace(where, rows=rows)
        num_queries, device = query.shape[1], query.device
        projected = self.score.project(query).unsqueeze(1)  # (R, 1, Q, d)
        grouped, grouped_parts = rows.group(projected), rows.group(part_weights.unsqueeze(1))
        mask = full_mask(where.within(keys.mask, num_queries), False, grouped.shape[2], len(keys), device)
        within = softmax_within(self.score.scores(grouped, keys.prepared), part_of, grouped_parts.shape[-1], mask)
        weights = within * grouped_parts.gather(-1, part_of[:, None, None].expand_as(within))  # (B, 1, grouped, K)
        dropout = self.dropout if self.training else 0.0
        if watch.observer.current is not None and (edits := watch.observer.current.edits(self)):
            row_keys = keys.select(rows.source_of)
            may = replace(where, rows=None).within(row_keys.mask, num_queries)
            allowed = full_mask(may, False, num_queries, len(keys), device)
            weights = rows.ungroup(weights)
            for edit in edits:
                weights = edit(weights, allowed, where.positions(projected))
            context = weigh(weights, row_keys.value)
        else:
            context = rows.ungroup(weigh(weights, keys.value, dropout))  # (R, 1, Q, d_value)
            weights = rows.ungroup(weights)
        if watch.observer.current is not None:
            scores = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
            parts = part_of[rows.source_of], part_weights
            call = watch.AttentionCall(
                projected, keys, where, context, weights, dropout, self.score, scores, parts=parts
            )
            watch.observer.current.attention(self, call)
        return context.squeeze(1)


def softmax_within(
    scores: Float[Tensor, "batch heads query key"],
    part_of: Int[Tensor, "batch key"],
    num_parts: int,
    mask: Tensor | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """Softmax over the allowed keys of each part: the weights of each part sum to 1.

    The weight is 0 where the mask, broadcastable to the scores, is False.
    """
    part = part_of[:, None, None].expand_as(scores)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    empty = scores.new_full((*scores.shape[:-1], num_parts), torch.finfo(scores.dtype).min)
    highest = empty.scatter_reduce(-1, part, scores.detach(), "amax")
    powers = torch.exp(scores - highest.gather(-1, part))
    if mask is not None:
        powers = powers.masked_fill(~mask, 0.0)
    sums = torch.zeros_like(empty).scatter_add(-1, part, powers)  # at least 1 for a part with an allowed key
    return powers / sums.gather(-1, part).clamp_min(1.0)


class AttentionPooling(ReturnsTensor, nn.Module):
    """`softmax(score(u, h)) h` for learned queries u; the context vectors are concatenated.

    | score | of u and h_i | learned queries |
    |---|---|---|
    | additive | `u' tanh(W h_i + b)` (Yang et al. 2016, equations 5-7; the notes' v' tanh(...) with u for v) | 1 |
    | dot | `u' h_i` | 1 |
    | self_attentive | `u_n' tanh(W h_i)` (Lin et al. 2017, arXiv:1703.03130, equation 6) | `num_queries` |

    Differs from Lin et al.: no penalty on similar queries.
    """

    def __init__(
        self,
        d: int,
        *,
        score: str = "additive",
        d_attention: int | None = None,
        num_queries: int = 1,
        mechanism: str = "pooling",
        layer: int = 0,
    ) -> None:
        """Build the layer over states of width d; `d_attention` is the width of `tanh(W h + b)`, d by default."""
        super().__init__()
        d_query = d if score == "dot" else d_attention or d
        self.key = None if score == "dot" else Linear(d, d_query, bias=score == "additive")
        self.query = nn.Parameter(torch.empty(num_queries, d_query))
        nn.init.uniform_(self.query, -1 / math.sqrt(d_query), 1 / math.sqrt(d_query))
        self.attention = Attention(Dot(), mechanism=mechanism, layer=layer)
        self.d_output = num_queries * d

    def forward(
        self, states: Float[Tensor, "batch key d"], mask: Bool[Tensor, "batch key"] | None = None
    ) -> Float[Tensor, "batch d_output"]:
        """Pool each row into one vector; zeros for a row whose mask is False everywhere."""
        key = states if self.key is None else torch.tanh(self.key(states))
        keys = self.attention.prepare(key, states, mask)
        query = self.query.expand(len(states), -1, -1)  # (B, N, d_query)
        return self.attention(query, keys).flatten(1)
