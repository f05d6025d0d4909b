"""GPT: a language model of Transformer decoder blocks without cross-attention. Radford et al. 2019 (GPT-2).

| here | paper | notes | meaning |
|---|---|---|---|
| decoder map | masked self-attention | C5 | row t: attention of the position that predicts token t + 1 |
| E, P | W_e, W_p (Radford et al. 2018, equation 2) | E, P | token and position embeddings |
| x | h_l | - | states between the blocks |
| output | softmax(h_n W_e') | softmax(W x) | shares the token embeddings with `tied_output` |

    x = E[token] + P[position]
    block   x = x + MultiHead(norm(x), causal); x = x + W_2 gelu(W_1 norm(x) + b_1) + b_2
    next token from softmax(E norm(x))

As a text encoder, the same causal blocks return norm(x) for each token; `last` is the state of the last token, the only
one that depends on the whole text (as in `GPT2ForSequenceClassification`). With features f of each token,
x = W [E[token] ; f] + P[position]. Over a series of numbers, x = W row + b + P[position], and a head predicts the row
after each one from norm(x).

Initial weights: normal with a standard deviation of 0.02, divided by sqrt(2 num_layers) in the output layers of
attention and feed-forward; biases zero. Dropout after the embeddings, on attention weights and on each sublayer's
output.

Source: Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.3; the blocks of Radford et
al. 2018 with the normalisation moved to the input of each sublayer, and the output of equation 2 there;
docs/systems.md, C7.
Differs from the paper: query, key and value have separate layers, which is equivalent; and the options: rotary
positions in place of position embeddings (`layers/embeddings.py`); RMS normalisation (`layers/elementwise.py`); SwiGLU
(`layers/elementwise.py`); no biases; an untied output layer; and, for imported models, other activations.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from heed.attention import Rotation, Rows
from heed.kernels import Linear
from heed.layers import (
    DecoderStack,
    Dropout,
    LearnedPositions,
    RotaryPositions,
    SearchState,
    SinusoidalPositions,
    StackState,
    TokenEmbedding,
    TokenInput,
    places_within,
)
from heed.layers.elementwise import GELU, GELU_TANH, RELU, SILU, SWIGLU, make_norm
from heed.layers.transformer import DecoderBlock, make_positions
from heed.models.base import (
    LanguageModel,
    Memory,
    ModelConfig,
    SeriesEncoder,
    TextConfig,
    TokenConfig,
    TokenEncoder,
    named_sizes,
)

_ACTIVATIONS = {"gelu": GELU_TANH, "gelu_exact": GELU, "relu": RELU, "silu": SILU, "swiglu": SWIGLU}
_DEVIATION = 0.02


class BlocksConfig(ModelConfig):
    """Fields shared by all interfaces."""

    d_model: int = Field(768, gt=0)
    """Width of embeddings and blocks."""
    num_heads: int = Field(12, gt=0)
    """Attention heads of each block; must divide d_model."""
    num_layers: int = Field(12, gt=0)
    """Number of blocks."""
    d_ff: int | None = Field(None, gt=0)
    """Inner width of the feed-forward layers; null for 4 d_model, or with swiglu for two thirds of that, since swiglu
    has three matrices instead of two."""
    max_length: int = Field(1024, gt=0)
    """Length of the learned position table; other positions have no limit."""
    positions: Literal["learned", "rotary", "sinusoidal"] = "learned"
    """A learned table (GPT-2's), rotary embeddings of queries and keys, or fixed sinusoids."""
    norm: Literal["layer", "rms"] = "layer"
    """Layer normalisation (GPT-2's) or RMS normalisation."""
    norm_eps: float = Field(1e-5, gt=0)
    """Epsilon that normalisation adds to the variance, or to the mean square."""
    activation: Literal["gelu", "gelu_exact", "relu", "silu", "swiglu"] = "gelu"
    """Activation of the feed-forward layers: gelu (tanh approximation, GPT-2's), gelu_exact, relu, silu, or swiglu,
    which is gated."""
    bias: bool = True
    """Whether the layers of the blocks and the layer normalisations have biases."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability of embeddings and sublayer outputs."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout probability of attention weights; null for the value of `dropout`. 0 is faster: on a CPU, torch's fused
    attention kernel has no dropout; on a GPU, where 0 is the default from size medium on, padded texts then need no
    mask."""

    @property
    def inner_width(self) -> int:
        """Inner width of the feed-forward layers; rounded up to a multiple of 8 if gated and not given."""
        if self.d_ff is not None:
            return self.d_ff
        return 8 * math.ceil(self.d_model / 3) if _ACTIVATIONS[self.activation].width == 2 else 4 * self.d_model


class GPTConfig(BlocksConfig, TextConfig):
    """Fields of `gpt`; the defaults are GPT-2's smallest model, medium and large the next two."""

    tied_output: bool = True
    """Whether the output layer shares the embedding matrix (as in GPT-2)."""

    sizes = named_sizes(
        tiny=dict(d_model=128, num_heads=4, num_layers=4, max_length=256, dropout=0.0),
        small=dict(d_model=384, num_heads=6, num_layers=6, max_length=512, dropout=0.2, attention_dropout=0.0),
        medium=dict(d_model=1024, num_heads=16, num_layers=24),
        large=dict(d_model=1280, num_heads=20, num_layers=36),
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
    """Position embeddings and rotary embeddings; one of the two is None."""
    if c.positions == "rotary":
        return None, RotaryPositions(c.d_model // c.num_heads)
    return make_positions(c.positions, c.max_length, c.d_model), None


def _placed(
    model: GPT | GPTEncoder | GPTSeries, x: Tensor, positions: Tensor | int, bound: int | None
) -> tuple[Tensor, Rotation | None]:
    """Embedded inputs at these positions, all below `bound`, and the rotation of queries and keys, if any."""
    if model.positions is not None:
        return model.dropout(x + model.positions(positions, bound)), None
    assert model.rotary is not None
    return model.dropout(x), model.rotary(positions, bound)


def _initialise(model: nn.Module, blocks: DecoderStack) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=_DEVIATION)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for block in blocks:
        assert isinstance(block, DecoderBlock)
        for layer in (block.attention.w_out, block.feed_forward.outer):
            nn.init.normal_(layer.weight, std=_DEVIATION / math.sqrt(2 * len(blocks)))


class GPT(LanguageModel):
    """A stack of pre-norm decoder blocks without cross-attention over token embeddings."""

    config_class = GPTConfig
    summary = "Transformer decoder"
    paper = "Radford et al. 2019"

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_model)
        self.positions, self.rotary = _make_positions(c)
        self.dropout = Dropout(c.dropout)

        self.blocks = _make_blocks(c)
        self.norm = make_norm(c.norm, c.d_model, c.bias, c.norm_eps)
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=False)
        _initialise(self, self.blocks)
        if c.tied_output:
            self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor, documents: Tensor | None = None) -> Tensor:
        positions, seen = places_within(tokens, documents)
        x, turn = _placed(self, self.embedding(tokens), positions, tokens.shape[1])
        return self.norm(self.blocks.whole(x, turn, seen))

    def start(self, memory: Memory | None, rows: Rows) -> StackState:
        return self.blocks.start((), rows)

    def step(
        self, tokens: Tensor, state: StackState | SearchState, lengths: Tensor | None = None
    ) -> tuple[Tensor, StackState | SearchState]:
        """Append the keys and values of the next tokens to the caches and attend to them; as `DecoderBody.step`."""
        return self.blocks.by_length(self._read, tokens, state, lengths)

    def _read(
        self, tokens: Tensor, state: StackState | SearchState, lengths: Tensor | None
    ) -> tuple[Tensor, StackState | SearchState]:
        count = tokens.shape[1]
        x, turn = _placed(self, self.embedding(tokens), state.next_positions(count), state.bound(count))  # (R, n, d)
        x, state = self.blocks(x, state, lengths, turn)
        return self.norm(x), state


