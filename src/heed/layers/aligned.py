"""Recurrent decoder that attends to a memory before each step: one function if `aligned_gru` applies, else stepwise."""

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop

from heed.attention import Additive, Attention, Keys, Rows, watch
from heed.kernels import aligned_gru, trains_by_hand
from heed.layers.cells import RecurrentCell, State, StepwiseRun
from heed.shapes import Float, Int


def read_aligned(
    cell: RecurrentCell,
    attention: Attention,
    inputs: Float[Tensor, "rows n d_input"],
    keys: Keys,
    rows: Rows,
    state: State,
    position: Int[Tensor, " rows"],
    lengths: Int[Tensor, " rows"] | None = None,
) -> tuple[Float[Tensor, "rows n d_hidden"], Float[Tensor, "rows n d_value"], State]:
    """`c_t = attend(s_{t-1})`, then `s_t = cell([x_t ; c_t], s_{t-1})`, for each further token.

    Args:
        cell: Reads `[x_t ; c_t]`, or x_t and the first elements of c_t if its input is narrower.
        attention: Queried with the state before each step.
        inputs: `(rows, n, d_input)`.
        keys: The memory's keys and values.
        rows: Which entry of `keys` each row attends to.
        state: Before the first step.
        position: `(rows,)`, number of tokens read before.
        lengths: `(rows,)`, number of real inputs where rows are padded on the right.

    Returns:
        The hidden state after each step, `(rows, n, d_hidden)`; the contexts in full width, `(rows, n, d_value)`; and
        the state after each row's last real input.
    """
    if lengths is None and rows.is_identity and _in_one_call(cell, attention, inputs):
        hidden, seen = _all_at_once(cell, attention, inputs, keys, rows, state, position)
        return hidden, seen, (hidden[:, -1],)
    run, contexts = StepwiseRun(cell, state), []
    d_context = cell.d_input - inputs.shape[-1]
    for t, x in enumerate(inputs.unbind(1)):
        query = run.state[0].unsqueeze(1)  # (R, 1, d_hidden)
        contexts.append(attention(query, keys, rows=rows, offset=position + t).squeeze(1))
        run.step(torch.cat([x, contexts[-1][:, :d_context]], dim=-1))
    return run.finish(), torch.stack(contexts, dim=1), run.state_at(lengths)


def _in_one_call(cell: RecurrentCell, attention: Attention, inputs: Tensor) -> bool:
    """Whether `aligned_gru` applies: training, a GRU with the additive score, and no edited weights."""
    has = isinstance(attention.score, Additive) and cell.cell == "gru" and trains_by_hand(inputs)
    return has and attention.training and (watch.slot is None or not watch.slot.edits(attention))


def _all_at_once(
    cell: RecurrentCell, attention: Attention, inputs: Tensor, keys: Keys, rows: Rows, state: State, position: Tensor
) -> tuple[Tensor, Tensor]:
    score, dropout, (first,) = attention.score, attention.dropout, state
    assert isinstance(score, Additive)
    kept = drop(inputs.new_ones(inputs.shape[1], len(inputs), 1, len(keys)), dropout) if dropout > 0 else None
    memory = keys.prepared.squeeze(1), keys.value.squeeze(1), keys.mask
    weights = cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh
    hidden, seen = aligned_gru(inputs, first, *memory, score.w_query.weight, score.v, weights, kept)
    if watch.slot is not None:
        asked = score.project(torch.cat([first.unsqueeze(1), hidden[:, :-1]], dim=1)).unsqueeze(1)  # (R, 1, n, d)
        call = watch.AttentionCall(asked, keys, rows, False, position, seen.unsqueeze(1), None, dropout, score)
        watch.slot.attention(attention, call)
        read = torch.cat([inputs, seen[..., : cell.d_input - inputs.shape[-1]]], dim=-1)
        cell.observe(read, hidden, state, (hidden[:, -1],))
    return hidden, seen
