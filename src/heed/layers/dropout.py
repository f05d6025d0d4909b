"""Dropout whose mask costs little on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from heed.shapes import Float

__all__ = ["Dropout"]


class Dropout(nn.Module):
    """Zero each element with a probability in training and scale the others up, so that the mean stays.

    On a CPU one random byte per element decides, eight of them from one draw: six times as fast, forward and
    backward, as torch's Bernoulli draws, which took a ninth of a Transformer's training step (docs/performance.md), and
    the mask kept for the backward pass has one byte per element. The probability is rounded to a multiple of 1/256.
    Elsewhere torch's own dropout.

    Source: Srivastava et al. 2014, Dropout, JMLR 15.

    Args:
        p: Probability of zero.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """`x` with elements dropped in training, `x` itself otherwise."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return dropout(x, self.p)
        return _ByteDropout.apply(x, self._threshold)  # type: ignore[no-any-return]

    def after_relu(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """`self(relu(x))`; in training on a CPU nothing but the result is kept for the backward pass.

        Where no gradient is wanted, x is overwritten: fresh memory for as much takes longer than the relu.
        """
        if not self.training or self.p == 0 or x.device.type != "cpu":
            return self(relu(x) if torch.is_grad_enabled() else relu(x, inplace=True))  # type: ignore[no-any-return]
        return _ReluDropout.apply(x, self._threshold)  # type: ignore[no-any-return]

    @property
    def _threshold(self) -> int:
        return max(1, min(255, round(self.p * 256)))

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"p={self.p}"


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        keep = _draw(x, threshold)
        ctx.scale = _scale(threshold)
        ctx.save_for_backward(keep)
        return _kept(x, keep, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (keep,) = ctx.saved_tensors
        return _kept(grad_outputs[0], keep, ctx.scale), None


class _ReluDropout(torch.autograd.Function):
    """The result is positive where an element was positive and kept, so that it is its own mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        ctx.scale = _scale(threshold)
        result = _kept(x, _draw(x, threshold), ctx.scale).relu_()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad_outputs[0], result, 0).mul_(ctx.scale), None


def _draw(x: Tensor, threshold: int) -> Tensor:
    """One random byte for each element, at least the threshold or not, `(*shape)`."""
    draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    return (draws.view(torch.uint8)[: x.numel()] >= threshold).view(x.shape)


def _scale(threshold: int) -> float:
    return 256 / (256 - threshold)


def _kept(x: Tensor, keep: Tensor, scale: float) -> Tensor:
    """`x * keep * scale`; as numbers and not as truths, whose conversion takes twenty times as long as the product."""
    return keep.view(torch.uint8).to(x.dtype).mul_(scale).mul_(x)