class GPTEncoderConfig(BlocksConfig, TokenConfig):
    """Fields of `gpt` over a text; the defaults are GPT-2's smallest model, medium and large the next two."""

    sizes = named_sizes(
        tiny=dict(d_model=128, num_heads=4, num_layers=2, positions="rotary", attention_dropout=0.0),
        small=dict(d_model=256, num_heads=4, num_layers=4, positions="rotary", dropout=0.2, attention_dropout=0.0),
        medium=dict(d_model=1024, num_heads=16, num_layers=24),
        large=dict(d_model=1280, num_heads=20, num_layers=36),
    )


class GPTEncoder(TokenEncoder):
    """The same blocks over a text, without an output layer: a token's state depends on that token and earlier ones."""

    config_class = GPTEncoderConfig
    summary = "Transformer decoder over a text"
    paper = "Radford et al. 2019"
    fine_tuned = True

    def __init__(self, config: GPTEncoderConfig) -> None:
        super().__init__(config)
        c = config
        self.inputs = TokenInput(c.vocab_size, c.d_model, c.d_features)
        self.join = Linear(self.inputs.d_output, c.d_model) if c.d_features else nn.Identity()
        self.positions, self.rotary = _make_positions(c)
        self.dropout = Dropout(c.dropout)
        self.blocks = _make_blocks(c)
        self.norm = make_norm(c.norm, c.d_model, c.bias, c.norm_eps)
        self.d_output = c.d_model
        _initialise(self, self.blocks)

    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """State of each token, `(batch, length, d_model)`; arguments as `TokenEncoder.forward`.

        The mask is not needed: padding follows the text, and attention is causal.
        """
        positions, _ = places_within(tokens, None)
        x, turn = _placed(self, self.join(self.inputs(tokens, features)), positions, tokens.shape[1])  # (B, T, d_model)
        return self.norm(self.blocks.whole(x, turn))


