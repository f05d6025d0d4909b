"""The GRU of large products is the GRU of the equations, in values and in gradients."""

import pytest
import torch
from torch.testing import assert_close

from heed.kernels.gru import gru
from heed.layers.recurrent import RecurrentCell


def by_steps(cell, inputs, state):
    states = []
    for t in range(inputs.shape[1]):
        state = cell.readable_step(inputs[:, t], state)
        states.append(state[0])
    return torch.stack(states, dim=1)


@pytest.mark.parametrize("batch, length, d_input, d_hidden", [(3, 4, 5, 6), (40, 5, 130, 128), (70, 1, 96, 160)])
def test_it_is_a_run_of_steps(batch, length, d_input, d_hidden):
    """The last two are large enough to be what a model trains with where there is a faster library."""
    torch.manual_seed(0)
    cell = RecurrentCell(d_input, d_hidden, "gru")
    inputs = torch.randn(batch, length, d_input, requires_grad=True)
    initial = torch.randn(batch, d_hidden, requires_grad=True)
    wanted = [inputs, initial, *cell.parameters()]
    expected = by_steps(cell, inputs, (initial,))
    weight = torch.randn_like(expected)
    gradients = torch.autograd.grad((expected * weight).sum(), wanted)
    for hidden in (gru(inputs, initial, *cell.parameters()), cell.sequence(inputs, (initial,))[0]):
        assert_close(hidden, expected, rtol=1e-4, atol=1e-5)
        assert_close(torch.autograd.grad((hidden * weight).sum(), wanted), gradients, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        hidden, (last,) = cell.sequence(inputs, (initial,))
    assert_close(hidden, expected, rtol=1e-4, atol=1e-5)
    assert_close(last, expected[:, -1], rtol=1e-4, atol=1e-5)


def test_the_state_after_the_last_position_passes_its_gradient_on():
    torch.manual_seed(0)
    cell = RecurrentCell(128, 128, "gru")
    inputs = torch.randn(40, 3, 128, requires_grad=True)
    zero = cell.zero_state(inputs[:, 0])
    (given,) = torch.autograd.grad(cell.sequence(inputs, zero)[1][0].sum(), inputs)
    (expected,) = torch.autograd.grad(by_steps(cell, inputs, zero)[:, -1].sum(), inputs)
    assert_close(given, expected, rtol=1e-4, atol=1e-5)
