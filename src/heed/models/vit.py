"""Vision Transformer (ViT): a Transformer encoder over the patches of a picture. Dosovitskiy et al. 2021.

| here | paper | notes | meaning |
|---|---|---|---|
| patches | x_p | d1 d2 d3 | squares of the picture, each flattened to a vector |
| embedding | E | the shared linear layer | linear layer, the same for every patch |
| class token | x_class | class token | learned vector before the patches, whose last state represents the picture |
| distillation token | - | - | a second one, of a DeiT: a head of its own learned the labels of a teacher |
| positions | E_pos | positions | learned vector for each position, or fixed sinusoids of row and column |
| encoder map | A (appendix D.7) | - | row i: attention of token i; row 0 is the class token's |
| result | y | - | the class token's last state, or the mean of all states |

    x = [class token ; E patch_1 + b ; E patch_2 + b ; ...] + P
    block   x = x + MultiHead(norm(x), norm(x)); x = x + W_2 gelu(W_1 norm(x) + b_1) + b_2
    y       norm(x)[0], or without a class token the mean of norm(x)

Patches overlap if the stride is smaller than the patch size. The stem `conv` replaces the patches: 3 x 3 convolutions
with a stride of 2 halve the picture until a position covers `patch_size` pixels (Xiao et al. 2021, arXiv:2106.14881,
section 4: channels double up to d_model, batch normalisation and relu after each, then a 1 x 1 convolution).

Initial weights as in the authors' code: Glorot uniform for the matrices of the blocks; normal with a standard deviation
of 1 / sqrt(fan_in) for the embedding and 0.02 for positions; zero for the class token and biases (in the authors' code,
biases of the feed-forward layers are normal with a standard deviation of 1e-6). Dropout after the positions, inside the
feed-forward layers and on each sublayer's output; as in that code, `attention_dropout` is 0 by default.

Source: arXiv:2010.11929, section 3.1, equations 1 to 4, appendices B and D.3 (mean); docs/systems.md, C9.
Differs from the paper: no tanh layer before the head in pretraining; the stem is Xiao et al.'s, not a ResNet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from heed.errors import ConfigError, ShapeError
from heed.kernels import Linear
from heed.layers import Dropout, LayerNorm, LearnedPositions
from heed.layers.elementwise import GELU
from heed.layers.grid import Grid, GridPositions, interpolated, patches_of
from heed.layers.transformer import EncoderBlock, EncoderStack, xavier
from heed.models.base import ImageConfig, ImageEncoder, named_sizes

_LEADING = {"class": 1, "distilled": 2, "mean": 0}
"""Number of tokens before the patches, by pooling."""
_DEVIATION = 0.02
"""Initial standard deviation of a class token without a learned position."""


class VitConfig(ImageConfig):
    """Fields of `vit`; ViT-B/16, ViT-L/16 (Dosovitskiy et al. 2021), ViT-M (Zhai et al. 2022, arXiv:2106.04560)."""

    patch_size: int = Field(16, gt=0)
    """Side of a patch in pixels."""
    stride: int | None = Field(None, gt=0)
    """Pixels from one patch to the next; below patch_size, patches overlap. Null for patch_size."""
    stem: Literal["none", "conv"] = "none"
    """First layers: a linear layer over patches (none), or convolutions that halve the picture repeatedly (conv)."""
    pooling: Literal["class", "distilled", "mean"] = "class"
    """Vector of a picture: the last state of a class token before the patches; those of a class and a distillation
    token side by side (DeiT, Touvron et al. 2021, arXiv:2012.12877); or the mean of the patch states."""
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """A learned table, fixed sinusoids of row and column, or none, which ignores the order of the patches."""
    d_model: int = Field(768, gt=0)
    """Width of embeddings and blocks."""
    num_heads: int = Field(12, gt=0)
    """Attention heads of each block; must divide d_model."""
    num_layers: int = Field(12, gt=0)
    """Number of blocks."""
    d_ff: int = Field(3072, gt=0)
    """Inner width of the feed-forward layers."""
    norm_eps: float = Field(1e-6, gt=0)
    """Epsilon that layer normalisation adds to the variance."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability after the positions and after every linear layer of a block except those of query, key and
    value."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of attention weights."""

    sizes = named_sizes(
        tiny=dict(patch_size=4, d_model=64, num_heads=4, num_layers=6, d_ff=128),
        small=dict(patch_size=4, d_model=128, num_heads=4, num_layers=6, d_ff=512),
        medium=dict(d_model=512, num_heads=8, num_layers=12, d_ff=2048),
        large=dict(d_model=1024, num_heads=16, num_layers=24, d_ff=4096),
    )


