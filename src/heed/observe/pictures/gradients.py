"""Gradient maps: how much the score of a class depends on each place of a picture.

They need no attention, so they can compare a convolutional network with a Vision Transformer on one picture.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def saliency(score: Callable[[Tensor], Tensor], pixels: Tensor) -> Tensor:
    """The absolute gradient of a class's score with respect to each pixel, maximum over the channels.

    Args:
        score: Maps pictures `(1, channels, height, width)` to the score `(1,)` of one class, before the softmax.
        pixels: `(1, channels, height, width)`, normalised.

    Returns:
        `(height, width)`, 0 and above.

    Source: Simonyan et al. 2014 (arXiv:1312.6034), section 3.1.
    """
    with torch.enable_grad():
        leaf = pixels.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(score(leaf).sum(), leaf)
    return gradient[0].abs().amax(0)


def class_activation(states: Tensor, gradient: Tensor) -> Tensor:
    """Grad-CAM: relu of the sum over k of a_k A^k, with a_k the mean over places of the gradient of the score for A^k.

    Args:
        states: `(d, rows, columns)`, the feature maps A^k.
        gradient: `(d, rows, columns)`, of the class's score, before the softmax, with respect to them.

    Returns:
        `(rows, columns)`, 0 and above.

    Source: Selvaraju et al. 2017 (arXiv:1610.02391), equations 1 and 2.
    """
    return torch.einsum("d,drc->rc", gradient.mean((1, 2)), states).clamp_min(0)


def smoothed(grid: Tensor, height: int, width: int) -> Tensor:
    """A grid `(rows, columns)` interpolated bilinearly to `height x width` pixels, as Grad-CAM is usually shown."""
    return interpolate(grid[None, None].float(), (height, width), mode="bilinear", align_corners=False)[0, 0]
