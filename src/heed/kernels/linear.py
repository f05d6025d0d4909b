"""Products of linear layers, by the library that is faster on the processor; the loss over a vocabulary, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heed.kernels import private
from heed.kernels.private import enabled
from heed.shapes import Bool, Float, Int, ReturnsTensor

_ENOUGH = 1_500_000
"""Multiplications from which the other library pays off despite its slower call; four times as many with a gradient."""

_GROUP, _HALF, _FEW, _MANY = 16, 8, 5, 512
"""A product without a gradient has at most `_FEW` rows, `_HALF`, a multiple of `_GROUP`, or at least `_MANY`."""


def linear(
    x: Float[Tensor, "*shape d_in"], weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, " d_out"] | None = None
) -> Float[Tensor, "*shape d_out"]:
    """`x weight' + bias`, as `torch.nn.functional.linear`; large products and gradients use the faster library."""
    if is_large(x, weight):
        if not torch.is_grad_enabled():
            rows = x.numel() // x.shape[-1]
            group = 1 if rows <= _FEW else _HALF if rows <= _HALF else _GROUP
            if rows < _MANY and (missing := -rows % group):
                # The rows of a search decrease one by one; oneDNN would generate code for each number of rows. A single
                # source keeps few rows, for which padding to 16 takes 1.7 to 6 times as long.
                filled = nn.functional.pad(x.reshape(rows, -1), (0, 0, 0, missing))
                return _product(filled, weight, bias)[:rows].view(*x.shape[:-1], len(weight))
            return _product(x, weight, bias)
        if x.numel() * len(weight) >= 4 * _ENOUGH:
            return _Product.apply(x, weight, bias)  # type: ignore[no-any-return]
    return nn.functional.linear(x, weight, bias)


def is_large(x: Tensor, weight: Tensor) -> bool:
    """Whether a library faster than torch's default is available and the product `x weight'` is large enough for it."""
    return (
        not torch.compiler.is_compiling()  # first: the compiler cannot trace the others
        and x.numel() * weight.shape[0] >= _ENOUGH
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and enabled()
        and private.onednn_linear() is not None
        and not torch.is_autocast_enabled("cpu")
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()  # oneDNN is a thousand times slower on column slices
    operation = private.onednn_linear()
    assert operation is not None
    return operation(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]


class _Product(torch.autograd.Function):
    """The faster library's product; its gradient is two products by `linear`, which can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (d_out,), (x, weight) = grad_outputs, ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        d_x = linear(d_out, weight.t()) if of_x else None
        d_weight = outer(d_out, x) if of_weight else None
        return d_x, d_weight, d_out.flatten(0, -2).sum(0) if of_bias else None


def outer(rows: Float[Tensor, "*n d_out"], columns: Float[Tensor, "*n d_in"]) -> Float[Tensor, "d_out d_in"]:
    """`rows' columns`, summed over all axes but the last: the gradient of a linear layer's weight.

    Uses the faster library, as `linear` does. Of the two orders, the one with the smaller left factor is up to 1.7
    times as fast; the result may be a transposed view.
    """
    rows, columns = rows.flatten(0, -2), columns.flatten(0, -2)
    if rows.shape[1] > columns.shape[1]:
        return linear(columns.t(), rows.t()).t()
    return linear(rows.t(), columns.t())


def linear_into(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """`linear` of a matrix `x`; written to `out` unless the faster library computes it."""
    if x.device.type == "cpu" and private.onednn_linear() is not None:
        return linear(x, weight, bias)
    product = torch.mm(x, weight.t(), out=out)
    # Adding the bias afterwards is faster than `addmm`, which first fills the memory with it.
    return product if bias is None else product.add_(bias)


class Linear(ReturnsTensor, nn.Linear):
    """torch's linear layer, computed by `heed.kernels.linear`."""

    def forward(self, input: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        """`input weight' + bias`."""
        return linear(input, self.weight, self.bias)

    def bind(self) -> Map:
        """This layer as a function of a matrix, without a gradient, whose parameters are looked up once.

        A step of a search for a single row has hundreds of small operations: looking up modules and parameters, and
        calling modules, would take as long as computing. Each layer of a decoder block therefore has a `bind` beside
        its `forward`, and tests compare the two.
        """
        return bound(self.weight, self.bias)


Map = Callable[[Tensor], Tensor]
"""From `(rows, d_in)` to `(rows, d_out)`; the result is a new tensor, which may be changed in place."""


def bound(weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, " d_out"] | None) -> Map:
    """The function of `Linear.bind`."""
    transposed = weight.t()

    def product(x: Tensor) -> Tensor:
        if is_large(x, weight):
            return linear(x, weight, bias)
        result = torch.mm(x, transposed)
        return result if bias is None else result.add_(bias)  # `addmm` would first fill the result

    return product


