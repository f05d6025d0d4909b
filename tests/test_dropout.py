"""Dropout keeps the mean, drops its share, and lets the same elements through backwards."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from heed.layers import Dropout
from heed.layers.elementwise import RELU


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
