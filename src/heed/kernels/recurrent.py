"""Recurrent networks in training on a CPU, with hand-written gradients: GRUs, alone or with attention, and the LSTMN.

torch runs a GRU on a CPU as a chain of small differentiable operations, with two products for the gradient of the
weights at every step. Here the gradient of each weight is one product over all steps, and the backward loop has one
product and a few small operations per step: with g the gradient of a state, the gradients of its gates are g times
factors that depend on the forward pass only and are computed for all steps at once.

    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z);  n = tanh(x_n + r h_n);  h' = n + z (h - n)
    d x_n = g (1 - z)(1 - n^2);  d x_r = d x_n h_n r (1 - r);  d x_z = g (h - n) z (1 - z);  d h_n = d x_n r

With additive attention before every step (`aligned_gru`):

    e_tj = v' tanh(q_t + k_j),  q_t = W_q s_{t-1};   a_t = softmax(e_t);   c_t = sum_j a_tj v_j
    s_t  = GRU([x_t ; c_t], s_{t-1})

`heed.layers.recurrent.gru_gates` is the specification of the cell, `heed.attention.attend`, called step by step, that
of attention. Differences:

- The contribution of the inputs to the gates is one product for all steps, and so is the gradient of each weight and of
  the values.
- The products of the state (for the query and for three gates) are one.
- `tanh(y) = 2 sigmoid(2 y) - 1`: torch's sigmoid takes a tenth of the time of its tanh, and the constant cancels in
  the softmax. Sums of query and key, (rows, keys, width), exist for one step at a time, in one buffer; the backward
  pass recomputes them, which is faster than touching fresh memory.

Shapes: T steps, B rows, K keys, D width of the state; the time axis is first, so that each step is contiguous in
memory. The context is the first `d_context` of a value.

LSTM that reads its tape instead of its last state (LSTMN), over whole sequences (`tape_lstm`):

    e_ti = v' tanh(W_x x_t + W_s h~_{t-1} + k_i) for the newest i < t;  a_t = softmax(e_t);  k_i = W_k h_i + b
    [h~_t ; c~_t] = sum_i a_ti [h_i ; c_i];   h_t, c_t = LSTM(x_t, h~_t, c~_t)

Source: Cheng et al. 2016 (arXiv:1601.06733), section 3.1, equations 4-9; the gradient by the chain rule.
`heed.models.lstmn.read_tape`, step by step, is the specification. Differences:

- Keys and values are written to one tensor each, and every step reads a slice of it; step by step each tape is a copy
  of the previous one, and all copies are kept for the gradient.
- The contribution of the inputs to gates and queries is one product for all steps, and so is the gradient of each
  weight.
- The products of the summary (for four gates and the next query) are one.
- `tanh(y) = 2 sigmoid(2 y) - 1`, and sums of query and key exist for one step at a time, as in `aligned_gru`.

Shapes: T steps, B rows, K earlier tokens on the tape, `d` state, `d_attention`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from heed.kernels.linear import linear, outer
from heed.kernels.private import enabled, trains_by_hand
from heed.shapes import Bool, Float


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


def aligned_gru(
    x: Float[Tensor, "batch time d_input"],
    first: Float[Tensor, "batch d"],
    key: Float[Tensor, "batch key d_attention"],
    value: Float[Tensor, "batch key d_value"],
    mask: Bool[Tensor, "batch key"] | None,
    query_weight: Float[Tensor, "d_attention d"],
    v: Float[Tensor, " d_attention"],
    cell: tuple[Tensor, Tensor, Tensor, Tensor],
    dropout: Float[Tensor, "time batch 1 key"] | None = None,
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
        dropout: Dropout factor of each weight, 0 or 1 / (1 - p); None for no dropout.

    Returns:
        states `(batch, time, d)`, and contexts in full width, `(batch, time, d_value)`; step t reads context t.
    """
    if enabled():
        return _AlignedGRU.apply(x, first, key, value, mask, query_weight, v, *cell, dropout)  # type: ignore[no-any-return]
    state, d_context = first, cell[0].shape[1] - x.shape[2]
    hidden, seen = [], []
    for t in range(x.shape[1]):
        scores = torch.tanh((state @ query_weight.T).unsqueeze(1) + key) @ v  # (B, K)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1).unsqueeze(1)  # (B, 1, K)
        if mask is not None:
            weights = weights.masked_fill(~mask.unsqueeze(1), 0.0)
        looked = (weights if dropout is None else weights * dropout[t]) @ value
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
        dropout: Tensor | None,
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
            products = linear(state, of_state, bias)
            torch.mul(products[:, d_gates:], 2, out=queries[t, :, 0])
            torch.add(twice, queries[t], out=pairs).sigmoid_()
            scores = torch.addmv(blocked.view(-1), pairs.view(-1, d_attention), twice_v).view(batch, 1, num_keys)
            torch.softmax(scores, dim=-1, out=weights[t])
            if blind is not None:
                weights[t].masked_fill_(blind, 0.0)
            torch.bmm(weights[t] if dropout is None else weights[t] * dropout[t], value, out=seen[t])
            run.gates[t].add_(linear(seen[t, :, 0, :d_context], of_context))
            state = run.step(t, products[:, :d_gates])
        ctx.save_for_backward(x, twice, value, v, of_input, of_context, of_state, queries, weights, seen, dropout, *run)
        return run.hidden[1:].transpose(0, 1), seen.squeeze(2).transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        x, twice, value, v, of_input, of_context, of_state, queries, weights, seen, dropout, *parts = ctx.saved_tensors
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
            if dropout is not None:
                d_weights *= dropout[t]
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
        used = weights if dropout is None else weights * dropout  # (T, B, 1, K)
        d_value = torch.bmm(used.squeeze(2).permute(1, 2, 0), d_seen.transpose(0, 1))
        d_x = linear(d_input, of_input.T).transpose(0, 1) if ctx.needs_input_grad[0] else None
        d_w_ih = torch.cat([outer(d_input, x), outer(d_input, seen[:, :, 0, :d_context])], dim=1)
        d_b_ih, d_b_hh = d_input.sum((0, 1)), of_all[..., :d_gates].sum((0, 1))
        d_query, d_key = d_state[d_gates:], d_key.mul_(slope)
        return d_x, g, d_key, d_value, None, d_query, 2 * d_v, d_w_ih, d_state[:d_gates], d_b_ih, d_b_hh, None


