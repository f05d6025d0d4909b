"""Recurrent cells, their steps by equation, and recurrent layers over ragged batches, in one direction or both.

Last, a cell that attends to a memory before each step.

The steps are the specification. Training runs fused kernels, one call per layer and direction; these do not return
gates or an LSTM's cell states, which are recomputed from the hidden states when observed: the gates are one product
over (x_t, h_{t-1}), and the cells follow by scanning `f * c + i * g`.

Sequences are padded, never packed: one kernel runs over the padded batch, and the backward direction flips each
sequence within its own length, so that padding is only read after the sequence. If no state depends on a context
(`seq2seq`, `rnn`, `luong` without input feeding), a teacher-forced target is one kernel call too.

Shapes: B batch, T length, `d_input`, `d_hidden`; weights `(gates * d_hidden, d_input or d_hidden)` in torch's order.
Symbols: the notes write one matrix on the concatenation [h, x]; torch keeps two matrices, `w_ih` on the input and
`w_hh` on the state, which is the same matrix split in two.
"""

import functools
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal, TypeVar, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from heed.attention import Additive, Attention, Keys, Rows, watch
from heed.attention.host import host_copy
from heed.attention.keys import Scope
from heed.errors import ConfigError, suggest
from heed.kernels import aligned_gru, gru_sequence, linear, trains_by_hand
from heed.layers.elementwise import Dropout
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


T = TypeVar("T")