def joined(layers: Sequence[nn.Linear], scale: float) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of layers over one input merged into one, with the outputs of the first multiplied by `scale`."""
    first, *others = layers
    weight = torch.cat([first.weight * scale, *(layer.weight for layer in others)])
    if first.bias is None:
        return weight, None
    return weight, torch.cat([first.bias * scale, *(layer.bias for layer in others)])


def linear_together(x: Float[Tensor, "*shape d_in"], *layers: nn.Linear) -> tuple[Tensor, ...]:
    """The outputs of linear layers over one input; for a gradient on a GPU, from one product of their stacked weights.

    Under autocast the input is cast once instead of once a layer; on a GPU its gradient is one product, not a sum.
    Stacking copies the weights, which is little beside the product of a whole batch, but not beside one of a few rows.
    """
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    if not stacks(x) or len(biases) not in (0, len(layers)):
        if torch.is_autocast_enabled(x.device.type) and x.dtype == torch.float32:
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return tuple(layer(x) for layer in layers)
    weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat(biases) if biases else None
    together = nn.functional.linear(x, weight, bias)
    return torch.split(together, [layer.out_features for layer in layers], dim=-1)


def stacks(x: Tensor) -> bool:
    """Whether `linear_together` computes one product."""
    return x.device.type == "cuda" and torch.is_grad_enabled() and enabled()


_LEAST = 1e-30
"""Probabilities from which the logarithm has full precision in float32."""

_ALIGNED = 64
"""In 16 bits, rows of logits are padded to a multiple of this: a GPU's products of odd widths are slow."""

_FRESH = 2**25
"""Bytes from which C's allocator takes memory from the system each time, whose first touch is slower than a product."""

PIECE_BYTES = 2**23
"""Bytes of logits in one piece on a CPU: the fastest of 1 to 32 MiB that still needs little memory."""
_FEWEST_POSITIONS = 256
"""Positions of a piece on a CPU, however large the vocabulary: adding a gradient takes as long for one as for many."""
_BYTES_ELSEWHERE = 2**31
"""Bytes of float32 logits in one piece on a GPU, 10,672 positions of 50,304 tokens."""
_MULTIPLE = 16
"""The number of positions of a piece is a multiple of this: products with other numbers of rows copy the logits."""


