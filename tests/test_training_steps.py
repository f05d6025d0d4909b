"""Steps of training: the loss in pieces, activation checkpointing, compilation, and the optimisers of torch."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

import heed
import reference as ref
from contract import assert_close_in_scale, gradients_of
from heed.config import TrainingConfig
from heed.errors import ConfigError
from heed.kernels import loss_at, vocabulary_loss
from heed.kernels.private import find_onednn_linear
from heed.runs.prepare import model_to_train
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.training import cost, device
from heed.training.device import (
    check_compiler,
    compiled,
    recompute_blocks,
    recomputed_blocks,
    saved_bytes,
    without_recomputation,
)
from heed.training.loop import Trainer
from heed.training.optimizer import make_optimizer
from heed.training.progress import Quiet
from reporters import Listener
from resuming import MODEL, killed, resumed, translation

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


# --- Activation checkpointing: the same gradients, less kept, the same names; refused where nothing can be left out


TRANSFORMER = {"name": "transformer", "size": "tiny", "num_layers": 3, "dropout": 0.3, "attention_dropout": 0.2}


def recomputed(model=TRANSFORMER, **training):
    return translation(model, **{"steps": 3, "batch_tokens": 300, **training})


def tagging(tmp_path, **training):
    names = [f"Name{n}" for n in range(40)]
    lines = [line for name in names for line in (f"{name}\tB-PER", "sees\tO", "Bob\tB-PER", ".\tO", "")]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    values = {
        "task": "tagging",
        "data": {"train": str(tmp_path / "train.conll"), "valid": 8},
        "model": {"name": "encoder", "size": "tiny", "dropout": 0.3},
        "training": {"steps": 2, "threads": 1, "device": "cpu", **training},
    }
    return check_config(values, "the test")


def prepared(settings):
    task = task_class(settings.task).prepare(settings)
    torch.manual_seed(1)
    return task, task.build_model()


def gradients(task, model, batch):
    torch.manual_seed(7)
    model.zero_grad(set_to_none=True)
    loss = task.loss(model, batch, 0.1)
    loss.backward()
    return loss.detach(), gradients_of(model), torch.get_rng_state()


@pytest.mark.parametrize("kind", ["transformer", "encoder"])
def test_gradients_are_the_same_with_dropout_and_less_is_saved(tmp_path, kind):
    task, model = prepared(recomputed() if kind == "transformer" else tagging(tmp_path))
    twice = copy.deepcopy(model)
    recompute_blocks(twice, kind)
    batch = task.collate(task.train_batches(0)[0])
    loss, plain, state = gradients(task, model.train(), batch)
    other_loss, other, other_state = gradients(task, twice.train(), batch)
    assert_close(other_loss, loss)
    assert torch.equal(state, other_state)  # what is drawn next is the same, too
    assert_close_in_scale(other, plain, 1e-6, rtol=1e-6)
    assert gradients(task, model.eval(), batch)[0] != loss  # there was dropout
    model.train()
    counted = [saved_bytes(one, lambda one=one: gradients(task, one, batch)) for one in (model, twice)]
    assert counted[1] < 0.6 * counted[0]
    with without_recomputation(recomputed_blocks(twice)):
        assert saved_bytes(twice, lambda: gradients(task, twice, batch)) == counted[0]


def test_whoever_watches_sees_every_call_once():
    task, model = prepared(recomputed())
    recompute_blocks(model, "transformer")
    batch = task.collate(task.train_batches(0)[0])
    with heed.trace(model) as seen:
        task.loss(model.train(), batch, 0.0).backward()
    assert len(seen.attention_records) == 9  # 3 encoder, 3 decoder and 3 cross


def test_a_run_is_the_plain_one_and_its_weights_have_the_same_names(tmp_path):
    runs = [
        train_config(recomputed(activation_checkpointing=on), tmp_path / str(on), Quiet())[0] for on in (False, True)
    ]
    plain, twice = (run.model.state_dict() for run in runs)
    assert plain.keys() == twice.keys()
    for name, tensor in plain.items():
        assert_close(twice[name], tensor, atol=1e-5, rtol=1e-5)
    opened = heed.load(tmp_path / "True")
    assert [p.text for p in opened.predict(["1 2 3"])] == [p.text for p in runs[1].predict(["1 2 3"])]
    assert copy.deepcopy(runs[1].model) is not None


def test_weights_that_autocast_has_cast_are_no_activations():
    layers, x = nn.Sequential(nn.Linear(500, 400), nn.ReLU(), nn.Linear(400, 300)), torch.randn(2, 500)
    wide = saved_bytes(layers, lambda: layers(x))
    with torch.autocast("cpu", torch.bfloat16):
        narrow = saved_bytes(layers, lambda: layers(x))
    assert wide == 4 * 2 * (500 + 400) and narrow == wide // 2


def test_the_prediction_knows_it(tmp_path):
    task, _ = prepared(recomputed())
    costs = []
    for on in (False, True):
        task.config = task.config.model_copy(
            update={"training": task.config.training.model_copy(update={"activation_checkpointing": on})}
        )
        model = model_to_train(task)
        costs.append(Trainer(model, task, task.config.training, "loss", tmp_path, Quiet()).predict_cost(task.work))
    assert costs[1].activations < 0.7 * costs[0].activations


@pytest.fixture
def units_for_bf16(monkeypatch):
    """Sets how many times as fast updates in bf16 are on a processor that multiplies bf16."""

    def gain(times):
        def rates(step, batches):
            step.run(batches[0])
            return (1e-6 if step.precision == "float32" else 1e-6 / times), 0.0

        monkeypatch.setattr(device, "has_bf16_products", lambda: times > 0)
        monkeypatch.setattr(cost.TrialStep, "rates", rates)
        monkeypatch.setattr(cost, "_SLOW", 0.0)

    return gain


BUDGET = {"steps": None, "minutes": 0.03, "precision": "auto"}


@pytest.mark.parametrize(
    ("times", "model", "training", "chosen"),
    [
        (1.3, TRANSFORMER, {}, "bf16"),
        (1.2, TRANSFORMER, {}, "float32"),
        (0.0, TRANSFORMER, {}, "float32"),  # a processor without
        (1.3, TRANSFORMER, {"steps": 1, "minutes": None}, "float32"),  # repeats bit for bit
        (1.3, TRANSFORMER, {"precision": "float32"}, "float32"),
        (1.2, TRANSFORMER, {"precision": "bf16"}, "bf16"),
        (1.3, MODEL, {}, "float32"),  # equal scores were not shown for it
    ],
)
def test_the_faster_precision_is_chosen_by_timing_both(tmp_path, units_for_bf16, times, model, training, chosen):
    units_for_bf16(times)
    reporter = Listener()
    run, _ = train_config(translation(model, **{**BUDGET, **training}), tmp_path / "run", reporter)
    assert run.report["training"]["precision"] == run.precision == chosen
    assert f"device cpu, {chosen}, 1 thread" in reporter.text


def test_a_resumed_run_keeps_its_precision(tmp_path, units_for_bf16):
    units_for_bf16(2.0)
    begun = killed(tmp_path / "run", translation(TRANSFORMER, **{**BUDGET, "minutes": 0.1}), 3)
    units_for_bf16(0.0)  # the faster time of this start does not matter
    said, _ = resumed(begun)
    assert "device cpu, bf16, 1 thread" in said
    assert heed.load(begun).report["training"]["precision"] == "bf16"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"name": "bahdanau"}}, "model 'bahdanau' has no Transformer blocks to recompute"),
        ({"guided_attention": 0.1}, "guided_attention=0.1 cannot be combined with training.activation_checkp"),
    ],
)
def test_what_cannot_be_is_refused_before_there_is_a_folder(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        train_config(recomputed(**settings, activation_checkpointing=True), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()


# --- `training.compile` (used in training only, gone afterwards, refused without a compiler) and `training.float32`


def compiled_config(**training):
    return translation({"name": "transformer", "size": "tiny", "num_layers": 1}, steps=2, **training)


@pytest.fixture
def asked(monkeypatch):
    """Stands for the compiler: remembers in which mode the model was when its result was called."""
    modes = []

    def compile_(function, dynamic):
        assert dynamic is True  # batches of a translation differ in length

        def fast(*given, **named):
            modes.append(function.__self__.training)
            return function(*given, **named)

        return fast

    monkeypatch.setattr(torch, "compile", compile_)
    return modes


def test_it_is_used_in_updates_only_and_nothing_of_it_stays(tmp_path, asked):
    plain, _ = train_config(compiled_config(), tmp_path / "plain", Quiet())
    assert not asked
    run, _ = train_config(compiled_config(compile=True), tmp_path / "compiled", Quiet())
    assert asked == [True, True]
    assert "forward" not in vars(run.model)
    own, other = (load_file(one.folder / "model.safetensors") for one in (run, plain))
    assert own.keys() == other.keys()
    for name, tensor in own.items():
        assert torch.equal(tensor, other[name])
    checkpoint = load_file(run.folder / "checkpoints" / "step-2" / "model.safetensors")
    assert checkpoint.keys() == own.keys()


def test_a_pass_is_few_graphs_and_computes_the_same():
    """Whether a source is padded is read from its mask, which leaves three graphs of a Transformer."""
    script = Path(__file__).with_name("graphs.py")
    done = subprocess.run([sys.executable, "-W", "ignore", script], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    graphs = {"gpt learned": 1, "gpt rotary": 1, "vit": 1, "transformer": 3}
    assert {name: runs for name, (runs, _) in found.items()} == {
        f"{name}, dropout {p}": count for p in (0.1, 0.0) for name, count in graphs.items()
    }
    for name, (_, apart) in found.items():
        assert "0.1" in name or apart < 1e-9, name  # of dropout the draws differ


def test_whoever_watches_sees_the_model_itself(asked):
    model = torch.nn.Linear(2, 2)
    with compiled(model):
        model(torch.ones(1, 2))
        with heed.trace(model):
            model(torch.ones(1, 2))
        model.eval()(torch.ones(1, 2))
    assert asked == [True]


def test_an_error_leaves_the_model_as_it_was(asked):
    model = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="of the loop"), compiled(model):
        raise ValueError("of the loop")
    assert "forward" not in vars(model)


def test_without_a_compiler_it_is_refused_before_there_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"no C\+\+ compiler was found \(g\+\+, clang\+\+, c\+\+, or the variable CXX\)"
    ):
        train_config(compiled_config(compile=True), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="triton is not installed"):
        check_compiler(torch.device("cuda"))


def test_float32_is_as_exact_as_asked_for(tmp_path):
    try:
        train_config(compiled_config(float32="high"), tmp_path / "high", Quiet())
        assert torch.get_float32_matmul_precision() == "high"
        train_config(compiled_config(), tmp_path / "default", Quiet())
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision("highest")


# --- The optimisers are torch's, step by step and to the bit


@pytest.mark.parametrize("kind", ["adamw", "adam", "sgd"])
def test_steps_are_those_of_torchs_class(kind):
    torch.manual_seed(0)
    ours, theirs = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)), nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
    theirs.load_state_dict(ours.state_dict())
    config = TrainingConfig(steps=1, optimizer=kind, learning_rate=0.1, weight_decay=0.2, betas=(0.8, 0.9))
    optimizer = make_optimizer(ours, config)
    matrices = [p for p in theirs.parameters() if p.dim() > 1]
    vectors = [p for p in theirs.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.2}, {"params": vectors, "weight_decay": 0.0}]
    if kind == "sgd":
        reference = torch.optim.SGD(groups, lr=0.1)
    else:
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        reference = kinds[kind](groups, lr=0.1, betas=(0.8, 0.9), fused=True)
    for step in range(4):
        x = torch.randn(6, 5)
        for model, one in ((ours, optimizer), (theirs, reference)):
            hidden = model[0](x) if step == 2 else model(x)  # a parameter without a gradient stays
            hidden.square().sum().backward()
            for group in one.param_groups:
                group["lr"] = 0.1 / (step + 1)
            one.step()
            one.zero_grad()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b) and a.grad is None
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        kept, wanted = optimizer.state.get(a, {}), {k: v for k, v in reference.state[b].items() if v is not None}
        assert kept.keys() == wanted.keys() and all(torch.equal(kept[name], wanted[name]) for name in kept)
