"""Activations of feed-forward nets, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu


@dataclass(frozen=True)
class Activation:
    """Between the two layers of a feed-forward net: a function from `(..., width * d)` to `(..., d)`.

    The width is 1, or 2 for a gated form, whose inner layer gives the gate beside what passes it.
    """

    name: str  # in configurations and messages
    function: Callable[[Tensor], Tensor]
    width: int = 1


RELU = Activation("relu", torch.relu)
GELU = Activation("gelu", gelu)
"""`x * Phi(x)`: Hendrycks and Gimpel 2016, Gaussian Error Linear Units, arXiv:1606.08415."""