class Vit(ImageEncoder):
    """A stack of pre-norm encoder blocks over the patches of a picture.

    Attributes:
        grid: Numbers of rows and columns of patches.
        leading: Number of tokens before the patches, which follow row by row: class token, distillation token.
    """

    config_class = VitConfig
    summary = "Transformer encoder over patches"
    paper = "Dosovitskiy et al. 2021"
    config: VitConfig

    def __init__(self, config: VitConfig) -> None:
        super().__init__(config)
        c = config
        self.grid = grid_of(c)
        self.leading = _LEADING[c.pooling]
        num_places = self.grid[0] * self.grid[1] + self.leading
        self.stem = Stem(c.num_channels, c.d_model, c.patch_size) if c.stem == "conv" else None
        self.embedding = None if self.stem is not None else Linear(c.num_channels * c.patch_size**2, c.d_model)
        self.class_vector = nn.Parameter(torch.zeros(c.d_model)) if self.leading else None
        self.distillation_vector = nn.Parameter(torch.zeros(c.d_model)) if self.leading > 1 else None
        self.positions: nn.Module | None = None
        if c.positions == "learned":
            self.positions = LearnedPositions(num_places, c.d_model)
        elif c.positions == "sinusoidal":
            self.positions = GridPositions(self.grid, c.d_model, leading=self.leading)
        self.dropout = Dropout(c.dropout)
        norm = partial(LayerNorm, eps=c.norm_eps)
        self.blocks = EncoderStack(
            EncoderBlock(
                c.d_model,
                c.num_heads,
                c.d_ff,
                dropout=c.dropout,
                attention_dropout=c.attention_dropout,
                norm="pre",
                activation=GELU,
                norm_layer=norm,
                layer=i,
            )
            for i in range(c.num_layers)
        )
        self.norm = norm(c.d_model)
        self.d_output = c.d_model * max(1, self.leading)
        self.blocks.apply(xavier)
        if self.embedding is not None:
            nn.init.normal_(self.embedding.weight, std=self.embedding.in_features**-0.5)
            nn.init.zeros_(self.embedding.bias)
        for vector in (self.class_vector, self.distillation_vector):
            if vector is not None and c.positions != "learned":
                # Zero, as in the authors' code, needs a non-zero position: layer normalisation multiplies the gradient
                # of a zero vector by 1 / sqrt(eps).
                nn.init.normal_(vector, std=_DEVIATION)

    def forward(self, pixels: Tensor) -> Tensor:
        """Pictures `(batch, num_channels, height, width)` to one vector each, `(batch, d_output)`.

        Raises:
            ShapeError: The size or the number of channels differs from the configuration's.
        """
        return self.read(self.norm(self.blocks(self._tokens(pixels), only_first=self.leading == 1)))

    def read(self, states: Tensor) -> Tensor:
        """The picture's vector `(batch, d_output)` from normalised states of tokens `(batch, tokens, d_model)`."""
        return states[:, : self.leading].flatten(1) if self.leading else states.mean(1)

    def states(self, pixels: Tensor) -> Tensor:
        """The normalised last state of each token, `(batch, tokens, d_model)`, with the class token first."""
        return self.norm(self.blocks(self._tokens(pixels)))

    def _tokens(self, pixels: Tensor) -> Tensor:
        """Input of the first block, `(batch, tokens, d_model)`."""
        x = self._embed(pixels)
        vectors = self.class_vector, self.distillation_vector
        first = [vector.expand(len(x), 1, -1) for vector in vectors if vector is not None]
        x = torch.cat([*first, x], dim=1) if first else x
        if self.positions is not None:
            x = x + self._positions()
        return self.observe_tensor("placed", self.dropout(x))

    def features(self, pixels: Tensor) -> Tensor:
        """The last states of the patches on their grid, `(batch, d_model, rows, columns)`."""
        states = self.states(pixels)[:, self.leading :].transpose(1, 2)
        return states.reshape(len(states), self.config.d_model, *self.grid)

    @classmethod
    def adapted(cls, tensors: Mapping[str, Tensor], old: VitConfig, new: VitConfig) -> dict[str, Tensor]:
        """Interpolate learned positions to another grid; drop those of leading tokens that the new model lacks.

        Source: arXiv:2010.11929, section 3.2.
        """
        name, had, has = "positions.table.weight", _LEADING[old.pooling], _LEADING[new.pooling]
        if name not in tensors or new.positions != "learned" or has > had:
            return {**tensors}
        table = interpolated(tensors[name], grid_of(old), grid_of(new))
        return {**tensors, name: torch.cat([table[:has], table[had:]])}

    def _embed(self, pixels: Tensor) -> Tensor:
        """One vector per patch, `(batch, patches, d_model)`."""
        c = self.config
        expected, shape = (c.num_channels, c.height, c.width), tuple(pixels.shape[1:])
        if shape != expected:
            raise ShapeError(f"pixels have shape {shape} (channels, height, width), expected {expected}")
        if self.stem is not None:
            embedded: Tensor = self.stem(pixels).flatten(2).transpose(1, 2)
            return embedded
        assert self.embedding is not None
        return self.embedding(patches_of(pixels, c.patch_size, c.stride or c.patch_size))

    def _positions(self) -> Tensor:
        """One position vector per token, `(tokens, d_model)`."""
        if isinstance(self.positions, LearnedPositions):
            return self.positions.table.weight
        assert self.positions is not None
        return self.positions()  # type: ignore[no-any-return]


