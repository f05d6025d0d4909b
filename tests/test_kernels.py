"""Fast kernels compute what the readable code does: training steps, linear layers, norms; and their switch."""

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import nn
from torch.testing import assert_close

import heed
import reference as ref
from contract import assert_close_in_scale, gradients_of
from heed import kernels
from heed.attention import Score, attend
from heed.attention import modules as fused
from heed.attention.modules import Attends
from heed.generation import SearchOptions, generate
from heed.kernels import Linear, gru_sequence, linear, outer, private, vocabulary_loss
from heed.layers import Dropout, RecurrentCell, RMSNorm
from heed.models.base import DecoderBody, PairDecoder
from test_models import BODIES, VARIANTS, VOCAB_SIZE, every_variant, make_config, make_model


def readable(monkeypatch):
    """Every attention by `attend`, every recurrent cell by its equations, a step at a time."""

    def slow(projected, prepared, value, mask, *, causal, scale, dropout=0.0):
        assert dropout == 0.0
        allowed = fused.full_mask(mask, causal, projected.shape[2], prepared.shape[2], projected.device)
        score = Score()
        score.scale = scale
        return attend(projected, prepared, value, allowed, score)[0]

    def unrolled(cell, inputs, initial):
        hidden, state = [], initial
        for t in range(inputs.shape[1]):
            state = cell.readable_step(inputs[:, t], state)
            hidden.append(state[0])
        return torch.stack(hidden, dim=1), state

    monkeypatch.setattr("heed.attention.modules.fused_attend", slow)
    monkeypatch.setattr(RecurrentCell, "sequence", unrolled)
    monkeypatch.setattr(RecurrentCell, "step", RecurrentCell.readable_step)
    monkeypatch.setattr("heed.layers.recurrent._in_one_call", lambda *given: False)
    monkeypatch.setattr("heed.layers.transformer.trains_by_hand", lambda *_, **__: False)


def loss_of(model, args, in_pieces):
    """The training loss of a decoder, in pieces or from whole logits; of another model some function of its output."""
    out = model(**args)
    if not isinstance(model, DecoderBody):
        mask = args.get("mask")
        real = out if mask is None or out.dim() != 3 else out[mask]
        return (real * torch.linspace(-1, 1, real.shape[-1], dtype=real.dtype)).sin().sum()
    hidden, smoothing = out.flatten(0, 1), 0.1
    labels = torch.arange(len(hidden)) % VOCAB_SIZE
    if in_pieces:
        return vocabulary_loss(hidden, model.output, labels, smoothing, piece=5)
    return torch.nn.functional.cross_entropy(model.logits(hidden), labels, label_smoothing=smoothing, reduction="sum")


@every_variant
def test_a_training_step_is_the_readable_one_in_loss_and_every_gradient(monkeypatch, body, config):
    model = make_model(body, config.model_copy(update={"dropout": 0.0})).train()
    args = body.example(config, 1)
    results = []
    for fast in (True, False):
        with monkeypatch.context() as patch:
            if not fast:
                readable(patch)
            model.zero_grad()
            loss = loss_of(model, args, in_pieces=fast)
            loss.backward()
        results.append((loss.detach(), gradients_of(model)))
    (fast_loss, fast_gradients), (loss, gradients) = results
    assert_close_in_scale(fast_loss, loss)
    assert any(gradient.any() for gradient in gradients.values())
    assert_close_in_scale(fast_gradients, gradients)


def alone(args, i):
    """Text i without the padding that the others made necessary."""
    cut = {}
    for name, value in args.items():
        mask = args.get("mask" if name in ("tokens", "mask") else f"{name.removesuffix('_mask')}_mask")
        one = value[i : i + 1]
        if mask is not None and mask.shape == value.shape:
            for axis in range(1, mask.dim()):
                real = mask[i].any(dim=tuple(a for a in range(mask.dim() - 1) if a != axis - 1))
                one = one.narrow(axis, 0, int(real.sum()))
        cut[name] = one
    return cut


def response_alone(args, i):
    """Response i with its own conversation, without the padding that the others made necessary."""
    turns = args["turns"][args["conversation"][i]]
    turns = turns[turns >= 0]
    mask = args["mask"][turns]
    words = slice(int(mask.sum(1).max()))
    return {
        "tokens": args["tokens"][turns][:, words],
        "mask": mask[:, words],
        "turns": torch.arange(len(turns)).unsqueeze(0),
        "speakers": args["speakers"][turns],
        "target": args["target"][i : i + 1],
        "conversation": torch.tensor([0]),
        "read": args["read"][i : i + 1],
    }


def looks(model, args):
    with torch.no_grad(), heed.trace(model) as seen:
        model(**args)
    return {(mechanism, layer): seen.maps(mechanism=mechanism, layer=layer) for mechanism, layer in seen.mechanisms()}


@every_variant
def test_a_look_at_a_text_among_others_is_the_look_at_it_alone(body, config):
    model, args = make_model(body, config), body.example(config, 1)
    if not any(isinstance(module, Attends) for module in model.modules()):
        assert not looks(model, args)
        return
    together = looks(model, args)
    assert together
    of_turns = body.interface == "turn_decoder"
    apart, count = (response_alone, len(args["target"])) if of_turns else (alone, len(next(iter(args.values()))))
    starts = dict.fromkeys(together, 0)  # sentences of all texts lie side by side: as many rows as each has alone
    for i in range(count):
        for key, maps in looks(model, apart(args, i)).items():
            rows, _, queries, keys = maps.weights.shape
            many = slice(starts[key], starts[key] + rows), slice(None), slice(queries)
            starts[key] += rows
            weights, context = together[key].weights[many], together[key].context[many]
            assert not weights[..., keys:].any(), key
            assert_close(weights[..., :keys], maps.weights, rtol=0, atol=1e-5, msg=lambda text, k=key: f"{k}: {text}")
            if of_turns:  # behind the contexts of turns stand their weights, as many as the longest conversation has
                context = context[..., : maps.context.shape[-1]]
            assert_close(context, maps.context, rtol=0, atol=1e-5, msg=lambda text, k=key: f"{k}: {text}")
    for key, maps in together.items():
        assert starts[key] == len(maps.weights), key


# --- One switch turns every fast form off; both ways compute the same, and no processor needs what torch keeps
# private


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


# --- Large linear layers, whichever library computes them, are `x W' + b` in values and gradients


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


# --- RMS normalisation is the reference; dropout keeps the mean and drops its share


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
