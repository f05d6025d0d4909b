"""Residual network (ResNet). He et al. 2016.

| here | paper | meaning |
|---|---|---|
| residual | F(x) | two 3 x 3 convolutions (basic), or 1 x 1, 3 x 3 and 1 x 1 (bottleneck) |
| shortcut | W_s x, or x | the input; where shapes differ, a projection (option B) or zero padding (option A) |

    block   x = relu(shortcut(x) + F(x)); every convolution followed by batch normalisation, relu between them
    y       the mean of the last feature map

    cifar       stem 3 x 3 with 16 filters; stages of 16, 32, 64 filters with n basic blocks each: depth 6n + 2; padding
    imagenet    stem 7 x 7 with 64 filters and stride 2, 3 x 3 max pooling with stride 2; stages of 64, 128, 256, 512
                filters of basic blocks (depth 18, 34) or bottlenecks with 4 times as many output channels (50, 101,
                152); projection

The first block of every stage except the first has a stride of 2.

Initial weights: convolutions normal with a standard deviation of sqrt(2 / (filters * kernel^2)) (He et al. 2015,
arXiv:1502.01852); batch normalisation scale 1 and shift 0.

Source: He et al. 2016 (arXiv:1512.03385), equations 1 and 2, table 1, sections 3.3, 4.1 and 4.2.
Differs from the paper: the stride of a bottleneck is in its 3 x 3 convolution, as in torchvision and `transformers`;
the options `stem` and `dropout`.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from heed.layers import Dropout
from heed.layers.grid import ReceptiveField
from heed.models.base import ImageConfig, ImageEncoder, named_sizes

_IMAGENET = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Number of blocks in each stage, by depth: table 1 of the paper."""
_FIRST_BOTTLENECK = 50
_EXPANSION = 4
"""Output channels of a bottleneck divided by those of its inner convolutions."""


