"""A language model of causal self-attention and nothing else: embeddings, positions, attention with residuals.

    x_t = E[token_t] + P[t];   x = x + MultiHead(x, x, causal) per layer;   next token from softmax(W x)

The smallest model that shows what self-attention alone can do (lecture notes C2 and C3, without the Transformer's
feed-forward layers and normalisation). Its cache holds the keys and values of every position read so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import Keys, MultiHeadAttention, Rows, padding_mask
from heed.layers import SinusoidalPositions, TokenEmbedding
from heed.models.base import LanguageModel, Memory, ModelConfig

__all__ = ["AttentionLM", "AttentionLMConfig", "AttentionLMState"]


class AttentionLMConfig(ModelConfig):
    """Fields of `attention_lm`."""

    vocab_size: int = Field(gt=0)
    """Number of tokens; set from the data."""
    d_model: int = Field(512, gt=0)
    """Width of embeddings and layers."""
    num_heads: int = Field(8, gt=0)
    """Heads per layer; must divide d_model."""
    num_layers: int = Field(2, gt=0)
    """Attention layers."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which an embedding, attention weight or sublayer output is dropped in training."""

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"d_model": 64, "num_heads": 4},
        "small": {"d_model": 256, "num_heads": 4},
        "base": {},
    }


@dataclass(frozen=True)
class AttentionLMState:
    """Per layer the keys and values so far (None before the first token), and how many tokens each row has read."""

    caches: tuple[Keys | None, ...]
    position: Tensor  # (rows,)

    def select(self, rows: Tensor) -> AttentionLMState:
        """Row i of the result continues row `rows[i]`."""
        caches = tuple(cache and cache.select(rows) for cache in self.caches)
        return AttentionLMState(caches, self.position.index_select(0, rows))


class AttentionLM(LanguageModel):
    """Residual causal self-attention layers on token and position embeddings."""

    config_class = AttentionLMConfig

    def __init__(self, config: AttentionLMConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_model, padding_token=None)
        self.positions = SinusoidalPositions(c.d_model)
        self.layers = nn.ModuleList(
            MultiHeadAttention(c.d_model, c.num_heads, dropout=c.dropout, mechanism="decoder", layer=i)
            for i in range(c.num_layers)
        )
        self.dropout = nn.Dropout(c.dropout)
        self.output = nn.Linear(c.d_model, c.vocab_size)

    def start(self, memory: Memory | None, rows: Rows) -> AttentionLMState:
        """Empty caches."""
        return AttentionLMState((None,) * len(self.layers), torch.zeros_like(rows.source_of))

    def step(
        self, tokens: Tensor, state: AttentionLMState, lengths: Tensor | None = None
    ) -> tuple[Tensor, AttentionLMState]:
        """Append each further token's keys and values, then look back."""
        positions = state.position.unsqueeze(1) + torch.arange(tokens.shape[1], device=tokens.device)  # (R, n)
        x = self.dropout(self.embedding(tokens) + self.positions(positions))  # (R, n, d_model)
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
        caches = []
        for layer, cache in zip(self.layers, state.caches, strict=True):
            assert isinstance(layer, MultiHeadAttention)
            new = layer.prepare(x, mask=mask)
            cache = new if cache is None else cache.append(new)
            x = x + self.dropout(layer(x, cache, causal=True, offset=state.position))
            caches.append(cache)
        read = tokens.shape[1] if lengths is None else lengths
        return x, AttentionLMState(tuple(caches), state.position + read)
