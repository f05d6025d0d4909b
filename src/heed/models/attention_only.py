"""A translator of one attention layer and nothing else: the lecture notes' Attn(X, X').

| here | notes | what |
|---|---|---|
| source, target | x_i, x'_j | embeddings; x'_j is the previous output's |
| query, key, value | q_j = W_q x'_j, k_i = W_k x_i, v_i = W_v x_i | of the target, of the source, of the source |
| weights, context | softmax(K' q_j), c_j = V softmax(K' q_j) | row j of the map |

    e_ij = x'_j W_qk x_i / sqrt(d_model);  a = softmax(e);  c_j = sum_i a_ij W_v x_i;  next word from softmax(W_o c_j)

No blocks, no recurrence, and by default no positions: c_j depends on x'_j and the source alone, so a word of the target
that occurs twice is followed by the same word twice, and the order of the source's words does not matter.
`positions` says which of them stands where. Source: docs/systems.md, C1.
Differs from the notes: the scores are scaled (unscaled ones saturate the softmax early and learn no more: a batch of
three pairs was not learned by heart), and W_q' W_k is one matrix W_qk.
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
    """Fields of `attention_only`; the notes name no widths."""

    d_model: int = Field(512, gt=0)
    """Width of embeddings and values."""
    positions: Literal["none", "sinusoidal", "learned"] = "none"
    """What is added to the embeddings to say where a word stands."""
    max_length: int = Field(512, gt=0)
    """Positions of a learned table."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability with which an embedding, context or attention weight is dropped in training."""

    sizes = named_sizes(tiny=dict(d_model=128), small=dict(d_model=256, dropout=0.1))


class AttentionOnly(PairDecoder):
    """Embeddings, attention from target to source, output layer."""

    config_class = AttentionOnlyConfig
    summary = "one attention layer and nothing else"
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
        return self.dropout(x)  # type: ignore[no-any-return]

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Source embeddings as keys and values."""
        positions = torch.arange(source.shape[1], device=source.device).unsqueeze(0)
        x = self._embed(self.source_embedding, source, positions)  # (B, S, d_model)
        return Memory((self.attention.prepare(x, mask=source_mask),), None)

    def start(self, memory: Memory | None, rows: Rows) -> AlignedState:
        """Nothing but the source: there is no recurrent state to carry."""
        assert memory is not None
        return AlignedState([], None, memory.keys[0], rows, torch.zeros_like(rows.source_of))

    def step(self, tokens: Tensor, state: AlignedState, lengths: Tensor | None = None) -> tuple[Tensor, AlignedState]:
        """Each token asks by itself."""
        positions = state.position.unsqueeze(1) + torch.arange(tokens.shape[1], device=tokens.device)  # (R, n)
        query = self._embed(self.target_embedding, tokens, positions)  # (R, n, d_model)
        context = self.attention(query, state.keys, rows=state.rows, offset=state.position)
        read = tokens.shape[1] if lengths is None else lengths
        return self.dropout(context), replace(state, position=state.position + read)

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """No word twice in a text: without positions, what is written depends on the last word alone."""
        generator = torch.Generator().manual_seed(seed)
        source = torch.stack([4 + torch.randperm(7, generator=generator)[:6] for _ in range(3)])
        source_mask = torch.arange(6) < torch.tensor([6, 4, 5]).unsqueeze(1)
        target = torch.stack([4 + torch.randperm(7, generator=generator)[:5] for _ in range(3)])
        for row, words in enumerate(target):  # begins with a token of its own row, which stands nowhere else in it
            words[words == 4 + row] = words[0]
            words[0] = 4 + row
        return {"source": source.masked_fill(~source_mask, 0), "source_mask": source_mask, "target": target}
