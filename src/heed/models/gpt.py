"""GPT: a language model of decoder blocks without a memory, Radford et al. 2019 (GPT-2).

| here | paper | notes | what |
|---|---|---|---|
| decoder map | masked self-attention | C5 | row t: where the position that predicts token t + 1 looked |
| E, P | W_e, W_p (Radford et al. 2018, equation 2) | E, P | tables of tokens and positions |
| x | h_l | - | the states between the blocks |
| output | softmax(h_n W_e') | softmax(W x) | the table of tokens once more, where tied |

    x = E[token] + P[position]
    block   x = x + MultiHead(norm(x), causal); x = x + W_2 gelu(W_1 norm(x) + b_1) + b_2
    next token from softmax(E norm(x))

As an encoder of texts it reads the same blocks from left to right and gives norm(x) for each token; `last` is the state
of the last token, which alone has seen the whole text (as `GPT2ForSequenceClassification` has it). With features f of
each token, x = W [E[token] ; f] + P[position].

Initial weights: normal with a deviation of 0.02, those of the layers before each residual sum divided by
sqrt(2 num_layers), biases zero. Dropout after the embeddings, on attention weights and on each sublayer's output.

Source: Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.3; the blocks are those of
Radford et al. 2018 with the normalisation moved to the input, the output as equation 2 there; docs/systems.md, C7.
Differs from the paper: query, key and value have a layer each, which is the same product; and the options, each with
its source where it is: rotary positions (`layers/rotary.py`), RMS normalisation (`layers/norm.py`), SwiGLU
(`layers/activations.py`), no biases, an output table of its own. With rotary positions nothing is added to the
embeddings. Imported models: other activations, and tokens that the vocabulary lacks (`absent_tokens`).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import Rows, Turn
from heed.kernels import Linear
from heed.layers import (
    DecoderStack,
    Dropout,
    FastDecoding,
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    StackState,
    TokenEmbedding,
    TokenInput,
    places_within,
)
from heed.layers.activations import GELU, GELU_TANH, RELU, SILU, SWIGLU
from heed.layers.norm import make_norm
from heed.layers.transformer import DecoderBlock, make_positions
from heed.models.base import LanguageModel, Memory, TextConfig, TokenConfig, TokenEncoder, named_sizes

_ACTIVATIONS = {"gelu": GELU_TANH, "gelu_exact": GELU, "relu": RELU, "silu": SILU, "swiglu": SWIGLU}
_DEVIATION = 0.02
_NEVER = -1e4
"""Bias of a token that is never predicted: its probability is 0, and nothing becomes NaN."""


class BlocksConfig(TextConfig):
    """What the language model and the encoder have in common."""

    d_model: int = Field(768, gt=0)
    """Width of embeddings and blocks."""
    num_heads: int = Field(12, gt=0)
    """Heads of every attention; must divide d_model."""
    num_layers: int = Field(12, gt=0)
    """Blocks."""
    d_ff: int | None = Field(None, gt=0)
    """Inner width of the feed-forward networks; null for 4 d_model, or with swiglu for two thirds of that,
    since swiglu has three matrices instead of two."""
    max_length: int = Field(1024, gt=0)
    """Positions of a learned table; other positions have no limit."""
    positions: Literal["learned", "rotary", "sinusoidal"] = "learned"
    """A learned table (GPT-2's), queries and keys turned by their positions, or fixed sinusoids."""
    norm: Literal["layer", "rms"] = "layer"
    """Layer normalisation (GPT-2's), or division by the root mean square."""
    norm_eps: float = Field(1e-5, gt=0)
    """What normalisation adds to the variance, or to the mean square."""
    activation: Literal["gelu", "gelu_exact", "relu", "silu", "swiglu"] = "gelu"
    """Between the layers of the feed-forward networks: gelu (by tanh, GPT-2's), gelu_exact (by the normal
    distribution), relu, silu, or swiglu, which has a gate."""
    bias: bool = True
    """Biases in all layers of the blocks and in the layer normalisation."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Probability with which an embedding or a sublayer's output is dropped in training."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Probability with which an attention weight is dropped in training; null for that of `dropout`. On a CPU 0 is
    faster: torch's fused kernel has no dropout there."""

    @property
    def inner_width(self) -> int:
        """Width of the feed-forward networks; of a gated one a multiple of 8."""
        if self.d_ff is not None:
            return self.d_ff
        return 8 * math.ceil(self.d_model / 3) if _ACTIVATIONS[self.activation].width == 2 else 4 * self.d_model


class GPTConfig(BlocksConfig):
    """Fields of `gpt`; the defaults are GPT-2's smallest model."""

    tied_output: bool = True
    """The output layer's matrix is the embedding table (GPT-2's)."""
    absent_tokens: tuple[int, ...] = ()
    """Tokens that the vocabulary of an imported model lacks (padding, unknown, start): they are never predicted."""

    sizes = named_sizes(
        tiny=dict(d_model=128, num_heads=4, num_layers=4, max_length=256, dropout=0.0),
        small=dict(d_model=384, num_heads=6, num_layers=6, max_length=512, dropout=0.2, attention_dropout=0.0),
    )


def _make_blocks(c: BlocksConfig) -> DecoderStack:
    return DecoderStack(
        DecoderBlock(
            c.d_model,
            c.num_heads,
            c.inner_width,
            cross=False,
            dropout=c.dropout,
            drops_inner=False,
            attention_dropout=c.dropout if c.attention_dropout is None else c.attention_dropout,
            norm="pre",
            activation=_ACTIVATIONS[c.activation],
            norm_layer=partial(make_norm, c.norm, bias=c.bias, eps=c.norm_eps),
            bias=c.bias,
            layer=i,
        )
        for i in range(c.num_layers)
    )


def _make_positions(c: BlocksConfig) -> tuple[LearnedPositions | SinusoidalPositions | None, RotaryPositions | None]:
    """What is added to the embeddings, or what turns queries and keys."""
    if c.positions == "rotary":
        return None, RotaryPositions(c.d_model // c.num_heads)
    return make_positions(c.positions, c.max_length, c.d_model), None


def _initialise(model: nn.Module, blocks: DecoderStack) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=_DEVIATION)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for block in blocks:
        assert isinstance(block, DecoderBlock)
        for layer in (block.attention.w_out, block.feed_forward.outer):
            nn.init.normal_(layer.weight, std=_DEVIATION / math.sqrt(2 * len(blocks)))


class GPT(LanguageModel):
    """A stack of pre-norm decoder blocks without a memory over token embeddings."""

    config_class = GPTConfig
    summary = "Transformer decoder"
    paper = "Radford et al. 2019"

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_model, padding_token=None)
        self.positions, self._rotary = _make_positions(c)
        self.dropout = Dropout(c.dropout)

        self.blocks = _make_blocks(c)
        self.norm = make_norm(c.norm, c.d_model, c.bias, c.norm_eps)
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=False)
        _initialise(self, self.blocks)
        if c.tied_output:
            self.output.weight = self.embedding.weight
        if c.absent_tokens:  # no parameter: nothing learns it, and no file holds it
            bias = torch.zeros(c.vocab_size)
            bias[list(c.absent_tokens)] = _NEVER
            del self.output.bias
            self.output.register_buffer("bias", bias, persistent=False)

    def _embed(self, tokens: Tensor, positions: Tensor | int) -> tuple[Tensor, Turn | None]:
        """Embedded tokens `(rows, n, d_model)`, and what turns queries and keys."""
        x = self.embedding(tokens)
        if self.positions is not None:
            return self.dropout(x + self.positions(positions)), None
        assert self._rotary is not None
        return self.dropout(x), self._rotary(positions)

    def forward(self, tokens: Tensor, documents: Tensor | None = None) -> Tensor:
        """Whole sequences to hidden states, each document by itself; as `LanguageModel.forward`."""
        positions, seen = places_within(tokens, documents)
        x, turn = self._embed(tokens, positions)
        return self.norm(self.blocks.whole(x, turn, seen))  # type: ignore[no-any-return]

    def start(self, memory: Memory | None, rows: Rows) -> StackState:
        """Empty caches."""
        return self.blocks.start((), rows)

    def step(
        self, tokens: Tensor, state: StackState | FastDecoding, lengths: Tensor | None = None
    ) -> tuple[Tensor, StackState | FastDecoding]:
        """Append each further token's keys and values, then look back."""
        return self.blocks.by_length(self._read, tokens, state, lengths)

    def _read(
        self, tokens: Tensor, state: StackState | FastDecoding, lengths: Tensor | None
    ) -> tuple[Tensor, StackState | FastDecoding]:
        x, turn = self._embed(tokens, state.next_positions(tokens.shape[1]))  # (R, n, d_model)
        x, state = self.blocks(x, state, lengths, turn)
        return self.norm(x), state


