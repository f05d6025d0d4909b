"""Activations of feed-forward layers, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from heed.kernels import gelu_tanh


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
GELU_TANH = Activation("gelu_tanh", gelu_tanh)
"""`0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, the approximation in section 2 of the same paper; GPT-2's."""
SILU = Activation("silu", silu)
"""`x / (1 + exp(-x))`, also called swish: Elfwing et al. 2018, arXiv:1702.03118, equation 2."""
SWIGLU = Activation("swiglu", _swiglu, width=2)
"""`silu(gate) * value` with silu(x) = x / (1 + exp(-x)); the inner layer computes [gate ; value]: Shazeer 2020, GLU
Variants Improve Transformer, arXiv:2002.05202, equation 6."""

PLAIN = {activation.name: activation for activation in (RELU, GELU, GELU_TANH, SILU)}
"""Activations without a gate, by name."""