def piece_positions(vocab_size: int, device: str) -> int:
    """Number of positions whose logits exist at a time, on a type of device."""
    fewest, size = (_FEWEST_POSITIONS, PIECE_BYTES) if device == "cpu" else (_MULTIPLE, _BYTES_ELSEWHERE)
    return max(fewest, size // (4 * vocab_size) // _MULTIPLE * _MULTIPLE)


def vocabulary_loss(
    hidden: Tensor, output: nn.Module, targets: Tensor, label_smoothing: float = 0.0, piece: int | None = None
) -> Tensor:
    """Sum over positions of the cross-entropy of the true token.

    `(1 - e) * (-log p[target]) + e * mean over the vocabulary of (-log p)`, e the label smoothing. With a linear output
    layer it is computed piece by piece, its gradient in the same pass, so that neither the logits of all positions nor
    their gradient ever exist together. Products are in the type of autocast where that is enabled, all else in float32.

    Args:
        hidden: `(positions, d)`, only positions that count (no padding).
        output: The layer from hidden states to logits.
        targets: `(positions,)`, the true tokens.
        label_smoothing: e above, 0 for none (Szegedy et al. 2016, arXiv:1512.00567, section 7).
        piece: Positions of a piece; by default as many as are fast on the device.

    Returns:
        The sum (not the mean) in nats, float32.
    """
    if not (enabled() and isinstance(output, nn.Linear) and type(output) in (nn.Linear, Linear)):
        logits = output(hidden).float()
        return nn.functional.cross_entropy(logits, targets, label_smoothing=label_smoothing, reduction="sum")
    piece = piece or piece_positions(output.out_features, hidden.device.type)
    settings = label_smoothing, piece, torch.is_grad_enabled()
    return _Piecewise.apply(hidden, output.weight, output.bias, targets, *settings)  # type: ignore[no-any-return]


def loss_at(
    real: tuple[Bool[Tensor, "batch length"], int],
    hidden: Float[Tensor, "batch length d"],
    labels: Int[Tensor, "batch length"],
    output: nn.Module,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The vocabulary loss at the real positions of a batch; `real` is their mask and their number.

    The number is given so that a GPU need not be waited for to count them.
    """
    mask, count = real
    places = torch.nonzero_static(mask.flatten(), size=count).squeeze(1)
    at_places = hidden.flatten(0, 1).index_select(0, places), labels.flatten().index_select(0, places)
    return vocabulary_loss(at_places[0], output, at_places[1], label_smoothing)


class _Piecewise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        piece: int,
        has_graph: bool,
    ) -> Tensor:
        (vocab_size, d), device = weight.shape, hidden.device.type
        cast = torch.is_autocast_enabled(device)
        kind = torch.get_autocast_dtype(device) if cast else hidden.dtype
        padding = -vocab_size % _ALIGNED if kind.itemsize == 2 else 0  # rows of zeros, whose logits stay out of the sum
        w = nn.functional.pad(weight.to(kind), (0, 0, 0, padding)) if padding else weight.to(kind)
        b = None if bias is None else nn.functional.pad(bias.to(kind), (0, padding))
        of_hidden, of_weight, of_bias = (has_graph and needed for needed in ctx.needs_input_grad[:3])
        total = hidden.new_zeros((), dtype=torch.float32)
        d_hidden = torch.empty_like(hidden) if of_hidden else None
        d_weight = weight.new_zeros(vocab_size + padding, d) if of_weight else None
        d_bias = torch.zeros_like(bias) if bias is not None and of_bias else None
        memory = hidden.new_empty(min(piece, len(hidden)), vocab_size + padding, dtype=kind)
        with torch.autocast(device, enabled=False):
            for start in range(0, len(hidden), piece):
                part = hidden[start : start + piece].to(kind)
                output = linear_into(part, w, b, memory[: len(part)])
                logits = output[:, :vocab_size].float()
                total += _cross_entropy(logits, targets[start : start + piece], smoothing)
                if logits.dtype != kind:
                    output[:, :vocab_size] = logits  # now the gradient, as in `logits`; that of the padding is zero
                if d_hidden is not None:
                    d_hidden[start : start + piece] = linear(output, w.t())
                if d_weight is not None:
                    _add_outer(d_weight, output, part)
                if d_bias is not None:
                    d_bias += logits.sum(0)
                del logits, output  # so that the next piece can use their memory
        if of_hidden or of_weight or of_bias:
            ctx.save_for_backward(total)
            # Not saved tensors, which would be kept until the end of the backward pass.
            ctx.slopes = d_hidden, None if d_weight is None else d_weight[:vocab_size], d_bias
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        _ = ctx.saved_tensors  # fails in a second backward pass
        slopes, ctx.slopes = ctx.slopes, None
        return *(None if slope is None else slope.mul_(grad_outputs[0]) for slope in slopes), *[None] * 4


def _add_outer(total: Tensor, rows: Tensor, columns: Tensor) -> None:
    """Add `rows' columns` to `total`, without memory for the product where that is as fast."""
    apart = total.device.type == "cpu" and private.onednn_linear() is not None and total.nbytes < _FRESH
    if apart or total.dtype != rows.dtype:
        total += outer(rows, columns)
    else:
        total.addmm_(rows.t(), columns)


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


_RUN = 64
"""Neighbouring tokens that are first represented by their maximum."""
_PIECE = 16 * _RUN
"""Tokens whose logits MKL computes at once."""
_SMALL = 40_000
"""Logits up to which one softmax and one sort are as fast."""


class Best(NamedTuple):
    """The best continuations of each source, best first."""

    totals: Tensor  # `(sources, k)`, log-probability of the whole row with its new token
    rows: Tensor  # `(sources, k)`, index of the continued row within its source
    tokens: Tensor  # `(sources, k)`
    log_probs: Tensor  # `(sources, k)`, log-probability of the new token alone


def best_of(log_probs: Float[Tensor, "rows vocab_size"], totals: Float[Tensor, "sources beams"], k: int) -> Best:
    """The `k` best continuations of each source, or all if fewer; `totals` are the log-probabilities of its rows."""
    (num_sources, beams), vocab_size = totals.shape, log_probs.shape[-1]
    if k == beams == 1:  # a maximum takes a third of the time
        best, tokens = log_probs.max(-1, keepdim=True)
        return Best(totals + best, torch.zeros_like(tokens), tokens, best)
    joint = totals.unsqueeze(-1) + log_probs.view(num_sources, beams, vocab_size)
    best, flat = joint.flatten(1).topk(min(k, beams * vocab_size), dim=-1)
    return Best(best, flat // vocab_size, flat % vocab_size, log_probs.view(num_sources, -1).gather(1, flat))


class LargeVocabulary:
    """The output layer of a search, with memory for its logits.

    A search needs the best continuations of each source. Logits over a vocabulary are its largest tensors: on a CPU,
    allocating them takes longer than computing with them, so their memory is used again. Sorting them takes as long as
    a product; the best `k` tokens lie in the `k` runs of 64 neighbouring tokens with the largest maxima.
    """

    def __init__(self, weight: Float[Tensor, "vocab_size d"], bias: Float[Tensor, " vocab_size"] | None) -> None:
        self._weight, self._bias, self._vocab_size = weight, bias, len(weight)
        self._rows = torch.empty(0, 0)
        self._banned: dict[tuple[int, ...], Tensor] = {}

    def pays(self, num_rows: int, k: int) -> bool:
        """Whether `best` is faster than computing all log-probabilities, and can find `k` tokens."""
        return num_rows * self._vocab_size > _SMALL and k * _RUN <= self._vocab_size

    def best(
        self, hidden: Float[Tensor, "rows d"], banned: tuple[int, ...], totals: Float[Tensor, "sources beams"], k: int
    ) -> Best:
        """As `best_of`, from states `(sources * beams, d)`; banned tokens stay in the softmax but are never chosen."""
        log_probs, runs = self._log_probs_and_runs(hidden, banned)
        (num_sources, beams), num_runs = totals.shape, runs.shape[1]
        joint = (runs.view(num_sources, beams, num_runs) + totals.unsqueeze(-1)).flatten(1)
        chosen = joint.topk(k, dim=-1).indices.unsqueeze(-1)  # (sources, k, 1)
        row = torch.div(chosen, num_runs, rounding_mode="floor")
        tokens = (chosen - row * num_runs) * _RUN + torch.arange(_RUN, device=hidden.device)  # (sources, k, run)
        flat = row * self._vocab_size + tokens.clamp(max=self._vocab_size - 1)
        candidates = log_probs.view(num_sources, -1).gather(1, flat.flatten(1)).view(flat.shape)
        candidates.masked_fill_(tokens >= self._vocab_size, -torch.inf)  # the last run may be shorter
        best, place = (candidates + totals.gather(1, row.flatten(1)).unsqueeze(-1)).flatten(1).topk(k, dim=-1)
        rows, written = row.expand(flat.shape).flatten(1).gather(1, place), tokens.flatten(1).gather(1, place)
        return Best(best, rows, written, candidates.flatten(1).gather(1, place))

    def _logits(self, hidden: Tensor) -> Tensor:
        if private.onednn_linear() is not None:
            return linear(hidden, self._weight, self._bias)
        logits = self._rows[: len(hidden)]
        for start in range(0, self._vocab_size, _PIECE):  # whole, MKL takes 1.2 times as long
            piece = slice(start, start + _PIECE)
            linear_into(
                hidden, self._weight[piece], None if self._bias is None else self._bias[piece], logits[:, piece]
            )
        return logits

    def _log_probs_and_runs(self, hidden: Tensor, banned: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """All log-probabilities, `(rows, vocab_size)`, -inf where banned, and each run's maximum, `(rows, runs)`."""
        if len(self._rows) < len(hidden):
            self._rows = hidden.new_empty(len(hidden), self._vocab_size)
        logits = self._logits(hidden)
        log_probs = torch.log_softmax(logits, dim=-1, out=logits)
        if banned not in self._banned:
            self._banned[banned] = torch.tensor(banned, dtype=torch.long, device=hidden.device)
        log_probs.index_fill_(1, self._banned[banned], -torch.inf)
        end = self._vocab_size - self._vocab_size % _RUN
        runs = log_probs[:, :end].unflatten(1, (-1, _RUN)).amax(-1)
        if end < self._vocab_size:
            runs = torch.cat([runs, log_probs[:, end:].amax(-1, keepdim=True)], dim=1)
        return log_probs, runs