class ResNetConfig(ImageConfig):
    """Fields of `resnet`; the defaults are ResNet-50 of He et al. 2016."""

    form: Literal["imagenet", "cifar"] = "imagenet"
    """The paper's architecture for ImageNet (four stages) or for CIFAR-10 (three narrow stages)."""
    depth: int = Field(50, gt=0)
    """Number of layers with weights, including the task's output layer: 18, 34, 50, 101 or 152 for imagenet, 6n + 2 for
    cifar (8, 14, 20, 32, 44, 56, 110)."""
    num_filters: int | None = Field(None, gt=0)
    """Number of filters in the first stage, doubled at each further stage; null for the paper's 64 (imagenet) or 16
    (cifar)."""
    stem: Literal["auto", "large", "small"] = "auto"
    """First layers: large is a 7 x 7 convolution and max pooling, with stride 2 each; small is a 3 x 3 convolution, for
    small pictures; auto is large for imagenet and small for cifar."""
    shortcut: Literal["auto", "projection", "padding"] = "auto"
    """Shortcut at the beginning of a stage: a 1 x 1 convolution (projection), or every second pixel and zeros for the
    new channels (padding, without parameters); auto is projection for imagenet and padding for cifar."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the picture vector."""

    sizes = named_sizes(
        tiny=dict(form="cifar", depth=8),
        small=dict(form="cifar", depth=20),
        large=dict(depth=101),
    )

    @model_validator(mode="after")
    def _is_a_depth(self) -> ResNetConfig:
        if self.form == "imagenet" and self.depth not in _IMAGENET:
            depths = ", ".join(map(str, _IMAGENET))
            raise ValueError(f"model.depth is {self.depth}, but must be one of {depths} for model.form=imagenet")
        if self.form == "cifar" and (self.depth < 8 or (self.depth - 2) % 6):
            raise ValueError(
                f"model.depth is {self.depth}, but must be 6n + 2 for model.form=cifar: 8, 14, 20, 26, 32, ..."
            )
        return self

    @property
    def blocks(self) -> tuple[int, ...]:
        """Number of blocks in each stage."""
        return _IMAGENET[self.depth] if self.form == "imagenet" else ((self.depth - 2) // 6,) * 3

    @property
    def bottleneck(self) -> bool:
        """Whether blocks have three convolutions, not two."""
        return self.form == "imagenet" and self.depth >= _FIRST_BOTTLENECK


class ResNet(ImageEncoder):
    """A stem, stages of residual blocks, and the mean of the last feature map."""

    config_class = ResNetConfig
    summary = "residual network"
    paper = "He et al. 2016"
    config: ResNetConfig

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__(config)
        c, imagenet = config, config.form == "imagenet"
        width = c.num_filters or (64 if imagenet else 16)
        large = imagenet if c.stem == "auto" else c.stem == "large"
        padding = (c.shortcut == "padding") if c.shortcut != "auto" else not imagenet
        block = Bottleneck if c.bottleneck else BasicBlock

        self.stem = Unit(c.num_channels, width, 7 if large else 3, stride=2 if large else 1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if large else None
        stages: list[nn.Module] = []
        d_in = width
        for i, count in enumerate(c.blocks):
            d_out = (width << i) * block.expansion
            first = block(d_in, d_out, 1 if i == 0 else 2, padding)
            stages.append(nn.Sequential(first, *(block(d_out, d_out, 1, padding) for _ in range(count - 1))))
            d_in = d_out
        self.stages = nn.ModuleList(stages)
        self.dropout = Dropout(c.dropout)
        self.d_output = d_in
        self.apply(_initialise)
        self.receptive = ReceptiveField.of(
            layer
            for part in (self.stem, self.pool, *(unit for stage in self.stages for unit in _path(stage)))
            if part is not None
            for layer in [_shape(part)]
        )

    def forward(self, pixels: Tensor) -> Tensor:
        return self.pooled(self.features(pixels))

    def features(self, pixels: Tensor) -> Tensor:
        x = relu(self.stem(pixels.contiguous(memory_format=torch.channels_last)), inplace=True)
        if self.pool is not None:
            x = self.pool(x)
        for stage in self.stages:
            x = self.observe_tensor("states", stage(x))
        return x

    def pooled(self, features: Tensor) -> Tensor:
        """Feature map `(batch, d_output, rows, columns)` to its mean, `(batch, d_output)`."""
        return self.dropout(features.mean((2, 3)))

    def receptive_field(self) -> int:
        return self.receptive.size


class Unit(nn.Module):
    """A convolution without bias, followed by batch normalisation."""

    def __init__(self, d_in: int, d_out: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(d_in, d_out, kernel, stride, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(d_out)

    def forward(self, x: Tensor) -> Tensor:
        """`(batch, d_in, rows, columns)` to `(batch, d_out, ...)`."""
        return self.norm(self.convolution(x))  # type: ignore[no-any-return]


class Shortcut(nn.Module):
    """Option A, without parameters: every `stride`-th pixel, and zeros for the new channels."""

    def __init__(self, d_in: int, d_out: int, stride: int) -> None:
        super().__init__()
        self.stride, self.missing = stride, d_out - d_in

    def forward(self, x: Tensor) -> Tensor:
        """`(batch, d_in, rows, columns)` to `(batch, d_out, ...)`."""
        return pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.missing))


class Block(nn.Module):
    """`relu(shortcut(x) + F(x))`, where F is the units with relu between them."""

    expansion = 1

    def __init__(self, units: list[Unit], d_in: int, d_out: int, stride: int, padding: bool) -> None:
        super().__init__()
        self.units = nn.ModuleList(units)
        self.shortcut: nn.Module | None = None
        if stride > 1 or d_in != d_out:
            self.shortcut = Shortcut(d_in, d_out, stride) if padding else Unit(d_in, d_out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """`(batch, d_in, rows, columns)` to `(batch, d_out, ...)`."""
        residual = x
        for i, unit in enumerate(self.units):
            residual = unit(residual if i == 0 else relu(residual, inplace=True))
        # In place is safe: batch normalisation saves its input for the backward pass, not its output.
        residual = residual.add_(x if self.shortcut is None else self.shortcut(x))
        return relu(residual, inplace=True)


class BasicBlock(Block):
    """Two 3 x 3 convolutions."""

    def __init__(self, d_in: int, d_out: int, stride: int, padding: bool) -> None:
        super().__init__([Unit(d_in, d_out, 3, stride), Unit(d_out, d_out, 3)], d_in, d_out, stride, padding)


class Bottleneck(Block):
    """A 1 x 1 convolution to a quarter of the output channels, a 3 x 3 one, and a 1 x 1 one to all of them."""

    expansion = _EXPANSION

    def __init__(self, d_in: int, d_out: int, stride: int, padding: bool) -> None:
        d = d_out // _EXPANSION
        super().__init__([Unit(d_in, d, 1), Unit(d, d, 3, stride), Unit(d, d_out, 1)], d_in, d_out, stride, padding)


def _path(stage: nn.Module) -> list[nn.Module]:
    """The convolutions of a stage's blocks, in order."""
    assert isinstance(stage, nn.Sequential)
    return [unit for block in stage if isinstance(block, Block) for unit in block.units]


def _shape(part: nn.Module) -> tuple[int, int, int]:
    """Kernel size, stride and padding."""
    if isinstance(part, Unit):
        convolution = part.convolution
        kernel, stride = convolution.kernel_size[0], convolution.stride[0]
        return kernel, stride, kernel // 2
    return 3, 2, 1  # the max pooling of a large stem


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
