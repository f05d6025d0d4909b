"""The loss in pieces is the loss."""

import sys

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

import reference as ref
from contract import assert_close_in_scale
from heed.kernels import loss_at, vocabulary_loss
from heed.kernels.private import find_onednn_linear

LINEAR = sys.modules["heed.kernels.linear"]  # the package has a function of this name

N, D, V = 13, 6, 9


class Other(nn.Linear):
    """A layer that the loss knows only as a function."""


def make(positions=N, seed=0, kind=nn.Linear, vocab_size=V, **fields):
    torch.manual_seed(seed)
    targets = torch.randint(0, vocab_size, (positions,))
    return torch.randn(positions, D, requires_grad=True), kind(D, vocab_size, **fields), targets


@pytest.mark.parametrize("piece", [1, 4, N, 10**6])
@pytest.mark.parametrize(("smoothing", "kind"), [(0.1, {"kind": Other}), (0.0, {}), (0.1, {"bias": False})], ids=str)
def test_any_piece_size_gives_the_cross_entropy_and_its_gradients(smoothing, piece, kind):
    hidden, output, targets = make(**kind)
    wanted = [hidden, *output.parameters()]
    expected = cross_entropy(output(hidden), targets, reduction="sum", label_smoothing=smoothing)
    loss = vocabulary_loss(hidden, output, targets, smoothing, piece)
    assert_close(loss, expected)
    # scaled, as by the number of tokens in training
    assert_close(torch.autograd.grad(loss / 3, wanted), torch.autograd.grad(expected / 3, wanted))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_it_is_the_sum_of_the_reference_over_positions(smoothing):
    hidden, output, targets = make()
    logits = output(hidden).detach().numpy()
    expected = sum(ref.cross_entropy_smoothed(logits[i], int(targets[i]), smoothing) for i in range(N))
    assert vocabulary_loss(hidden, output, targets, smoothing, 4).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("backward", [True, False])
def test_no_more_than_a_piece_of_the_logits_is_made_at_a_time(monkeypatch, rows, backward):
    hidden, output, targets = make()
    calls, into = [], LINEAR.linear_into
    monkeypatch.setattr(LINEAR, "linear_into", lambda x, *given: calls.append(len(x)) or into(x, *given))
    with torch.set_grad_enabled(backward):
        loss = vocabulary_loss(hidden, output, targets, piece=rows)
    if backward:
        loss.backward()
    assert max(calls) == rows
    assert sum(calls) == N  # each position once: nothing is computed again for the gradient


@pytest.mark.parametrize("library", ["torch", "oneDNN"])
@pytest.mark.parametrize("fresh", [0, 10**9])
def test_both_libraries_and_both_ways_to_add_gradients_agree(monkeypatch, library, fresh):
    operation = find_onednn_linear()
    if library == "oneDNN" and operation is None:
        pytest.skip("torch without oneDNN")
    monkeypatch.setattr("heed.kernels.private.onednn_linear", lambda: operation if library == "oneDNN" else None)
    monkeypatch.setattr(LINEAR, "_ENOUGH", 0)
    monkeypatch.setattr(LINEAR, "_FRESH", fresh)
    hidden, output, targets = make(50, vocab_size=70)
    wanted = [hidden, *output.parameters()]
    expected = cross_entropy(output(hidden), targets, reduction="sum", label_smoothing=0.1)
    loss = vocabulary_loss(hidden, output, targets, 0.1, 16)
    assert_close(loss, expected, rtol=1e-6, atol=0)
    assert_close_in_scale(torch.autograd.grad(loss, wanted), torch.autograd.grad(expected, wanted), 1e-6, rtol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_in_bf16_the_vocabulary_is_padded_and_the_sum_is_not(bias):
    """70 tokens become 128 columns, the last 58 of which neither the loss nor a gradient sees."""
    hidden, output, targets = make(50, vocab_size=70, bias=bias)
    wanted = [hidden, *output.parameters()]
    with torch.autocast("cpu", torch.bfloat16):
        loss = vocabulary_loss(hidden, output, targets, 0.1, 16)
        logits = output(hidden).float()
    expected = cross_entropy(logits, targets, reduction="sum", label_smoothing=0.1)
    assert_close(loss, expected, rtol=1e-3, atol=0.0)
    found, slopes = torch.autograd.grad(loss, wanted), torch.autograd.grad(expected, wanted)
    for one, other in zip(found, slopes, strict=True):
        assert one.shape == other.shape and one.dtype == torch.float32 and one.is_contiguous()
        assert (one - other).norm() < 0.01 * other.norm()


def test_a_frozen_output_layer_still_passes_the_gradient_to_the_hidden_states():
    hidden, output, targets = make()
    output.weight.requires_grad_(False)
    vocabulary_loss(hidden, output, targets, piece=4).backward()
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


@pytest.mark.parametrize("kind", [Other, nn.Linear])
def test_a_token_that_is_all_but_impossible_costs_what_it_should(kind):
    """Its probability is 0 in float32, its cost is not infinite."""
    hidden, output, targets = make(kind=kind)
    with torch.no_grad():
        hidden.mul_(1_000)
    wanted = [hidden, *output.parameters()]
    expected = cross_entropy(output(hidden), targets, reduction="sum", label_smoothing=0.1)
    loss = vocabulary_loss(hidden, output, targets, 0.1, 4)
    assert expected > 1_000
    assert_close(loss, expected)
    assert_close_in_scale(torch.autograd.grad(loss, wanted), torch.autograd.grad(expected, wanted))


def test_the_loss_at_real_positions_is_that_of_the_positions_picked_by_the_mask():
    draw = torch.Generator().manual_seed(1)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    labels, output = torch.randint(7, (2, 3), generator=draw), torch.nn.Linear(4, 7)
    hidden, other = (torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(2)).requires_grad_() for _ in range(2))
    found = loss_at((mask, 3), hidden, labels, output, 0.1)
    expected = vocabulary_loss(other[mask], output, labels[mask], 0.1)
    found.backward()
    expected.backward()
    assert torch.equal(found, expected) and torch.equal(hidden.grad, other.grad)