def tape_lstm(
    x: Float[Tensor, "batch time d_input"],
    summary: Float[Tensor, "batch d_both"],
    key: Float[Tensor, "batch key d_attention"],
    value: Float[Tensor, "batch key d_both"],
    size: int | None,
    query_weight: Float[Tensor, "d_attention d_query"],
    key_weight: Float[Tensor, "d_attention d"],
    key_bias: Float[Tensor, " d_attention"] | None,
    v: Float[Tensor, " d_attention"],
    cell: tuple[Tensor, Tensor, Tensor, Tensor],
) -> tuple[
    Float[Tensor, "batch time d_both"], Float[Tensor, "batch time d_attention"], Float[Tensor, "batch time d_both"]
]:
    """States, their keys, and the summaries from which they were computed, for every step.

    Args:
        x: Inputs, `(batch, time, d_input)`, at least one step.
        summary: [h~ ; c~] of the previous step, `(batch, 2 * d)`.
        key: Projected keys of the earlier tokens, `(batch, key, d_attention)`, possibly none.
        value: [h ; c] of the earlier tokens, `(batch, key, 2 * d)`.
        size: Number of newest tokens attended to; None for all.
        query_weight: [W_x W_s], `(d_attention, d_input + d)`.
        key_weight: W_k.
        key_bias: b, or None.
        v: As above.
        cell: `w_ih (4 * d, d_input), w_hh (4 * d, d), b_ih, b_hh` in torch's order.

    Returns:
        [h ; c] `(batch, time, 2 * d)`; keys `(batch, time, d_attention)`; [h~ ; c~] `(batch, time, 2 * d)`.
    """
    parameters = query_weight, key_weight, key_bias, v, *cell
    return _TapeLSTM.apply(x, summary, key, value, size, *parameters)  # type: ignore[no-any-return]


