"""Cross-entropy over a vocabulary, in pieces, so that only one piece of the logits exists at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_LEAST = 1e-30
"""Probabilities from which the logarithm has full precision in float32."""

_GROUP = 16
"""The number of positions of a piece is a multiple of this: products with other numbers of rows copy the logits."""


def layer_cross_entropy(
    hidden: Tensor,
    layer: Callable[[Tensor], Tensor],
    parameters: Sequence[Tensor],
    targets: Tensor,
    label_smoothing: float,
    piece_bytes: int,
    vocab_size: int | None = None,
) -> Tensor:
    """Sum over positions of the cross-entropy of the logits `layer(hidden)`, in float32.

    The gradients of the states and of the parameters are computed piece by piece during the forward pass, so neither
    the logits nor their gradient is ever held in full.

    Args:
        hidden: `(positions, d)`.
        layer: From `(n, d)` to `(n, vocab_size)`.
        parameters: Parameters of `layer` that need gradients.
        targets: `(positions,)`, the target tokens.
        label_smoothing: Probability mass spread evenly over the vocabulary (Szegedy et al. 2016, arXiv:1512.00567).
        piece_bytes: Largest size of a piece of logits, in bytes.
        vocab_size: If known; otherwise a first piece of one position determines it.
    """
    sizes = label_smoothing, piece_bytes, vocab_size
    loss: Tensor = _Piecewise.apply(hidden, layer, targets, *sizes, torch.is_grad_enabled(), *parameters)
    return loss


class _Piecewise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        layer: Callable[[Tensor], Tensor],
        targets: Tensor,
        smoothing: float,
        piece_bytes: int,
        vocab_size: int | None,
        has_graph: bool,
        *parameters: Tensor,
    ) -> Tensor:
        wanted = has_graph and any(tensor.requires_grad for tensor in (hidden, *parameters))
        total = hidden.new_zeros((), dtype=torch.float32)
        d_hidden, d_parameters = torch.empty_like(hidden), [torch.zeros_like(parameter) for parameter in parameters]
        start, piece = 0, 1 if vocab_size is None else _positions(vocab_size, piece_bytes)
        while start < len(hidden):
            end = min(len(hidden), start + piece)
            with torch.set_grad_enabled(wanted):
                part = hidden[start:end].detach().requires_grad_(wanted)
                output = layer(part)
            logits = output.detach().to(torch.float32, copy=True)
            piece = _positions(logits.shape[-1], piece_bytes)
            total += _cross_entropy(logits, targets[start:end], smoothing)
            if wanted:
                d_part, *d_piece = torch.autograd.grad(output, [part, *parameters], logits.to(output.dtype))
                d_hidden[start:end] = d_part
                for accumulated, d in zip(d_parameters, d_piece, strict=True):
                    accumulated += d
            del logits, output  # so that the next piece can use their memory
            start = end
        if wanted:
            ctx.save_for_backward(d_hidden)
            ctx.d_parameters = d_parameters  # not saved tensors: independent of the batch size, and freed early
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (d_hidden,) = ctx.saved_tensors
        scale, d_parameters = grad_outputs[0], ctx.d_parameters
        ctx.d_parameters = None  # a second backward pass fails at `saved_tensors` above
        return d_hidden.mul_(scale), *[None] * 6, *(d.mul_(scale) for d in d_parameters)


def _positions(vocabulary: int, piece_bytes: int) -> int:
    """Number of positions of a piece."""
    count = max(1, piece_bytes // (4 * vocabulary))
    return count - count % _GROUP if count > _GROUP else count


def _cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Sum over positions of the smoothed cross-entropy; `logits (positions, vocabulary)` become its gradient.

    With smoothing e over V tokens the loss of a position is `lse - (1 - e) z[target] - e / V * sum of z`, its gradient
    `p - (1 - e) onehot - e / V`. Computed in place: torch's backward of log_softmax alone takes seven times as long as
    its forward pass on a CPU.
    """
    index, uniform = targets.unsqueeze(1), smoothing / logits.shape[-1]
    others = uniform * logits.sum() if uniform > 0 else 0.0
    chosen, largest = logits.gather(1, index), logits.amax(1, keepdim=True)
    torch.softmax(logits, dim=1, out=logits)
    if logits.device.type == "cpu":
        probability = logits.gather(1, index)
        log_total = chosen - probability.log()
        if (rare := probability[:, 0] < _LEAST).any():
            log_total[rare] = _log_total(largest[rare], logits[rare])
    else:  # the test above would synchronise with the device, which costs more than a pass over the logits
        log_total = _log_total(largest, logits)
    logits.scatter_add_(1, index, torch.full_like(chosen, smoothing - 1.0))
    if uniform > 0:
        logits -= uniform
    return log_total.sum() - (1.0 - smoothing) * chosen.sum() - others


def _log_total(largest: Tensor, probabilities: Tensor) -> Tensor:
    """The log-sum-exp of the logits, from the most probable token, whose probability is never too small for a log."""
    return largest - probabilities.amax(1, keepdim=True).log_()
