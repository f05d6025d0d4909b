"""A GRU over whole sequences, its gradient by hand, where products by the faster library pay.

torch's kernel multiplies by MKL, and in its LSTM by oneDNN: on a processor where that is twice as fast, a GRU of 256
units took longer than an LSTM, which has a third more to do (docs/performance.md). Here the inputs' products are one
for all positions, as are those of every weight's gradient; a step is left with the product that needs the state before
it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from heed.kernels.linear import is_faster, linear, outer
from heed.shapes import Float

__all__ = ["gru", "gru_pays"]


def gru_pays(inputs: Float[Tensor, "batch length d_input"], w_hh: Float[Tensor, "gates d_hidden"]) -> bool:
    """Whether one step's product is large enough for the library that it goes to."""
    return is_faster(len(inputs) * w_hh.numel(), inputs, w_hh)


def gru(
    inputs: Float[Tensor, "batch length d_input"],
    initial: Float[Tensor, "batch d_hidden"],
    w_ih: Float[Tensor, "gates d_input"],
    w_hh: Float[Tensor, "gates d_hidden"],
    b_ih: Float[Tensor, " gates"],
    b_hh: Float[Tensor, " gates"],
) -> Float[Tensor, "batch length d_hidden"]:
    """The states of torch's GRU (`layers.recurrent.gru_step` is the specification) after each position.

    Args:
        inputs: `(batch, length, d_input)`.
        initial: `(batch, d_hidden)`, the state before the first position.
        w_ih: `(3 * d_hidden, d_input)`, rows for reset gate, update gate and candidate.
        w_hh: `(3 * d_hidden, d_hidden)`.
        b_ih: `(3 * d_hidden,)`.
        b_hh: `(3 * d_hidden,)`.

    Returns:
        hidden, `(batch, length, d_hidden)`.
    """
    of_inputs = linear(inputs.transpose(0, 1).contiguous(), w_ih, b_ih)  # (T, B, 3 * d_hidden): steps lie together
    states: Tensor = _States.apply(of_inputs, initial, w_hh, b_hh)
    return states.transpose(0, 1)


class _States(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, of_inputs: Tensor, initial: Tensor, w_hh: Tensor, b_hh: Tensor) -> Tensor:
        length, batch, width = of_inputs.shape
        d = width // 3
        states = of_inputs.new_empty(length, batch, d)
        wanted = any(ctx.needs_input_grad)
        gates, candidates = [], []
        h = initial
        for x, new in zip(of_inputs, states, strict=True):
            of_state = linear(h, w_hh, b_hh)
            both = of_state[:, : 2 * d].add_(x[:, : 2 * d]).sigmoid_()
            candidate = torch.addcmul(x[:, 2 * d :], both[:, :d], of_state[:, 2 * d :]).tanh_()
            h = torch.lerp(candidate, h, both[:, d:], out=new)
            if wanted:
                gates.append(of_state)  # the reset and update gates, and the candidate's part from the state
                candidates.append(candidate)
        if wanted:
            ctx.save_for_backward(initial, w_hh, states, *gates, *candidates)
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (d_states,) = grad_outputs
        initial, w_hh, states, *kept = ctx.saved_tensors
        length, batch, d = states.shape
        gates, candidates = kept[:length], kept[length:]
        d_inputs = states.new_empty(length, batch, 3 * d)
        d_recurrent = states.new_empty(length, batch, 3 * d)
        d_next: Tensor | None = None
        for t in reversed(range(length)):
            before = states[t - 1] if t else initial
            r, z, recurrent = gates[t].split(d, dim=1)
            d_r, d_z, d_n = d_inputs[t].split(d, dim=1)
            d_h = d_states[t] if d_next is None else d_next.add_(d_states[t])
            kept_back = d_h * z
            torch.ops.aten.sigmoid_backward.grad_input((before - candidates[t]).mul_(d_h), z, grad_input=d_z)
            torch.ops.aten.tanh_backward.grad_input(d_h - kept_back, candidates[t], grad_input=d_n)
            torch.ops.aten.sigmoid_backward.grad_input(d_n * recurrent, r, grad_input=d_r)
            d_recurrent[t, :, : 2 * d] = d_inputs[t, :, : 2 * d]
            torch.mul(d_n, r, out=d_recurrent[t, :, 2 * d :])
            d_next = linear(d_recurrent[t], w_hh.t()).add_(kept_back)
        rows = d_recurrent.flatten(0, 1)
        previous = torch.cat([initial.unsqueeze(0), states[:-1]]).flatten(0, 1)
        return d_inputs, d_next, outer(rows, previous), rows.sum(0)
