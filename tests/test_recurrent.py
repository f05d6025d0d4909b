"""Recurrent cells: readable steps are the references, and everything faster is the readable steps."""

from typing import get_args

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from contract import assert_close_in_scale
from equations import notes_matrices, randn, sharpened, step_of
from heed.errors import ConfigError
from heed.layers import Recurrent, RecurrentCell, replay_gates
from heed.layers.recurrent import CellKind

CELLS = get_args(CellKind)
B, T, D_INPUT, D = 3, 5, 4, 3
LENGTHS = torch.tensor([5, 2, 4])
MASK = torch.arange(T) < LENGTHS.unsqueeze(1)
TIGHT = {"rtol": 0, "atol": 1e-12}


def make_cell(kind, d_input=D_INPUT):
    torch.manual_seed(1)
    return sharpened(RecurrentCell(d_input, D, kind).double())


def make_state(kind, batch=B):
    parts = 2 if kind == "lstm" else 1
    return tuple(randn(batch, D, seed=20 + i) for i in range(parts))


def reference_state(state, b):
    parts = tuple(part[b].numpy() for part in state)
    return parts if len(parts) == 2 else parts[0]


def unroll(cell, inputs, state):
    """Whole sequences by readable steps."""
    hidden = []
    for t in range(inputs.shape[1]):
        state = cell.readable_step(inputs[:, t], state)
        hidden.append(state[0])
    return torch.stack(hidden, dim=1), state


@pytest.mark.parametrize("kind", CELLS)
def test_a_readable_step_is_the_reference(kind):
    cell, x, state = make_cell(kind), randn(B, D_INPUT), make_state(kind)
    result = cell.readable_step(x, state)
    for b in range(B):
        expected = step_of(cell)(x[b].numpy(), reference_state(state, b))
        expected = expected if isinstance(expected, tuple) else (expected,)
        assert_close(tuple(part[b] for part in result), tuple(map(torch.from_numpy, expected)), **TIGHT)


@pytest.mark.parametrize("kind", CELLS)
def test_the_fused_step_is_the_readable_step(kind):
    cell, x, state = make_cell(kind), randn(B, D_INPUT).requires_grad_(), make_state(kind)
    inputs = [x, *(part.requires_grad_() for part in state), *cell.parameters()]
    results, gradients = [], []
    for step in (cell.step, cell.readable_step):
        result = step(x, state)
        results.append(result)
        gradients.append(torch.autograd.grad(sum(part.square().sum() for part in result), inputs))
    assert_close(tuple(results[0]), results[1], **TIGHT)
    assert_close_in_scale(*gradients, 1e-12, rtol=0)


@pytest.mark.parametrize("kind", CELLS)
def test_a_whole_sequence_in_one_kernel_is_the_readable_steps(kind):
    cell, x, state = make_cell(kind), randn(B, T, D_INPUT).requires_grad_(), make_state(kind)
    inputs = [x, *(part.requires_grad_() for part in state), *cell.parameters()]
    results, gradients = [], []
    for hidden, final in (cell.sequence(x, state), unroll(cell, x, state)):
        results.append((hidden, *final))
        loss = hidden.square().sum() + sum((part**3).sum() for part in final)
        gradients.append(torch.autograd.grad(loss, inputs))
    assert_close(*results, **TIGHT)
    assert_close_in_scale(*gradients, 1e-12, rtol=0)


@pytest.mark.parametrize("kind", CELLS)
def test_gates_are_replayed_from_the_states(kind):
    cell, x, state = make_cell(kind), randn(B, T, D_INPUT), make_state(kind)
    with torch.no_grad():
        hidden, _ = cell.sequence(x, state)
        gates = replay_gates(kind, cell.weights(), x, hidden, state)
    assert_close(gates["hidden"], hidden, **TIGHT)
    names = {
        "rnn": {},
        "lstm": {"i": "input", "f": "forget", "g": "candidate", "o": "output"},
        "gru": {"r": "reset", "z": "update", "n": "candidate"},
        "gru_notes": {"r": "reset", "z": "update", "h~": "candidate"},
    }[kind]
    w = [p.detach().numpy() for p in (cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh)]
    for b in range(B):
        current = reference_state(state, b)
        for t in range(T):
            h, step_input = current[0] if kind == "lstm" else current, x[b, t].numpy()
            if kind == "gru_notes":
                expected = ref.gru_gates_notes(step_input, h, *notes_matrices(cell))
            elif names:
                expected = {"lstm": ref.lstm_gates, "gru": ref.gru_gates_torch}[kind](step_input, h, *w)
            current = step_of(cell)(step_input, current)
            for theirs, ours in names.items():
                assert_close(gates[ours][b, t], torch.from_numpy(expected[theirs]), **TIGHT)
            if kind == "lstm":
                assert_close(gates["cell"][b, t], torch.from_numpy(current[1]), **TIGHT)
            if kind == "rnn":
                assert_close(gates["candidate"][b, t], torch.from_numpy(current), **TIGHT)


