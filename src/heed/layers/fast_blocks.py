"""The parameters of decoder blocks, looked up once: what fast decoding computes with at every step.

The blocks of `heed.layers.transformer` are the specification; only their parameters are kept here, not copied but where
several layers over one input become one product, whose queries then have the scale of their score.
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
    """Weight and bias of a linear layer, and the weight as products want it."""

    weight: Tensor  # (d_out, d_in)
    bias: Tensor | None
    transposed: Tensor  # the same numbers, (d_in, d_out)

    @classmethod
    def of(cls, *layers: nn.Linear, scale: float = 1.0) -> FastLinear:
        """One layer, or several over one input as one, whose first outputs are multiplied by `scale`."""
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
        return product if self.bias is None else product.add_(self.bias)  # `addmm` first fills the result: longer

    def plus(self, x: Tensor, total: Tensor) -> Tensor:
        """`total + x W^T + b`."""
        if is_large(x, self.weight):
            return linear(x, self.weight, self.bias).add_(total)
        total = torch.addmm(total, x, self.transposed)
        return total if self.bias is None else total.add_(self.bias)


class FastResidual(NamedTuple):
    """A residual connection, with its normalisation if it has one."""

    first: bool = True
    norm: tuple[Any, ...] | None = None  # shape, weight, bias of layer normalisation, eps
    normalise: Callable[..., Tensor] = torch.layer_norm

    @classmethod
    def of(cls, around: Residual) -> FastResidual:
        """That of a block, with layer normalisation or RMS normalisation."""
        norm = around.norm
        if isinstance(norm, RMSNorm):
            return cls(around.first, (norm.weight.shape, norm.weight, norm.eps), torch.rms_norm)
        return cls(around.first, (norm.normalized_shape, norm.weight, norm.bias, norm.eps))

    def before(self, x: Tensor) -> Tensor:
        """What the sublayer reads."""
        return self.normalise(x, *self.norm) if self.first and self.norm is not None else x

    def after(self, x: Tensor, last: FastLinear, inner: Tensor) -> Tensor:
        """The sum of input and result, which `last` computes from `inner`."""
        new = last.plus(inner, x)
        return new if self.first or self.norm is None else self.normalise(new, *self.norm)


class FastAttention(NamedTuple):
    """Attention's parameters; `query` gives keys and values too where they come from the same input."""

    around: FastResidual
    query: FastLinear
    out: FastLinear

    @classmethod
    def of(cls, around: FastResidual, attention: MultiHeadAttention, *together: nn.Linear) -> FastAttention:
        """Of an attention module; with layers `together` over the queries' input queries have the score's scale."""
        assert attention.score.scale is not None
        query = FastLinear.of(attention.w_query, *together, scale=attention.score.scale)
        return cls(around, query, FastLinear.of(attention.w_out))


class FastFeedForward(NamedTuple):
    """A feed-forward net's layers."""

    around: FastResidual
    inner: FastLinear
    outer: FastLinear
    activation: Activation

    @classmethod
    def of(cls, around: FastResidual, net: FeedForward) -> FastFeedForward:
        """Of a feed-forward net."""
        return cls(around, FastLinear.of(net.inner), FastLinear.of(net.outer), net.activation)

    def __call__(self, x: Tensor) -> Tensor:
        """The net inside its residual connection."""
        inner = self.inner(self.around.before(x))
        active = relu(inner, inplace=True) if self.activation == RELU else self.activation.function(inner)
        return self.around.after(x, self.outer, active)


class FastBlock(NamedTuple):
    """The parameters of a block, looked up once and not at every step."""

    attention: FastAttention
    cross: FastAttention | None
    feed_forward: FastFeedForward | None
    heads: int
    scale: float  # of the scores of cross-attention, for its keys

    @classmethod
    def of(cls, block: nn.Module) -> FastBlock | None:
        """Those of a decoder block, or of causal self-attention alone; None of anything else."""
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