class Stem(nn.Sequential):
    """3 x 3 convolutions with a stride of 2, whose channels double up to `d_model`, then a 1 x 1 convolution.

    `(batch, num_channels, height, width)` to `(batch, d_model, rows, columns)`.
    """

    def __init__(self, num_channels: int, d_model: int, patch_size: int) -> None:
        count = patch_size.bit_length() - 1
        widths = [num_channels, *(max(8, d_model >> (count - 1 - i)) for i in range(count))]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        super().__init__(*layers, nn.Conv2d(widths[-1], d_model, 1))
        for layer in self:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


def grid_of(config: VitConfig) -> Grid:
    """Numbers of rows and columns of patches.

    Raises:
        ConfigError: Patches of this size and stride do not cover a picture exactly, or the stem does not support them.
    """
    c, stride = config, config.stride or config.patch_size
    if c.stem == "conv":
        if c.patch_size.bit_count() != 1 or stride != c.patch_size:
            raise ConfigError(
                f"model.stem=conv halves a picture repeatedly, so it needs model.patch_size 1, 2, 4, 8, ... and no "
                f"stride; got patch_size {c.patch_size}" + (f", stride {c.stride}" if stride != c.patch_size else "")
            )
        return math.ceil(c.height / c.patch_size), math.ceil(c.width / c.patch_size)
    if stride > c.patch_size:
        raise ConfigError(
            f"model.stride is {stride}, but model.patch_size is {c.patch_size}: pixels between patches would be lost; "
            f"set model.stride to at most {c.patch_size}"
        )
    sides = {"height": c.height, "width": c.width}
    for side, length in sides.items():
        if length < c.patch_size or (length - c.patch_size) % stride:
            raise ConfigError(
                f"patches of {c.patch_size} x {c.patch_size} pixels (model.patch_size), one every {stride} pixels, do "
                f"not cover a picture of {c.height} x {c.width} pixels exactly ({side} {length}); {_advice(c)}"
            )
    return (c.height - c.patch_size) // stride + 1, (c.width - c.patch_size) // stride + 1


def _advice(config: VitConfig) -> str:
    fitting = [size for size in range(2, 33) if config.height % size == 0 and config.width % size == 0]
    if not fitting:
        return f"no patch size from 2 to 32 does; set data.size to a multiple of {config.patch_size}"
    sizes = ", ".join(map(str, fitting))
    return f"set model.patch_size to one of {sizes}, or data.size to a multiple of {config.patch_size}"