def _in_full_precision(run: Callable[..., T]) -> Callable[..., T]:
    """A method of a cell without autocast, its inputs in the type of the weights.

    On a GPU, autocast runs torch's recurrent kernels in float16 whatever type is asked for; without scaling of the
    loss, small gradients become zero there. Products inside may still be TF32 (`torch.backends.cudnn.allow_tf32`).
    """

    @functools.wraps(run)
    def method(cell: "RecurrentCell", inputs: Tensor, state: State) -> T:
        device, dtype = inputs.device.type, cell.w_ih.dtype
        if not torch.is_autocast_enabled(device):
            return run(cell, inputs, state)
        with torch.autocast(device, enabled=False):
            return run(cell, inputs.to(dtype), tuple(part.to(dtype) for part in state))

    return method


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

    @_in_full_precision
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

    @_in_full_precision
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
        if watch.observer.current is not None:
            call = watch.RecurrentCall(self.cell, self.weights(), inputs, hidden, initial, final, order, mask, started)
            watch.observer.current.recurrence(self, call)

    def extra_repr(self) -> str:
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
        state = self._cell.step(x, self.state if started is None else started)
        self.state = state if watch.observer.current is None else watch.observer.current.state(self._cell, state)
        self._inputs.append(x)
        self._states.append(self.state)
        if started is not None:
            self._started.append(started)
        return self.state

    def finish(
        self, mask: Bool[Tensor, "batch length"] | None = None, order: Int[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length d_hidden"]:
        """Return the hidden state after each step, and report the run to the observer, if any."""
        hidden = _in_a_row([state[0] for state in self._states])
        if watch.observer.current is not None:
            started = tuple(torch.stack(parts, dim=1) for parts in zip(*self._started, strict=True)) or None
            inputs = torch.stack(self._inputs, dim=1)
            self._cell.observe(inputs, hidden, self._initial, self.state, order, mask, started)
        return hidden

    def state_at(self, lengths: Int[Tensor, " batch"] | None) -> State:
        """The state of each row after `lengths` steps; after the last step if `lengths` is None."""
        if lengths is None:
            return self.state
        return tuple(last_of(torch.stack(parts, dim=1), lengths) for parts in zip(*self._states, strict=True))


def _in_a_row(steps: list[Tensor]) -> Tensor:
    """Tensors `(rows, d)` of one or several steps as one, `(rows, steps, d)`."""
    return torch.stack(steps, dim=1) if len(steps) > 1 else steps[0].unsqueeze(1)


def last_of(x: Float[Tensor, "rows n d"], lengths: Int[Tensor, " rows"] | None) -> Float[Tensor, "rows d"]:
    """Each row at its last real position; at the last position if `lengths` is None."""
    return x[:, -1] if lengths is None else x[torch.arange(len(x), device=x.device), lengths - 1]


class Recurrent(nn.Module):
    """Recurrent layers over ragged batches, in one direction or both.

    Outputs at padding are zero, and padding does not affect other outputs. The backward direction reads each sequence
    from its own last position. The outputs of both directions are concatenated: `[forward ; backward]`.

    Source: Schuster and Paliwal 1997 for both directions; docs/systems.md, A3-A6.
    """

    def __init__(
        self,
        d_input: int,
        d_hidden: int,
        *,
        cell: str = "gru",
        num_layers: int = 1,
        bidirectional: bool = False,
        backward: bool = False,
        dropout: float = 0.0,
    ) -> None:
        """Build the layers, each reading the outputs of the previous one.

        `bidirectional` adds a network that reads from the end; `backward` builds only that one. Inputs of the second
        and later layers are dropped with probability `dropout`.
        """
        super().__init__()
        self.d_output = d_hidden * (2 if bidirectional else 1)
        widths = [d_input] + [self.d_output] * (num_layers - 1)

        def cells(exists: bool) -> nn.ModuleList:
            return nn.ModuleList(RecurrentCell(width, d_hidden, cell) for width in widths if exists)

        self.forward_cells = cells(bidirectional or not backward)
        self.backward_cells = cells(bidirectional or backward)
        self.num_layers = num_layers
        self.dropout = Dropout(dropout)

    def zero_states(self, like: Float[Tensor, "batch *any"]) -> States:
        """Zero states of every layer and direction for a batch, with the device and dtype of `like`."""
        directions = [cells for cells in (self.forward_cells, self.backward_cells) if cells]
        return [
            [cast(RecurrentCell, cells[i]).zero_state(like) for cells in directions] for i in range(self.num_layers)
        ]

    def forward(
        self,
        inputs: Float[Tensor, "batch length d_input"],
        mask: Bool[Tensor, "batch length"] | None = None,
        initial: States | None = None,
    ) -> tuple[Float[Tensor, "batch length d_output"], States]:
        """Run over whole sequences.

        Args:
            inputs: `(batch, length, d_input)`.
            mask: `(batch, length)`, True within each sequence, whose tokens come first; None if nothing is padded.
            initial: The state of each layer and direction before the first position, as returned by an earlier run;
                zeros by default.

        Returns:
            outputs `(batch, length, d_output)`, zero outside the mask; and per layer and direction the state after
            the last position of the sequence (for the backward direction: after its first).
        """
        flipped = _reversed_within(inputs, mask) if self.backward_cells else None
        finals: States = []
        for layer in range(self.num_layers):
            if layer:
                inputs = self.dropout(inputs)
            outputs: list[Tensor] = []
            finals.append([])
            for cells, order in ((self.forward_cells, None), (self.backward_cells, flipped)):
                if cells:
                    first = None if initial is None else initial[layer][len(outputs)]
                    states, final = _run(cells[layer], inputs, mask, order, first)
                    outputs.append(states)
                    finals[-1].append(final)
            joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
            inputs = joined if mask is None else joined * mask.unsqueeze(-1)
        return inputs, finals


def _run(
    cell: nn.Module, inputs: Tensor, mask: Tensor | None, order: Tensor | None, initial: State | None
) -> tuple[Tensor, State]:
    """One cell over one batch, with positions permuted by `order` if given (which must be its own inverse).

    The final state of each row is that after its own last position.
    """
    assert isinstance(cell, RecurrentCell)
    inputs = inputs if order is None else _take(inputs, order)
    initial = cell.zero_state(inputs) if initial is None else initial
    lengths = None if mask is None else mask.sum(1)
    if watch.observer.current is not None and watch.observer.current.patches(cell):
        run = StepwiseRun(cell, initial)
        for x in inputs.unbind(1):
            run.step(x)
        hidden, final = run.finish(mask, order), run.state_at(lengths)
    else:
        hidden, final = cell.sequence(inputs, initial) if mask is None else _ragged(cell, inputs, mask, initial)
        cell.observe(inputs, hidden, initial, final, order, mask)
    return hidden if order is None else _take(hidden, order), final


def _ragged(
    cell: RecurrentCell, inputs: Tensor, mask: Bool[Tensor, "batch length"], initial: State
) -> tuple[Tensor, State]:
    """Run over all positions; the final state of an empty sequence is its initial one."""
    lengths = mask.sum(1)
    last = (lengths.clamp_min(1) - 1).unsqueeze(1)
    if cell.cell != "lstm":
        hidden, _ = cell.sequence(inputs, initial)
        return hidden, (torch.where(lengths.unsqueeze(1) > 0, _take(hidden, last).squeeze(1), initial[0]),)
    # The kernel returns an LSTM's cell state after its last input only, so split the run wherever a sequence ends.
    # Lengths within a batch are similar, so there are few splits; recomputing every gate would double the work.
    stops = sorted({*host_copy(mask).sum(1).tolist(), inputs.shape[1]} - {0})
    parts, state, final = [], initial, initial
    for start, stop in pairwise([0, *stops]):
        part, state = cell.sequence(inputs[:, start:stop], state)
        parts.append(part)
        ends_here = (lengths == stop).unsqueeze(1)
        final = tuple(torch.where(ends_here, now, before) for now, before in zip(state, final, strict=True))
    return torch.cat(parts, dim=1), final


def _reversed_within(inputs: Tensor, mask: Tensor | None) -> Int[Tensor, "batch length"]:
    """Positions that flip each sequence within its length (3 of 5: 2 1 0 3 4); the permutation is its own inverse."""
    length = inputs.shape[1]
    position = torch.arange(length, device=inputs.device).expand(len(inputs), -1)
    if mask is None:
        return length - 1 - position
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - position, position)


def _take(x: Float[Tensor, "batch length d"], positions: Tensor) -> Float[Tensor, "batch taken d"]:
    """`x[b, positions[b, t]]`."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


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
    return run.finish(), _in_a_row(contexts), run.state_at(lengths)


def _in_one_call(cell: RecurrentCell, attention: Attention, inputs: Tensor) -> bool:
    """Whether `aligned_gru` applies: training, a GRU with the additive score, and no edited weights."""
    is_supported = isinstance(attention.score, Additive) and cell.cell == "gru" and trains_by_hand(inputs)
    observer = watch.observer.current
    return is_supported and attention.training and (observer is None or not observer.edits(attention))


def _all_at_once(
    cell: RecurrentCell, attention: Attention, inputs: Tensor, keys: Keys, rows: Rows, state: State, position: Tensor
) -> tuple[Tensor, Tensor]:
    score, dropout, (first,) = attention.score, attention.dropout, state
    assert isinstance(score, Additive)
    dropout_mask = drop(inputs.new_ones(inputs.shape[1], len(inputs), 1, len(keys)), dropout) if dropout > 0 else None
    memory = keys.prepared.squeeze(1), keys.value.squeeze(1), keys.mask
    weights = cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh
    hidden, seen = aligned_gru(inputs, first, *memory, score.w_query.weight, score.v, weights, dropout_mask)
    if watch.observer.current is not None:
        queries = score.project(torch.cat([first.unsqueeze(1), hidden[:, :-1]], dim=1)).unsqueeze(1)  # (R, 1, n, d)
        scope = Scope(rows=rows, offset=position)
        call = watch.AttentionCall(queries, keys, scope, seen.unsqueeze(1), None, dropout, score)
        watch.observer.current.attention(attention, call)
        read = torch.cat([inputs, seen[..., : cell.d_input - inputs.shape[-1]]], dim=-1)
        cell.observe(read, hidden, state, (hidden[:, -1],))
    return hidden, seen
