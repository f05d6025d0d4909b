"""Layer normalisation that keeps its result is torch's, in values and gradients, and keeps no more than that."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import reference as ref
from heed.layers import Dropout, LayerNorm, RMSNorm
from heed.layers.elementwise import RELU
from heed.layers.transformer import EncoderBlock
from heed.training.device import kept_bytes


def pair(d, seed=0):
    torch.manual_seed(seed)
    ours, theirs = LayerNorm(d), nn.LayerNorm(d)
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        other.data = own.data.add_(0.5 * torch.randn(d)).clone()
    ours.weight.data[0] = theirs.weight.data[0] = -1.5
    return ours, theirs


def gradients(norm, x, factor):
    x = x.clone().requires_grad_()
    result = norm(x)
    (result * factor).sum().backward()
    return result.detach(), x.grad, norm.weight.grad, norm.bias.grad


@pytest.mark.parametrize("shape", [(7, 16), (2, 3, 32), (1, 1, 8)])
def test_it_is_torchs_in_values_and_gradients(shape):
    ours, theirs = pair(shape[-1])
    x, factor = 3.0 * torch.randn(shape) + 5.0, torch.randn(shape)
    for own, other in zip(gradients(ours, x, factor), gradients(theirs, x, factor), strict=True):
        assert_close(own, other, atol=1e-5, rtol=1e-4)


def test_a_weight_of_nothing_loses_no_gradient():
    ours, theirs = pair(8)
    ours.weight.data[3] = theirs.weight.data[3] = 0.0
    x, factor = torch.randn(5, 8), torch.randn(5, 8)
    found, expected = gradients(ours, x, factor), gradients(theirs, x, factor)
    assert expected[2][3] != 0
    for own, other in zip(found, expected, strict=True):
        assert torch.equal(own, other)


def test_without_a_bias_it_is_torchs_too():
    torch.manual_seed(0)
    ours, theirs = LayerNorm(8, bias=False), nn.LayerNorm(8, bias=False)
    ours.weight.data = torch.randn(8) + 2.0
    theirs.weight.data = ours.weight.data.clone()
    x, factor = torch.randn(5, 8), torch.randn(5, 8)
    results = []
    for norm in (ours, theirs):
        given = x.clone().requires_grad_()
        result = norm(given)
        (result * factor).sum().backward()
        results.append((result.detach(), given.grad, norm.weight.grad))
    assert_close(*results, atol=1e-5, rtol=1e-4)


def test_rms_norm_is_the_reference_and_a_scaled_input_changes_nothing():
    torch.manual_seed(0)
    norm, x = RMSNorm(6), 3.0 * torch.randn(4, 6)
    norm.weight.data = torch.randn(6)
    expected = [ref.rms_norm(row.numpy(), norm.weight.detach().numpy()) for row in x]
    assert_close(norm(x).detach().double(), torch.tensor(np.stack(expected)), rtol=0, atol=1e-6)
    assert_close(norm(100 * x), norm(x), rtol=1e-4, atol=1e-5)
    assert not norm(torch.zeros(1, 6)).any()


def test_a_layout_that_is_not_contiguous_and_frozen_parameters():
    ours, theirs = pair(8)
    for norm in (ours, theirs):
        norm.bias.requires_grad_(False)
    x, factor = torch.randn(8, 5).t(), torch.randn(8, 5).t()
    for own, other in zip(gradients(ours, x, factor)[:3], gradients(theirs, x, factor)[:3], strict=True):
        assert_close(own, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_keeps_one_tensor_less_for_each(norm):
    torch.manual_seed(0)
    block = EncoderBlock(32, 4, 64, norm=norm).train()
    x = torch.randn(8, 20, 32, requires_grad=True)
    run = lambda: block(2 * x).square()  # noqa: E731  (what follows keeps what it reads)
    kept = kept_bytes(block, run)
    for around in (block.around_attention, block.around_feed_forward):
        around.norm.forward = lambda y, own=around.norm: nn.LayerNorm.forward(own, y)
    assert kept_bytes(block, run) - kept >= 1.9 * x.numel() * x.element_size()


# --- dropout keeps the mean, drops its share, and lets the same elements through backwards


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_share_is_dropped_and_the_mean_stays(p):
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(500, 1000))
    dropped = (y == 0).float().mean().item()
    assert abs(dropped - p) < 1 / 512 + 0.002  # a multiple of 1/256, and chance
    assert abs(y.mean().item() - 1) < 0.02
    assert len(y.unique()) == 2


def test_rows_and_columns_are_dropped_independently():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(2000, 16)) > 0).float()
    together = kept.T @ kept / len(kept)
    assert_close(together, torch.full((16, 16), 0.25) + 0.25 * torch.eye(16), rtol=0, atol=0.06)


def test_gradients_pass_where_values_did():
    torch.manual_seed(0)
    x = torch.randn(7, 9, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert_close(y, x * x.grad)


def test_the_seed_decides():
    x = torch.ones(5, 11)
    torch.manual_seed(3)
    first = Dropout(0.5)(x)
    torch.manual_seed(3)
    assert torch.equal(Dropout(0.5)(x), first)
    assert not torch.equal(Dropout(0.5)(x), first)


@pytest.mark.parametrize("module", [Dropout(0.0), Dropout(0.5).eval()], ids=["nothing to drop", "not training"])
def test_otherwise_the_input_itself_comes_back(module):
    x = torch.randn(3, 4)
    assert module(x) is x


def test_shapes_of_any_size_and_layout():
    for x in (torch.ones(0, 3), torch.ones(1), torch.ones(4, 6).T, torch.ones(2, 3, 5)[:, 1:]):
        assert Dropout(0.5)(x).shape == x.shape


def test_behind_a_relu_it_is_the_same_elements_and_gradients():
    x = torch.randn(6, 50, requires_grad=True)
    results = []
    for both in (partial(Dropout(0.3).after, RELU), lambda y: Dropout(0.3)(torch.relu(y))):
        torch.manual_seed(1)
        y = both(x)
        results.append((y, *torch.autograd.grad((y * torch.arange(50)).sum(), x)))
    assert_close(*results)
    assert 0.4 < (results[0][0] == 0).float().mean() < 0.9
    assert_close(Dropout(0.3).eval().after(RELU, x), torch.relu(x))
