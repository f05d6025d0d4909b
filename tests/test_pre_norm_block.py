"""A pre-norm encoder block as one function: as the modules, with their dropout masks, and where it is used."""

from importlib import import_module

import pytest
import torch
from torch.testing import assert_close

from heed.kernels import plain
from heed.layers.activations import PLAIN
from heed.layers.transformer import EncoderBlock
from heed.models.vit import Vit, VitConfig
from heed.observe.trace import trace

pre_norm_block = import_module("heed.kernels.pre_norm_block")  # the package has a function of this name
PICTURE = {"num_channels": 1, "height": 12, "width": 8, "patch_size": 4}
NARROW = {"d_model": 24, "num_heads": 3, "num_layers": 3, "d_ff": 40}


def shaken(model):
    """With weights far from their first values, in training."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.train()


def results(module, call, x):
    """The output and all gradients of one pass, by name."""
    module.zero_grad()
    torch.manual_seed(3)
    x = x.clone().requires_grad_()
    out = call(x)
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    return {"out": out.detach(), "x": x.grad, **{name: p.grad.clone() for name, p in module.named_parameters()}}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(found[name], value, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("activation", PLAIN)
@pytest.mark.parametrize("dropout", [(0.0, True), (0.25, True), (0.25, False)], ids=str)
def test_the_block_is_its_modules_with_the_same_dropout(activation, dropout):
    p, inner = dropout
    block = EncoderBlock(24, 3, 40, dropout=p, drops_inner=inner, norm="pre", activation=PLAIN[activation])
    shaken(block)
    x = torch.randn(5, 7, 24)
    fast = results(block, block.whole, x)
    assert_same(fast, results(block, block, x))
    with plain():
        assert_same(fast, results(block, block.whole, x))


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_a_vit_trains_through_it_and_watched_or_plain_by_its_modules(monkeypatch, dropout):
    model = shaken(Vit(VitConfig(**PICTURE, **NARROW, dropout=dropout)))
    pixels = torch.randn(4, 1, 12, 8)
    used = []
    real = pre_norm_block._PreNormBlock.apply
    monkeypatch.setattr(pre_norm_block._PreNormBlock, "apply", lambda *given: used.append(1) or real(*given))
    fast = results(model, model, pixels)
    assert len(used) == 2  # of the last block only the class token's state is computed
    with plain():
        assert_same(fast, results(model, model, pixels))
    model.eval()
    with torch.no_grad():
        expected = model(pixels)
    with trace(model) as seen:
        watched = model(pixels)
    assert len(used) == 2 and len(seen.attention_records) == 3
    assert_close(watched, expected, rtol=1e-4, atol=1e-5)
    assert_close(watched, model.states(pixels)[:, 0])


def test_the_first_state_alone_is_that_of_the_whole_block():
    block = EncoderBlock(24, 3, 40, norm="pre")
    shaken(block)
    x = torch.randn(5, 7, 24)
    assert_same(results(block, block.first, x), results(block, lambda x: block(x)[:, :1], x))


@pytest.mark.parametrize("fields", [{"norm": "post"}, {"attention_dropout": 0.5}], ids=str)
def test_other_blocks_go_through_their_modules(fields):
    block = EncoderBlock(24, 3, 40, **{"norm": "pre", **fields}).train()
    x = torch.randn(2, 5, 24)
    torch.manual_seed(1)
    expected = block(x)
    torch.manual_seed(1)
    assert torch.equal(block.whole(x), expected)
    assert block._one_function(x) is None


def test_backward_twice_is_refused():
    block = EncoderBlock(24, 3, 40, norm="pre").train()
    out = block.whole(torch.randn(2, 5, 24)).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"backward cannot run twice through this block, because .* reused"):
        out.backward()
