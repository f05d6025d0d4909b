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
from torch.utils.checkpoint import checkpoint

from heed.attention import Keys, MultiHeadAttention, Rotation, Rows, SearchKeys, watch
from heed.attention.host import host_copy
from heed.kernels import Groups, Linear, Map, enabled, trains_by_hand
from heed.layers.elementwise import RELU, Activation, Dropout, LayerNorm, Norm
from heed.layers.embeddings import LearnedPositions, SinusoidalPositions, fairseq_sinusoids, sinusoids
from heed.layers.ragged import Packed
from heed.shapes import Bool, Float, Int, ReturnsTensor

NormKind = Literal["post", "pre"]
PositionKind = Literal["sinusoidal", "learned"]


def make_positions(
    kind: PositionKind | Literal["fairseq"], max_length: int, d_model: int
) -> SinusoidalPositions | LearnedPositions:
    """Sinusoidal positions of any length, in the paper's or fairseq's form, or a learned table of `max_length`."""
    if kind == "learned":
        return LearnedPositions(max_length, d_model)
    return SinusoidalPositions(d_model, fairseq_sinusoids if kind == "fairseq" else sinusoids)


class Residual(ReturnsTensor, nn.Module):
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
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))

    def bind(self, sublayer: Map) -> Map:
        """The same without dropout, as a function: see `heed.kernels.Linear.bind`."""
        norm = self.norm.bind()
        return (lambda x: sublayer(norm(x)).add_(x)) if self.first else lambda x: norm(sublayer(x).add_(x))


class FeedForward(ReturnsTensor, nn.Module):
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
        active = self.activation.function(self.inner(x))
        return self.outer(active if self.dropout is None else self.dropout(active))

    def bind(self) -> Map:
        """This network as a function: see `heed.kernels.Linear.bind`."""
        inner, outer, activation = self.inner.bind(), self.outer.bind(), self.activation.function
        return lambda x: outer(activation(inner(x)))


class Recomputable(nn.Module):
    """A block whose inside may be computed again in the backward pass instead of being kept."""

    recomputed = False
    """Set by `training.device.recompute_blocks`."""
    is_paused = False
    """Set by `training.device.without_recomputation`: not recomputed for now, but computed by the same functions."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the block; observers see each call once."""
        if self.recomputed and not self.is_paused and watch.observer.current is None and torch.is_grad_enabled():
            return checkpoint(self, *args, use_reentrant=False, **kwargs)
        return self(*args, **kwargs)


class EncoderBlock(ReturnsTensor, Recomputable):
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
        self,
        x: Float[Tensor, "batch length d_model"],
        mask: Bool[Tensor, "batch length"] | None = None,
        *,
        only_first: bool = False,
        groups: Groups | None = None,
    ) -> Float[Tensor, "batch computed d_model"]:
        """Every position attends to every position inside the mask.

        With `only_first`, a pre-norm block computes its output at the first position only. With `groups`, the texts lie
        end to end in a single row, and every position attends to those of its text (`MultiHeadAttention.packed`).
        """
        if only_first:
            assert self.around_attention.first, "only_first needs a pre-norm block"
            seen = self.around_attention.norm(x)
            context = self.attention(seen[:, :1], self.attention.prepare(seen, mask=mask))
            x = x[:, :1] + self.around_attention.dropout(context)
        elif groups is not None:
            x = self.around_attention(x, lambda y: self.attention.packed(y, groups))
        else:
            x = self.around_attention(x, lambda y: self.attention(y, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)


class EncoderStack(ReturnsTensor, nn.ModuleList):
    """Encoder blocks, one after the other."""

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        mask: Bool[Tensor, "batch length"] | None = None,
        *,
        only_first: bool = False,
    ) -> Float[Tensor, "batch computed d_model"]:
        """The last block's output; without padding, no mask is faster than one that allows all.

        `only_first` allows a stack of pre-norm blocks to compute the first position only, unless the pass is watched.
        """
        for n, block in enumerate(self, start=1):
            assert isinstance(block, Recomputable)
            x = block.run(x, mask, only_first=only_first and watch.observer.current is None and n == len(self))
            x = watch.offered(self, "states", x)
        return x


class PackedStack(EncoderStack):
    """Encoder blocks over padded texts.

    In training on a CPU the texts of a batch are laid end to end, so that nothing is computed for padding. Watched
    passes read padded texts.
    """

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length d_model"]:
        """The last block's output."""
        packs = self.training and enabled() and watch.observer.current is None and not torch.compiler.is_compiling()
        if not (packs and trains_by_hand(x, autocast=True) and mask.any()):
            return super().forward(x, None if host_copy(mask).all() else mask)
        packed = Packed.of(mask)
        rows = packed.line(x).unsqueeze(0)  # (1, rows, d_model)
        for block in self:
            assert isinstance(block, EncoderBlock)
            rows = block.run(rows, groups=packed.groups)
        return packed.padded(rows.squeeze(0))


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
        turn: Rotation | None = None,
    ) -> tuple[Float[Tensor, "rows n d_model"], Keys]:
        """As `DecoderBlock.forward`, without a memory."""
        context, cache = self.extend(x, cache, mask=mask, turn=turn, causal=True, offset=position)
        return x + self.after(context), cache

    def bind_step(self, cache: SearchKeys, memory: SearchKeys | None) -> list[Map]:
        """As `DecoderBlock.bind_step`."""
        attend = self.bind(cache, appends=True)
        return [lambda x: attend(x).add_(x)]


class DecoderBlock(Recomputable):
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

    def forward(
        self,
        x: Float[Tensor, "rows n d_model"],
        cache: Keys | None,
        memory: Keys | None,
        rows: Rows | None,
        position: Int[Tensor, " rows"],
        mask: Bool[Tensor, "rows ..."] | None = None,
        turn: Rotation | None = None,
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
            context, keys = self.attention.extend(y, cache, mask=mask, turn=turn, causal=True, offset=position)
            grown.append(keys)
            return context

        x = self.around_attention(x, look_back)
        if self.cross is not None:
            assert memory is not None
            cross = self.cross
            x = self.around_cross(x, lambda y: cross(y, memory, rows=rows, offset=position))
        return self.around_feed_forward(x, self.feed_forward), grown[0]

    def bind_step(self, cache: SearchKeys, memory: SearchKeys | None) -> list[Map]:
        """The block as functions of one position of each row in a search: see `heed.kernels.Linear.bind`."""
        parts = [self.around_attention.bind(self.attention.bind(cache, appends=True))]
        if self.cross is not None and memory is not None:
            parts.append(self.around_cross.bind(self.cross.bind(memory)))
        return [*parts, self.around_feed_forward.bind(self.feed_forward.bind())]


def xavier(module: nn.Module) -> None:
    """Initialise linear layers: weights from the uniform distribution of Glorot and Bengio 2010, biases zero.

    Keeps the variance of activations about constant through deep stacks; post-norm does not train without it. Use as
    `module.apply(xavier)`.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
