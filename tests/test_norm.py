"""Layer normalisation that keeps its result is torch's, in values and gradients, and keeps no more than that."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import reference as ref
from heed.layers import LayerNorm, RMSNorm
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
