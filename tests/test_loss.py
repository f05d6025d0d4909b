"""The loss in pieces is the loss."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

import reference as ref
from heed.training.loss import vocabulary_loss

N, D, V = 13, 6, 9
ROW = 4 * V  # bytes of one position's logits


class Spy(nn.Linear):
    """Counts the positions of each call."""

    def forward(self, x):
        self.__dict__.setdefault("calls", []).append(len(x))
        return super().forward(x)


def make(positions=N, seed=0, kind=Spy, **fields):
    torch.manual_seed(seed)
    return torch.randn(positions, D, requires_grad=True), kind(D, V, **fields), torch.randint(0, V, (positions,))


@pytest.mark.parametrize("piece_bytes", [1, ROW, 4 * ROW, N * ROW, 10**6])
@pytest.mark.parametrize(
    ("smoothing", "kind"), [(0.1, {}), (0.0, {"kind": nn.Linear}), (0.1, {"kind": nn.Linear, "bias": False})], ids=str
)
def test_any_piece_size_gives_the_cross_entropy_and_its_gradients(smoothing, piece_bytes, kind):
    hidden, output, targets = make(**kind)
    wanted = [hidden, *output.parameters()]
    expected = cross_entropy(output(hidden), targets, reduction="sum", label_smoothing=smoothing)
    loss = vocabulary_loss(hidden, output, targets, smoothing, piece_bytes)
    assert_close(loss, expected)
    # scaled, as by the number of tokens in training
    assert_close(torch.autograd.grad(loss / 3, wanted), torch.autograd.grad(expected / 3, wanted))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_it_is_the_sum_of_the_reference_over_positions(smoothing):
    hidden, output, targets = make()
    logits = output(hidden).detach().numpy()
    expected = sum(ref.cross_entropy_smoothed(logits[i], int(targets[i]), smoothing) for i in range(N))
    assert vocabulary_loss(hidden, output, targets, smoothing, 4 * ROW).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("backward", [True, False])
def test_no_more_than_a_piece_of_the_logits_is_made_at_a_time(rows, backward):
    hidden, output, targets = make()
    with torch.set_grad_enabled(backward):
        loss = vocabulary_loss(hidden, output, targets, piece_bytes=rows * ROW)
    if backward:
        loss.backward()
    assert max(output.calls) == rows
    assert sum(output.calls) == N  # each position once: nothing is computed again for the gradient


def test_a_frozen_output_layer_still_passes_the_gradient_to_the_hidden_states():
    hidden, output, targets = make()
    output.weight.requires_grad_(False)
    vocabulary_loss(hidden, output, targets, piece_bytes=4 * ROW).backward()
    expected = torch.autograd.grad(cross_entropy(output(hidden), targets, reduction="sum"), [hidden, output.bias])
    assert output.weight.grad is None
    assert_close((hidden.grad, output.bias.grad), expected)


def test_no_positions_cost_nothing():
    hidden, output, targets = make(0)
    loss = vocabulary_loss(hidden, output, targets)
    assert loss.item() == 0
    loss.backward()
    assert hidden.grad.shape == (0, D)
    assert not output.weight.grad.any()


@pytest.mark.parametrize("kind", [Spy, nn.Linear])
def test_a_token_that_is_all_but_impossible_costs_what_it_should(kind):
    """Its probability is 0 in float32, its cost is not infinite."""
    hidden, output, targets = make(kind=kind)
    with torch.no_grad():
        hidden.mul_(1_000)
    wanted = [hidden, *output.parameters()]
    expected = cross_entropy(output(hidden), targets, reduction="sum", label_smoothing=0.1)
    loss = vocabulary_loss(hidden, output, targets, 0.1, 4 * ROW)
    assert expected > 1_000
    assert_close(loss, expected)
    assert_close(torch.autograd.grad(loss, wanted), torch.autograd.grad(expected, wanted), rtol=1e-4, atol=1e-2)
