"""Transformer blocks: attention and a feed-forward network, each with a residual connection and normalisation.

    post-norm (2017):  x = norm(x + sublayer(x))
    pre-norm:          x = x + sublayer(norm(x)), and one more norm after the last block

An encoder block is self-attention and feed-forward; a decoder block masks the future in its self-attention and may have
cross-attention to a memory in between.

Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3; pre-norm as in Xiong et al. 2020 (arXiv:2002.04745).
Differs from the paper: the projections of attention have biases; dropout is also applied to attention weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from heed.attention import Keys, MultiHeadAttention, Rows, Turn, watch
from heed.kernels import (
    BlockSettings,
    BlockWeights,
    Groups,
    Linear,
    PreNormSettings,
    attend_first,
    decoder_block,
    encoder_block,
    pre_norm_block,
    trains_pre_norm,
    trains_whole_block,
)
from heed.layers.activations import GELU, GELU_TANH, RELU, SILU, Activation
from heed.layers.dropout import Dropout
from heed.layers.embeddings import LearnedPositions, SinusoidalPositions
from heed.layers.norm import LayerNorm, Norm
from heed.shapes import Bool, Float, Int

NormKind = Literal["post", "pre"]
PositionKind = Literal["sinusoidal", "learned"]


def make_positions(kind: PositionKind, max_length: int, d_model: int) -> SinusoidalPositions | LearnedPositions:
    """Sinusoidal positions of any length, or a learned table of `max_length` positions."""
    return SinusoidalPositions(d_model) if kind == "sinusoidal" else LearnedPositions(max_length, d_model)


class Residual(nn.Module):
    """Residual connection around a sublayer; normalises the sum ("post") or the sublayer's input ("pre")."""

    def __init__(
        self, d_model: int, dropout: float, norm: NormKind, norm_layer: Callable[[int], Norm] = LayerNorm
    ) -> None:
        super().__init__()
        self.norm = norm_layer(d_model)
        self.dropout = Dropout(dropout)
        self.first = norm == "pre"

    def forward(
        self, x: Float[Tensor, "batch length d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch length d_model"]:
        """`norm(x + sublayer(x))`, or `x + sublayer(norm(x))`."""
        if self.first:
            return x + self.dropout(sublayer(self.norm(x)))  # type: ignore[no-any-return]
        return self.norm(x + self.dropout(sublayer(x)))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """`g(x W_1 + b_1) W_2 + b_2` at every position; g is relu by default, as in the paper."""

    def __init__(
        self, d_model: int, d_ff: int, dropout: float | None = 0.0, activation: Activation = RELU, bias: bool = True
    ) -> None:
        super().__init__()
        self.activation = activation
        self.inner = Linear(d_model, d_ff * activation.width, bias=bias)
        self.outer = Linear(d_ff, d_model, bias=bias)
        self.dropout = None if dropout is None else Dropout(dropout)

    def forward(self, x: Float[Tensor, "*shape d_model"]) -> Float[Tensor, "*shape d_model"]:
        """Apply the network to each position."""
        inner = self.inner(x)
        active = self.activation.function(inner) if self.dropout is None else self.dropout.after(self.activation, inner)
        return self.outer(active)  # type: ignore[no-any-return]


class EncoderBlock(nn.Module):
    """Self-attention over a whole sequence, then feed-forward.

    `dropout` applies to sublayer outputs and, with `drops_inner`, to the inner layer of the feed-forward network (GPT-2
    and BERT have no dropout there); `attention_dropout` applies to attention weights; `norm` places the normalisation
    before or after the sublayers, `norm_layer` builds one of a given width; `layer` is the block's number, from 0.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        drops_inner: bool = True,
        attention_dropout: float = 0.0,
        norm: NormKind = "post",
        activation: Activation = RELU,
        norm_layer: Callable[[int], Norm] = LayerNorm,
        layer: int = 0,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            d_model, num_heads, dropout=attention_dropout, mechanism="encoder", layer=layer
        )
        self.feed_forward = FeedForward(d_model, d_ff, dropout if drops_inner else None, activation)
        self.around_attention = Residual(d_model, dropout, norm, norm_layer)
        self.around_feed_forward = Residual(d_model, dropout, norm, norm_layer)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        """Every position attends to every position inside the mask."""
        x = self.around_attention(x, lambda y: self.attention(y, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)  # type: ignore[no-any-return]

    def whole(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch length d_model"]:
        """As `forward` without padding; in training on a CPU a pre-norm block runs as one fused function."""
        given = self._one_function(x)
        return self(x) if given is None else pre_norm_block(x, *given)

    def first(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch 1 d_model"]:
        """The output of a pre-norm block at the first position only: `forward(x)[:, :1]`."""
        assert self.around_attention.first, "first() needs a pre-norm block"
        if "forward" in vars(self):  # activation checkpointing replaces `forward`
            return self(x)[:, :1]  # type: ignore[no-any-return]
        if (given := self._one_function(x)) is not None:
            attended, first = attend_first(x, *given)
            context, first = attended.unsqueeze(1), first.unsqueeze(1)
        else:
            seen, first = self.around_attention.norm(x), x[:, :1]
            context = self.attention(seen[:, :1], self.attention.prepare(seen))
        first = first + self.around_attention.dropout(context)
        return self.around_feed_forward(first, self.feed_forward)  # type: ignore[no-any-return]

    def _one_function(self, x: Tensor) -> tuple[PreNormSettings, BlockWeights] | None:
        """Arguments of `pre_norm_block`; None if the block differs from it, is observed or uses checkpointing."""
        f, a, around = self.feed_forward, self.attention, (self.around_attention, self.around_feed_forward)
        if not (self.training and around[0].first) or watch.slot is not None or "forward" in vars(self):
            return None
        same = around[0].norm.eps == around[1].norm.eps and around[0].dropout.p == around[1].dropout.p
        known = f.activation in (GELU, GELU_TANH, RELU, SILU) and a.dropout == 0 and a.score.scale is not None
        name: Any = f.activation.name
        if not (same and known and trains_pre_norm(x, name)) or (weights := _weights_of(self)) is None:
            return None
        inner_dropout = 0.0 if f.dropout is None else f.dropout.p
        scale, eps, dropout = a.score.scale, around[0].norm.eps, around[0].dropout.p
        assert scale is not None
        return PreNormSettings(a.num_heads, scale, eps, name, dropout, inner_dropout), weights

    def packed(self, x: Float[Tensor, "rows d_model"], groups: Groups) -> Float[Tensor, "rows d_model"]:
        """Read packed texts, `groups` of equal length, in training on a CPU; only if `can_pack`."""
        weights, a = _weights_of(self), self.attention
        assert weights is not None and a.score.scale is not None
        eps, dropout = self.around_attention.norm.eps, self.around_attention.dropout.p
        name: Any = self.feed_forward.activation.name
        settings = BlockSettings(a.num_heads, a.score.scale, eps, name, dropout, a.dropout)
        return encoder_block(x, groups, settings, weights)

    @property
    def can_pack(self) -> bool:
        """Whether `packed` fits: a post-norm block like BERT's, with all biases, without activation checkpointing."""
        f, around = self.feed_forward, (self.around_attention, self.around_feed_forward)
        same = around[0].norm.eps == around[1].norm.eps and around[0].dropout.p == around[1].dropout.p
        drops_inner = f.dropout is not None and f.dropout.p > 0
        known = f.activation in (GELU, GELU_TANH, RELU, SILU) and "forward" not in vars(self)
        return known and same and not around[0].first and not drops_inner and _weights_of(self) is not None


def _weights_of(block: EncoderBlock | DecoderBlock) -> BlockWeights | None:
    """The parameters of a block, those of cross-attention aside; None if a weight or bias is missing."""
    a, f, norms = block.attention, block.feed_forward, (block.around_attention.norm, block.around_feed_forward.norm)
    layers = norms[0], a.w_query, a.w_key, a.w_value, a.w_out, norms[1], f.inner, f.outer
    found: list[Any] = [getattr(layer, name, None) for layer in layers for name in ("weight", "bias")]
    return None if any(parameter is None for parameter in found) else BlockWeights(*found)


class CausalSelfAttention(MultiHeadAttention):
    """`x + MultiHead(x, x, causal)`: a decoder block without normalisation and feed-forward network."""

    def __init__(self, d_model: int, num_heads: int, *, dropout: float = 0.0, layer: int = 0) -> None:
        super().__init__(d_model, num_heads, dropout=dropout, mechanism="decoder", layer=layer)
        self.after = nn.Dropout(dropout)

    def read(
        self,
        x: Float[Tensor, "rows n d_model"],
        cache: Keys | None,
        position: Int[Tensor, " rows"],
        mask: Bool[Tensor, "rows ..."] | None = None,
        turn: Turn | None = None,
    ) -> tuple[Float[Tensor, "rows n d_model"], Keys]:
        """As `DecoderBlock.forward`, without a memory."""
        new = self.prepare(x, mask=mask, turn=turn)
        cache = new if cache is None else cache.append(new)
        return x + self.after(self(x, cache, causal=True, offset=position, turn=turn)), cache


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention to a memory (unless `cross` is off), then feed-forward.

    `bias` applies to all linear layers. Other arguments as for `EncoderBlock`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        cross: bool = True,
        dropout: float = 0.0,
        drops_inner: bool = True,
        attention_dropout: float = 0.0,
        norm: NormKind = "post",
        activation: Activation = RELU,
        norm_layer: Callable[[int], Norm] = LayerNorm,
        bias: bool = True,
        layer: int = 0,
    ) -> None:
        super().__init__()
        attention = partial(MultiHeadAttention, d_model, num_heads, dropout=attention_dropout, bias=bias, layer=layer)
        around = partial(Residual, d_model, dropout, norm, norm_layer)
        self.attention = attention(mechanism="decoder")
        self.around_attention = around()
        self.cross = None
        if cross:
            self.cross = attention(mechanism="cross")
            self.around_cross = around()
        self.feed_forward = FeedForward(d_model, d_ff, dropout if drops_inner else None, activation, bias)
        self.around_feed_forward = around()

    def prepare(
        self, memory: Float[Tensor, "batch key d_model"], mask: Bool[Tensor, "batch key"] | None = None
    ) -> Keys:
        """Keys and values of a memory `(batch, key, d_model)` for the cross-attention, once per source."""
        assert self.cross is not None, "this block has no cross-attention"
        return self.cross.prepare(memory, mask=mask)

    def whole(
        self,
        x: Float[Tensor, "batch length d_model"],
        turn: Turn | None = None,
        seen: Bool[Tensor, "batch length length"] | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Read whole sequences without a memory, as `forward` from the start, but keep no cache.

        In training on a CPU a block like GPT-2's without dropout runs as one fused function.
        """
        if turn is None and seen is None and (weights := self._weights_of_one_function(x)) is not None:
            attention = self.attention
            assert attention.score.scale is not None
            return decoder_block(x, weights, attention.num_heads, attention.score.scale, self.around_attention.norm.eps)
        first = torch.zeros(len(x), dtype=torch.long, device=x.device)
        return self(x, None, None, None, first, seen, turn)[0]  # type: ignore[no-any-return]

    def _weights_of_one_function(self, x: Tensor) -> BlockWeights | None:
        """The parameters if `decoder_block` fits: no observer, dropout, checkpointing or cross-attention; else None."""
        if not self.training or watch.slot is not None or "forward" in vars(self) or self.cross is not None:
            return None
        if not trains_whole_block(x):
            return None
        a, f, norms = self.attention, self.feed_forward, (self.around_attention.norm, self.around_feed_forward.norm)
        parts = [self.around_attention.dropout, self.around_feed_forward.dropout, f.dropout]
        drops = a.dropout > 0 or any(part is not None and part.p > 0 for part in parts)
        if drops or not self.around_attention.first or f.activation != GELU_TANH or norms[0].eps != norms[1].eps:
            return None
        return _weights_of(self)

    def forward(
        self,
        x: Float[Tensor, "rows n d_model"],
        cache: Keys | None,
        memory: Keys | None,
        rows: Rows | None,
        position: Int[Tensor, " rows"],
        mask: Bool[Tensor, "rows ..."] | None = None,
        turn: Turn | None = None,
    ) -> tuple[Float[Tensor, "rows n d_model"], Keys]:
        """Read further positions of each row.

        Args:
            x: `(rows, n, d_model)`.
            cache: The block's keys and values of the earlier positions; None at the start.
            memory: Keys and values of cross-attention, from `prepare`.
            rows: Which source of the memory each row belongs to.
            position: `(rows,)`, absolute position of the first new position.
            mask: `(rows, n)`, True on real positions if prompts are padded; or, without a cache, `(rows, n, n)`, True
                where a position may attend to another.
            turn: Rotates the queries and keys of self-attention by their positions.

        Returns:
            The block's output, `(rows, n, d_model)`, and the extended cache.
        """
        grown: list[Keys] = []

        def look_back(y: Tensor) -> Tensor:
            new = self.attention.prepare(y, mask=mask, turn=turn)
            grown.append(new if cache is None else cache.append(new))
            return self.attention(y, grown[0], causal=True, offset=position, turn=turn)  # type: ignore[no-any-return]

        x = self.around_attention(x, look_back)
        if self.cross is not None:
            assert memory is not None
            cross = self.cross
            x = self.around_cross(x, lambda y: cross(y, memory, rows=rows, offset=position))
        return self.around_feed_forward(x, self.feed_forward), grown[0]


def xavier(module: nn.Module) -> None:
    """Initialise linear layers: weights from the uniform distribution of Glorot and Bengio 2010, biases zero.

    Keeps the variance of activations about constant through deep stacks; post-norm does not train without it. Use as
    `module.apply(xavier)`.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
