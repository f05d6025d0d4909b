"""Decoding states of recurrent layers and block stacks, and the run of a recurrent decoder that attends to a memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from heed.attention import Additive, Attention, Keys, Rows, watch
from heed.attention.keys import Scope
from heed.kernels import aligned_gru, trains_by_hand
from heed.layers.recurrent import RecurrentCell, State, States, StepwiseRun
from heed.shapes import Float, Int

_PARTS = ("hidden", "cell")
"""Parts of the state of a recurrent layer; only LSTMs have a cell state."""


@dataclass(frozen=True)
class StackState:
    """Decoding state of a Transformer stack: memory and key-value cache of each block."""

    memory: tuple[Keys, ...]  # keys of each block's cross-attention; empty without cross-attention
    rows: Rows  # which source each row belongs to
    caches: tuple[Keys | None, ...]  # per block, keys of the positions so far; None before the first token
    position: Int[Tensor, " rows"]  # tokens read by each row

    def select(self, rows: Int[Tensor, " selected"]) -> StackState:
        """Row i of the result continues row `rows[i]`."""
        kept, sources = self.rows.select(rows)
        memory = self.memory if sources is None else tuple(keys.select(sources) for keys in self.memory)
        caches = tuple(cache and cache.select(rows) for cache in self.caches)
        return StackState(memory, kept, caches, self.position.index_select(0, rows))

    def next_positions(self, count: int) -> Int[Tensor, "rows count"]:
        """Absolute positions of the next `count` tokens of each row."""
        return self.position.unsqueeze(1) + torch.arange(count, device=self.position.device)


@dataclass(frozen=True)
class RecurrentState:
    """Decoding state of recurrent layers in one direction; `fed`, `(rows, d)` or None, is read with each token."""

    states: States
    fed: Float[Tensor, "rows d"] | None

    def select(self, rows: Int[Tensor, " selected"]) -> RecurrentState:
        """Row i of the result continues row `rows[i]`."""
        states = [[tuple(part.index_select(0, rows) for part in state) for state in layer] for layer in self.states]
        return RecurrentState(states, None if self.fed is None else self.fed.index_select(0, rows))

    def pack(self) -> dict[str, Tensor]:
        """Detached tensors `(rows, d_hidden)` by name: "layer 0 hidden", "layer 0 cell", ..."""
        return {
            f"layer {number} {part}": tensor.detach()
            for number, layer in enumerate(self.states)
            for state in layer
            for part, tensor in zip(_PARTS, state, strict=False)
        }

    @classmethod
    def unpack(cls, tensors: Mapping[str, Tensor]) -> RecurrentState:
        """Undo `pack`."""
        layers = sum(name.endswith(_PARTS[0]) for name in tensors)
        names = [[f"layer {number} {part}" for part in _PARTS] for number in range(layers)]
        return cls([[tuple(tensors[name] for name in layer if name in tensors)] for layer in names], None)


@dataclass(frozen=True)
class AlignedState(RecurrentState):
    """Decoding state with attention: also the source's keys, each row's source, and the tokens read by each row."""

    keys: Keys
    rows: Rows
    position: Int[Tensor, " rows"]

    def select(self, rows: Int[Tensor, " selected"]) -> AlignedState:
        kept, sources = self.rows.select(rows)
        keys = self.keys if sources is None else self.keys.select(sources)
        moved = super().select(rows)
        return AlignedState(moved.states, moved.fed, keys, kept, self.position.index_select(0, rows))


class Bridge(nn.Module):
    """The decoder's initial states from the encoder's final ones, layer by layer.

    one direction:   s_0 = h_m, and an LSTM's cell likewise: no parameters
    two directions:  s_0 = tanh(W [h->_m ; h<-_1]), and an LSTM's cell c_0 = V [c->_m ; c<-_1]

    Source: s_0 = h_m as in Sutskever et al. 2014 (arXiv:1409.3215) and the lecture notes (docs/systems.md, A7); the
    tanh layer as in Bahdanau et al. 2015 (arXiv:1409.0473), appendix A.2.2, who read the backward direction only.
    """

    def __init__(self, d_hidden: int, num_layers: int, cell: str, bidirectional: bool) -> None:
        super().__init__()

        def maps() -> nn.ModuleList:
            count = num_layers if bidirectional else 0
            return nn.ModuleList(nn.Linear(2 * d_hidden, d_hidden, bias=False) for _ in range(count))

        self.hidden = maps()
        self.cell = maps() if cell == "lstm" else nn.ModuleList()

    def forward(self, finals: States) -> States:
        """From the final states of the encoder's `Recurrent` to the initial states of the decoder's `Recurrent`."""
        if not self.hidden:
            return finals
        states: States = []
        for layer, (forward, backward) in enumerate(finals):
            state: State = (torch.tanh(self.hidden[layer](torch.cat([forward[0], backward[0]], dim=-1))),)
            if self.cell:
                state = (*state, self.cell[layer](torch.cat([forward[1], backward[1]], dim=-1)))
            states.append([state])
        return states


def pack_states(states: States) -> Float[Tensor, "batch packed"]:
    """Concatenate all states into one vector per row: by layer, then direction, hidden before cell."""
    return torch.cat([part for layer in states for state in layer for part in state], dim=-1)


def unpack_states(packed: Float[Tensor, "batch packed"], num_layers: int, cell: str) -> States:
    """Undo `pack_states` for layers of one direction."""
    parts = packed.chunk(num_layers * (2 if cell == "lstm" else 1), dim=-1)
    per_layer = len(parts) // num_layers
    return [[tuple(parts[i * per_layer : (i + 1) * per_layer])] for i in range(num_layers)]


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
        scope = Scope(rows=rows, offset=position)
        call = watch.AttentionCall(asked, keys, scope, seen.unsqueeze(1), None, dropout, score)
        watch.slot.attention(attention, call)
        read = torch.cat([inputs, seen[..., : cell.d_input - inputs.shape[-1]]], dim=-1)
        cell.observe(read, hidden, state, (hidden[:, -1],))
    return hidden, seen
