"""Bag of words: feed-forward layers on the mean of the token embeddings, without word order.

| here | paper | meaning |
|---|---|---|
| mean | av | mean of a text's token embeddings |
| layers | z_i = g(W_i z_{i-1} + b_i) | g = relu |
| dropout | p of r_w ~ Bernoulli(1 - p) | in training, whole words are left out of the mean |

The control for models that claim to use word order.

Source: Iyyer et al. 2015 (ACL P15-1162), "deep averaging network", sections 3-4.
Differs from the paper: each occurrence of a repeated word is dropped independently.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import relu

from heed.kernels import Linear
from heed.layers import TokenEmbedding, mean_pooling
from heed.models.base import TextConfig, TextEncoder, named_sizes


class BagConfig(TextConfig):
    """Fields of `bag`; the defaults are the paper's network for sentiment."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(300, gt=0)
    """Width of the feed-forward layers."""
    num_layers: int = Field(3, gt=0)
    """Number of feed-forward layers."""
    dropout: float = Field(0.3, ge=0, lt=1)
    """Probability of leaving a word out of the mean in training."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=64, num_layers=1),
        small=dict(d_embedding=128, d_hidden=128, num_layers=1),
    )


class Bag(TextEncoder):
    """Feed-forward layers on the mean of the token embeddings."""

    config_class = BagConfig
    summary = "mean of word embeddings, without order"
    paper = "Iyyer et al. 2015"

    def __init__(self, config: BagConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        widths = [c.d_embedding] + [c.d_hidden] * (c.num_layers - 1)
        self.layers = nn.ModuleList(Linear(width, c.d_hidden) for width in widths)
        self.dropout = c.dropout
        self.d_output = c.d_hidden

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        if self.training and self.dropout:
            mask = mask & (torch.rand(mask.shape, device=mask.device) >= self.dropout)
        z = mean_pooling(self.embedding(tokens), mask)  # (B, d_embedding)
        for layer in self.layers:
            z = relu(layer(z))
        return z
