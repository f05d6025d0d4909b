"""GRU over whole sequences in training on a CPU, with a hand-written gradient.

torch runs a GRU on a CPU as a chain of small differentiable operations, with two products for the gradient of the
weights at every step. Here the gradient of each weight is one product over all steps, and the backward loop has one
product and a few small operations per step: with g the gradient of a state, the gradients of its gates are g times
factors that depend on the forward pass only and are computed for all steps at once (benchmarks/NOTES.md).

    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z);  n = tanh(x_n + r h_n);  h' = n + z (h - n)
    d x_n = g (1 - z)(1 - n^2);  d x_r = d x_n h_n r (1 - r);  d x_z = g (h - n) z (1 - z);  d h_n = d x_n r

`heed.layers.cells.gru_gates` is the specification. Shapes: T steps, B rows, D width of the state; the time axis is
first, so that each step is contiguous in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from heed.kernels.linear import linear, outer
from heed.kernels.switch import enabled
from heed.shapes import Float


def trains_by_hand(x: Tensor) -> bool:
    """Whether a hand-written gradient can be used: a float32 or float64 gradient is needed on a CPU."""
    return (
        torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
    )


class GatesOverTime(NamedTuple):
    """Intermediate results of a GRU at every step, for its gradient."""

    gates: Tensor  # `(T, B, 3 * D)`: [r ; z ; n]
    through: Tensor  # `(T, B, D)`: h_n, the state's contribution to the candidate before the reset gate
    hidden: Tensor  # `(T + 1, B, D)`: the state before the first step and after each step

    @classmethod
    def start(cls, inputs: Float[Tensor, "time batch gates"], first: Float[Tensor, "batch d"]) -> GatesOverTime:
        """Before the first step; `inputs`, the inputs' contribution to each gate, is overwritten with the gates."""
        num_steps, (batch, d) = len(inputs), first.shape
        hidden = first.new_empty(num_steps + 1, batch, d)
        hidden[0] = first
        return cls(inputs, first.new_empty(num_steps, batch, d), hidden)

    def step(self, t: int, from_state: Float[Tensor, "batch gates"]) -> Float[Tensor, "batch d"]:
        """Compute step t from the state's contribution to each gate; returns the new state."""
        d = self.hidden.shape[-1]
        gates, hidden = self.gates[t], self.hidden[t]
        reset_update, candidate = gates[:, : 2 * d], gates[:, 2 * d :]
        reset_update.add_(from_state[:, : 2 * d]).sigmoid_()
        through = self.through[t].copy_(from_state[:, 2 * d :])
        candidate.addcmul_(gates[:, :d], through).tanh_()
        return torch.lerp(candidate, hidden, gates[:, d : 2 * d], out=self.hidden[t + 1])

    def slopes(self) -> tuple[Float[Tensor, "time batch gates"], Float[Tensor, "time batch d"]]:
        """Factors from the gradient of a state to those of x_r, x_z and x_n, and to that of h_n."""
        r, z, n = self.gates.chunk(3, dim=-1)
        before = self.hidden[:-1]
        slopes = torch.empty_like(self.gates)
        of_r, of_z, of_n = slopes.chunk(3, dim=-1)
        torch.mul(n, n, out=of_n).neg_().add_(1.0)
        torch.sub(1.0, z, out=of_z)
        of_n.mul_(of_z)  # (1 - z)(1 - n^2)
        of_z.mul_(z).mul_(before - n)
        of_through = of_n * r
        torch.sub(1.0, r, out=of_r).mul_(of_through).mul_(self.through)
        return slopes, of_through


def gru_sequence(
    x: Float[Tensor, "batch time d_input"],
    first: Float[Tensor, "batch d"],
    w_ih: Float[Tensor, "gates d_input"],
    w_hh: Float[Tensor, "gates d"],
    b_ih: Float[Tensor, " gates"],
    b_hh: Float[Tensor, " gates"],
) -> Float[Tensor, "batch time d"]:
    """The state after each position, `(batch, time, d)`; gates in torch's order: reset, update, candidate."""
    if enabled() and trains_by_hand(x):
        return _GRU.apply(x, first, w_ih, w_hh, b_ih, b_hh)  # type: ignore[no-any-return]
    # input, state, weights, biases, layers, dropout, train, bidirectional, batch_first
    return torch.gru(x, first.unsqueeze(0), [w_ih, w_hh, b_ih, b_hh], True, 1, 0.0, True, False, True)[0]


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, first: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
        x = x.transpose(0, 1).contiguous()
        run = GatesOverTime.start(linear(x, w_ih, b_ih), first)
        state = first
        for t in range(len(x)):
            state = run.step(t, linear(state, w_hh, b_hh))
        ctx.save_for_backward(x, w_ih, w_hh, *run)
        return run.hidden[1:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        x, w_ih, w_hh, *parts = ctx.saved_tensors
        run = GatesOverTime(*parts)
        d = w_hh.shape[1]
        update = run.gates[..., d : 2 * d]
        d_gates, of_through = run.slopes()
        d_candidate = torch.empty_like(of_through)  # gradient of x_n; d_gates holds that of h_n meanwhile
        of_candidate = d_gates[..., 2 * d :].clone()
        d_gates[..., 2 * d :] = of_through
        d_hidden = grad_outputs[0].transpose(0, 1)
        g = torch.zeros_like(run.hidden[0])
        for t in range(len(x) - 1, -1, -1):
            g += d_hidden[t]
            torch.mul(of_candidate[t], g, out=d_candidate[t])
            of_step = d_gates[t].unflatten(-1, (3, d)).mul_(g.unsqueeze(1))
            g = linear(of_step.flatten(1), w_hh.T).addcmul_(g, update[t])
        d_w_hh, d_b_hh = outer(d_gates, run.hidden[:-1]), d_gates.sum((0, 1))
        d_gates[..., 2 * d :] = d_candidate
        d_x = linear(d_gates, w_ih.T).transpose(0, 1) if ctx.needs_input_grad[0] else None
        return d_x, g, outer(d_gates, x), d_w_hh, d_gates.sum((0, 1)), d_b_hh
