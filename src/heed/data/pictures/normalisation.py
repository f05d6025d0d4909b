"""Normalisation of pictures: mean 0 and deviation 1 of each channel over the training pictures.

value = (pixel / 255 - mean) / deviation
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from heed.data.pictures.decode import Array


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
