"""Large linear layers, whichever library computes them, are `x W' + b` in values and gradients."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from heed.kernels import Linear, linear, private


def close(given, expected):
    """Equal but for float32's rounding of sums."""
    scale = np.abs(expected).max()
    np.testing.assert_allclose(given.detach().numpy(), expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize(
    ("batch", "layout", "d_in", "d_out", "bias"),
    [
        (1, "rows", 160, 160, True),
        (5, "batch", 96, 320, False),
        (60, "transposed", 320, 96, True),
        (60, "part", 160, 160, False),
        (1, "transposed", 96, 320, False),
        (60, "rows", 96, 320, True),
        (5, "part", 320, 96, True),
    ],
)
def test_values_and_gradients_are_those_of_the_equations(batch, layout, d_in, d_out, bias):
    """From a few multiplications to some millions, which go to another library where there is a faster one."""
    torch.manual_seed(0)
    layer = Linear(d_in, d_out, bias=bias)
    x = torch.randn(batch, 7, d_in)
    if layout == "rows":
        x = x.flatten(0, 1)
    elif layout == "transposed":
        x = torch.randn(7, batch, d_in).transpose(0, 1)
    elif layout == "part":
        x = torch.randn(batch, 7, d_in + 16)[..., 8:-8]
    x.requires_grad_()
    result = layer(x)
    d_result = torch.randn(result.shape).transpose(0, -1).contiguous().transpose(0, -1)  # as attention gives it
    result.backward(d_result)
    x64, w64, d64 = (t.detach().double().numpy() for t in (x, layer.weight, d_result))
    expected = x64 @ w64.T
    if bias:
        expected = expected + layer.bias.detach().double().numpy()
        close(layer.bias.grad, d64.reshape(-1, d_out).sum(0))
    close(result, expected)
    close(x.grad, d64 @ w64)
    close(layer.weight.grad, d64.reshape(-1, d_out).T @ x64.reshape(-1, d_in))
    assert layer.weight.grad.is_contiguous()
    with torch.no_grad():
        close(layer(x), expected)


@pytest.mark.parametrize("bias", [True, False])
def test_any_few_rows_without_a_gradient(bias, monkeypatch):
    """Rows of a search that end one by one: some numbers of rows are padded, and the padding is cut off again."""
    monkeypatch.setattr(private, "onednn_linear", private.find_onednn_linear)  # forced, whatever the processor
    torch.manual_seed(0)
    weight, shift = torch.randn(10_000, 256), torch.randn(10_000) if bias else None
    for rows in range(1, 34):
        x = torch.randn(rows, 256)
        with torch.no_grad():
            found = linear(x, weight, shift)
        assert found.shape == (rows, 10_000)
        expected = x.double() @ weight.double().T
        close(found, (expected if shift is None else expected + shift.double()).numpy())


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_only_the_gradients_that_are_wanted_are_computed(wanted):
    torch.manual_seed(0)
    inputs = [torch.randn(400, 160), torch.randn(160, 160), torch.randn(160)]
    for tensor, flag in zip(inputs, wanted, strict=True):
        tensor.requires_grad_(flag)
    linear(*inputs).sum().backward()
    assert [tensor.grad is not None for tensor in inputs] == list(wanted)


def test_a_gradient_of_a_gradient():
    torch.manual_seed(0)
    x, weight = torch.randn(400, 160, requires_grad=True), torch.randn(160, 160, requires_grad=True)

    def penalty(product):
        (d_x,) = torch.autograd.grad(product(x, weight).pow(2).sum(), x, create_graph=True)
        return torch.autograd.grad(d_x.pow(2).sum(), weight)[0]

    close(penalty(linear), penalty(nn.functional.linear).numpy())


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="the system does not tell a process its memory")
def test_products_of_ever_other_shapes_do_not_fill_the_memory():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    x, weight = torch.randn(1_000, 128), torch.randn(128, 128)
    with torch.no_grad():
        linear(x, weight)
        before = resident()
        for rows in range(200, 1_000):
            linear(x[:rows], weight)
    assert resident() - before < 300 * 2**20  # 740 MiB where everything is kept
