"""Sizing and normalisation: pictures of any size and shape as arrays of one size, with mean 0 and deviation 1.

| crop | part that the model sees |
|---|---|
| centre | the largest centred part of the model's shape, scaled |
| pad | the whole picture, scaled, centred between black borders |
| squash | the whole picture, scaled to the model's shape without keeping proportions |

Normalisation is of each channel over the training pictures: value = (pixel / 255 - mean) / deviation
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from heed.data.pictures.decode import Array, Decoded, Levels, eight_bits, with_channels
from heed.errors import DataError

Crop = Literal["centre", "pad", "squash"]
Resample = Literal["nearest", "bilinear", "bicubic", "lanczos"]

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_SMALLEST, _LARGEST, _STEP = 32, 224, 16
"""Range and step in pixels of sizes chosen for pictures of several sizes; multiples of the step fit patches."""


class Box(NamedTuple):
    """A part of a picture, in pixels from its upper left corner; it extends beyond a padded picture.

    The model's pixel in row y and column x covers rows from `top + y * (bottom - top) / height` and columns from
    `left + x * (right - left) / width`, where height and width are the model's.
    """

    top: float
    left: float
    bottom: float
    right: float


@dataclass(frozen=True)
class Sizing:
    """Scaling and cropping of pictures to one size; `crop` is explained in the module docstring."""

    height: int  # pixels from top to bottom
    width: int  # pixels from left to right
    channels: int  # 1 for grey, 3 for red, green and blue
    crop: Crop = "centre"  # treatment of pictures of another shape
    resample: Resample = "bilinear"  # Pillow's filter for scaling, with smoothing when a picture becomes smaller
    # With crop centre, the shorter side is scaled to this number of pixels and the model's size is cut out of the
    # middle (for checkpoints that were evaluated with a margin); with crop squash, both sides are scaled to it first.
    # By default the cut is as large as possible
    shorter: int | None = None
    levels: Levels | None = None  # of pictures with more than 8 bits a value: over all training pictures

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        return self.height, self.width, self.channels

    def apply(self, picture: Decoded) -> Array:
        """A decoded picture as `(height, width, channels)`; unchanged if it has that shape and 8 bits a value."""
        picture = with_channels(eight_bits(picture, self.levels), self.channels)
        if picture.shape == self.shape and self.shorter is None:
            return picture
        image = Image.fromarray(np.ascontiguousarray(picture[:, :, 0] if self.channels == 1 else picture))
        return np.asarray(self._sized(image), dtype=np.uint8).reshape(self.shape)

    def placed(self, original_size: tuple[int, int]) -> Box:
        """The part of an original of this height and width that the model sees."""
        height, width = original_size
        if self.crop == "centre" and self.shorter is None:
            return self._centre(height, width)
        top, left, inner_height, inner_width = self._inside(height, width)
        down, across = height / inner_height, width / inner_width  # pixels of the original for one of the result
        return Box(-top * down, -left * across, (self.height - top) * down, (self.width - left) * across)

    def _sized(self, image: Image.Image) -> Image.Image:
        resample = _FILTERS[self.resample]
        if self.crop == "centre" and self.shorter is None:
            top, left, bottom, right = self._centre(image.height, image.width)
            return image.resize((self.width, self.height), resample, (left, top, right, bottom))
        top, left, inner_height, inner_width = self._inside(image.height, image.width)
        scaled = image.resize((inner_width, inner_height), resample)
        if (top, left, inner_height, inner_width) == (0, 0, self.height, self.width):
            return scaled
        whole = Image.new(image.mode, (self.width, self.height))  # black
        whole.paste(scaled, (left, top))
        return whole

    def _centre(self, height: int, width: int) -> Box:
        """The largest centred box of the model's shape."""
        scale = min(height / self.height, width / self.width)
        inner_height, inner_width = self.height * scale, self.width * scale
        top, left = (height - inner_height) / 2, (width - inner_width) / 2
        return Box(top, left, min(top + inner_height, height), min(left + inner_width, width))

    def _inside(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Row and column in the result at which the scaled original begins (negative if it is cut), and its size."""
        if self.crop == "squash":
            inner_height, inner_width = (self.height, self.width) if self.shorter is None else (self.shorter,) * 2
            return -((inner_height - self.height) // 2), -((inner_width - self.width) // 2), inner_height, inner_width
        if self.crop == "pad":
            scale = min(self.height / height, self.width / width)
            inner_height, inner_width = (max(1, round(side * scale)) for side in (height, width))
            return (self.height - inner_height) // 2, (self.width - inner_width) // 2, inner_height, inner_width
        assert self.shorter is not None
        shorter, longer = sorted((height, width))
        other = max(1, int(self.shorter * longer / shorter))  # rounded down, as in torchvision and transformers
        inner_height, inner_width = (self.shorter, other) if height <= width else (other, self.shorter)
        return -((inner_height - self.height) // 2), -((inner_width - self.width) // 2), inner_height, inner_width


def settled_size(sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Height and width chosen for pictures of these heights and widths, if the user gives none.

    Their own if all have the same size, of at most 224 pixels a side. Otherwise a square: the median of their shorter
    sides, rounded down to a multiple of 16, from 32 to 224.

    Raises:
        DataError: There are no pictures.
    """
    if not sizes:
        raise DataError("data.size is 'auto', but there are no pictures to choose a size from; set data.size")
    if len(set(sizes)) == 1 and max(sizes[0]) <= _LARGEST:
        return sizes[0]
    shorter = float(np.median([min(size) for size in sizes]))
    side = min(_LARGEST, max(_SMALLEST, int(shorter) // _STEP * _STEP))
    return side, side


_SIDES = (160, 112, 80, 56, 40, 32)
"""Shorter sides for a short time budget: about half of the pixels each time, and multiples of 8 for patches."""


def smaller_sizes(height: int, width: int) -> list[tuple[int, int]]:
    """A size and smaller ones of about its proportions, the largest first; the sides of smaller ones are 8 n."""
    shorter = min(height, width)
    scaled = [(round(height / shorter * side / 8) * 8, round(width / shorter * side / 8) * 8) for side in _SIDES]
    return [(height, width), *(one for one in scaled if min(one) < shorter)]


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of each channel, with pixel values from 0 to 1; deviation 1 for constant ones."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, parts: Iterable[Array], channels: int) -> Self:
        """From parts `(batch, height, width, channels)`; computed from exact counts, so their order does not matter."""
        counts = np.zeros((channels, 256), dtype=np.int64)
        for part in parts:
            for channel in range(channels):
                counts[channel] += np.bincount(part[..., channel].reshape(-1), minlength=256)
        values = np.arange(256) / 255.0
        total = np.maximum(1, counts.sum(1))
        mean = counts @ values / total
        deviation = np.sqrt(np.maximum(0.0, (counts * (values - mean[:, None]) ** 2).sum(1) / total))
        # A channel with one pixel value is constant, whatever the rounding error of the mean.
        varies = (counts > 0).sum(1) > 1
        return cls(tuple(mean.tolist()), tuple(np.where(varies, deviation, 1.0).tolist()))

    def tensor(self, pictures: Array) -> Tensor:
        """Pictures `(batch, height, width, channels)` as float32 `(batch, channels, height, width)`."""
        scale, shift = self._line
        planes = torch.from_numpy(pictures).permute(0, 3, 1, 2)
        # Takes half the time of other ways to convert bytes to floats and move the channels.
        pixels = torch.empty(planes.shape).copy_(planes)
        return pixels.mul_(scale).add_(shift)

    @cached_property
    def _line(self) -> tuple[Tensor, Tensor]:
        """Factor and summand of a pixel, `(channels, 1, 1)` each."""
        scale = torch.tensor([1.0 / (255.0 * deviation) for deviation in self.deviation])
        shift = torch.tensor([-mean / deviation for mean, deviation in zip(self.mean, self.deviation, strict=True)])
        return scale.view(-1, 1, 1), shift.view(-1, 1, 1)

    def undo(self, pixels: Tensor) -> Array:
        """Inverse of `tensor`, rounded to whole pixel values and clamped to 0 .. 255."""
        mean, deviation = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.deviation))
        values = ((pixels.detach().cpu().float() * deviation + mean) * 255.0).round().clamp(0, 255).to(torch.uint8)
        pictures: Array = values.permute(0, 2, 3, 1).numpy()
        return pictures
