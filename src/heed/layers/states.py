"""Decoding states of recurrent layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heed.attention import Keys, Rows
from heed.layers.recurrent import State, States
from heed.shapes import Float, Int

_PARTS = ("hidden", "cell")
"""Parts of the state of a recurrent layer; only LSTMs have a cell state."""


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
        remaining, sources = self.rows.select(rows)
        keys = self.keys if sources is None else self.keys.select(sources)
        moved = super().select(rows)
        return AlignedState(moved.states, moved.fed, keys, remaining, self.position.index_select(0, rows))


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
