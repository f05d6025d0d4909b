"""BERT: an encoder that reads a framed text or a pair of texts, made to be pretrained. Devlin et al. 2019.

| here | paper | notes | what |
|---|---|---|---|
| encoder map | self-attention | C8 | row i: where token i looked |
| start token, end token | [CLS], [SEP] | [CLS], [SEP] | before the text, and after each text |
| state | T_i | - | what is returned for each token |
| `last` | C | p | the state of the start token, through the pooling layer |

    x = norm(E[token] + P[position] + S[segment])       with features f of each token: norm(E + P + S + W f)
    block   x = norm(x + MultiHead(x, x)); x = norm(x + W_2 gelu(W_1 x + b_1) + b_2)
    last    tanh(W_p x[0] + b_p)

A token's segment is the number of end tokens before it, so that of two texts `START a END b END` the first with its end
token is segment 0 and the second segment 1.

Initial weights: normal, biases zero; embeddings with a deviation of 0.02, matrices with 0.02 sqrt(768 / d_model).
Dropout after the embeddings, on attention weights and on each sublayer's output.

Source: Devlin et al. 2019 (arXiv:1810.04805), section 3 and appendix A.2; docs/systems.md, C8. The published
checkpoints add what the paper does not say: the pooling layer, eps 1e-12, and the initial weights.
Differs from the paper: linear layers of other widths than 768 are drawn at another deviation (`initialise`), and the
option `matching_heads`. RoBERTa (arXiv:1907.11692) has one segment, two end tokens between two texts and eps 1e-5;
DistilBERT (arXiv:1910.01108) no segments and a relu in the pooling layer.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.attention import MultiHeadAttention, watch
from heed.errors import ConfigError
from heed.kernels import Linear, trains_packed
from heed.layers import Dropout, LayerNorm, LearnedPositions, TokenInput
from heed.layers.activations import GELU, GELU_TANH, RELU, SILU
from heed.layers.packed import Packed
from heed.layers.transformer import EncoderBlock
from heed.models.base import TokenConfig, TokenEncoder, named_sizes

ACTIVATIONS = {"gelu": GELU, "gelu_tanh": GELU_TANH, "relu": RELU, "silu": SILU}
_DEVIATION, _WIDTH = 0.02, 768
"""Of initial weights, and the width for which it is meant."""
_MATCH = 8.0
"""The score of a vector with itself, where queries and keys match: e^8 outweighs hundreds of other tokens."""
_END = 3
"""`data.tokens.tokenizer.END`, which lies above the models."""


class BertConfig(TokenConfig):
    """Fields of `bert`; the defaults are BERT-base of Devlin et al. 2019."""

    d_model: int = Field(768, gt=0)
    """Width of embeddings and blocks."""
    num_heads: int = Field(12, gt=0)
    """Heads of every attention; must divide d_model."""
    num_layers: int = Field(12, gt=0)
    """Blocks."""
    d_ff: int = Field(3072, gt=0)
    """Inner width of the feed-forward networks."""
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    """Between the layers of the feed-forward networks: gelu (the paper's), its approximation by tanh, relu, or silu."""
    norm_eps: float = Field(1e-12, gt=0)
    """What every layer normalisation adds to the variance."""
    max_length: int = Field(512, gt=0)
    """Positions of the learned table: the longest text or pair that can be read, start and end tokens included."""
    num_segments: int = Field(2, ge=0)
    """Rows of the table of segments; 0 for none."""
    double_separator: bool = False
    """Two end tokens between the texts of a pair (RoBERTa) and not one."""
    pooler: Literal["tanh", "relu", "none"] = "tanh"
    """What follows the layer over the start token's state, from which a text is classified; none for that state itself.
    """
    matching_heads: int = Field(0, ge=0)
    """Heads of the first block that begin by looking at tokens like their own: their queries and keys have the same
    initial weights. Pretraining sets 1 where pairs of texts are learned: whether they share words is then found sooner
    (docs/pretraining.md)."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Probability with which an embedding or a sublayer's output is dropped in training."""
    attention_dropout: float | None = Field(None, ge=0, lt=1)
    """Probability with which an attention weight is dropped in training; null for that of `dropout`. On a CPU 0 is
    faster: torch's fused kernel has no dropout there."""

    sizes = named_sizes(
        tiny=dict(d_model=128, num_heads=2, num_layers=2, d_ff=512),
        small=dict(d_model=256, num_heads=4, num_layers=4, d_ff=1024),
        large=dict(d_model=1024, num_heads=16, num_layers=24, d_ff=4096),
    )


class Bert(TokenEncoder):
    """A stack of post-norm encoder blocks over the embeddings of tokens, positions and segments."""

    config_class = BertConfig
    summary = "Transformer encoder to pretrain"
    paper = "Devlin et al. 2019"
    sees_all = True
    framed = True
    fine_tuned = True
    config: BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        c = config
        norm = partial(LayerNorm, eps=c.norm_eps)
        self.inputs = TokenInput(c.vocab_size, c.d_model, c.d_features, padding_token=None)
        self.join = Linear(c.d_features, c.d_model, bias=False) if c.d_features else None
        self.positions = LearnedPositions(c.max_length, c.d_model)
        self.segments = nn.Embedding(c.num_segments, c.d_model) if c.num_segments else None
        self.embedding_norm = norm(c.d_model)
        self.dropout = Dropout(c.dropout)
        self.blocks = nn.ModuleList(
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
        """States of each token, `(batch, length, d_model)`.

        Args:
            tokens: `(batch, length)`, framed (`data.batch.framed`).
            mask: As `TokenEncoder.forward`.
            features: As there.
            segments: `(batch, length)`, the segment of each token; None for what follows from the tokens.

        Raises:
            ShapeError: A text is longer than the table of positions.
        """
        if self.segments is not None and segments is None:
            segments = self.segments_of(tokens)
        places = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        if self._packs(mask):
            packed = Packed.of(mask)
            others = (None if part is None else packed.line(part) for part in (features, segments))
            x = self._embed(packed.line(tokens), packed.line(places), *others).squeeze(0)
            for block in self.blocks:
                assert isinstance(block, EncoderBlock)
                x = block.packed(x, packed.groups)
            return packed.padded(x)
        x = self._embed(tokens, places[:1], features, segments)
        allowed = None if mask.all() else mask
        for block in self.blocks:
            x = self.observe_tensor("states", block(x, allowed))
        return x

    def _packs(self, mask: Tensor) -> bool:
        """Whether the texts are laid end to end without padding: in training on a CPU, unless somebody watches."""
        if not self.training or watch.slot is not None or not trains_packed(self.positions.table.weight):
            return False
        return all(isinstance(b, EncoderBlock) and b.can_pack for b in self.blocks) and bool(mask.any())

    def _embed(self, tokens: Tensor, places: Tensor, features: Tensor | None, segments: Tensor | None) -> Tensor:
        """Tokens `(batch, length)` at positions `places` to vectors."""
        x = self.inputs(tokens, features)  # (B, T, d_model + d_features)
        if self.join is not None:
            x = x[..., : self.d_output] + self.join(x[..., self.d_output :])
        x = x + self.positions(places)
        if self.segments is not None:
            x = x + self.segments(segments)
        return self.dropout(self.embedding_norm(x))  # type: ignore[no-any-return]

    def segments_of(self, tokens: Tensor) -> Tensor:
        """The segment of each token: the number of end tokens before it, at most that of the last segment.

        With a double separator it is 1 after the first end token.
        """
        ends = (tokens == _END).long()
        most = max(0, self.config.num_segments - 1)
        return (ends.cumsum(1) - ends).clamp_max(min(most, 1) if self.config.double_separator else most)

    def last(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The state of the start token through the pooling layer, `(batch, d_model)`."""
        return self.pooled(hidden[:, 0])

    def pooled(self, vector: Tensor) -> Tensor:
        """One vector per text through the pooling layer, `(batch, d_model)`."""
        if self.pooler is None:
            return vector
        pooled = self.pooler(vector)
        return torch.tanh(pooled) if self.config.pooler == "tanh" else torch.relu(pooled)

    def without_last(self) -> None:
        """Stop training the pooling layer."""
        if self.pooler is not None:
            self.pooler.requires_grad_(False)


def initialise(module: nn.Module, d_model: int = _WIDTH) -> None:
    """Draw the weights of linear layers and tables as BERT does, and set biases to zero; for `module.apply`.

    BERT's deviation of 0.02 is for a width of 768. Linear layers of another width are drawn so that what passes them
    is scaled alike: with 0.02 the attention of a block 128 wide would add a twentieth of what it is added to, and of
    one 768 wide a third.
    """
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=_DEVIATION * math.sqrt(_WIDTH / d_model))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=_DEVIATION)


def match(attention: MultiHeadAttention, count: int) -> None:
    """Give the queries and keys of the first heads the same weights, so that a score is largest for equal vectors.

    Raises:
        ConfigError: There are not so many heads.

    Source: Trockman and Kolter 2023, Mimetic Initialization of Self-Attention Layers (arXiv:2305.09828), section 4.
    Differs from the paper: orthogonal rows without noise, in some heads of one block only; values are left alone.
    """
    if count > attention.num_heads:
        raise ConfigError(f"model.matching_heads is {count}, but there are {attention.num_heads} heads")
    width = attention.w_query.out_features // attention.num_heads
    rows = count * width
    if rows:
        weights = torch.empty(rows, attention.w_query.in_features, device=attention.w_query.weight.device)
        nn.init.orthogonal_(weights, gain=math.sqrt(_MATCH / math.sqrt(width)))
        with torch.no_grad():
            attention.w_query.weight[:rows] = weights
            attention.w_key.weight[:rows] = weights
