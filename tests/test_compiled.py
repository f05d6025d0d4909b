"""`training.compile` (used in training only, gone afterwards, refused without a compiler) and `training.float32`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import heed
from heed.errors import ConfigError
from heed.runs.train import train_config
from heed.training.device import check_compiler, compiled
from heed.training.progress import Quiet
from resuming import translation


def config(**training):
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
    plain, _ = train_config(config(), tmp_path / "plain", Quiet())
    assert not asked
    run, _ = train_config(config(compile=True), tmp_path / "compiled", Quiet())
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
        train_config(config(compile=True), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="triton is not installed"):
        check_compiler(torch.device("cuda"))


def test_float32_is_as_exact_as_asked_for(tmp_path):
    try:
        train_config(config(float32="high"), tmp_path / "high", Quiet())
        assert torch.get_float32_matmul_precision() == "high"
        train_config(config(), tmp_path / "default", Quiet())
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision("highest")
