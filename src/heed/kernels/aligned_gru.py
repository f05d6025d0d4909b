"""GRU decoder with additive attention before every step, as one function with a hand-written gradient, on a CPU.

    e_tj = v' tanh(q_t + k_j),  q_t = W_q s_{t-1};   a_t = softmax(e_t);   c_t = sum_j a_tj v_j
    s_t  = GRU([x_t ; c_t], s_{t-1})

`heed.attention.attend` and `heed.layers.cells.gru_gates`, called step by step, are the specification. Differences:

- The contribution of the inputs to the gates is one product for all steps, and so is the gradient of each weight and of
  the values.
- The products of the state (for the query and for three gates) are one.
- `tanh(y) = 2 sigmoid(2 y) - 1`: torch's sigmoid takes a tenth of the time of its tanh, and the constant cancels in
  the softmax. Sums of query and key, (rows, keys, width), exist for one step at a time, in one buffer; the backward
  pass recomputes them, which is faster than touching fresh memory (benchmarks/NOTES.md).

Shapes: T steps, B rows, K keys, `d` state, `d_attention`, `d_value`; the context is the first `d_context` of a value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from heed.kernels.gru import GatesOverTime
from heed.kernels.linear import linear, outer
from heed.kernels.switch import enabled
from heed.shapes import Bool, Float


def aligned_gru(
    x: Float[Tensor, "batch time d_input"],
    first: Float[Tensor, "batch d"],
    key: Float[Tensor, "batch key d_attention"],
    value: Float[Tensor, "batch key d_value"],
    mask: Bool[Tensor, "batch key"] | None,
    query_weight: Float[Tensor, "d_attention d"],
    v: Float[Tensor, " d_attention"],
    cell: tuple[Tensor, Tensor, Tensor, Tensor],
    kept: Float[Tensor, "time batch 1 key"] | None = None,
) -> tuple[Float[Tensor, "batch time d"], Float[Tensor, "batch time d_value"]]:
    """States and contexts of every step.

    Args:
        x: Inputs, `(batch, time, d_input)`.
        first: The state before the first step, `(batch, d)`.
        key: Projected keys, `(batch, key, d_attention)`.
        value: `(batch, key, d_value)`.
        mask: `(batch, key)`, True = may attend; the context of a row without any allowed key is zero.
        query_weight: W_q.
        v: As above.
        cell: `w_ih (3 * d, d_input + d_context), w_hh (3 * d, d), b_ih, b_hh` in torch's order.
        kept: Dropout factor of each weight, 0 or 1 / (1 - p); None for no dropout.

    Returns:
        states `(batch, time, d)`, and contexts in full width, `(batch, time, d_value)`; step t reads context t.
    """
    if enabled():
        return _AlignedGRU.apply(x, first, key, value, mask, query_weight, v, *cell, kept)  # type: ignore[no-any-return]
    state, d_context = first, cell[0].shape[1] - x.shape[2]
    hidden, seen = [], []
    for t in range(x.shape[1]):
        scores = torch.tanh((state @ query_weight.T).unsqueeze(1) + key) @ v  # (B, K)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1).unsqueeze(1)  # (B, 1, K)
        if mask is not None:
            weights = weights.masked_fill(~mask.unsqueeze(1), 0.0)
        looked = (weights if kept is None else weights * kept[t]) @ value
        seen.append(looked.squeeze(1))
        state = torch.gru_cell(torch.cat([x[:, t], seen[-1][:, :d_context]], dim=-1), state, *cell)
        hidden.append(state)
    return torch.stack(hidden, dim=1), torch.stack(seen, dim=1)


class _AlignedGRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        first: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        query_weight: Tensor,
        v: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor,
        b_hh: Tensor,
        kept: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        num_steps, d_input, d_gates = x.shape[1], x.shape[2], len(w_hh)
        batch, num_keys, d_attention = key.shape
        x = x.transpose(0, 1).contiguous()
        # Copied once, because products are faster with contiguous matrices.
        of_input, of_context = w_ih[:, :d_input].contiguous(), w_ih[:, d_input:].contiguous()
        run = GatesOverTime.start(linear(x, of_input, b_ih), first)
        d_context = of_context.shape[1]
        of_state = torch.cat([w_hh, query_weight])
        bias = torch.cat([b_hh, b_hh.new_zeros(d_attention)])
        twice, twice_v = 2 * key, 2 * v
        # An additive mask: the lowest number plus a score acts as minus infinity.
        blocked = key.new_zeros(batch, num_keys)
        if mask is not None:
            blocked.masked_fill_(~mask, torch.finfo(key.dtype).min)
        blind = None if mask is None or mask.any(1).all() else mask.any(1).logical_not()[:, None, None]
        queries = key.new_empty(num_steps, batch, 1, d_attention)
        weights = key.new_empty(num_steps, batch, 1, num_keys)
        seen = value.new_empty(num_steps, batch, 1, value.shape[2])
        pairs, state = torch.empty_like(key), first
        for t in range(num_steps):
            shares = linear(state, of_state, bias)
            torch.mul(shares[:, d_gates:], 2, out=queries[t, :, 0])
            torch.add(twice, queries[t], out=pairs).sigmoid_()
            scores = torch.addmv(blocked.view(-1), pairs.view(-1, d_attention), twice_v).view(batch, 1, num_keys)
            torch.softmax(scores, dim=-1, out=weights[t])
            if blind is not None:
                weights[t].masked_fill_(blind, 0.0)
            torch.bmm(weights[t] if kept is None else weights[t] * kept[t], value, out=seen[t])
            run.gates[t].add_(linear(seen[t, :, 0, :d_context], of_context))
            state = run.step(t, shares[:, :d_gates])
        ctx.save_for_backward(x, twice, value, v, of_input, of_context, of_state, queries, weights, seen, kept, *run)
        return run.hidden[1:].transpose(0, 1), seen.squeeze(2).transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        x, twice, value, v, of_input, of_context, of_state, queries, weights, seen, kept, *parts = ctx.saved_tensors
        run = GatesOverTime(*parts)
        d_attention = twice.shape[2]
        d, d_gates, d_context = run.hidden.shape[-1], run.gates.shape[-1], of_context.shape[1]
        update = run.gates[..., d : 2 * d]
        d_input, of_through = run.slopes()  # d_input becomes the gradient of the inputs' contribution
        of_all = run.gates.new_empty(*d_input.shape[:2], d_gates + d_attention)  # the state's contribution, queries
        of_all[..., :d_gates] = d_input
        of_all[..., 2 * d : d_gates] = of_through
        d_seen = grad_outputs[1].transpose(0, 1).contiguous()
        d_hidden, d_key, d_v = grad_outputs[0].transpose(0, 1), torch.zeros_like(twice), torch.zeros_like(v)
        slope, pairs, g = 4 * v, torch.empty_like(twice), torch.zeros_like(run.hidden[0])
        for t in range(len(x) - 1, -1, -1):
            g += d_hidden[t]
            of_gates = d_input[t].unflatten(-1, (3, d)).mul_(g.unsqueeze(1)).flatten(1)
            of_all[t, :, :d_gates].unflatten(-1, (3, d)).mul_(g.unsqueeze(1))
            d_seen[t, :, :d_context].add_(linear(of_gates, of_context.T))
            d_weights = torch.bmm(d_seen[t].unsqueeze(1), value.transpose(1, 2))  # (B, 1, K)
            if kept is not None:
                d_weights *= kept[t]
            # softmax: de = a da - a (sum over keys of a da)
            weighed = d_weights.mul_(weights[t])
            d_scores = weighed.addcmul(weights[t], weighed.sum(-1, keepdim=True), value=-1.0)
            # d tanh(y) = 4 s (1 - s) with s = sigmoid(2 y); the constant -1 drops out: a row of d_scores sums to 0
            torch.add(twice, queries[t], out=pairs).sigmoid_()
            d_v += torch.mv(pairs.view(-1, d_attention).T, d_scores.view(-1))
            pairs.addcmul_(pairs, pairs, value=-1.0)
            torch.mul(torch.bmm(d_scores, pairs).squeeze(1), slope, out=of_all[t, :, d_gates:])
            d_key.addcmul_(pairs, d_scores.transpose(1, 2))
            g = linear(of_all[t], of_state.T).addcmul_(g, update[t])
        d_state = outer(of_all, run.hidden[:-1])
        used = weights if kept is None else weights * kept  # (T, B, 1, K)
        d_value = torch.bmm(used.squeeze(2).permute(1, 2, 0), d_seen.transpose(0, 1))
        d_x = linear(d_input, of_input.T).transpose(0, 1) if ctx.needs_input_grad[0] else None
        d_w_ih = torch.cat([outer(d_input, x), outer(d_input, seen[:, :, 0, :d_context])], dim=1)
        d_b_ih, d_b_hh = d_input.sum((0, 1)), of_all[..., :d_gates].sum((0, 1))
        d_query, d_key = d_state[d_gates:], d_key.mul_(slope)
        return d_x, g, d_key, d_value, None, d_query, 2 * d_v, d_w_ih, d_state[:d_gates], d_b_ih, d_b_hh, None
