"""The Transformer: an encoder and a decoder without recurrence. Vaswani et al. 2017.

| here | paper | notes | meaning |
|---|---|---|---|
| encoder map | encoder self-attention | softmax(Q K' / sqrt(d_k)) V | row i: attention of source position i |
| decoder map | masked | masked self-attention | row t: self-attention of the position that predicts output t |
| cross map | encoder-decoder attention | K, V from the last encoder block | row t: its attention to the source |

    x = sqrt(d_model) E[token] + P[position]      options: without the factor; normalised, norm(x)
    encoder block   x = norm(x + MultiHead(x, x)); x = norm(x + FFN(x))
    decoder block   x = norm(x + MultiHead(x, x, causal)); x = norm(x + MultiHead(x, memory)); x = norm(x + FFN(x))
    next token from softmax(W_o x), W_o = E where tied

Training is one masked pass over the whole target; generation caches the keys and values of earlier positions.

Source: arXiv:1706.03762, section 3; docs/systems.md, C4-C6.
Differs from the paper: the options `norm: pre` and `positions: learned`; embeddings are not shared by default; biases
in the attention projections; dropout of attention weights; and, for pretrained models, other activations, a decoder
whose depth, heads and inner width differ from the encoder's (Marian, arXiv:1804.00344), embeddings that are normalised
and not scaled (BERT, arXiv:1810.04805), tokens around the source and before the target, a table of positions for each
side (BART, arXiv:1910.13461), and fairseq's sinusoids (M2M-100, arXiv:2010.11125).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import Rows
from heed.attention.host import host_copy
from heed.errors import ConfigError
from heed.layers import DecoderStack, Dropout, FastDecoding, LayerNorm, StackState, TokenEmbedding
from heed.layers.elementwise import PLAIN
from heed.layers.embeddings import LearnedPositions, SinusoidalPositions
from heed.layers.transformer import (
    DecoderBlock,
    EncoderBlock,
    EncoderStack,
    NormKind,
    PositionKind,
    make_positions,
    xavier,
)
from heed.models.base import Memory, PairDecoder, TranslatorConfig, named_sizes


class TransformerConfig(TranslatorConfig):
    """Fields of `transformer`; the paper's base model, medium its big one, large that of Liu et al. 2020 (mBART)."""

    d_model: int = Field(512, gt=0)
    """Width of embeddings, blocks and memory."""
    num_heads: int = Field(8, gt=0)
    """Attention heads of each block; must divide d_model."""
    num_layers: int = Field(6, gt=0)
    """Number of blocks in the encoder and in the decoder, each."""
    d_ff: int = Field(2048, gt=0)
    """Inner width of the feed-forward layers."""
    norm: NormKind = "post"
    """Layer normalisation after each sublayer (post, the paper's) or before it (pre: trains without a long warm-up)."""
    positions: PositionKind | Literal["fairseq"] = "sinusoidal"
    """Fixed sinusoids of any length, in the paper's or fairseq's form (M2M-100, NLLB), or a learned table."""
    max_length: int = Field(512, gt=0)
    """Length of the learned position table; sinusoids have no limit."""
    shared_embeddings: bool = False
    """Whether source and target share their embeddings (as in the paper); needs a shared vocabulary,
    `tokenizer.shared=true`."""
    tied_output: bool = True
    """Whether the output layer shares the target's embedding matrix."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability of embeddings and sublayer outputs."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout probability of attention weights; null for the value of `dropout`. 0 is faster: on a CPU, torch's fused
    attention kernel has no dropout; on a GPU, where 0 is the default from size medium on, padded texts then need no
    mask."""

    decoder_layers: int | None = Field(None, gt=0)
    """Number of blocks in the decoder; null for num_layers."""
    decoder_heads: int | None = Field(None, gt=0)
    """Attention heads of each decoder block; null for num_heads."""
    decoder_d_ff: int | None = Field(None, gt=0)
    """Inner width of the decoder's feed-forward layers; null for d_ff."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    """Activation of the feed-forward layers: relu (the paper's), gelu, its tanh approximation, or silu (also called
    swish)."""
    norm_eps: float = Field(1e-5, gt=0)
    """Epsilon that layer normalisation adds to the variance."""
    scaled_embeddings: bool = True
    """Whether token embeddings are multiplied by sqrt(d_model) (as in the paper)."""
    normalized_embeddings: bool = False
    """Whether the sum of token and position embeddings is layer-normalised (as in BERT)."""
    source_frame: Literal["none", "end", "both", "language"] = "none"
    """Tokens around each source: none, an end token (as in Marian), a start and an end token (as in BERT), or the token
    of `data.source_language` and an end token (as in M2M-100 and NLLB)."""
    target_frame: Literal["none", "start", "language"] = "none"
    """Token that every target begins with, after the first one that the decoder reads: none, the start token of sources
    (as in BART), or the token of `data.target_language` (as in M2M-100 and NLLB). It is learned with the target, and
    every output is forced to begin with it."""
    shared_positions: bool = True
    """Whether encoder and decoder share their learned table of positions; in BART each has its own."""
    output_bias: bool = True
    """Whether the output layer has a bias; M2M-100 has none."""

    sizes = named_sizes(
        tiny=dict(d_model=64, num_heads=4, num_layers=2, d_ff=256, norm="pre", attention_dropout=0.0),
        small=dict(d_model=256, num_heads=8, num_layers=3, d_ff=512, norm="pre", dropout=0.2, attention_dropout=0.0),
        medium=dict(d_model=1024, num_heads=16, d_ff=4096, dropout=0.3),
        large=dict(d_model=1024, num_heads=16, num_layers=12, d_ff=4096),
    )


class Transformer(PairDecoder):
    """Stacks of encoder and decoder blocks over token and position embeddings."""

    config_class = TransformerConfig
    summary = "Transformer encoder-decoder"
    paper = "Vaswani et al. 2017"
    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        c = config
        if c.shared_embeddings and c.source_vocab_size != c.target_vocab_size:
            raise ConfigError(
                f"model.shared_embeddings needs a shared vocabulary, but the source vocabulary has "
                f"{c.source_vocab_size} tokens and the target vocabulary {c.target_vocab_size}; "
                "set tokenizer.shared=true"
            )
        self.target_embedding = TokenEmbedding(c.target_vocab_size, c.d_model)
        self.source_embedding = (
            self.target_embedding if c.shared_embeddings else TokenEmbedding(c.source_vocab_size, c.d_model)
        )
        self.positions = make_positions(c.positions, c.max_length, c.d_model)
        if not c.shared_positions:
            self.target_positions = make_positions(c.positions, c.max_length, c.d_model)
        norm = partial(LayerNorm, eps=c.norm_eps)
        block: dict[str, Any] = {
            "dropout": c.dropout,
            "attention_dropout": c.dropout if c.attention_dropout is None else c.attention_dropout,
            "norm": c.norm,
            "activation": PLAIN[c.activation],
            "norm_layer": norm,
        }
        widths = c.d_model, c.num_heads, c.d_ff
        self.encoder = EncoderStack(EncoderBlock(*widths, layer=i, **block) for i in range(c.num_layers))
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
        if not c.output_bias:  # zeros that are neither trained nor stored: kernels of the output layer add a bias
            del self.output.bias
            self.output.register_buffer("bias", torch.zeros(c.target_vocab_size), persistent=False)
        if c.tied_output:
            self.output.weight = self.target_embedding.weight

    def positions_of(self, side: Literal["source", "target"]) -> SinusoidalPositions | LearnedPositions:
        """The positions of a side; both are the same unless each has its own table."""
        own = side == "target" and not self.config.shared_positions
        return self.target_positions if own else self.positions

    def _embed(self, side: Literal["source", "target"], tokens: Tensor, positions: Tensor | int) -> Tensor:
        scaled = getattr(self, f"{side}_embedding")(tokens) * self.embedding_scale
        embedded = scaled + self.positions_of(side)(positions)
        return self.dropout(getattr(self, f"{side}_embedding_norm")(embedded))

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Encode sources to keys and values for each decoder block; arguments as `PairDecoder.encode`."""
        positions = torch.arange(source.shape[1], device=source.device).unsqueeze(0)
        x = self._embed("source", source, positions)  # (B, S, d_model)
        mask = None if host_copy(source_mask).all() else source_mask
        x = self.encoder(x, mask)
        return Memory(self.decoder.prepare(self.encoder_norm(x), mask), None)

    def start(self, memory: Memory | None, rows: Rows) -> StackState:
        """Initial decoding state of each row: empty caches, and the keys of its source."""
        assert memory is not None
        return self.decoder.start(memory.keys, rows)

    def step(
        self, tokens: Tensor, state: StackState | FastDecoding, lengths: Tensor | None = None
    ) -> tuple[Tensor, StackState | FastDecoding]:
        """Append the keys and values of the next tokens to the caches, attend to them and to the source.

        Arguments and result as `DecoderBody.step`.
        """
        positions = state.next_positions(tokens.shape[1])
        x = self._embed("target", tokens, positions)  # (R, n, d_model)
        x, state = self.decoder(x, state, lengths)
        return self.decoder_norm(x), state
