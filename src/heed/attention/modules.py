"""Attention as modules: a score with its parameters, keys prepared once per source, and calls to the observer.

Where the score is a scaled dot product, torch's fused kernel computes it. Tests check that its values and gradients
equal the specification for every mask. It does not return weights; an observer recomputes them from the recorded
queries and keys.

Shapes: R rows (sequences being generated), B sources (R = B unless `Rows` says otherwise), H heads, Q queries, K keys.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention import watch
from heed.attention.attend import full_mask, fused_attend, masked_softmax, weigh
from heed.attention.keys import Keys, Scope, SearchKeys, at_positions, from_positions, key_positions
from heed.attention.scores import General, ScaledDot, Score
from heed.errors import ConfigError
from heed.kernels import Groups, Linear, Map, bound, joined, linear_together, packed_attention
from heed.shapes import Bool, Float, ReturnsTensor

Rotation = Callable[[Tensor], Tensor]
"""Rotates the queries or keys of each head, `(rows, heads, positions, d_head)`, by their positions."""


class Attends(ReturnsTensor, nn.Module):
    """Base class of attention modules: chooses the path that computes the context, and notifies the observer.

    `mechanism` is its name in maps ("cross", "encoder", "decoder"), `layer` its layer in the model, from 0. Weights are
    dropped with probability `dropout` in training.
    """

    def __init__(self, score: Score, dropout: float, mechanism: str, layer: int) -> None:
        super().__init__()
        self.score = score
        self.dropout = dropout
        self.mechanism = mechanism
        self.layer = layer

    def _attend(
        self, projected: Float[Tensor, "rows heads query d"], keys: Keys, scope: Scope
    ) -> Float[Tensor, "rows query d_output"]:
        dropout = self.dropout if self.training else 0.0
        weights = None
        per_query = scope.causal or (keys.mask is not None and keys.mask.dim() == 3)
        if scope.rows is not None and per_query and not scope.rows.is_identity:
            # Grouped rows share one query axis, which a mask per query does not fit: give each row its own keys.
            keys, scope = keys.select(scope.rows.source_of), replace(scope, rows=None)
        rows = scope.rows
        if watch.observer.current is not None and (edits := watch.observer.current.edits(self)):
            context, weights = self._edited(projected, keys, scope, edits)
        else:
            grouped = projected if rows is None else rows.group(projected)
            may = scope.within(keys.mask, projected.shape[2])
            if self.score.scale is not None:
                inputs = grouped, keys.prepared, keys.value, may
                context = fused_attend(*inputs, causal=scope.causal, scale=self.score.scale, dropout=dropout)
            else:
                mask = full_mask(may, scope.causal, grouped.shape[2], len(keys), grouped.device)
                scores = self.score.scores(grouped, keys.prepared)  # (B, H, Q, K)
                grouped_weights = masked_softmax(scores, mask)
                context = weigh(grouped_weights, keys.value, dropout)
                weights = grouped_weights if rows is None or rows.is_identity else None
            if rows is not None:
                context = rows.ungroup(context)
        output = self._joined(context)
        if watch.observer.current is not None:
            call = watch.AttentionCall(projected, keys, scope, context, weights, dropout, self.score, output=output)
            watch.observer.current.attention(self, call)
        return output

    def _joined(self, context: Float[Tensor, "rows heads query d_value"]) -> Float[Tensor, "rows query d_output"]:
        """The output, from the contexts of all heads; without an override, of the single one."""
        return context.squeeze(1)

    def _edited(
        self, projected: Tensor, keys: Keys, scope: Scope, edits: list[watch.WatchedEdit]
    ) -> tuple[Tensor, Tensor]:
        """The readable path, with edits applied between softmax and sum; each row gets its own copy of the keys."""
        if scope.rows is not None and not scope.rows.is_identity:
            keys, scope = keys.select(scope.rows.source_of), replace(scope, rows=None)
        num_rows, _, num_queries, _ = projected.shape
        may = scope.within(keys.mask, num_queries)
        mask = full_mask(may, scope.causal, num_queries, len(keys), projected.device)
        weights = masked_softmax(self.score.scores(projected, keys.prepared), mask)
        causal_keys = keys.mask if scope.causal else None
        places = key_positions(causal_keys, scope.key_offset, num_rows, len(keys), projected.device)
        if places is not None:  # edits address keys by position
            allowed = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
            weights, mask = at_positions(weights, places, 0.0), at_positions(allowed, places, 0.0)
        for edit in edits:
            weights = edit(weights, mask, scope.positions(projected))
        if places is not None:
            weights = from_positions(weights, places)
        return weigh(weights, keys.value), weights


class Attention(Attends):
    """Single-head attention: `softmax(score(query, key)) value`, without a projection of the values.

    Bahdanau's alignment model is this with an additive score and the encoder states as keys and values.
    """

    def __init__(self, score: Score, *, dropout: float = 0.0, mechanism: str = "attention", layer: int = 0) -> None:
        super().__init__(score, dropout, mechanism, layer)

    def prepare(
        self,
        key: Float[Tensor, "batch key d_key"],
        value: Float[Tensor, "batch key d_value"] | None = None,
        mask: Bool[Tensor, "batch ..."] | None = None,
    ) -> Keys:
        """Prepare keys `(batch, key, d_key)` once per source; values `(batch, key, d_value)` default to the keys."""
        value = key if value is None else value
        return Keys(self.score.prepare(key).unsqueeze(1), value.unsqueeze(1), mask)

    def forward(
        self,
        query: Float[Tensor, "rows query d_query"],
        keys: Keys,
        **scope: Any,
    ) -> Float[Tensor, "rows query d_value"]:
        """Attend to prepared keys; returns the context, `(rows, query, d_value)`.

        Args:
            query: `(rows, query, d_query)`.
            keys: From `prepare`, with a mask `(batch, key)` or `(batch, query, key)`, True = may attend.
            scope: Fields of `Scope`: causal, rows, offset, key_offset, seen.
        """
        return self._attend(self.score.project(query).unsqueeze(1), keys, Scope(**scope))


class AttentionLayer(Attention):
    """General attention layer: any queries over any inputs, with learned keys and values.

    k = X W_k, v = X W_v, e_ij = q_j'k_i / sqrt(d_query), a = softmax(e), y_j = sum_i a_ij v_i

    Source: the lecture notes (docs/systems.md, B7).
    Differs from the notes: they divide by sqrt(D), D the width of x; a score sums d_query products, so sqrt(d_query).
    """

    def __init__(
        self,
        d_query: int,
        d_input: int,
        d_value: int,
        *,
        dropout: float = 0.0,
        mechanism: str = "attention",
        layer: int = 0,
    ) -> None:
        score = General(d_query, d_input, scale=1.0 / math.sqrt(d_query))
        super().__init__(score, dropout=dropout, mechanism=mechanism, layer=layer)
        self.w_value = Linear(d_input, d_value, bias=False)

    def prepare(
        self,
        key: Float[Tensor, "batch key d_key"],
        value: Float[Tensor, "batch key d_input"] | None = None,
        mask: Bool[Tensor, "batch ..."] | None = None,
    ) -> Keys:
        """Project inputs `(batch, key, d_input)` to keys and values."""
        return super().prepare(key, self.w_value(key if value is None else value), mask)


class MultiHeadAttention(Attends):
    """Multi-head attention: projections per head, contexts concatenated and projected by one linear layer.

    head_h = softmax(q_h k_h' / sqrt(d_head)) v_h with q_h = x W_q[h] + b_q[h], and so on; y = [head_1 ; ...] W_o + b_o

    Self-attention: `attention(x)`. Cross-attention: `attention(x, attention.prepare(memory, mask=memory_mask))`.
    With a cache: `context, cache = attention.extend(x, cache, causal=True)`.

    Raises:
        ConfigError: `d_model` is not divisible by `num_heads`.

    Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.2.
    Differs from the paper: the projections have biases, as in most implementations (`bias=False` for none).
    Differs from the lecture notes: they divide by sqrt(D), D the width of x; here by sqrt(d_head).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_key: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        mechanism: str = "attention",
        layer: int = 0,
    ) -> None:
        if d_model % num_heads:
            raise ConfigError(f"d_model {d_model} is not divisible by num_heads {num_heads}")
        super().__init__(ScaledDot(d_model // num_heads), dropout, mechanism, layer)
        self.num_heads = num_heads
        self.w_query = Linear(d_model, d_model, bias=bias)
        self.w_key = Linear(d_key or d_model, d_model, bias=bias)
        self.w_value = Linear(d_key or d_model, d_model, bias=bias)
        self.w_out = Linear(d_model, d_model, bias=bias)

    def _split(self, x: Tensor) -> Tensor:
        heads = x.view(x.shape[0], x.shape[1], self.num_heads, -1)
        return heads.transpose(1, 2)  # (B, L, d_model) -> (B, H, L, d_head)

    def prepare(
        self,
        key: Float[Tensor, "batch key d_key"],
        value: Float[Tensor, "batch key d_key"] | None = None,
        mask: Bool[Tensor, "batch ..."] | None = None,
        turn: Rotation | None = None,
    ) -> Keys:
        """Project keys and values for each head, once per source or, in a cache, once per position."""
        if value is None:
            keys, values = linear_together(key, self.w_key, self.w_value)
        else:
            keys, values = self.w_key(key), self.w_value(value)
        return self._keys(keys, values, mask, turn)

    def _keys(self, key: Tensor, value: Tensor, mask: Tensor | None, turn: Rotation | None) -> Keys:
        key = self._split(key)
        prepared = self.score.prepare(key if turn is None else turn(key))
        return Keys(prepared, self._split(value), mask)

    def extend(
        self,
        x: Float[Tensor, "rows n d_model"],
        cache: Keys | None = None,
        *,
        mask: Bool[Tensor, "rows ..."] | None = None,
        turn: Rotation | None = None,
        **scope: Any,
    ) -> tuple[Float[Tensor, "rows n d_model"], Keys]:
        """Self-attention of further positions over those of a cache and their own.

        Returns:
            The context, `(rows, n, d_model)`, and the cache extended by the keys and values of these positions.
        """
        projected, new = self._own(x, mask, turn)
        cache = new if cache is None else cache.append(new)
        return self(x, cache, projected=projected, **scope), cache

    def _own(self, x: Tensor, mask: Tensor | None, turn: Rotation | None) -> tuple[Tensor, Keys]:
        """Queries and keys of the same positions."""
        key, value, query = linear_together(x, self.w_key, self.w_value, self.w_query)
        return self._queries(query, turn), self._keys(key, value, mask, turn)

    def _queries(self, query: Tensor, turn: Rotation | None) -> Tensor:
        query = self._split(query)
        return self.score.project(query if turn is None else turn(query))

    def forward(
        self,
        query: Float[Tensor, "rows query d_model"],
        keys: Keys | None = None,
        *,
        mask: Bool[Tensor, "batch ..."] | None = None,
        turn: Rotation | None = None,
        projected: Float[Tensor, "rows heads query d_head"] | None = None,
        **scope: Any,
    ) -> Float[Tensor, "rows query d_model"]:
        """Attend to prepared keys, as `Attention.forward`; without `keys`, self-attention over `query` under `mask`.

        `turn` applies rotary positions to each head's queries before they are compared, and in `prepare` to its keys.
        `projected`, beside keys, are queries that `extend` has projected with them.
        """
        if keys is None:
            projected, keys = self._own(query, mask, turn)
        else:
            assert mask is None, "prepared keys carry their own mask"
        if projected is None:
            projected = self._queries(self.w_query(query), turn)
        return self._attend(projected, keys, Scope(**scope))

    def for_search(self, keys: Keys) -> SearchKeys:
        """The keys of a memory, for the steps of a search."""
        assert self.score.scale is not None
        return SearchKeys.of(keys, self.score.scale)

    def cache_for_search(self, cache: Keys | None, num_sources: int) -> SearchKeys:
        """The keys of earlier positions, if any, for the steps of a search."""
        if cache is not None:
            return SearchKeys.of(cache, 1.0, spare=len(cache))
        d_model = self.w_query.out_features
        shape = 2, num_sources, self.num_heads, 0, d_model // self.num_heads
        return SearchKeys(self.w_query.weight.new_empty(shape), 0)

    def bind(self, keys: SearchKeys, appends: bool = False) -> Map:
        """Attention of one position of each row to the keys of its source, as a function: see `Linear.bind`.

        With `appends` it is self-attention: the keys and values of the position are appended first.
        """
        layers, out, heads = [self.w_query], self.w_out.bind(), self.num_heads
        project = self.w_query.bind()
        if appends:
            layers += [self.w_key, self.w_value]
            assert self.score.scale is not None
            project = bound(*joined(layers, self.score.scale))

        def attend(x: Tensor) -> Tensor:
            new = project(x)
            if appends and keys.turn is not None:
                parts = new.view(len(x), 3 * heads, 1, -1)
                parts[:, : 2 * heads] = keys.turn(parts[:, : 2 * heads])
            if not appends and keys.width == 1:
                query = new
            else:
                new = new.view(-1, keys.width, len(layers), heads, x.shape[1] // heads).permute(2, 0, 3, 1, 4)
                query = new[0]  # (sources, heads, width, d_head)
                if appends:
                    keys.append(new[1:])
            return out(keys.context(query.reshape(-1, keys.width, x.shape[1] // heads)))

        return attend

    def packed(self, x: Float[Tensor, "1 rows d_model"], groups: Groups) -> Float[Tensor, "1 rows d_model"]:
        """Self-attention within texts that lie end to end, for training on a CPU (`kernels.packed`); not observed."""
        key, value, query = linear_together(x.squeeze(0), self.w_key, self.w_value, self.w_query)
        assert self.score.scale is not None
        dropout = self.dropout if self.training else 0.0
        context = packed_attention(query, key, value, groups, self.num_heads, self.score.scale, dropout)
        return self.w_out(context).unsqueeze(0)

    def _joined(self, context: Float[Tensor, "rows heads query d_value"]) -> Float[Tensor, "rows query d_model"]:
        return self.w_out(context.transpose(1, 2).flatten(2))
