"""Transformer encoder over a text, for its label or its tags. Vaswani et al. 2017.

| here | paper | meaning |
|---|---|---|
| encoder map | softmax(Q K' / sqrt(d_k)) | row i: attention of token i |
| state | output of the stack | output for each token |

    x = sqrt(d_model) E[token] + P[position]     with features f: W [sqrt(d_model) E[token] ; f] + P[position]
    block   x = norm(x + MultiHead(x, x)); x = norm(x + FFN(x))

The task's `pooling` reduces the states to one vector: learned attention, mean, maximum, or one token's state (`cls`:
that of a learned token before the text, as in BERT, arXiv:1810.04805).

Source: Vaswani et al. 2017 (arXiv:1706.03762), section 3.1.
Differs from the paper: the options `norm: pre` and `positions`; biases in the attention projections; dropout of
attention weights. The encoder is trained on the task's texts only, without pretraining.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention.host import host_copy
from heed.kernels import Linear
from heed.layers import Dropout, LayerNorm, TokenInput
from heed.layers.transformer import EncoderBlock, EncoderStack, NormKind, make_positions, xavier
from heed.models.base import TokenConfig, TokenEncoder, named_sizes


class EncoderConfig(TokenConfig):
    """Fields of `encoder`; the defaults are the base model of Vaswani et al. 2017."""

    d_model: int = Field(512, gt=0)
    """Width of embeddings and blocks."""
    num_heads: int = Field(8, gt=0)
    """Attention heads of each block; must divide d_model."""
    num_layers: int = Field(6, ge=0)
    """Number of blocks; without any, states are the embeddings, and no word sees another."""
    d_ff: int = Field(2048, gt=0)
    """Inner width of the feed-forward layers."""
    norm: NormKind = "post"
    """Layer normalisation after each sublayer (post, the paper's) or before it (pre: trains without a long warm-up)."""
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    """Fixed sinusoids of any length, a learned table, or none, which ignores word order."""
    max_length: int = Field(512, gt=0)
    """Length of the learned position table; sinusoids have no limit."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability of embeddings and sublayer outputs."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout probability of attention weights; null for the value of `dropout`. 0 is faster: on a CPU, torch's fused
    attention kernel has no dropout; on a GPU, where 0 is the default from size medium on, padded texts then need no
    mask."""

    sizes = named_sizes(
        tiny=dict(d_model=64, num_heads=4, num_layers=2, d_ff=128, norm="pre", attention_dropout=0.0),
        small=dict(d_model=128, num_heads=4, num_layers=3, d_ff=256, norm="pre", dropout=0.2, attention_dropout=0.0),
    )


class Encoder(TokenEncoder):
    """A stack of encoder blocks over token and position embeddings."""

    config_class = EncoderConfig
    summary = "Transformer encoder"
    paper = "Vaswani et al. 2017"
    sees_all = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        c = config
        self.inputs = TokenInput(c.vocab_size, c.d_model, c.d_features)
        self.join = Linear(self.inputs.d_output, c.d_model) if c.d_features else nn.Identity()
        self.positions = None if c.positions == "none" else make_positions(c.positions, c.max_length, c.d_model)
        attention_dropout = c.dropout if c.attention_dropout is None else c.attention_dropout
        block = partial(EncoderBlock, c.d_model, c.num_heads, c.d_ff, dropout=c.dropout, norm=c.norm)
        self.blocks = EncoderStack(block(attention_dropout=attention_dropout, layer=i) for i in range(c.num_layers))
        self.norm = LayerNorm(c.d_model) if c.norm == "pre" else nn.Identity()
        self.dropout = Dropout(c.dropout)
        self.embedding_scale = math.sqrt(c.d_model)
        self.d_output = c.d_model
        self.apply(xavier)

    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        embedded = self.inputs(tokens, features)  # (B, T, d_model + d_features)
        d = embedded.shape[-1] - self.inputs.d_features
        scaled = self.embedding_scale * embedded[..., :d]
        x = self.join(torch.cat([scaled, embedded[..., d:]], dim=-1))  # (B, T, d_model)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0), tokens.shape[1])
        return self.norm(self.blocks(self.dropout(x), None if host_copy(mask).all() else mask))