class GPTSeriesConfig(BlocksConfig):
    """Fields of `gpt` over a series of numbers; the widths are our own."""

    num_columns: int = Field(gt=0)
    """Number of columns; set from the data."""
    d_model: int = Field(128, gt=0)
    """Width of embeddings and blocks."""
    num_heads: int = Field(4, gt=0)
    """Attention heads of each block; must divide d_model."""
    num_layers: int = Field(2, gt=0)
    """Number of blocks."""
    positions: Literal["learned", "rotary", "sinusoidal"] = "rotary"
    """A learned table (GPT-2's), rotary embeddings of queries and keys, or fixed sinusoids."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings and sublayer outputs."""

    sizes = named_sizes(tiny=dict(d_model=32), small=dict(d_model=64))


class GPTSeries(SeriesEncoder):
    """The same blocks over the rows of a series, x = W row + b; a row's state depends on that row and earlier ones."""

    config_class = GPTSeriesConfig
    summary = "Transformer decoder over rows"
    paper = "Radford et al. 2019"

    def __init__(self, config: GPTSeriesConfig) -> None:
        super().__init__(config)
        c = config
        self.inputs = Linear(c.num_columns, c.d_model)
        self.positions, self.rotary = _make_positions(c)
        self.dropout = Dropout(c.dropout)
        self.blocks = _make_blocks(c)
        self.norm = make_norm(c.norm, c.d_model, c.bias, c.norm_eps)
        self.d_output = c.d_model
        _initialise(self, self.blocks)
        self.inputs.reset_parameters()  # normalised, W row has no size: the bias has to tell it

    def read(
        self, values: Tensor, states: StackState | SearchState | None = None
    ) -> tuple[Tensor, StackState | SearchState]:
        """Read further rows; as `SeriesEncoder.read`, with the keys and values of earlier rows as states."""
        if states is None:
            states = self.blocks.start((), Rows.repeat(len(values), device=values.device))
        count = values.shape[1]
        x, turn = _placed(self, self.inputs(values), states.next_positions(count), states.bound(count))  # (B, n, d)
        x, states = self.blocks(x, states, None, turn)
        return self.norm(x), states
