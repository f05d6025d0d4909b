"""The loss over a vocabulary, in pieces: never more than one piece of the logits exists at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

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
        start, piece = 0, 1  # the first position tells the size of the vocabulary
        while start < len(hidden):
            part = hidden[start : start + piece].detach()
            with torch.set_grad_enabled(wanted):
                part.requires_grad_(wanted)
                logits = output(part)
                loss = cross_entropy(
                    logits.float(),
                    targets[start : start + piece],
                    reduction="sum",
                    label_smoothing=label_smoothing,
                )
            if d_hidden is not None:
                d_part, *d_piece = torch.autograd.grad(loss, [part, *parameters])
                d_hidden[start : start + piece] = d_part
                for accumulated, d in zip(d_parameters, d_piece, strict=True):
                    accumulated += d
            total += loss.detach()
            start += len(part)
            piece = max(1, piece_bytes // (4 * logits.shape[-1]))
        if wanted:
            ctx.save_for_backward(d_hidden, *d_parameters)
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        d_hidden, *d_parameters = ctx.saved_tensors
        scale = grad_outputs[0]
        return d_hidden * scale, None, None, None, None, *(d * scale for d in d_parameters)
