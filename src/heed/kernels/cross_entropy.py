"""Cross-entropy over a vocabulary, in pieces, so that only one piece of the logits exists at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from heed.kernels.linear import add_outer, linear_into
from heed.kernels.pool import Pool

_LEAST = 1e-30
"""Probabilities from which the logarithm has full precision in float32."""

_GROUP = 16
"""The number of positions of a piece is a multiple of this: products with other numbers of rows copy the logits."""


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, label_smoothing: float, piece_bytes: int
) -> Tensor:
    """Sum over positions of the cross-entropy of `hidden weight' + bias`, in float32.

    The gradients of all three are computed piece by piece during the forward pass, so neither the logits nor their
    gradient is ever held in full.

    Args:
        hidden: `(positions, d)` in float32.
        weight: `(vocab_size, d)`.
        bias: `(vocab_size,)`, or None.
        targets: `(positions,)`, the target tokens.
        label_smoothing: Probability mass spread evenly over the vocabulary (Szegedy et al. 2016, arXiv:1512.00567).
        piece_bytes: Largest size of a piece of logits, in bytes.
    """
    parameters = [weight] if bias is None else [weight, bias]
    layer = _Matrix(weight, bias, label_smoothing, _wants_gradient(hidden, *parameters))
    loss: Tensor = _Piecewise.apply(hidden, layer, targets, piece_bytes, len(weight), *parameters)
    return loss


def layer_cross_entropy(
    hidden: Tensor,
    layer: Callable[[Tensor], Tensor],
    parameters: Sequence[Tensor],
    targets: Tensor,
    label_smoothing: float,
    piece_bytes: int,
    vocab_size: int | None = None,
) -> Tensor:
    """As `linear_cross_entropy`, for any function from states to logits, in any precision, by autograd.

    Args as for `linear_cross_entropy`, and:
        layer: From `(n, d)` to `(n, vocab_size)`.
        parameters: Parameters of `layer` that need gradients.
        vocab_size: If known; otherwise a first piece of one position determines it.
    """
    pieces = _AnyLayer(layer, parameters, label_smoothing, _wants_gradient(hidden, *parameters))
    loss: Tensor = _Piecewise.apply(hidden, pieces, targets, piece_bytes, vocab_size, *parameters)
    return loss


def _wants_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


_memory = Pool()


class _Piecewise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        layer: _Matrix | _AnyLayer,
        targets: Tensor,
        piece_bytes: int,
        vocab_size: int | None,
        *parameters: Tensor,
    ) -> Tensor:
        total = hidden.new_zeros((), dtype=torch.float32)
        d_hidden = torch.empty_like(hidden) if layer.wanted else None
        start, piece = 0, 1 if vocab_size is None else _positions(vocab_size, piece_bytes)
        while start < len(hidden):
            end = min(len(hidden), start + piece)
            logits = layer.forward(hidden[start:end].detach())
            piece = _positions(logits.shape[-1], piece_bytes)
            total += layer.loss(logits, targets[start:end])
            if d_hidden is not None:
                layer.backward(logits, d_hidden[start:end])
            del logits  # so that the next piece can use its memory
            start = end
        if d_hidden is not None:
            ctx.save_for_backward(d_hidden)
            ctx.d_parameters = layer.gradients()  # not saved tensors: independent of the batch size, and freed early
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (d_hidden,) = ctx.saved_tensors
        scale, d_parameters = grad_outputs[0], ctx.d_parameters
        ctx.d_parameters = None  # a second backward pass fails at `saved_tensors` above
        return d_hidden.mul_(scale), None, None, None, None, *(_scaled(d, scale) for d in d_parameters)


def _positions(vocabulary: int, piece_bytes: int) -> int:
    """Number of positions of a piece."""
    count = max(1, piece_bytes // (4 * vocabulary))
    return count - count % _GROUP if count > _GROUP else count


def _scaled(d: Tensor, scale: Tensor) -> Tensor:
    """`d * scale`, contiguous as the parameter is, so that the optimiser needs no copy."""
    if d.is_contiguous():
        return d.mul_(scale)
    return torch.mul(d, scale, out=torch.empty(d.shape, dtype=d.dtype, device=d.device))


def _cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Sum over positions of `lse - (1 - e) z[target]`; `logits (positions, vocabulary)` become `p - (1 - e) onehot`.

    Computed in place: torch's backward of log_softmax alone takes seven times as long as its forward pass on a CPU
    (benchmarks/NOTES.md). The layer adds the rest of label smoothing, `- e / V * sum of z` with the gradient `- e / V`,
    which is the same for all tokens.
    """
    index = targets.unsqueeze(1)
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
    return log_total.sum() - (1.0 - smoothing) * chosen.sum()


