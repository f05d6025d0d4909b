"""RMS normalisation is the reference; dropout keeps the mean and drops its share."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from heed.layers import Dropout, RMSNorm


def test_rms_norm_is_the_reference_and_a_scaled_input_changes_nothing():
    torch.manual_seed(0)
    norm, x = RMSNorm(6), 3.0 * torch.randn(4, 6)
    norm.weight.data = torch.randn(6)
    expected = [ref.rms_norm(row.numpy(), norm.weight.detach().numpy()) for row in x]
    assert_close(norm(x).detach().double(), torch.tensor(np.stack(expected)), rtol=0, atol=1e-6)
    assert_close(norm(100 * x), norm(x), rtol=1e-4, atol=1e-5)
    assert not norm(torch.zeros(1, 6)).any()


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


def test_shapes_of_any_size_and_layout():
    for x in (torch.ones(0, 3), torch.ones(1), torch.ones(4, 6).T, torch.ones(2, 3, 5)[:, 1:]):
        assert Dropout(0.5)(x).shape == x.shape
