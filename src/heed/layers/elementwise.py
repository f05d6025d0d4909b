"""Activations, dropout and normalisation: what a block applies to each position."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, rms_norm, silu

from heed.kernels import Map, byte_dropout
from heed.shapes import Float, ReturnsTensor


@dataclass(frozen=True)
class Activation:
    """Activation between the two layers of a feed-forward network: from `(..., width * d)` to `(..., d)`.

    The width is 1, or 2 for a gated activation, whose inner layer computes the gate and the gated value.
    """

    name: str  # in configurations and messages
    function: Callable[[Tensor], Tensor]
    width: int = 1


def _swiglu(x: Tensor) -> Tensor:
    gate, value = x.chunk(2, dim=-1)
    return silu(gate) * value


RELU = Activation("relu", torch.relu)
GELU = Activation("gelu", gelu)
"""`x * Phi(x)`: Hendrycks and Gimpel 2016, Gaussian Error Linear Units, arXiv:1606.08415."""
GELU_TANH = Activation("gelu_tanh", partial(gelu, approximate="tanh"))
"""`0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, the approximation in section 2 of the same paper; GPT-2's."""
SILU = Activation("silu", silu)
"""`x / (1 + exp(-x))`, also called swish: Elfwing et al. 2018, arXiv:1702.03118, equation 2."""
SWIGLU = Activation("swiglu", _swiglu, width=2)
"""`silu(gate) * value` with silu(x) = x / (1 + exp(-x)); the inner layer computes [gate ; value]: Shazeer 2020, GLU
Variants Improve Transformer, arXiv:2002.05202, equation 6."""

PLAIN = {activation.name: activation for activation in (RELU, GELU, GELU_TANH, SILU)}
"""Activations without a gate, by name."""


class Dropout(ReturnsTensor, nn.Module):
    """Zero each element with probability p in training, and scale up the others so that the mean is unchanged.

    On a CPU one random byte decides for each element (`heed.kernels.elementwise`), so the probability is rounded to a
    multiple of 1/256. Other devices and compiled updates use torch's dropout.

    Source: Srivastava et al. 2014, Dropout, JMLR 15.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """`x` with elements dropped in training, otherwise `x` itself."""
        if not self.training or self.p == 0:
            return x
        return byte_dropout(x, self.p) if _by_bytes(x) else dropout(x, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def _by_bytes(x: Tensor) -> bool:
    """Whether elements are dropped by random bytes, which the compiler cannot draw."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


class LayerNorm(ReturnsTensor, nn.LayerNorm):
    """Layer normalisation over the last axis: `(x - mean) / sqrt(variance + eps) * weight + bias`.

    Source: Ba et al. 2016, Layer Normalization, arXiv:1607.06450.
    """

    def bind(self) -> Map:
        """This layer as a function: see `heed.kernels.Linear.bind`."""
        shape, weight, bias, eps = self.normalized_shape, self.weight, self.bias, self.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


class RMSNorm(ReturnsTensor, nn.Module):
    """Normalisation by the root mean square over the last axis, without centring and without a bias.

    Source: Zhang and Sennrich 2019, Root Mean Square Layer Normalization, arXiv:1910.07467, equation 4.
    Differs from the paper: `eps` under the root, as in Llama, so that a zero vector stays zero.
    """

    def __init__(self, d: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        """`x / sqrt(mean of x^2 + eps) * weight`."""
        return rms_norm(x, self.weight.shape, self.weight, self.eps)

    def bind(self) -> Map:
        """This layer as a function: see `heed.kernels.Linear.bind`."""
        weight, eps = self.weight, self.eps
        return lambda x: torch.rms_norm(x, weight.shape, weight, eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


Norm = LayerNorm | RMSNorm


def make_norm(kind: Literal["layer", "rms"], d: int, bias: bool = True, eps: float = 1e-5) -> Norm:
    """Build a normalisation of width d by name; `bias` applies to layer normalisation only."""
    return LayerNorm(d, eps=eps, bias=bias) if kind == "layer" else RMSNorm(d, eps)
