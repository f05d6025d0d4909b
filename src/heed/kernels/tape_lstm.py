"""LSTM that reads its tape instead of its last state (LSTMN), over whole sequences on a CPU, gradient written by hand.

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

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from heed.kernels.linear import linear, outer
from heed.shapes import Float


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
        shares = linear(x, of_input)  # (T, B, 4 * d + d_attention)
        shares[..., : 4 * d] += b_ih + b_hh
        gates = shares[..., : 4 * d].contiguous()
        queries = shares[..., 4 * d :].contiguous()  # doubled in the loop, for 2 y
        # Copied once, so that every step reads a slice.
        keys, values = (
            x.new_empty(batch, before + num_steps, d_attention),
            x.new_empty(batch, before + num_steps, 2 * d),
        )
        torch.mul(key, 2, out=keys[:, :before])
        values[:, :before] = value
        twice_key, twice_bias = 2 * key_weight, None if key_bias is None else 2 * key_bias
        twice_v, most = 2 * v, min(before + num_steps, size or before + num_steps)
        summaries, room = x.new_empty(num_steps, batch, 2 * d), x.new_empty(batch * most * d_attention)
        weights = []
        asked = linear(first[:, :d], of_summary[4 * d :])
        for t in range(num_steps):
            now, then = before + t, max(0, before + t - most)
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
        ctx.size, ctx.before = most, before
        ctx.save_for_backward(
            x, first, keys, values, of_input, of_summary, key_weight, v, queries, gates, summaries, *weights
        )
        return values[:, before:].clone(), keys[:, before:] / 2, summaries.transpose(0, 1).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        x, first, keys, values, of_input, of_summary, key_weight, v, *parts = ctx.saved_tensors
        queries, gates, summaries, *weights = parts
        before, most = ctx.before, ctx.size
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
        room = torch.empty(batch * most * d_attention, dtype=x.dtype)
        for t in range(num_steps - 1, -1, -1):
            now, then = before + t, max(0, before + t - most)
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
