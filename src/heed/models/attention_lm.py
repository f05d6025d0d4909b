"""A language model of causal self-attention only: embeddings, positions and residual attention layers.

    x_t = E[token_t] + P[t];   x = x + MultiHead(x, x, causal) per layer;   next token from softmax(W x)

It isolates self-attention from the Transformer's feed-forward layers and normalisation. The cache holds the keys and
values of every position read so far.

Source: the lecture notes (docs/systems.md, C2 and C3).
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from heed.attention import Rows
from heed.layers import DecoderStack, SearchState, SinusoidalPositions, StackState, TokenEmbedding, places_within
from heed.layers.transformer import CausalSelfAttention
from heed.models.base import LanguageModel, Memory, TextConfig, named_sizes


class AttentionLMConfig(TextConfig):
    """Fields of `attention_lm`."""

    d_model: int = Field(512, gt=0)
    """Width of embeddings and layers."""
    num_heads: int = Field(8, gt=0)
    """Attention heads of each layer; must divide d_model."""
    num_layers: int = Field(2, gt=0)
    """Number of attention layers."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings, attention weights and sublayer outputs."""

    sizes = named_sizes(tiny=dict(d_model=64, num_heads=4), small=dict(d_model=256, num_heads=4))


class AttentionLM(LanguageModel):
    """Residual causal self-attention layers over token and position embeddings."""

    config_class = AttentionLMConfig
    summary = "causal self-attention only"
    paper = "lecture notes"

    def __init__(self, config: AttentionLMConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_model)
        self.positions = SinusoidalPositions(c.d_model)
        self.layers = DecoderStack(
            CausalSelfAttention(c.d_model, c.num_heads, dropout=c.dropout, layer=i) for i in range(c.num_layers)
        )
        self.dropout = nn.Dropout(c.dropout)
        self.output = nn.Linear(c.d_model, c.vocab_size)

    def _embed(self, tokens: Tensor, positions: Tensor | int, bound: int | None) -> Tensor:
        return self.dropout(self.embedding(tokens) + self.positions(positions, bound))  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor, documents: Tensor | None = None) -> Tensor:
        positions, seen = places_within(tokens, documents)
        return self.layers.whole(self._embed(tokens, positions, tokens.shape[1]), seen=seen)

    def start(self, memory: Memory | None, rows: Rows) -> StackState:
        return self.layers.start((), rows)

    def step(
        self, tokens: Tensor, state: StackState | SearchState, lengths: Tensor | None = None
    ) -> tuple[Tensor, StackState | SearchState]:
        """Append the keys and values of the next tokens to the caches and attend to them; as `DecoderBody.step`."""
        return self.layers.by_length(self._read, tokens, state, lengths)

    def _read(
        self, tokens: Tensor, state: StackState | SearchState, lengths: Tensor | None
    ) -> tuple[Tensor, StackState | SearchState]:
        x = self._embed(tokens, state.next_positions(tokens.shape[1]), state.bound(tokens.shape[1]))
        return self.layers(x, state, lengths)  # type: ignore[no-any-return]
