"""Memory that is not there: one line that says for what, how much, and what to lower, and never a traceback."""

import errno
import importlib

import numpy as np
import pytest
import torch

import heed
from heed import memory
from heed.cli import main
from heed.errors import OutOfMemoryError, TrainingError
from heed.memory import asked_for, check_memory, free_memory, is_memory_error, memory_explained
from heed.runs.train import forecast
from heed.tasks import check_config
from heed.training import weights

GIB = 2**30
CONFIG = {
    "data": {"name": "copy", "train": 60, "valid": 10, "test": 10, "length": [2, 4]},
    "model": {"name": "seq2seq", "size": "tiny", "d_embedding": 8, "d_hidden": 8},
    "training": {"steps": 2, "batch_tokens": 200, "threads": 1, "device": "cpu", "seed": 1},
    "evaluation": {"bootstrap": 10},
}


def torch_refuses():
    raise RuntimeError(
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)"
    )


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has 10 GiB"), 20 * GIB),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000 bytes."), 4000),
        (RuntimeError("std::bad_alloc"), None),
        (MemoryError("Unable to allocate 7.45 GiB for an array with shape (1000000000,)"), round(7.45 * GIB)),
        (MemoryError(), None),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), None),
    ],
)
def test_errors_of_memory_are_known_with_what_was_asked_for(error, asked):
    assert is_memory_error(error) and asked_for(error) == asked


def test_the_errors_of_libraries_are_read_as_they_are_raised():
    with pytest.raises(RuntimeError) as torch_error:
        torch.empty(2**56, dtype=torch.uint8)
    with pytest.raises(MemoryError) as numpy_error:
        np.empty(2**56, dtype=np.uint8)
    assert is_memory_error(torch_error.value) and asked_for(torch_error.value) == 2**56
    assert is_memory_error(numpy_error.value) and asked_for(numpy_error.value) == 2**56
    assert not is_memory_error(RuntimeError("shapes do not match")) and not is_memory_error(OSError(28, "full"))
    assert free_memory() > 2**20


def test_an_explanation_says_what_was_asked_for_what_is_free_and_what_to_lower(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 3 * GIB // 2)
    with pytest.raises(OutOfMemoryError) as error, memory_explained("while predicting", "shorten it"):
        torch_refuses()
    assert str(error.value) == "out of memory while predicting (4.0 GiB requested, 1.5 GiB free); shorten it"
    with pytest.raises(OutOfMemoryError, match="while predicting"), memory_explained("elsewhere", "nothing"):
        raise error.value  # said once
    check_memory(GIB, "here", "do")
    with pytest.raises(OutOfMemoryError, match=r"out of memory here \(2.0 GiB requested, 1.5 GiB free\); do"):
        check_memory(2 * GIB, "here", "do")
    with pytest.raises(ZeroDivisionError), memory_explained("here", "do"):
        print(1 / 0)


def test_weights_for_which_there_is_no_memory_are_not_called_damaged(tmp_path, monkeypatch):
    model = torch.nn.Linear(2, 3)
    weights.save_weights(model, tmp_path / "model.safetensors")
    monkeypatch.setattr(weights, "load_file", lambda path: torch_refuses())
    with pytest.raises(OutOfMemoryError), memory_explained("while loading", "close other programs"):
        weights.load_weights(model, tmp_path / "model.safetensors")


def train(tmp_path, **model):
    return heed.train("translation", out=tmp_path / "run", quiet=True, settings={
        f"{section}.{name}": value
        for section, fields in {**CONFIG, "model": {**CONFIG["model"], **model}}.items()
        for name, value in fields.items()
    })  # fmt: skip


def test_a_model_too_large_for_the_machine_is_refused_before_there_is_a_folder(tmp_path):
    with pytest.raises(OutOfMemoryError) as error:
        train(tmp_path, d_hidden=2_000_000)
    said = str(error.value)
    assert said.startswith("out of memory while building a model of ") and "parameters (" in said and "free)" in said
    assert "choose a smaller model.size, fewer layers or widths" in said
    assert not (tmp_path / "run").exists()


def test_a_batch_too_large_for_the_machine_is_said_before_it_is_tried(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 2**10)
    with pytest.raises(TrainingError) as error:
        forecast(check_config(CONFIG, "test"))
    said = str(error.value)
    assert "before the first update, for a batch of " in said and "(now 1;" in said
    assert "lower training.batch_tokens" in said


def test_validation_prediction_scoring_and_looks_explain_it(tmp_path, monkeypatch):
    run = train(tmp_path)
    monkeypatch.setattr(type(run.model), "encode", lambda *given: torch_refuses())
    for ask, when in (
        (lambda: run.predict("1 2 3"), "while predicting (4.0 GiB requested"),
        (lambda: run.look("1 2 3"), "while making a look"),
        (lambda: run.evaluate("test"), "while scoring"),
    ):
        with pytest.raises(OutOfMemoryError) as error:
            ask()
        assert when in str(error.value)
    monkeypatch.undo()
    monkeypatch.setattr(type(run.task), "validate", lambda *given: torch_refuses())
    with pytest.raises(OutOfMemoryError, match="out of memory while validating"):
        train(tmp_path / "again")


def test_a_command_ends_with_one_line(monkeypatch, capsys):
    commands = importlib.import_module("heed.cli.app")
    monkeypatch.setattr(commands, "app", lambda *given, **options: torch_refuses())
    with pytest.raises(SystemExit) as ended:
        main(["models"])
    said = capsys.readouterr().err
    assert ended.value.code == 3 and said.count("\n") == 1
    assert said.startswith("heed: out of memory in this command (4.0 GiB requested, ")
