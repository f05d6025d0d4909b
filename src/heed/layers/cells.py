"""Recurrent cells: single steps from their equations, torch's fused kernels, and gates recomputed from the states.

The steps are the specification. Training runs fused kernels, one call per layer and direction; these do not return
gates or an LSTM's cell states, which are recomputed from the hidden states when observed: the gates are one product
over (x_t, h_{t-1}), and the cells follow by scanning `f * c + i * g`.

Shapes: B batch, T length, `d_input`, `d_hidden`; weights `(gates * d_hidden, d_input or d_hidden)` in torch's order.
Symbols: the notes write one matrix on the concatenation [h, x]; torch keeps two matrices, `w_ih` on the input and
`w_hh` on the state, which is the same matrix split in two.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from heed.attention import watch
from heed.errors import ConfigError, suggest
from heed.kernels import gru_sequence, linear
from heed.shapes import Bool, Float, Int

CellKind = Literal["rnn", "lstm", "gru", "gru_notes"]
State = tuple[Tensor, ...]
"""hidden `(batch, d_hidden)`, and for an LSTM also cell `(batch, d_hidden)`."""
States = list[list[State]]
"""The state of every layer and direction."""
Weights = dict[str, Tensor]


def rnn_gates(x: Tensor, h: Tensor, w: Weights) -> tuple[Tensor, ...]:
    """`h' = tanh(W_hx x + W_hh h + b)`.

    Source: Elman 1990; docs/systems.md, A3.
    """
    return (torch.tanh(linear(x, w["w_ih"], w["b_ih"]) + linear(h, w["w_hh"], w["b_hh"])),)


def lstm_gates(x: Tensor, h: Tensor, w: Weights) -> tuple[Tensor, ...]:
    """Gates i, f, o = sigmoid(W [h, x] + b), g = tanh(W_C [h, x] + b_C); c' = f c + i g; h' = o tanh(c').

    Source: Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000; docs/systems.md, A4.
    """
    i, f, g, o = (linear(x, w["w_ih"], w["b_ih"]) + linear(h, w["w_hh"], w["b_hh"])).chunk(4, dim=-1)
    return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)


def gru_gates(x: Tensor, h: Tensor, w: Weights) -> tuple[Tensor, ...]:
    """Torch's GRU: h~ = tanh(W x + b + r (U h + b')); h' = (1 - z) h~ + z h.

    Source: Cho et al. 2014 (arXiv:1406.1078), equations 5-8, where z also weighs the old state.
    Differs from the paper and from the notes (`gru_notes_gates`): the reset gate acts after the matrix U.
    """
    x_r, x_z, x_n = linear(x, w["w_ih"], w["b_ih"]).chunk(3, dim=-1)
    h_r, h_z, h_n = linear(h, w["w_hh"], w["b_hh"]).chunk(3, dim=-1)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    return r, z, torch.tanh(x_n + r * h_n)


def gru_notes_gates(x: Tensor, h: Tensor, w: Weights) -> tuple[Tensor, ...]:
    """The notes' GRU: z = s(W_z [h, x]), r = s(W_r [h, x]); h~ = tanh(W [r h, x]); h' = (1 - z) h + z h~.

    The reset gate acts before the matrix, and z weighs the candidate instead of the old state.
    Source: docs/systems.md, A5. Differs from the notes: with biases.
    """
    x_r, x_z, x_n = linear(x, w["w_ih"], w["b_ih"]).chunk(3, dim=-1)
    (u_r, u_z, u_n), (b_r, b_z, b_n) = w["w_hh"].chunk(3), w["b_hh"].chunk(3)
    r, z = torch.sigmoid(x_r + linear(h, u_r, b_r)), torch.sigmoid(x_z + linear(h, u_z, b_z))
    return r, z, torch.tanh(x_n + linear(r * h, u_n, b_n))


_GATES = {
    "rnn": (rnn_gates, ("candidate",)),
    "lstm": (lstm_gates, ("input", "forget", "candidate", "output")),
    "gru": (gru_gates, ("reset", "update", "candidate")),
    "gru_notes": (gru_notes_gates, ("reset", "update", "candidate")),
}


def _next_state(cell: str, gates: tuple[Tensor, ...], state: State) -> State:
    """The state after a step, from its gates and the previous state."""
    if cell == "rnn":
        return gates
    if cell == "lstm":
        i, f, g, o = gates
        c = f * state[1] + i * g
        return o * torch.tanh(c), c
    _, z, n = gates
    h = state[0]
    return ((1 - z) * n + z * h if cell == "gru" else (1 - z) * h + z * n,)


def replay_gates(
    cell: str,
    weights: Weights,
    inputs: Float[Tensor, "batch length d_input"],
    hidden: Float[Tensor, "batch length d_hidden"],
    initial: State,
    started: tuple[Tensor, ...] | None = None,
) -> dict[str, Tensor]:
    """Recompute every gate of a finished run from its inputs and states.

    Args:
        cell: Kind of cell.
        weights: `w_ih, w_hh, b_ih, b_hh`.
        inputs: `(batch, length, d_input)`.
        hidden: `(batch, length, d_hidden)`, the states that the run returned.
        initial: State before the first position.
        started: The state from which each position started, `(batch, length, d_hidden)` each, if that is not the one
            after the previous position.

    Returns:
        `(batch, length, d_hidden)` by gate name: reset, update, candidate for a GRU; input, forget, candidate,
        output and cell for an LSTM; candidate for an RNN. Also "hidden", the states recomputed from the gates, which
        the caller can compare with `hidden`.
    """
    previous = torch.cat([initial[0].unsqueeze(1), hidden[:, :-1]], dim=1) if started is None else started[0]
    compute, names = _GATES[cell]
    gates = compute(inputs, previous, weights)  # (B, T, d_hidden) each
    named = dict(zip(names, gates, strict=True))
    if cell != "lstm":
        return {**named, "hidden": _next_state(cell, gates, (previous,))[0]}
    i, f, g, o = gates
    c, cells = initial[1], []
    for t in range(inputs.shape[1]):
        c = f[:, t] * (c if started is None else started[1][:, t]) + i[:, t] * g[:, t]
        cells.append(c)
    cell_states = torch.stack(cells, dim=1)
    return {**named, "cell": cell_states, "hidden": o * torch.tanh(cell_states)}


class RecurrentCell(nn.Module):
    """One layer in one direction: the same weights for single steps and for whole sequences in one kernel.

    Args of the constructor: widths of input and state, and the kind of cell: "rnn" (tanh), "lstm", "gru" (torch's)
    or "gru_notes" (the notes' gating, which has no fused kernel and runs step by step); others raise ConfigError.
    """

    def __init__(self, d_input: int, d_hidden: int, cell: str = "gru") -> None:
        super().__init__()
        if cell not in get_args(CellKind):
            raise ConfigError(f"unknown cell '{cell}'{suggest(cell, get_args(CellKind))}")
        self.cell = cell
        self.d_input = d_input
        self.d_hidden = d_hidden
        gates = len(_GATES[cell][1])
        self.w_ih = nn.Parameter(torch.empty(gates * d_hidden, d_input))
        self.w_hh = nn.Parameter(torch.empty(gates * d_hidden, d_hidden))
        self.b_ih = nn.Parameter(torch.empty(gates * d_hidden))
        self.b_hh = nn.Parameter(torch.empty(gates * d_hidden))
        for parameter in self.parameters():  # as torch initialises recurrent layers
            nn.init.uniform_(parameter, -1 / math.sqrt(d_hidden), 1 / math.sqrt(d_hidden))

    def weights(self) -> Weights:
        """The parameters by name, live."""
        return {"w_ih": self.w_ih, "w_hh": self.w_hh, "b_ih": self.b_ih, "b_hh": self.b_hh}

    def zero_state(self, like: Float[Tensor, "batch *any"]) -> State:
        """State of zeros for a batch, with the device and dtype of `like`."""
        zero = like.new_zeros(len(like), self.d_hidden)
        return (zero, zero) if self.cell == "lstm" else (zero,)

    def readable_step(self, x: Float[Tensor, "batch d_input"], state: State) -> State:
        """One step by the equations; the specification of `step`."""
        return _next_state(self.cell, _GATES[self.cell][0](x, state[0], self.weights()), state)

    def step(self, x: Float[Tensor, "batch d_input"], state: State) -> State:
        """The next state, by torch's cell."""
        parameters = (self.w_ih, self.w_hh, self.b_ih, self.b_hh)
        if self.cell == "gru":
            return (torch.gru_cell(x, state[0], *parameters),)
        if self.cell == "lstm":
            return torch.lstm_cell(x, state, *parameters)
        if self.cell == "rnn":
            return (torch.rnn_tanh_cell(x, state[0], *parameters),)
        return self.readable_step(x, state)

    def sequence(self, inputs: Float[Tensor, "batch length d_input"], initial: State) -> tuple[Tensor, State]:
        """Run over whole sequences in one kernel; returns hidden `(batch, length, d_hidden)` and the last state."""
        if self.cell == "gru_notes":
            states, state = [], initial
            for t in range(inputs.shape[1]):
                state = self.step(inputs[:, t], state)
                states.append(state[0])
            return torch.stack(states, dim=1), state
        parameters: list[Tensor] = [self.w_ih, self.w_hh, self.b_ih, self.b_hh]
        if self.cell == "gru" and self.training:
            hidden = gru_sequence(inputs, initial[0], *parameters)
            return hidden, (hidden[:, -1],)
        first = [s.unsqueeze(0) for s in initial]
        # (input, state, weights, biases, layers, dropout, train, bidirectional, batch_first)
        options = (True, 1, 0.0, self.training, False, True)
        if self.cell == "lstm":
            hidden, h, c = torch.lstm(inputs, first, parameters, *options)
            return hidden, (h.squeeze(0), c.squeeze(0))
        kernel = torch.gru if self.cell == "gru" else torch.rnn_tanh
        hidden, h = kernel(inputs, first[0], parameters, *options)
        return hidden, (h.squeeze(0),)

    def observe(
        self,
        inputs: Tensor,
        hidden: Tensor,
        initial: State,
        final: State,
        order: Tensor | None = None,
        mask: Tensor | None = None,
        started: State | None = None,
    ) -> None:
        """Report a finished run to the observer, if any; arguments as in `watch.RecurrentCall`."""
        if watch.slot is not None:
            call = watch.RecurrentCall(self.cell, self.weights(), inputs, hidden, initial, final, order, mask, started)
            watch.slot.recurrence(self, call)

    def extra_repr(self) -> str:
        """Kind and widths."""
        return f"{self.cell}, d_input={self.d_input}, d_hidden={self.d_hidden}"


class StepwiseRun:
    """A run of one cell whose inputs depend on its states: computed step by step, observed as a whole.

    Attributes:
        state: The state after the last step.
    """

    def __init__(self, cell: RecurrentCell, initial: State) -> None:
        self.state = initial
        self._cell = cell
        self._initial = initial
        self._inputs: list[Tensor] = []
        self._states: list[State] = []
        self._started: list[State] = []

    def step(self, x: Float[Tensor, "batch d_input"], started: State | None = None) -> State:
        """Read one input, starting from `started` if given, otherwise from the current state."""
        self.state = self._cell.step(x, self.state if started is None else started)
        self._inputs.append(x)
        self._states.append(self.state)
        if started is not None:
            self._started.append(started)
        return self.state

    def finish(self, mask: Bool[Tensor, "batch length"] | None = None) -> Float[Tensor, "batch length d_hidden"]:
        """Return the hidden state after each step, and report the run to the observer, if any."""
        hidden = torch.stack([state[0] for state in self._states], dim=1)
        if watch.slot is not None:
            started = tuple(torch.stack(parts, dim=1) for parts in zip(*self._started, strict=True)) or None
            inputs = torch.stack(self._inputs, dim=1)
            self._cell.observe(inputs, hidden, self._initial, self.state, None, mask, started)
        return hidden

    def state_at(self, lengths: Int[Tensor, " batch"] | None) -> State:
        """The state of each row after `lengths` steps; after the last step if `lengths` is None."""
        if lengths is None:
            return self.state
        return tuple(last_of(torch.stack(parts, dim=1), lengths) for parts in zip(*self._states, strict=True))


def last_of(x: Float[Tensor, "rows n d"], lengths: Int[Tensor, " rows"] | None) -> Float[Tensor, "rows d"]:
    """Each row at its last real position; at the last position if `lengths` is None."""
    return x[:, -1] if lengths is None else x[torch.arange(len(x), device=x.device), lengths - 1]