def make_layers(kind, **options):
    torch.manual_seed(2)
    return Recurrent(D_INPUT, D, cell=kind, **options).double()


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", CELLS)
def test_ragged_layers_are_the_reference_at_each_true_length(kind, bidirectional, num_layers):
    layers, x = make_layers(kind, bidirectional=bidirectional, num_layers=num_layers), randn(B, T, D_INPUT)
    outputs, finals = layers(x.masked_fill(~MASK.unsqueeze(-1), 1e3), MASK)
    assert not outputs[~MASK].any()
    zero = (np.zeros(D), np.zeros(D)) if kind == "lstm" else np.zeros(D)
    for b, length in enumerate(LENGTHS.tolist()):
        xs = x[b, :length].numpy()
        for layer in range(num_layers):
            steps = [step_of(layers.forward_cells[layer])]
            last = [ref.run_rnn(steps[0], xs, zero)[1]]
            if bidirectional:
                steps.append(step_of(layers.backward_cells[layer]))
                last.append(ref.run_rnn(steps[1], xs[::-1], zero)[1])
                xs = ref.bidirectional(*steps, xs, zero)
            else:
                xs = ref.run_rnn(steps[0], xs, zero)[0]
            assert len(finals[layer]) == len(last)
            for final, expected in zip(finals[layer], last, strict=True):
                expected = expected if kind == "lstm" else (expected,)
                assert_close(tuple(part[b] for part in final), tuple(map(torch.from_numpy, expected)), **TIGHT)
        assert_close(outputs[b, :length], torch.from_numpy(xs), **TIGHT)


@pytest.mark.parametrize("kind", CELLS)
def test_gradients_of_ragged_batches_are_those_of_each_sequence_alone(kind):
    layers, x = make_layers(kind, bidirectional=True), randn(B, T, D_INPUT).requires_grad_()

    def loss(outputs, finals):
        return outputs.square().sum() + sum((part**3).sum() for layer in finals for final in layer for part in final)

    wanted = [x, *layers.parameters()]
    together = torch.autograd.grad(loss(*layers(x, MASK)), wanted)
    alone = sum(loss(*layers(x[b : b + 1, :length])) for b, length in enumerate(LENGTHS.tolist()))
    assert_close_in_scale(together, torch.autograd.grad(alone, wanted), 1e-12, rtol=0)


@pytest.mark.parametrize("kind", CELLS)
def test_an_empty_sequence_ends_where_it_began(kind):
    layers, mask = make_layers(kind, bidirectional=True), MASK.clone()
    mask[1] = False
    outputs, finals = layers(randn(B, T, D_INPUT), mask)
    assert not outputs[1].any()
    assert not any(part[1].any() for final in finals[0] for part in final)
    assert all(part[0].any() for final in finals[0] for part in final)


def test_an_unknown_cell_suggests_the_nearest():
    with pytest.raises(ConfigError, match="unknown cell 'lstmm'; did you mean 'lstm'"):
        RecurrentCell(3, 3, "lstmm")


@pytest.mark.parametrize("whole", [True, False], ids=["sequence", "step"])
@pytest.mark.parametrize("kind", sorted({*CELLS} - {"gru_notes"}))  # which has no kernel of torch
def test_autocast_does_not_lower_the_precision_of_torch_kernels(kind, whole, monkeypatch):
    name = {"rnn": "rnn_tanh"}.get(kind, kind) + ("" if whole else "_cell")
    kernel, seen = getattr(torch, name), []

    def recorded(inputs, *given):
        seen.append((inputs.dtype, torch.is_autocast_enabled("cpu")))
        return kernel(inputs, *given)

    monkeypatch.setattr(torch, name, recorded)
    cell = make_cell(kind).float().eval()
    inputs, state = randn(B, T, D_INPUT, seed=3), make_state(kind)
    with torch.autocast("cpu", torch.bfloat16):
        low = inputs.bfloat16() if whole else inputs[:, 0].bfloat16()
        state = tuple(part.bfloat16() for part in state)
        found = cell.sequence(low, state)[0] if whole else cell.step(low, state)[0]
    assert seen == [(torch.float32, False)] and found.dtype == torch.float32
    rounded = tuple(part.float() for part in state)
    again = cell.sequence(low.float(), rounded)[0] if whole else cell.step(low.float(), rounded)[0]
    assert_close(found, again)
