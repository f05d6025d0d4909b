"""The loss over a vocabulary, in pieces: never more than one piece of the logits exists at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["vocabulary_loss"]

PIECE_BYTES = 2**23
"""Logits of one piece: measured fastest between 1 and 32 MiB where memory still stays small (docs/benchmarks.md)."""


def vocabulary_loss(
    hidden: Tensor,
    output: nn.Module,
    targets: Tensor,
    label_smoothing: float = 0.0,
    piece_bytes: int = PIECE_BYTES,
) -> Tensor:
    """Sum over positions of the cross-entropy of the true token.

    `(1 - e) * (-log p[target]) + e * mean over the vocabulary of (-log p)`, e the label smoothing. The gradient with
    respect to hidden states and output layer is computed piece by piece during the forward pass, so neither the
    logits nor their gradient is ever held whole.

    Args:
        hidden: `(positions, d)`, only positions that count (no padding).
        output: The layer from hidden states to logits.
        targets: `(positions,)`, the true tokens.
        label_smoothing: e above, 0 for none (Szegedy et al. 2016, arXiv:1512.00567, section 7).
        piece_bytes: Largest size of one piece of logits, in bytes.

    Returns:
        A scalar in float32, the sum (not the mean) in nats.
    """
    parameters = [p for p in output.parameters() if p.requires_grad]
    loss: Tensor = _PiecewiseLoss.apply(hidden, output, targets, label_smoothing, piece_bytes, *parameters)
    return loss


class _PiecewiseLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        output: nn.Module,
        targets: Tensor,
        label_smoothing: float,
        piece_bytes: int,
        *parameters: Tensor,
    ) -> Tensor:
        total = hidden.new_zeros((), dtype=torch.float32)
        wanted = any(ctx.needs_input_grad)
        d_hidden = torch.zeros_like(hidden) if wanted else None
        d_parameters = [torch.zeros_like(p) for p in parameters] if wanted else []
        make = _Matrix if _is_plain_matrix(output, hidden) else _AnyLayer
        layer = make(output, wanted)
        start, piece = 0, 1  # the first position tells the size of the vocabulary
        while start < len(hidden):
            end = min(len(hidden), start + piece)
            logits = layer.forward(hidden[start:end].detach())
            piece = max(1, piece_bytes // (4 * logits.shape[-1]))
            total += _cross_entropy(logits, targets[start:end], label_smoothing)
            if d_hidden is not None:
                d_hidden[start:end] = layer.backward(logits, d_parameters)
            start = end
        if wanted:
            ctx.save_for_backward(d_hidden, *d_parameters)
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        d_hidden, *d_parameters = ctx.saved_tensors
        scale = grad_outputs[0]
        return d_hidden * scale, None, None, None, None, *(d * scale for d in d_parameters)


def _cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Sum of the losses of some positions; their logits, `(positions, vocabulary)`, become the loss's gradient.

    `p - (1 - e) onehot - e / V`, by hand and in place: torch's backward of log_softmax alone takes seven times its
    forward pass on a CPU, and label smoothing adds two more tensors of this size (docs/performance.md).
    """
    index, size = targets.unsqueeze(1), logits.shape[-1]
    chosen = (1.0 - smoothing) * logits.gather(1, index).sum()
    if smoothing > 0:
        chosen = chosen + smoothing / size * logits.sum()
    largest = logits.amax(1, keepdim=True)
    total = logits.sub_(largest).exp_().sum(1, keepdim=True)
    loss = (total.log() + largest).sum() - chosen
    logits.div_(total)
    if smoothing > 0:
        logits.sub_(smoothing / size)
    logits.scatter_add_(1, index, torch.full_like(largest, smoothing - 1.0))
    return loss


def _is_plain_matrix(output: nn.Module, hidden: Tensor) -> bool:
    """Whether the layer is one matrix in the precision of the states, so that its gradient is two products."""
    if type(output) is not nn.Linear or torch.is_autocast_enabled(hidden.device.type):
        return False
    return hidden.dtype == torch.float32 and all(p.requires_grad for p in output.parameters())


class _Matrix:
    """A linear layer: every piece in one buffer, the gradient of its parameters added up where it belongs."""

    def __init__(self, output: nn.Module, wanted: bool) -> None:
        assert isinstance(output, nn.Linear)
        self._weight, self._bias = output.weight.detach(), None if output.bias is None else output.bias.detach()
        self._buffer: Tensor | None = None
        self._part = self._weight

    def forward(self, part: Tensor) -> Tensor:
        if self._buffer is None or len(self._buffer) < len(part):
            self._buffer = part.new_empty(len(part), len(self._weight))
        self._part, logits = part, self._buffer[: len(part)]
        if self._bias is None:
            return torch.mm(part, self._weight.T, out=logits)
        return torch.addmm(self._bias, part, self._weight.T, out=logits)

    def backward(self, d_logits: Tensor, d_parameters: Sequence[Tensor]) -> Tensor:
        d_parameters[0].addmm_(d_logits.T, self._part)
        if self._bias is not None:
            d_parameters[1].add_(d_logits.sum(0))
        return d_logits @ self._weight


class _AnyLayer:
    """Any other layer, and any precision, by autograd."""

    def __init__(self, output: nn.Module, wanted: bool) -> None:
        self._output, self._wanted = output, wanted
        self._parameters = [p for p in output.parameters() if p.requires_grad]

    def forward(self, part: Tensor) -> Tensor:
        with torch.set_grad_enabled(self._wanted):
            self._part = part.requires_grad_(self._wanted)
            self._logits = self._output(part)
        copied: Tensor = self._logits.detach().to(torch.float32, copy=True)
        return copied

    def backward(self, d_logits: Tensor, d_parameters: Sequence[Tensor]) -> Tensor:
        wanted = [self._part, *self._parameters]
        d_part, *d_piece = torch.autograd.grad(self._logits, wanted, d_logits.to(self._logits.dtype))
        for accumulated, d in zip(d_parameters, d_piece, strict=True):
            accumulated += d
        return d_part
