"""What is told about a training while it goes on: a callback in Python, and TensorBoard."""

import importlib.util
import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import heed
from heed.errors import ConfigError
from heed.runs.train import train_config
from heed.training import progress as tensorboard
from heed.training.progress import Quiet
from reporters import Listener
from resuming import translation

SMALL = {
    "data.length": [2, 6], "data.train": 60, "data.valid": 8, "data.test": 8, "model.d_hidden": 8,
    "model.d_embedding": 8, "model.d_attention": 8, "model.dropout": 0.2, "training.validate_every": 3,
    "training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 10,
}  # fmt: skip


def train(out, callback=None, steps=6):
    return heed.train("translation", data="copy", steps=steps, out=out, settings=SMALL, callback=callback, quiet=True)


def test_a_callback_is_told_about_each_update_and_each_validation(tmp_path):
    seen = []
    run = train(tmp_path / "run", seen.append)
    log = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [(event.kind, event.step) for event in seen] == [(line["event"], line["step"]) for line in log]
    for event, line in zip(seen, log, strict=True):
        assert event.loss == line["loss"] and event.total_steps == 6 and event.seconds > 0
        if event.kind == "update":
            assert event.learning_rate == line["learning_rate"] and event.scores == {} and event.run is None
        else:
            assert event.scores == {k: v for k, v in line.items() if k not in ("event", "step")}
    assert all(a.seconds <= b.seconds for a, b in pairwise(seen))


def test_a_callback_uses_the_run_so_far_and_changes_nothing(tmp_path):
    def look(event):
        torch.rand(3)
        if event.run is not None:
            assert not event.run.model.training
            written.append(event.run.predict("12").text)
            assert event.run.look("12").maps
        return "not True"

    written = []
    watched, alone = train(tmp_path / "watched", look), train(tmp_path / "alone")
    assert len(written) == 2
    one, other = (load_file(run.folder / "model.safetensors") for run in (watched, alone))
    assert all(torch.equal(one[name], other[name]) for name in other)


@pytest.mark.parametrize(("kind", "at"), [("update", 4), ("update", 3), ("validation", 3)])
def test_a_callback_ends_training_and_the_run_is_a_whole_one(tmp_path, kind, at):
    run = train(tmp_path / "run", lambda event: event.kind == kind and event.step == at, steps=50)
    training = run.report["training"]
    assert training["updates"] == at and training["ended"] == f"ended by the callback at update {at}"
    log = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if line["event"] == "validation"] == sorted({3, at})
    assert run.report["scores"]["test"]["examples"] == 8 and heed.check_run(run.folder).whole


def test_an_error_of_a_callback_is_the_users_own(tmp_path):
    def wrong(event):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train(tmp_path / "run", wrong)


# --- TensorBoard


def config(**training):
    return translation(**{"steps": 4, "log": "tensorboard", **training})


def test_without_its_package_the_error_has_the_command_and_nothing_is_made(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "tensorboard" else real(name))
    with pytest.raises(ConfigError, match=r"needs the package tensorboard; install it: pip install "):
        train_config(config(), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()


class Scalars:
    """Stands for TensorBoard's writer."""

    made: list = []  # noqa: RUF012

    def __init__(self, folder, purge_step):
        self.folder, self.purge_step, self.written, self.closed = folder, purge_step, [], False
        self.made.append(self)

    def add_scalar(self, name, value, step):
        self.written.append((name, step, value))

    def close(self):
        self.closed = True


@pytest.fixture
def scalars(monkeypatch):
    monkeypatch.setattr(tensorboard, "check_log", lambda log: None)
    monkeypatch.setattr("heed.runs.prepare.check_log", lambda log: None)
    monkeypatch.setattr(tensorboard, "_writer_class", lambda: Scalars)
    monkeypatch.setattr(Scalars, "made", [])
    return Scalars.made


def test_tensorboard_gets_what_the_log_holds(tmp_path, scalars):
    train_config(config(), tmp_path / "run", Quiet())
    train_config(config(steps=6), tmp_path / "run", Quiet(), resume=True)
    first, second = scalars
    assert first.closed and first.folder == str(tmp_path / "run" / "tensorboard")
    # a resumed run replaces what came after its checkpoint
    assert (first.purge_step, second.purge_step) == (1, 5)
    log = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    expected = [(line["step"], line["loss"]) for line in log if line["event"] == "update"]
    written = [*first.written, *second.written]
    assert [(step, value) for name, step, value in written if name == "update/loss"] == expected
    assert {"update/learning_rate", "update/gradient_norm", "validation/exact_match"} <= {name for name, *_ in written}


def test_a_log_that_cannot_be_written_warns_once_and_never_ends_training(tmp_path, scalars, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    listener = Listener()
    monkeypatch.setattr(Scalars, "add_scalar", full)
    run, _ = train_config(config(), tmp_path / "run", listener)
    warnings = [line for line in listener.messages if "tensorboard cannot be written (No space left on device)" in line]
    assert run is not None and len(warnings) == 1


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
@pytest.mark.filterwarnings("ignore")  # of the packages that it imports
def test_tensorboard_itself_reads_what_was_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train_config(config(), tmp_path / "run", Quiet())
    assert list(Path(tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {"update/loss", "validation/loss"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("update/loss")] == [1, 2, 3, 4]
