"""One switch turns every fast form off; both ways compute the same, and no processor needs what torch keeps private."""

import importlib
import os
import pkgutil
import subprocess
import sys

import pytest
import torch
import yaml
from torch.testing import assert_close

import heed
from contract import assert_close_in_scale, gradients_of
from heed import kernels
from heed.generation import SearchOptions, generate
from heed.kernels import gru_sequence, linear, outer, private
from heed.models.base import PairDecoder
from test_fast_paths import loss_of
from test_models import BODIES, VARIANTS, make_config, make_model

LINEAR = importlib.import_module("heed.kernels.linear")
MODULES = [importlib.import_module(f"heed.kernels.{found.name}") for found in pkgutil.iter_modules(kernels.__path__)]
FUNCTIONS = {
    thing
    for module in MODULES
    for thing in vars(module).values()
    if isinstance(thing, type) and issubclass(thing, torch.autograd.Function)
}


@pytest.fixture
def counted(monkeypatch):
    """How often each Function of the kernels ran, and each private operation."""
    counts = dict.fromkeys([function.__name__ for function in FUNCTIONS] + ["onednn_linear"], 0)

    def counting(name, original):
        def count(*given, **named):
            counts[name] += 1
            return original(*given, **named)

        return count

    for function in FUNCTIONS:
        monkeypatch.setattr(function, "apply", staticmethod(counting(function.__name__, function.apply)))
    if (found := private.find_onednn_linear()) is not None:
        wrapped = counting("onednn_linear", found)
        monkeypatch.setattr(private, "onednn_linear", lambda: wrapped)
    monkeypatch.setattr(LINEAR, "_ENOUGH", 1)  # every product by the other library
    return counts


def with_dropout(config, **fields):
    """A configuration that drops wherever it can."""
    names = type(config).model_fields
    given = {"dropout": 0.3, "token_dropout": 0.2, **fields}
    return config.model_copy(update={name: value for name, value in given.items() if name in names})


def step(model, args):
    """Loss, every gradient, and the state of the random numbers after a step of training."""
    torch.manual_seed(5)
    model.zero_grad()
    loss = loss_of(model.train(), args, in_pieces=True)
    loss.backward()
    return loss.detach(), gradients_of(model), torch.get_rng_state()


def dropping():
    """Every variant with dropout, and without that of attention weights where it can be set apart."""
    for variant in VARIANTS:
        body, config = variant.values
        if body is BODIES["bert"]:  # draws for other elements where texts are packed: see test_packed_attention
            continue
        field = type(config).model_fields.get("attention_dropout")
        of_weights = {} if field is None or field.default is None else {"attention_dropout": 0.3}
        yield pytest.param(body, with_dropout(config, **({"attention_dropout": None} | of_weights)), id=variant.id)
        if "attention_dropout" in type(config).model_fields and variant.id in BODIES:
            yield pytest.param(body, with_dropout(config, attention_dropout=0.0), id=f"{variant.id}-whole-weights")


@pytest.mark.parametrize(("body", "config"), list(dropping()))
def test_a_training_step_with_dropout_is_the_same_fast_and_plain(counted, body, config):
    model, args = make_model(body, config), body.example(config, 1)
    fast_loss, fast_gradients, drawn = step(model, args)
    assert any(counted.values())
    for name in counted:
        counted[name] = 0
    with kernels.plain():
        loss, gradients, drawn_plain = step(model, args)
    assert not any(counted.values()), counted
    assert torch.equal(drawn, drawn_plain)
    assert gradients
    assert_close_in_scale(fast_loss, loss)
    assert_close_in_scale(fast_gradients, gradients)


def test_writing_is_plain_too(counted):
    for body in BODIES.values():
        if issubclass(body, PairDecoder):
            config = make_config(body)
            model, args = make_model(body, config), body.example(config, 1)
            with kernels.plain(), torch.no_grad():
                memory = model.encode(args["source"], args["source_mask"])
                state = generate(model, memory, args["target"][:, :1], SearchOptions(2, 5, beam_size=3)).hypotheses
            assert len(state) == len(args["source"])
    assert not any(counted.values())


# --- the switch


def test_the_switch_is_put_back():
    assert kernels.enabled() and kernels.choice().startswith("fast")
    with pytest.raises(KeyError), kernels.plain():
        with kernels.plain():
            assert not kernels.enabled()
        assert not kernels.enabled() and kernels.choice() == "plain"
        raise KeyError
    assert kernels.enabled()


