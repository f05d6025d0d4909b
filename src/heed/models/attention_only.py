"""A translator with a single attention layer: the lecture notes' Attn(X, X').

| here | notes | meaning |
|---|---|---|
| source, target | x_i, x'_j | embeddings; x'_j is that of the previous output |
| query, key, value | q_j = W_q x'_j, k_i = W_k x_i, v_i = W_v x_i | query of the target; key and value of the source |
| weights, context | softmax(K' q_j), c_j = V softmax(K' q_j) | row j of the map |

    e_ij = x'_j W_qk x_i / sqrt(d_model);  a = softmax(e);  c_j = sum_i a_ij W_v x_i;  next word from softmax(W_o c_j)

No blocks, no recurrence and, by default, no positions: c_j depends only on x'_j and the source, so every occurrence of
a target word predicts the same next word, and the order of the source words does not matter. `positions` adds position
embeddings.

Source: the lecture notes (docs/systems.md, C1).
Differs from the notes: scores are scaled (unscaled, they saturated the softmax early, and training could not memorise a
batch of three pairs), and W_q' W_k is a single matrix W_qk.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import AttentionLayer, Rows
from heed.layers import AlignedState, Dropout, TokenEmbedding
from heed.layers.transformer import make_positions
from heed.models.base import Memory, PairDecoder, TranslatorConfig, named_sizes


class AttentionOnlyConfig(TranslatorConfig):
    """Fields of `attention_only`; the notes give no widths."""

    d_model: int = Field(512, gt=0)
    """Width of embeddings and values."""
    positions: Literal["none", "sinusoidal", "learned"] = "none"
    """Position embeddings: none, fixed sinusoids or a learned table."""
    max_length: int = Field(512, gt=0)
    """Length of the learned position table; sinusoids have no limit."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings, contexts and attention weights."""

    sizes = named_sizes(tiny=dict(d_model=128), small=dict(d_model=256, dropout=0.1))


class AttentionOnly(PairDecoder):
    """Embeddings, attention from target to source, output layer."""

    config_class = AttentionOnlyConfig
    summary = "a single attention layer"
    paper = "lecture notes"

    def __init__(self, config: AttentionOnlyConfig) -> None:
        super().__init__(config)
        c = config
        self.source_embedding = TokenEmbedding(c.source_vocab_size, c.d_model)
        self.target_embedding = TokenEmbedding(c.target_vocab_size, c.d_model)
        self.positions = None if c.positions == "none" else make_positions(c.positions, c.max_length, c.d_model)
        self.attention = AttentionLayer(c.d_model, c.d_model, c.d_model, dropout=c.dropout, mechanism="cross")
        self.output = nn.Linear(c.d_model, c.target_vocab_size)
        self.dropout = Dropout(c.dropout)

    def _embed(self, table: nn.Module, tokens: Tensor, positions: Tensor) -> Tensor:
        x = table(tokens)
        if self.positions is not None:
            x = x + self.positions(positions)
        return self.dropout(x)

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Project the source embeddings to keys and values; arguments as `PairDecoder.encode`."""
        positions = torch.arange(source.shape[1], device=source.device).unsqueeze(0)
        x = self._embed(self.source_embedding, source, positions)  # (B, S, d_model)
        return Memory((self.attention.prepare(x, mask=source_mask),), None)

    def start(self, memory: Memory | None, rows: Rows) -> AlignedState:
        """Initial decoding state of each row: the keys of its source, no recurrent state."""
        assert memory is not None
        return AlignedState([], None, memory.keys[0], rows, torch.zeros_like(rows.source_of))

    def step(self, tokens: Tensor, state: AlignedState, lengths: Tensor | None = None) -> tuple[Tensor, AlignedState]:
        """Attend to the source from each token independently; arguments and result as `DecoderBody.step`."""
        positions = state.position.unsqueeze(1) + torch.arange(tokens.shape[1], device=tokens.device)  # (R, n)
        query = self._embed(self.target_embedding, tokens, positions)  # (R, n, d_model)
        context = self.attention(query, state.keys, rows=state.rows, offset=state.position)
        read = tokens.shape[1] if lengths is None else lengths
        return self.dropout(context), replace(state, position=state.position + read)

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three pairs without repeated words: without positions, the output depends only on the previous word."""
        generator = torch.Generator().manual_seed(seed)
        source = torch.stack([4 + torch.randperm(7, generator=generator)[:6] for _ in range(3)])
        source_mask = torch.arange(6) < torch.tensor([6, 4, 5]).unsqueeze(1)
        target = torch.stack([4 + torch.randperm(7, generator=generator)[:5] for _ in range(3)])
        for row, words in enumerate(target):  # a first token that differs between rows and is not repeated in its row
            words[words == 4 + row] = words[0]
            words[0] = 4 + row
        return {"source": source.masked_fill(~source_mask, 0), "source_mask": source_mask, "target": target}
