"""BERT: a Transformer encoder over a text or a pair of texts, to be pretrained. Devlin et al. 2019.

| here | paper | notes | meaning |
|---|---|---|---|
| encoder map | self-attention | C8 | row i: attention of token i |
| start token, end token | [CLS], [SEP] | [CLS], [SEP] | before the first text; after each text |
| state | T_i | - | output for each token |
| `last` | C | p | the start token's state after the pooling layer |

    x = norm(E[token] + P[position] + S[segment])       with features f of each token: norm(E + P + S + W f)
    block   x = norm(x + MultiHead(x, x)); x = norm(x + W_2 gelu(W_1 x + b_1) + b_2)
    last    tanh(W_p x[0] + b_p)

A token's segment is the number of end tokens before it: in a pair `START a END b END`, a and its end token are segment
0, b and its end token segment 1.

Initial weights: normal with a standard deviation of 0.02 for embeddings and 0.02 sqrt(768 / d_model) for matrices;
biases zero. Dropout after the embeddings, on attention weights and on each sublayer's output.

Source: Devlin et al. 2019 (arXiv:1810.04805), section 3 and appendix A.2; docs/systems.md, C8. The pooling layer, eps
1e-12 and the initial weights, which the paper does not specify, are those of the published checkpoints.
Differs from the paper: the initial weights of linear layers at widths other than 768 (`initialise`), and the option
`matching_heads`. RoBERTa (arXiv:1907.11692) has one segment, two end tokens between two texts and eps 1e-5; DistilBERT
(arXiv:1910.01108) has no segments and relu in the pooling layer.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import MultiHeadAttention
from heed.errors import ConfigError
from heed.kernels import Linear
from heed.layers import Dropout, LayerNorm, LearnedPositions, TokenInput
from heed.layers.elementwise import GELU, GELU_TANH, RELU, SILU
from heed.layers.transformer import EncoderBlock, PackedStack
from heed.models.base import TokenConfig, TokenEncoder, named_sizes

ACTIVATIONS = {"gelu": GELU, "gelu_tanh": GELU_TANH, "relu": RELU, "silu": SILU}
_DEVIATION, _WIDTH = 0.02, 768
"""Standard deviation of the initial weights, and the width for which it is meant."""
_MATCH = 8.0
"""Initial score of equal vectors in a matching head: e^8 outweighs hundreds of other tokens."""


class BertConfig(TokenConfig):
    """Fields of `bert`; BERT-base, BERT-large (Devlin et al. 2019), medium (Turc et al. 2019, arXiv:1908.08962)."""

    d_model: int = Field(768, gt=0)
    """Width of embeddings and blocks."""
    num_heads: int = Field(12, gt=0)
    """Attention heads of each block; must divide d_model."""
    num_layers: int = Field(12, gt=0)
    """Number of blocks."""
    d_ff: int = Field(3072, gt=0)
    """Inner width of the feed-forward layers."""
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    """Activation of the feed-forward layers: gelu (the paper's), its tanh approximation, relu or silu."""
    norm_eps: float = Field(1e-12, gt=0)
    """Epsilon that layer normalisation adds to the variance."""
    max_length: int = Field(512, gt=0)
    """Length of the learned position table: the longest text or pair, including start and end tokens."""
    num_segments: int = Field(2, ge=0)
    """Number of segment embeddings; 0 for none."""
    end_token: int = Field(3, ge=0)
    """Id of the end token, by which the segments of a pair are known; set from the tokenizer."""
    double_separator: bool = False
    """Whether two end tokens, not one, separate the texts of a pair (RoBERTa)."""
    pooler: Literal["tanh", "relu", "none"] = "tanh"
    """Activation of the pooling layer, which maps the start token's state to the vector used for classification; none
    for no such layer."""
    matching_heads: int = Field(0, ge=0)
    """Heads of the first block that initially attend to tokens equal to their own: their queries and keys have the same
    initial weights. Pretraining on pairs of texts sets 1, so that the model learns sooner whether they share words
    (docs/pretraining.md)."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability of embeddings and sublayer outputs."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout probability of attention weights; null for the value of `dropout`. 0 is faster: on a CPU, torch's fused
    attention kernel has no dropout; on a GPU, where 0 is the default from size medium on, padded texts then need no
    mask."""

    sizes = named_sizes(
        tiny=dict(d_model=128, num_heads=2, num_layers=2, d_ff=512),
        small=dict(d_model=256, num_heads=4, num_layers=4, d_ff=1024),
        medium=dict(d_model=512, num_heads=8, num_layers=8, d_ff=2048),
        large=dict(d_model=1024, num_heads=16, num_layers=24, d_ff=4096),
    )


class Bert(TokenEncoder):
    """A stack of post-norm encoder blocks over the embeddings of tokens, positions and segments."""

    config_class = BertConfig
    summary = "Transformer encoder for pretraining"
    paper = "Devlin et al. 2019"
    sees_all = True
    framed = True
    fine_tuned = True
    config: BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        c = config
        norm = partial(LayerNorm, eps=c.norm_eps)
        self.inputs = TokenInput(c.vocab_size, c.d_model, c.d_features)
        self.join = Linear(c.d_features, c.d_model, bias=False) if c.d_features else None
        self.positions = LearnedPositions(c.max_length, c.d_model)
        self.segments = nn.Embedding(c.num_segments, c.d_model) if c.num_segments else None
        self.embedding_norm = norm(c.d_model)
        self.dropout = Dropout(c.dropout)
        self.blocks = PackedStack(
            EncoderBlock(
                c.d_model,
                c.num_heads,
                c.d_ff,
                dropout=c.dropout,
                drops_inner=False,
                attention_dropout=c.dropout if c.attention_dropout is None else c.attention_dropout,
                activation=ACTIVATIONS[c.activation],
                norm_layer=norm,
                layer=i,
            )
            for i in range(c.num_layers)
        )
        self.pooler = None if c.pooler == "none" else Linear(c.d_model, c.d_model)
        self.d_output = c.d_model
        self.apply(partial(initialise, d_model=c.d_model))
        first = self.blocks[0].attention
        assert isinstance(first, MultiHeadAttention)
        match(first, c.matching_heads)

    def forward(
        self, tokens: Tensor, mask: Tensor, features: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """State of each token, `(batch, length, d_model)`.

        Args:
            tokens: `(batch, length)`, framed (`data.batch.framed`).
            mask: As `TokenEncoder.forward`.
            features: As `TokenEncoder.forward`.
            segments: `(batch, length)`, the segment of each token; None to derive it from the end tokens.

        Raises:
            ShapeError: A text is longer than the position table.
        """
        if self.segments is not None and segments is None:
            segments = self.segments_of(tokens)
        x = self.inputs(tokens, features)  # (B, T, d_model + d_features)
        if self.join is not None:
            x = x[..., : self.d_output] + self.join(x[..., self.d_output :])
        x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0), tokens.shape[1])
        if self.segments is not None:
            x = x + self.segments(segments)
        return self.blocks(self.dropout(self.embedding_norm(x)), mask)

    def segments_of(self, tokens: Tensor) -> Tensor:
        """Segment of each token, `(batch, length)`: the number of end tokens before it, at most num_segments - 1.

        With a double separator, every token after the first end token is in segment 1.
        """
        ends = (tokens == self.config.end_token).long()
        last_segment = max(0, self.config.num_segments - 1)
        return (ends.cumsum(1) - ends).clamp_max(min(last_segment, 1) if self.config.double_separator else last_segment)

    def last(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The start token's state after the pooling layer, `(batch, d_model)`."""
        return self.pooled(hidden[:, 0])

    def pooled(self, vector: Tensor) -> Tensor:
        if self.pooler is None:
            return vector
        pooled = self.pooler(vector)
        return torch.tanh(pooled) if self.config.pooler == "tanh" else torch.relu(pooled)

    def without_last(self) -> None:
        if self.pooler is not None:
            self.pooler.requires_grad_(False)


def initialise(module: nn.Module, d_model: int = _WIDTH) -> None:
    """Initialise linear layers and embeddings as BERT does, with zero biases; for `module.apply`.

    BERT's standard deviation of 0.02 is for a width of 768. At other widths it is scaled by sqrt(768 / d_model), which
    keeps the scale of a layer's output: with 0.02, attention would add a third of its residual input at width 768, but
    only a twentieth at width 128.
    """
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=_DEVIATION * math.sqrt(_WIDTH / d_model))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=_DEVIATION)


def match(attention: MultiHeadAttention, count: int) -> None:
    """Give queries and keys of the first `count` heads the same weights, so that equal vectors have the largest scores.

    Raises:
        ConfigError: `count` exceeds the number of heads.

    Source: Trockman and Kolter 2023, Mimetic Initialization of Self-Attention Layers (arXiv:2305.09828), section 4.
    Differs from the paper: orthogonal rows without noise, in some heads of one block only; values are unchanged.
    """
    if count > attention.num_heads:
        raise ConfigError(
            f"model.matching_heads is {count}, but model.num_heads is {attention.num_heads}; reduce matching_heads"
        )
    width = attention.w_query.out_features // attention.num_heads
    rows = count * width
    if rows:
        weights = torch.empty(rows, attention.w_query.in_features, device=attention.w_query.weight.device)
        nn.init.orthogonal_(weights, gain=math.sqrt(_MATCH / math.sqrt(width)))
        with torch.no_grad():
            attention.w_query.weight[:rows] = weights
            attention.w_key.weight[:rows] = weights