def test_the_environment_turns_it():
    code = """
import importlib, os
from heed import kernels
for value in ("1", "0", ""):
    os.environ["HEED_PLAIN"] = value
    importlib.reload(kernels.private)
    print(kernels.private.enabled())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


def test_a_run_says_how_it_was_computed(tmp_path, counted):
    settings = {
        "task": "translation",
        "data": {"name": "copy", "length": [2, 4], "train": 60, "valid": 5, "test": 5},
        "model": {"name": "transformer", "d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 32, "dropout": 0.1},
        "training": {"steps": 4, "batch_tokens": 100, "threads": 1, "device": "cpu"},
        "evaluation": {"bootstrap": 5},
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(settings))
    with kernels.plain():
        run = heed.train(tmp_path / "a.yaml", out=tmp_path / "plain", quiet=True)
    assert run.report["training"]["kernels"] == "plain" and not any(counted.values())
    run = heed.train(tmp_path / "a.yaml", out=tmp_path / "fast", quiet=True)
    assert run.report["training"]["kernels"].startswith("fast") and any(counted.values())


# --- what this processor has or has not


@pytest.mark.parametrize("library", ["torch", "oneDNN"])
def test_products_are_the_same_by_either_library(monkeypatch, library):
    operation = private.find_onednn_linear() if library == "oneDNN" else None
    if library == "oneDNN" and operation is None:
        pytest.skip("torch was built without oneDNN")
    monkeypatch.setattr(private, "onednn_linear", lambda: operation)
    monkeypatch.setattr(LINEAR, "_ENOUGH", 1)
    x, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((5, 7, 24), (16, 24), (16,)))
    expected = torch.nn.functional.linear(x, weight, bias)
    wanted = torch.autograd.grad(expected.sin().sum(), (x, weight, bias))
    found = linear(x, weight, bias)
    assert_close(found, expected)
    assert_close_in_scale(torch.autograd.grad(found.sin().sum(), (x, weight, bias)), wanted)
    with torch.no_grad():
        assert_close(linear(x, weight, bias), expected)
        assert_close_in_scale(outer(x, x), x.flatten(0, 1).T @ x.flatten(0, 1))


def test_onednn_is_chosen_where_it_is_the_faster_one(monkeypatch):
    capacities = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    choose = private.onednn_linear.__wrapped__
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "99")
    for capability, intel in (("AVX2", False), ("AVX512", True)):
        monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda own=capability: own)
        monkeypatch.setattr(private, "_processor_is_intel", lambda own=intel: own)
        assert choose() is None
        assert [os.environ.get(name) for name in capacities] == [None, "99"]  # nothing of the process is changed
    monkeypatch.setattr(private, "_processor_is_intel", lambda: False)
    for available in (True, False):
        monkeypatch.setattr("torch.backends.mkl.is_available", lambda: True)
        monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda own=available: own)
        assert (choose() is not None) <= available
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: True)
    choose()
    assert [os.environ.get(name) for name in capacities] == ["8", "99"]  # what was set before stays


def test_an_operation_that_is_missing_or_another_is_not_used():
    given = torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]), 0
    assert private._checked("aten.threshold_backward", given, [[3.0, 0.0]]) is not None
    assert private._checked("aten.threshold_backward", given, [[3.0, 4.0]]) is None
    assert private._checked("aten.threshold_backward", given[:1], [[3.0, 0.0]]) is None
    assert private._checked("aten.no_such_operation", given, [[3.0, 0.0]]) is None
    assert private._checked("no_such_library.operation", given, [[3.0, 0.0]]) is None


def test_without_the_private_operation_all_is_the_same(monkeypatch):
    config = make_config(BODIES["bert"])
    model, args = make_model(BODIES["bert"], config), BODIES["bert"].example(config, 1)
    loss, gradients, _ = step(model, args)
    monkeypatch.setattr(private, "onednn_linear", lambda: None)
    other_loss, others, _ = step(model, args)
    assert_close_in_scale(other_loss, loss)
    assert_close_in_scale(others, gradients)


def test_a_gru_that_cannot_be_trained_by_hand_is_torchs():
    x, first = torch.randn(2, 3, 4), torch.zeros(2, 5)
    w_ih, w_hh, b_ih, b_hh = torch.randn(15, 4), torch.randn(15, 5), torch.randn(15), torch.randn(15)
    with torch.no_grad():  # no gradient is wanted
        found = gru_sequence(x, first, w_ih, w_hh, b_ih, b_hh)
    with kernels.plain():
        assert_close(gru_sequence(x, first, w_ih, w_hh, b_ih, b_hh), found)
    w_ih.requires_grad_()
    assert_close(gru_sequence(x, first, w_ih, w_hh, b_ih, b_hh).detach(), found)