class GPTEncoderConfig(BlocksConfig, TokenConfig):
    """Fields of `gpt` over a text; the defaults are GPT-2's smallest model."""

    sizes = named_sizes(
        tiny=dict(d_model=128, num_heads=4, num_layers=2, positions="rotary", attention_dropout=0.0),
        small=dict(d_model=256, num_heads=4, num_layers=4, positions="rotary", dropout=0.2, attention_dropout=0.0),
    )


class GPTEncoder(TokenEncoder):
    """The same blocks over a text, without an output layer: the state of each token has seen those up to it."""

    config_class = GPTEncoderConfig
    summary = "Transformer decoder over a text"
    paper = "Radford et al. 2019"
    fine_tuned = True

    def __init__(self, config: GPTEncoderConfig) -> None:
        super().__init__(config)
        c = config
        self.inputs = TokenInput(c.vocab_size, c.d_model, c.d_features)
        self.join = Linear(self.inputs.d_output, c.d_model) if c.d_features else nn.Identity()
        self.positions, self._rotary = _make_positions(c)
        self.dropout = Dropout(c.dropout)
        self.blocks = _make_blocks(c)
        self.norm = make_norm(c.norm, c.d_model, c.bias, c.norm_eps)
        self.d_output = c.d_model
        _initialise(self, self.blocks)

    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """States of each token, `(batch, length, d_model)`; padding stands behind a text, where no token looks."""
        positions, _ = places_within(tokens, None)
        x, turn = self.join(self.inputs(tokens, features)), None  # (B, T, d_model)
        if self.positions is not None:
            x = x + self.positions(positions)
        else:
            assert self._rotary is not None
            turn = self._rotary(positions)
        return self.norm(self.blocks.whole(self.dropout(x), turn))  # type: ignore[no-any-return]
