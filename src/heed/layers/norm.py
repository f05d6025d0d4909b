"""Layer normalisation and RMS normalisation."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from heed.kernels import layer_norm
from heed.shapes import Float


class LayerNorm(nn.LayerNorm):
    """Layer normalisation over the last axis; in training on a CPU its input is not kept for the backward pass."""

    def forward(self, input: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        """`(x - mean) / sqrt(variance + eps) * weight + bias`."""
        return layer_norm(input, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
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

    def extra_repr(self) -> str:
        """Width and epsilon, for `print(model)`."""
        return f"{len(self.weight)}, eps={self.eps}"


Norm = LayerNorm | RMSNorm


def make_norm(kind: Literal["layer", "rms"], d: int, bias: bool = True, eps: float = 1e-5) -> Norm:
    """Build a normalisation of width d by name; `bias` applies to layer normalisation only."""
    return LayerNorm(d, eps=eps, bias=bias) if kind == "layer" else RMSNorm(d, eps)
