"""Pooling without parameters: one vector per text from the states of its tokens; `attention.pooling` is learned."""

import torch
from torch import Tensor

from heed.shapes import Bool, Float


def mean_pooling(
    states: Float[Tensor, "batch length d"], mask: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch d"]:
    """The mean of the states within the mask; zeros for an empty text."""
    total = states.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1)
    return total / mask.sum(1, keepdim=True).clamp_min(1)


def max_pooling(
    states: Float[Tensor, "batch length d"], mask: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch d"]:
    """The maximum of each unit over the states within the mask; zeros for an empty text.

    Source: Kim 2014 (arXiv:1408.5882), "max over time".
    """
    lowest = torch.finfo(states.dtype).min
    largest = states.masked_fill(~mask.unsqueeze(-1), lowest).amax(1)
    return largest.masked_fill(~mask.any(1, keepdim=True), 0.0)