class _TapeLSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        first: Tensor,
        key: Tensor,
        value: Tensor,
        size: int | None,
        query_weight: Tensor,
        key_weight: Tensor,
        key_bias: Tensor | None,
        v: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor,
        b_hh: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, num_steps, d_input = x.shape
        before, d_attention, d = key.shape[1], key.shape[2], w_hh.shape[1]
        x = x.transpose(0, 1).contiguous()
        of_input = torch.cat([w_ih, query_weight[:, :d_input]])
        of_summary = torch.cat([w_hh, query_weight[:, d_input:]])
        products = linear(x, of_input)  # (T, B, 4 * d + d_attention)
        products[..., : 4 * d] += b_ih + b_hh
        gates = products[..., : 4 * d].contiguous()
        queries = products[..., 4 * d :].contiguous()  # doubled in the loop, for 2 y
        # Copied once, so that every step reads a slice.
        keys, values = (
            x.new_empty(batch, before + num_steps, d_attention),
            x.new_empty(batch, before + num_steps, 2 * d),
        )
        torch.mul(key, 2, out=keys[:, :before])
        values[:, :before] = value
        twice_key, twice_bias = 2 * key_weight, None if key_bias is None else 2 * key_bias
        twice_v, window = 2 * v, min(before + num_steps, size or before + num_steps)
        summaries, room = x.new_empty(num_steps, batch, 2 * d), x.new_empty(batch * window * d_attention)
        weights = []
        asked = linear(first[:, :d], of_summary[4 * d :])
        for t in range(num_steps):
            now, then = before + t, max(0, before + t - window)
            if now:
                queries[t].add_(asked).mul_(2)
                pairs = room[: batch * (now - then) * d_attention].view(batch, now - then, d_attention)
                torch.add(keys[:, then:now], queries[t].unsqueeze(1), out=pairs).sigmoid_()
                scores = torch.mv(pairs.view(-1, d_attention), twice_v).view(batch, 1, now - then)
                weights.append(torch.softmax(scores, dim=-1))
                torch.bmm(weights[-1], values[:, then:now], out=summaries[t].unsqueeze(1))
            else:
                weights.append(x.new_empty(batch, 1, 0))
                summaries[t] = first
            both = linear(summaries[t, :, :d], of_summary)
            asked = both[:, 4 * d :]
            gate = gates[t].add_(both[:, : 4 * d])
            i_f, g, o = gate[:, : 2 * d].sigmoid_(), gate[:, 2 * d : 3 * d].tanh_(), gate[:, 3 * d :].sigmoid_()
            c = torch.mul(i_f[:, :d], g, out=values[:, now, d:]).addcmul_(i_f[:, d:], summaries[t, :, d:])
            h = torch.mul(o, torch.tanh(c), out=values[:, now, :d])
            keys[:, now] = linear(h, twice_key, twice_bias)
        ctx.size, ctx.before = window, before
        ctx.save_for_backward(
            x, first, keys, values, of_input, of_summary, key_weight, v, queries, gates, summaries, *weights
        )
        return values[:, before:].clone(), keys[:, before:] / 2, summaries.transpose(0, 1).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        x, first, keys, values, of_input, of_summary, key_weight, v, *parts = ctx.saved_tensors
        queries, gates, summaries, *weights = parts
        before, window = ctx.before, ctx.size
        (num_steps, batch, _), d, d_attention = x.shape, key_weight.shape[1], keys.shape[2]

        i, f, g, o = gates.unflatten(-1, (4, d)).unbind(2)  # (T, B, d) each
        states = values[:, before:].transpose(0, 1)  # (T, B, 2 * d)
        tanh_c = torch.tanh(states[..., d:])
        # Factors from the gradients of c and h to those of the gates before their activations.
        of_gates = torch.stack([g * i * (1 - i), summaries[..., d:] * f * (1 - f), i * (1 - g * g)], dim=2)
        of_output, of_cell = tanh_c * o * (1 - o), o * (1 - tanh_c * tanh_c)

        of_values, of_keys, of_summaries = grad_outputs
        d_values, d_keys = torch.zeros_like(values), torch.zeros_like(keys)  # d_keys: not yet times slope
        d_values[:, before:] = of_values
        slope = 4 * v
        of_keys, d_summaries = of_keys.transpose(0, 1), of_summaries.transpose(0, 1)
        of_all = gates.new_zeros(num_steps, batch, 4 * d + d_attention)  # gates of step t and query of step t + 1
        first_query = gates.new_zeros(batch, d_attention)
        d_first, d_v = torch.zeros_like(first), torch.zeros_like(v)
        key_grads = gates.new_empty(num_steps, batch, d_attention)
        room = torch.empty(batch * window * d_attention, dtype=x.dtype)
        for t in range(num_steps - 1, -1, -1):
            now, then = before + t, max(0, before + t - window)
            of_key = torch.addcmul(of_keys[t], d_keys[:, now], slope, out=key_grads[t])
            d_h = torch.addmm(d_values[:, now, :d], of_key, key_weight)
            d_c = torch.addcmul(d_values[:, now, d:], d_h, of_cell[t])
            all_t = of_all[t]
            torch.mul(of_gates[t], d_c.unsqueeze(1), out=all_t[:, : 3 * d].unflatten(-1, (3, d)))
            torch.mul(d_h, of_output[t], out=all_t[:, 3 * d : 4 * d])
            d_seen = d_summaries[t] + torch.cat([all_t @ of_summary, d_c * f[t]], dim=-1)
            if not now:
                d_first = d_seen
                break
            looked, weight = values[:, then:now], weights[t]  # (B, k, 2 * d), (B, 1, k)
            # softmax: de = a da - a (sum over keys of a da)
            weighed = torch.bmm(d_seen.unsqueeze(1), looked.transpose(1, 2)).mul_(weight)
            d_scores = weighed.addcmul(weight, weighed.sum(-1, keepdim=True), value=-1.0)
            d_values[:, then:now].addcmul_(weight.transpose(1, 2), d_seen.unsqueeze(1))
            # d tanh(y) = 4 s (1 - s) with s = sigmoid(2 y); the constant -1 drops out: a row of d_scores sums to 0
            pairs = room[: batch * (now - then) * d_attention].view(batch, now - then, d_attention)
            torch.add(keys[:, then:now], queries[t].unsqueeze(1), out=pairs).sigmoid_()
            d_v += torch.mv(pairs.view(-1, d_attention).T, d_scores.view(-1))
            pairs.addcmul_(pairs, pairs, value=-1.0)
            d_keys[:, then:now].addcmul_(pairs, d_scores.transpose(1, 2))
            of_query = torch.bmm(d_scores, pairs).squeeze(1).mul_(slope)
            if t:
                of_all[t - 1, :, 4 * d :] = of_query
            else:
                first_query = of_query
                d_first[:, :d] = of_query @ of_summary[4 * d :]
        d_gates = of_all[..., : 4 * d]
        d_queries = torch.cat([first_query.unsqueeze(0), of_all[: num_steps - 1, :, 4 * d :]])
        earlier = torch.cat([first[:, :d].unsqueeze(0), summaries[:-1, :, :d]])  # h~ from which each query was computed
        both = torch.cat([d_gates, d_queries], dim=-1)
        d_x = linear(both, of_input.T).transpose(0, 1) if ctx.needs_input_grad[0] else None
        d_of_input = outer(both, x)  # (4 * d + d_attention, d_input)
        d_query = torch.cat([d_of_input[4 * d :], outer(d_queries, earlier)], dim=1)
        d_w_hh = outer(d_gates, summaries[..., :d])
        d_key_weight = outer(key_grads, states[..., :d])
        d_bias, d_key_bias = d_gates.sum((0, 1)), key_grads.sum((0, 1)) if ctx.needs_input_grad[7] else None
        cell = d_of_input[: 4 * d], d_w_hh, d_bias, d_bias
        d_key = d_keys[:, :before] * slope
        return d_x, d_first, d_key, d_values[:, :before], None, d_query, d_key_weight, d_key_bias, 2 * d_v, *cell
