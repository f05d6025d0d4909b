"""Decoding states of recurrent layers, and the tape of a network that attends to its own earlier states (LSTMN).

Shapes: R rows (texts read in parallel), K tokens on the tape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heed.attention import Additive, Attention, Keys, Rows, watch
from heed.attention.keys import Scope
from heed.kernels import enabled, tape_lstm
from heed.layers.recurrent import RecurrentCell, State, States, last_of
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


@dataclass(frozen=True, eq=False)
class Tape:
    """Keys and values of the tokens read so far, newest last; immutable: `append` returns a longer tape."""

    keys: Keys | None = None  # None before the first token

    def __len__(self) -> int:
        return 0 if self.keys is None else len(self.keys)

    def append(self, new: Keys) -> Tape:
        """The tape after further tokens, all of them real."""
        return Tape(new if self.keys is None else self.keys.append(new))

    def newest(self, size: int | None) -> Keys:
        """The last `size` tokens; all tokens if `size` is None."""
        assert self.keys is not None
        return self.keys if size is None else self.keys.newest(size)

    def cut(self, size: int | None) -> Tape:
        """The tape with only its newest `size` tokens."""
        return self if self.keys is None else Tape(self.newest(size))

    def aligned(self, missing: Int[Tensor, " rows"]) -> Tape:
        """Remove the last `missing` tokens of each row, which are padding, and shift the others to the right."""
        k = self.keys
        assert k is not None
        places = torch.arange(len(k), device=missing.device) - missing.unsqueeze(1)  # (R, K), negative before the first
        real, places = places >= 0, places.clamp_min(0)
        if k.mask is not None:
            real &= k.mask.gather(1, places)

        def moved(x: Tensor) -> Tensor:
            return x.gather(2, places[:, None, :, None].expand_as(x))

        return Tape(Keys(moved(k.prepared), moved(k.value), real, k.origin))

    def select(self, rows: Int[Tensor, " selected"]) -> Tape:
        """Row i of the result is row `rows[i]`."""
        return Tape(None if self.keys is None else self.keys.select(rows))


@dataclass(frozen=True, eq=False)
class TapeState:
    """Decoding state of a recurrent network with a single-head tape, whose values begin with the hidden state."""

    state: State  # of the cell after the last token: hidden, and an LSTM's cell
    summary: State  # the last context read from the tape, `(rows, d)` each
    tape: Tape
    position: Int[Tensor, " rows"]  # tokens read by each row

    def select(self, rows: Int[Tensor, " selected"]) -> TapeState:
        """Row i of the result continues row `rows[i]`."""
        state, summary = (tuple(part.index_select(0, rows) for part in parts) for parts in (self.state, self.summary))
        return TapeState(state, summary, self.tape.select(rows), self.position.index_select(0, rows))

    def after(
        self,
        state: State,
        summary: State,
        tape: Tape,
        size: int | None,
        count: int,
        lengths: Int[Tensor, " rows"] | None,
    ) -> TapeState:
        """The state after `count` more tokens, `lengths` of them real in each row; the tape keeps the newest `size`."""
        if lengths is not None:
            tape = tape.aligned(count - lengths)
        return TapeState(state, summary, tape.cut(size), self.position + (count if lengths is None else lengths))

    def pack(self) -> dict[str, Tensor]:
        """Detached tensors by name, with one row for each row of the state.

        The prepared keys are left out: `unpack` computes them from the hidden states with the current parameters.
        """
        tensors = {f"state {i}": part for i, part in enumerate(self.state)}
        tensors |= {f"summary {i}": part for i, part in enumerate(self.summary)}
        if self.tape.keys is not None:
            tensors["tape"] = self.tape.keys.value.squeeze(1)  # (R, K, d_value)
            if self.tape.keys.mask is not None:
                tensors["tape mask"] = self.tape.keys.mask
        return {name: tensor.detach() for name, tensor in {**tensors, "position": self.position}.items()}

    @classmethod
    def start(cls, state: State, summary: State) -> TapeState:
        """The state before the first token, with an empty tape."""
        return cls(state, summary, Tape(), torch.zeros(len(state[0]), dtype=torch.long, device=state[0].device))

    @classmethod
    def unpack(cls, tensors: Mapping[str, Tensor], attention: Attention) -> TapeState:
        """Undo `pack`; `attention` prepares the keys."""
        state, summary = (
            tuple(tensors[name] for name in sorted(tensors) if name.startswith(part)) for part in ("state ", "summary ")
        )
        tape = Tape()
        if (value := tensors.get("tape")) is not None:
            hidden = value[..., : state[0].shape[-1]]
            tape = Tape(attention.prepare(hidden, value, tensors.get("tape mask")))
        return cls(state, summary, tape, tensors["position"])


def read_at_once(
    cell: RecurrentCell,
    attention: Attention,
    inputs: Tensor,
    before: TapeState,
    size: int | None,
    lengths: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, TapeState] | None:
    """As `heed.models.lstmn.read_tape`, the specification, by one function; None where that function does not apply.

    It needs several tokens on a CPU, an additive score, no padding on the tape, and no edits.
    """
    applies = (
        enabled()
        and inputs.shape[1] > 1
        and inputs.numel() > 0
        and inputs.device.type == "cpu"
        and inputs.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and (before.tape.keys is None or before.tape.keys.mask is None)
        and (
            watch.observer.current is None
            or not (watch.observer.current.edits(attention) or watch.observer.current.patches(cell))
        )
    )
    score, first = attention.score, torch.cat(before.summary, dim=-1)
    if not applies or not isinstance(score, Additive):
        return None
    old = before.tape.cut(size).keys
    if old is None:
        nothing = first.new_empty(len(first), 0, 2 * cell.d_hidden)
        old = attention.prepare(nothing[..., : cell.d_hidden], nothing)
    outputs, keys, summaries = tape_lstm(
        inputs,
        first,
        old.prepared.squeeze(1),
        old.value.squeeze(1),
        size,
        score.w_query.weight,
        score.w_key.weight,
        score.w_key.bias,
        score.v,
        (cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh),
    )
    tape = Tape(old.append(Keys(keys.unsqueeze(1), outputs.unsqueeze(1))))
    hidden, state = outputs[..., : cell.d_hidden], last_of(outputs, lengths).chunk(2, dim=-1)
    if watch.observer.current is not None:
        _observe(cell, attention, inputs, before, tape, size, summaries)
        started = summaries.chunk(2, dim=-1)
        final = state if lengths is None else outputs[:, -1].chunk(2, dim=-1)
        cell.observe(inputs, hidden, before.state, final, None, mask, started)
    summary = last_of(summaries, lengths).chunk(2, dim=-1)
    return hidden, before.after(state, summary, tape, size, inputs.shape[1], lengths)


def _observe(
    cell: RecurrentCell,
    attention: Attention,
    inputs: Tensor,
    before: TapeState,
    tape: Tape,
    size: int | None,
    summaries: Tensor,
) -> None:
    """Report each step's attention to the tape to the observer."""
    assert watch.observer.current is not None and tape.keys is not None
    earlier = torch.cat([before.summary[0].unsqueeze(1), summaries[:, :-1, : cell.d_hidden]], dim=1)
    queries = attention.score.project(torch.cat([inputs, earlier], dim=-1)).unsqueeze(1)  # (R, 1, n, d_attention)
    prepared, value, num_tokens = tape.keys.prepared, tape.keys.value, inputs.shape[1]
    for t in range(num_tokens):
        now = len(tape) - num_tokens + t
        if now == 0:
            continue
        places = slice(0 if size is None else max(0, now - size), now)
        keys = Keys(prepared[:, :, places], value[:, :, places], None, tape.keys.origin)
        position, seen = before.position + t, summaries[:, None, t : t + 1]
        scope = Scope(offset=position, key_offset=position - len(keys))
        call = watch.AttentionCall(queries[:, :, t : t + 1], keys, scope, seen, None, 0.0, attention.score)
        watch.observer.current.attention(attention, call)
