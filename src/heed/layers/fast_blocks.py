"""The parameters of decoder blocks, looked up once: what fast decoding computes with at every step.

The blocks of `heed.layers.transformer` are the specification; only their parameters are kept here, not copied but where
several layers over one input become one product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from heed.attention import MultiHeadAttention
from heed.kernels import linear, private
from heed.layers.activations import RELU, Activation
from heed.layers.norm import RMSNorm
from heed.layers.transformer import CausalSelfAttention, DecoderBlock, FeedForward, Residual


class FastLinear(NamedTuple):
    """Weight and bias of a linear layer."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, *layers: nn.Linear) -> FastLinear:
        """One layer, or several over one input as one."""
        if len(layers) == 1:
            return cls(layers[0].weight, layers[0].bias)
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        return cls(torch.cat(tuple(layer.weight for layer in layers)), torch.cat(biases) if biases else None)

    def __call__(self, x: Tensor) -> Tensor:
        """`x W^T + b`."""
        if self.bias is None or private.onednn_linear() is not None:
            return linear(x, *self)
        return torch.mm(x, self.weight.t()).add_(self.bias)  # `addmm` first fills the result with the bias: longer


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

    def after(self, x: Tensor, new: Tensor) -> Tensor:
        """The sum of input and result, which is written into `new`."""
        new.add_(x)
        return new if self.first or self.norm is None else self.normalise(new, *self.norm)


class FastAttention(NamedTuple):
    """Attention's parameters; `query` gives keys and values too where they come from the same input."""

    around: FastResidual
    query: FastLinear
    out: FastLinear

    @classmethod
    def of(cls, around: FastResidual, attention: MultiHeadAttention, *together: nn.Linear) -> FastAttention:
        """Of an attention module; `together` are layers over the queries' input."""
        return cls(around, FastLinear.of(attention.w_query, *together), FastLinear.of(attention.w_out))


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
        return self.around.after(x, self.outer(active))


class FastBlock(NamedTuple):
    """The parameters of a block, looked up once and not at every step."""

    attention: FastAttention
    cross: FastAttention | None
    feed_forward: FastFeedForward | None
    heads: int
    scale: float

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
        assert own.score.scale is not None
        attention = FastAttention.of(around, own, own.w_key, own.w_value)
        return cls(attention, cross, feed_forward, own.num_heads, own.score.scale)