def _log_total(largest: Tensor, probabilities: Tensor) -> Tensor:
    """The log-sum-exp of the logits, from the most probable token, whose probability is never too small for a log."""
    return largest - probabilities.amax(1, keepdim=True).log_()


class _Matrix:
    """A linear layer for `_Piecewise`: logits in float32, their loss, then the gradient of the states.

    The gradient is two products, and label smoothing needs no pass over the vocabulary: the sum of a position's logits
    is `h . sum over tokens of w + sum of b`, and its gradient is the same for all tokens. All pieces use the memory of
    the first one, and each product adds directly to the gradient of the weight.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, smoothing: float, wanted: bool) -> None:
        self._weight, self._bias, self.wanted = weight.detach(), None if bias is None else bias.detach(), wanted
        self._uniform = smoothing / len(self._weight)
        self._of_tokens = self._weight.sum(0) * self._uniform if smoothing > 0 else None
        self._logits: Tensor | None = None
        self._d_weight: Tensor | None = None
        self._d_bias = torch.zeros_like(self._weight[:, 0])
        self._seen = torch.zeros_like(self._weight[0])
        self._count = 0

    def forward(self, part: Tensor) -> Tensor:
        self._part = part
        if self._logits is None or len(self._logits) < len(part):
            shape = len(part), len(self._weight)
            self._logits = _memory.take(*shape) if part.device.type == "cpu" else part.new_empty(shape)
        return linear_into(part, self._weight, self._bias, self._logits[: len(part)])

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        total = _cross_entropy(logits, targets, self._uniform * len(self._weight))
        if self._of_tokens is not None:
            self._seen += (states := self._part.sum(0))
            self._count += len(self._part)
            total -= states @ self._of_tokens
            if self._bias is not None:
                total -= self._uniform * len(self._part) * self._bias.sum()
        return total

    def backward(self, d_logits: Tensor, out: Tensor) -> None:
        self._d_weight = add_outer(self._d_weight, d_logits, self._part)
        if self._bias is not None:
            self._d_bias += d_logits.sum(0)
        out.copy_(linear_into(d_logits, self._weight.t(), None, out))
        if self._of_tokens is not None:
            out.sub_(self._of_tokens)

    def gradients(self) -> list[Tensor]:
        if self._logits is not None and self._logits.device.type == "cpu":
            _memory.give(self._logits)
        d_weight = torch.zeros_like(self._weight) if self._d_weight is None else self._d_weight
        if self._of_tokens is not None:
            d_weight.sub_(self._uniform * self._seen)
        return [d_weight] if self._bias is None else [d_weight, self._d_bias.sub_(self._uniform * self._count)]


class _AnyLayer:
    """Any other layer for `_Piecewise`, in any precision, by autograd."""

    def __init__(
        self, layer: Callable[[Tensor], Tensor], parameters: Sequence[Tensor], smoothing: float, wanted: bool
    ) -> None:
        self._layer, self._parameters, self._smoothing, self.wanted = layer, parameters, smoothing, wanted
        self._gradients = [torch.zeros_like(p) for p in self._parameters]

    def forward(self, part: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.wanted):
            self._part = part.requires_grad_(self.wanted)
            self._logits = self._layer(part)
        copied: Tensor = self._logits.detach().to(torch.float32, copy=True)
        return copied

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        uniform = self._smoothing / logits.shape[-1]
        total = -uniform * logits.sum() if uniform > 0 else 0.0
        total = total + _cross_entropy(logits, targets, self._smoothing)
        if uniform > 0:
            logits -= uniform
        return total

    def backward(self, d_logits: Tensor, out: Tensor) -> None:
        wanted = [self._part, *self._parameters]
        d_part, *d_piece = torch.autograd.grad(self._logits, wanted, d_logits.to(self._logits.dtype))
        for accumulated, d in zip(self._gradients, d_piece, strict=True):
            accumulated += d
        out.copy_(d_part)

    def gradients(self) -> list[Tensor]:
        return self._gradients
