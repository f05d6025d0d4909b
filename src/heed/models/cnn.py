"""Convolutional networks: local filters with shared weights, over words (Kim 2014) or pictures (LeCun et al. 1998).

Over words, the maximum of each filter:

| here | paper | meaning |
|---|---|---|
| filters | w of size h k | one bank for each window of h = 3, 4, 5 words |
| found | c_i = f(w . x_{i:i+h-1} + b) | output of a filter at the window that begins at word i, f = relu |
| largest | c^ = max{c} | maximum over the windows of the text ("max over time") |
| vector | z | the maxima of all filters, concatenated |

Windows lie inside the text; a text shorter than a window is padded with zeros to one window.

Source: arXiv:1408.5882, section 2; sizes of section 3.1 (CNN-rand; `model.word_vectors` makes it CNN-non-static,
with `model.train_embeddings=false` CNN-static).
Differs from the paper: no limit on the norm of the output layer's weights.

Over pictures, stages of convolutions and max pooling (`num_filters` has one number per stage):

    stage   x = relu(norm(w * x + b)), `convolutions` times; then the maximum of each `pool_size` x `pool_size` square
    y       the last feature map as one vector (flat), or the mean or maximum of each of its channels

Convolutions are zero-padded and keep the size of the map; with batch normalisation they have no bias.
Initial weights: normal with a standard deviation of sqrt(2 / fan_in) (He et al. 2015, arXiv:1502.01852).

Source: LeCun et al. 1998, Gradient-Based Learning Applied to Document Recognition, section II; stacked small filters:
Simonyan and Zisserman 2015 (arXiv:1409.1556), section 2; batch normalisation: Ioffe and Szegedy 2015
(arXiv:1502.03167); docs/systems.md, A2.
Differs from LeNet-5: relu, max pooling, batch normalisation and our own widths.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad, relu

from heed.attention import watch
from heed.errors import ConfigError
from heed.layers import Dropout, TokenEmbedding, max_pooling
from heed.layers.grid import ReceptiveField
from heed.models.base import ImageConfig, ImageEncoder, TextConfig, TextEncoder, named_sizes


class CNNConfig(TextConfig):
    """Fields of `cnn`; the defaults are the paper's."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings (paper: k)."""
    windows: tuple[int, ...] = Field((3, 4, 5), min_length=1)
    """Window sizes of the filters, in words (paper: h)."""
    num_filters: int = Field(100, gt=0)
    """Number of filters for each window size."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout probability of the text vector."""

    sizes = named_sizes(tiny=dict(d_embedding=64, num_filters=32), small=dict(d_embedding=128, num_filters=64))

    @field_validator("windows")
    @classmethod
    def _whole_windows(cls, windows: tuple[int, ...]) -> tuple[int, ...]:
        if min(windows) < 1 or len(set(windows)) < len(windows):
            raise ValueError(f"model.windows is {list(windows)}, but must be distinct integers of at least 1")
        return windows


