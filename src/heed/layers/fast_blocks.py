"""Parameters of decoder blocks for fast decoding, looked up once instead of at every step.

The blocks of `heed.layers.transformer` are the specification. Parameters are shared with them, and copied only where
several layers over one input are merged into one product; the score's scale is then folded into the query weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from heed.attention import MultiHeadAttention
from heed.kernels import linear
from heed.kernels.linear import is_large
from heed.layers.activations import RELU, Activation
from heed.layers.norm import RMSNorm
from heed.layers.transformer import CausalSelfAttention, DecoderBlock, FeedForward, Residual


class FastLinear(NamedTuple):
    """Weight and bias of a linear layer, and the transposed weight."""

    weight: Tensor  # (d_out, d_in)
    bias: Tensor | None
    transposed: Tensor  # a view of the weight, (d_in, d_out)

    @classmethod
    def of(cls, *layers: nn.Linear, scale: float = 1.0) -> FastLinear:
        """One layer, or several over one input merged into one, with the outputs of the first multiplied by `scale`."""
        weight: Tensor = layers[0].weight
        bias: Tensor | None = layers[0].bias
        if len(layers) > 1:
            weight = torch.cat((weight * scale, *(layer.weight for layer in layers[1:])))
            biases = [layer.bias for layer in layers[1:] if layer.bias is not None]
            bias = None if bias is None else torch.cat((bias * scale, *biases))
        return cls(weight, bias, weight.t())

    def __call__(self, x: Tensor) -> Tensor:
        """`x W^T + b`."""
        if is_large(x, self.weight):
            return linear(x, self.weight, self.bias)
        product = torch.mm(x, self.transposed)
        return product if self.bias is None else product.add_(self.bias)  # `addmm` would first fill the result

    def plus(self, x: Tensor, total: Tensor) -> Tensor:
        """`total + x W^T + b`."""
        if is_large(x, self.weight):
            return linear(x, self.weight, self.bias).add_(total)
        total = torch.addmm(total, x, self.transposed)
        return total if self.bias is None else total.add_(self.bias)


class FastResidual(NamedTuple):
    """A residual connection, with its normalisation if there is one."""

    first: bool = True
    norm: tuple[Any, ...] | None = None  # shape, weight, bias of layer normalisation, eps
    normalise: Callable[..., Tensor] = torch.layer_norm

    @classmethod
    def of(cls, around: Residual) -> FastResidual:
        """From a block's residual connection, with layer normalisation or RMS normalisation."""
        norm = around.norm
        if isinstance(norm, RMSNorm):
            return cls(around.first, (norm.weight.shape, norm.weight, norm.eps), torch.rms_norm)
        return cls(around.first, (norm.normalized_shape, norm.weight, norm.bias, norm.eps))

    def before(self, x: Tensor) -> Tensor:
        """The input of the sublayer: normalised if pre-norm."""
        return self.normalise(x, *self.norm) if self.first and self.norm is not None else x

    def after(self, x: Tensor, last: FastLinear, inner: Tensor) -> Tensor:
        """`x + last(inner)`, normalised if post-norm."""
        new = last.plus(inner, x)
        return new if self.first or self.norm is None else self.normalise(new, *self.norm)


class FastAttention(NamedTuple):
    """Parameters of attention; for self-attention, `query` also computes keys and values."""

    around: FastResidual
    query: FastLinear
    out: FastLinear

    @classmethod
    def of(cls, around: FastResidual, attention: MultiHeadAttention, *together: nn.Linear) -> FastAttention:
        """From an attention module; layers in `together` are merged into `query`, and its queries are then scaled."""
        assert attention.score.scale is not None
        query = FastLinear.of(attention.w_query, *together, scale=attention.score.scale)
        return cls(around, query, FastLinear.of(attention.w_out))


class FastFeedForward(NamedTuple):
    """Parameters of a feed-forward network."""

    around: FastResidual
    inner: FastLinear
    outer: FastLinear
    activation: Activation

    @classmethod
    def of(cls, around: FastResidual, net: FeedForward) -> FastFeedForward:
        """From a feed-forward network."""
        return cls(around, FastLinear.of(net.inner), FastLinear.of(net.outer), net.activation)

    def __call__(self, x: Tensor) -> Tensor:
        """The feed-forward network with its residual connection."""
        inner = self.inner(self.around.before(x))
        active = relu(inner, inplace=True) if self.activation == RELU else self.activation.function(inner)
        return self.around.after(x, self.outer, active)


class FastBlock(NamedTuple):
    """Parameters of a block."""

    attention: FastAttention
    cross: FastAttention | None
    feed_forward: FastFeedForward | None
    heads: int
    scale: float  # score scale of cross-attention, applied to its keys

    @classmethod
    def of(cls, block: nn.Module) -> FastBlock | None:
        """From a decoder block or causal self-attention alone; None for any other module."""
        if isinstance(block, CausalSelfAttention):
            own: MultiHeadAttention = block
            around, cross, feed_forward = FastResidual(), None, None
        elif isinstance(block, DecoderBlock):
            own, around, cross = block.attention, FastResidual.of(block.around_attention), None
            if block.cross is not None:
                cross = FastAttention.of(FastResidual.of(block.around_cross), block.cross)
            feed_forward = FastFeedForward.of(FastResidual.of(block.around_feed_forward), block.feed_forward)
        else:
            return None
        attention = FastAttention.of(around, own, own.w_key, own.w_value)
        assert own.score.scale is not None
        return cls(attention, cross, feed_forward, own.num_heads, own.score.scale)
