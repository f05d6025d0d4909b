"""The Transformer: encoder and decoder of attention alone, Vaswani et al. 2017.

| here | paper | notes | what |
|---|---|---|---|
| encoder map | Q K' / sqrt(d_k) | softmax(Q K' / sqrt(d_k)) V | row i: where source position i looked |
| decoder map | masked | masked self-attention | row t: where the position that writes output t looked |
| cross map | encoder-decoder attention | K, V from the last encoder block | row t: where in the source it looked |
| memory | output of the encoder stack | - | keys and values of every decoder block's cross-attention |

    x = sqrt(d_model) E[token] + P[position]      where asked for without the factor, or norm(x)
    encoder block   x = norm(x + MultiHead(x, x)); x = norm(x + FFN(x))
    decoder block   x = norm(x + MultiHead(x, x, causal)); x = norm(x + MultiHead(x, memory)); x = norm(x + FFN(x))
    next token from softmax(W_o x), W_o = E where tied

Source: arXiv:1706.03762, section 3; docs/systems.md, C4-C6. Training is one masked pass over the whole target;
generation reads the keys and values of what was written from a cache.
Differs from the paper: the options `norm: pre`, `positions: learned`, embeddings that are not shared; biases in
attention's projections; dropout of attention weights; and what pretrained parts need: an activation other than relu, a
decoder of another depth, width and number of heads than the encoder (Marian, arXiv:1804.00344), embeddings that are not
scaled but normalised (BERT, arXiv:1810.04805), sources between a start and an end token.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import Rows
from heed.errors import ConfigError
from heed.layers import DecoderStack, Dropout, FastDecoding, LayerNorm, StackState, TokenEmbedding
from heed.layers.activations import PLAIN
from heed.layers.transformer import DecoderBlock, EncoderBlock, NormKind, PositionKind, make_positions, xavier
from heed.models.base import Memory, PairDecoder, TranslatorConfig, named_sizes


class TransformerConfig(TranslatorConfig):
    """Fields of `transformer`; the defaults are the paper's base model."""

    d_model: int = Field(512, gt=0)
    """Width of embeddings, blocks and memory."""
    num_heads: int = Field(8, gt=0)
    """Heads of every attention; must divide d_model."""
    num_layers: int = Field(6, gt=0)
    """Blocks of the encoder, and as many of the decoder."""
    d_ff: int = Field(2048, gt=0)
    """Inner width of the feed-forward networks."""
    norm: NormKind = "post"
    """Layer normalisation after each sublayer (post, the paper's) or before it (pre: trains without long warm-up)."""
    positions: PositionKind = "sinusoidal"
    """Fixed sinusoids of any length, or a learned table."""
    max_length: int = Field(512, gt=0)
    """Positions of a learned table; sinusoids have no limit."""
    shared_embeddings: bool = False
    """One table for source and target (the paper's); needs one vocabulary, `tokenizer.shared: true`."""
    tied_output: bool = True
    """The output layer's matrix is the target's embedding table."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Probability with which an embedding or a sublayer's output is dropped in training."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Probability with which an attention weight is dropped in training; null for that of `dropout`. On a CPU 0 is
    faster: torch's fused kernel has no dropout there."""

    decoder_layers: int | None = Field(None, gt=0)
    """Blocks of the decoder; null for as many as the encoder has."""
    decoder_heads: int | None = Field(None, gt=0)
    """Heads of the decoder's attentions; null for as many as the encoder's have."""
    decoder_d_ff: int | None = Field(None, gt=0)
    """Inner width of the decoder's feed-forward networks; null for that of the encoder's."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    """Between the layers of the feed-forward networks: relu (the paper's), gelu, its approximation by tanh, or silu
    (also called swish)."""
    norm_eps: float = Field(1e-5, gt=0)
    """What layer normalisation adds to the variance."""
    scaled_embeddings: bool = True
    """Token embeddings are multiplied by sqrt(d_model) (the paper's)."""
    normalized_embeddings: bool = False
    """Layer normalisation of the sum of token and position embeddings (BERT's)."""
    source_frame: Literal["none", "end", "both"] = "none"
    """What stands around each source: nothing, an end token after it (Marian's), or the start token before it as well
    (BERT's)."""

    sizes = named_sizes(
        tiny=dict(d_model=64, num_heads=4, num_layers=2, d_ff=256, norm="pre", attention_dropout=0.0),
        small=dict(d_model=256, num_heads=8, num_layers=3, d_ff=512, norm="pre", dropout=0.2, attention_dropout=0.0),
    )


class Transformer(PairDecoder):
    """Stacks of encoder and decoder blocks over token and position embeddings."""

    config_class = TransformerConfig
    summary = "attention in place of recurrence"
    paper = "Vaswani et al. 2017"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        c = config
        if c.shared_embeddings and c.source_vocab_size != c.target_vocab_size:
            raise ConfigError(
                f"shared_embeddings needs one vocabulary, but there are {c.source_vocab_size} source and "
                f"{c.target_vocab_size} target tokens; set tokenizer.shared: true"
            )
        # A tied table is an output layer too, whose row for padding is not zero: no padding token.
        padding = None if c.tied_output else 0
        self.target_embedding = TokenEmbedding(c.target_vocab_size, c.d_model, padding)
        self.source_embedding = (
            self.target_embedding if c.shared_embeddings else TokenEmbedding(c.source_vocab_size, c.d_model)
        )
        self.positions = make_positions(c.positions, c.max_length, c.d_model)
        norm = partial(LayerNorm, eps=c.norm_eps)
        block: dict[str, Any] = {
            "dropout": c.dropout,
            "attention_dropout": c.dropout if c.attention_dropout is None else c.attention_dropout,
            "norm": c.norm,
            "activation": PLAIN[c.activation],
            "norm_layer": norm,
        }
        widths = c.d_model, c.num_heads, c.d_ff
        self.encoder = nn.ModuleList(EncoderBlock(*widths, layer=i, **block) for i in range(c.num_layers))
        widths = c.d_model, c.decoder_heads or c.num_heads, c.decoder_d_ff or c.d_ff
        layers = range(c.decoder_layers or c.num_layers)
        self.decoder = DecoderStack(DecoderBlock(*widths, layer=i, **block) for i in layers)
        last = norm if c.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = last(c.d_model), last(c.d_model)
        self.output = nn.Linear(c.d_model, c.target_vocab_size)
        self.dropout = Dropout(c.dropout)
        embedded = norm if c.normalized_embeddings else nn.Identity
        self.source_embedding_norm, self.target_embedding_norm = embedded(c.d_model), embedded(c.d_model)
        self.embedding_scale = math.sqrt(c.d_model) if c.scaled_embeddings else 1.0
        self.apply(xavier)
        if c.tied_output:
            self.output.weight = self.target_embedding.weight

    def _embed(self, table: TokenEmbedding, norm: nn.Module, tokens: Tensor, positions: Tensor | int) -> Tensor:
        scaled = table(tokens) * self.embedding_scale
        return self.dropout(norm(scaled + self.positions(positions)))  # type: ignore[no-any-return]

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """The encoder's output as keys and values of each decoder block."""
        positions = torch.arange(source.shape[1], device=source.device).unsqueeze(0)
        x = self._embed(self.source_embedding, self.source_embedding_norm, source, positions)  # (B, S, d_model)
        mask = None if source_mask.all() else source_mask
        for block in self.encoder:
            x = self.observe_tensor("states", block(x, mask))
        return Memory(self.decoder.prepare(self.encoder_norm(x), mask), None)

    def start(self, memory: Memory | None, rows: Rows) -> StackState:
        """Empty caches over the encoded sources."""
        assert memory is not None
        return self.decoder.start(memory.keys, rows)

    def step(
        self, tokens: Tensor, state: StackState | FastDecoding, lengths: Tensor | None = None
    ) -> tuple[Tensor, StackState | FastDecoding]:
        """Append each further token's keys and values, look back, look at the source."""
        positions = state.next_positions(tokens.shape[1])
        x = self._embed(self.target_embedding, self.target_embedding_norm, tokens, positions)  # (R, n, d_model)
        x, state = self.decoder(x, state, lengths)
        return self.decoder_norm(x), state