class CNN(TextEncoder):
    """Embeddings, one bank of filters per window size, and the maximum of each filter over the text."""

    config_class = CNNConfig
    summary = "convolutions over words"
    paper = "Kim 2014"

    def __init__(self, config: CNNConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        self.filters = nn.ModuleList(nn.Conv1d(c.d_embedding, c.num_filters, width) for width in c.windows)
        self.windows = c.windows
        self.dropout = Dropout(c.dropout)
        self.d_output = c.num_filters * len(c.windows)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Maximum of each filter over the text, `(batch, d_output)`; zeros for a text without tokens."""
        embedded = self.embedding(tokens) * mask.unsqueeze(-1)  # (B, T, d_embedding)
        lengths = mask.sum(1, keepdim=True)
        begins = torch.arange(tokens.shape[1], device=tokens.device)
        largest = []
        for width, bank in zip(self.windows, self.filters, strict=True):
            features = relu(bank(pad(embedded, (0, 0, 0, width - 1)).transpose(1, 2)))
            inside = mask & (begins < (lengths - width + 1).clamp_min(1))  # (B, T)
            features = features.transpose(1, 2)  # (B, T, num_filters)
            if watch.observer.current is not None:
                watch.observer.current.tensor(self, "ngrams", features.masked_fill(~inside.unsqueeze(-1), 0.0))
            largest.append(max_pooling(features, inside))
        return self.dropout(torch.cat(largest, dim=-1))


class ImageCNNConfig(ImageConfig):
    """Fields of `cnn` over pictures; the defaults are our own network of six convolutions."""

    num_filters: tuple[int, ...] = Field((64, 128, 256), min_length=1)
    """Number of filters in each stage."""
    convolutions: int = Field(2, gt=0)
    """Number of convolutions in each stage."""
    kernel_size: int = Field(3, gt=0)
    """Side of a filter, in positions of its input map; odd."""
    pool_size: int = Field(2, gt=0)
    """Side of the max-pooling squares after each stage; 1 for no pooling."""
    norm: Literal["batch", "none"] = "batch"
    """Batch normalisation after each convolution, or none."""
    pooling: Literal["flat", "mean", "max"] = "flat"
    """Vector of a picture: the flattened last map, which keeps positions, or each channel's mean or maximum."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """Dropout probability of the picture vector."""

    sizes = named_sizes(tiny=dict(num_filters=(16, 32), convolutions=1), small=dict(num_filters=(32, 64)))

    @field_validator("num_filters")
    @classmethod
    def _whole_widths(cls, num_filters: tuple[int, ...]) -> tuple[int, ...]:
        if min(num_filters) < 1:
            raise ValueError(f"model.num_filters is {list(num_filters)}, but must be integers of at least 1")
        return num_filters

    @field_validator("kernel_size")
    @classmethod
    def _has_a_middle(cls, kernel_size: int) -> int:
        if kernel_size % 2 == 0:
            raise ValueError(f"model.kernel_size is {kernel_size}, but must be odd, so that a filter has a centre")
        return kernel_size


class ImageCNN(ImageEncoder):
    """Stages of convolutions over a picture, each followed by max pooling."""

    config_class = ImageCNNConfig
    summary = "convolutions over a picture"
    paper = "LeCun et al. 1998"
    config: ImageCNNConfig

    def __init__(self, config: ImageCNNConfig) -> None:
        super().__init__(config)
        c, stages = config, len(config.num_filters)
        rows, columns = (side // c.pool_size**stages for side in (c.height, c.width))
        if not (rows and columns):
            raise ConfigError(
                f"a picture of {c.height} x {c.width} pixels is too small for the {stages} stages of "
                f"model.num_filters, each followed by {c.pool_size} x {c.pool_size} pooling; "
                "use fewer stages, or set model.pool_size=1"
            )
        plain = c.norm == "none"
        layers: list[nn.Module] = []
        shapes: list[tuple[int, int, int]] = []  # kernel, stride, padding
        d_in = c.num_channels
        for d_out in c.num_filters:
            for _ in range(c.convolutions):
                convolution = nn.Conv2d(d_in, d_out, c.kernel_size, padding="same", bias=plain)
                nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
                if convolution.bias is not None:
                    nn.init.zeros_(convolution.bias)
                layers.append(convolution if plain else nn.Sequential(convolution, nn.BatchNorm2d(d_out)))
                d_in = d_out
            shapes += [(c.kernel_size, 1, c.kernel_size // 2)] * c.convolutions + [(c.pool_size, c.pool_size, 0)]
        self.convolutions = nn.ModuleList(layers)
        self.dropout = Dropout(c.dropout)
        self.receptive = ReceptiveField.of(shapes)
        self.d_output = d_in * (rows * columns if c.pooling == "flat" else 1)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.pooled(self.features(pixels))

    def features(self, pixels: Tensor) -> Tensor:
        """The last feature map, after its pooling: `(batch, filters, rows, columns)`."""
        x = pixels.contiguous(memory_format=torch.channels_last)
        for i, convolution in enumerate(self.convolutions, start=1):
            x = relu(convolution(x), inplace=True)
            if i % self.config.convolutions == 0:
                x = self.observe_tensor("states", max_pool2d(x, self.config.pool_size))
        return x

    def pooled(self, features: Tensor) -> Tensor:
        """Feature map `(batch, filters, rows, columns)` to one vector per picture, `(batch, d_output)`."""
        kind = self.config.pooling
        vector = features.flatten(1) if kind == "flat" else features.mean((2, 3))
        return self.dropout(features.amax((2, 3)) if kind == "max" else vector)

    def receptive_field(self) -> int:
        return self.receptive.size
