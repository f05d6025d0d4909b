"""Work is never lost: kills, full disks, damaged checkpoints, changed settings."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import heed
from heed.cli import main
from heed.config import TrainingConfig, read_config
from heed.errors import ConfigError, DiskError, RunError
from heed.runs.train import train_config
from heed.storage.files import describe_damage
from heed.tasks import check_config
from heed.tasks.work import Work
from heed.training import checkpoint, weights
from heed.training.checkpoint import checkpoints_in, latest_checkpoint
from heed.training.optimizer import make_optimizer
from heed.training.processes import Processes
from heed.training.progress import Quiet
from reporters import Killed, Killer, Listener, Stopper

HERE = Path(__file__).parent
SMALL = {"batch_tokens": 150, "threads": 1, "device": "cpu", "precision": "float32", "warmup": 2}


def translation(**training):
    return check_config(
        {
            "data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 16, "test": 16},
            "model": {"d_embedding": 12, "d_hidden": 12, "d_attention": 12, "dropout": 0.3},
            "training": {"steps": 6, "validate_every": 2, **SMALL, **training},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


def train(out, config, resume=False, reporter=None):
    return train_config(config, out, reporter or Listener(), resume=resume)


def weights_of(out):
    return (out / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    train(out, translation())
    return out


@pytest.fixture
def folder(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


# --- kills


def test_a_run_killed_at_any_moment_and_resumed_is_the_uninterrupted_one(tmp_path):
    values = {
        "data": {"name": "copy", "length": [2, 4], "train": 60, "valid": 6, "test": 6},
        "tokenizer": {"kind": "bpe", "vocab_size": 60},
        "model": {"d_embedding": 12, "d_hidden": 12, "d_attention": 12, "dropout": 0.3},
        "training": {**SMALL, "batch_tokens": 75, "steps": 6, "validate_every": 2, "accumulate": 2, "average": 2},
        "evaluation": {"bootstrap": 10},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(values))
    (tmp_path / "runs").mkdir()
    done = subprocess.run(
        [sys.executable, HERE / "killing.py", tmp_path / "runs", tmp_path / "config.yaml"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"fsync", "replace", "unlink", "save_file"} <= set(report["steps"])
    results = report["results"]
    assert len(results) >= 20
    for result in results:
        assert result["resumed"] == 0, (result, done.stderr)
        assert result["same"], result
        assert result["leftovers"] == [], result
        if result["kill"].startswith("save"):
            assert result["signal"] == 9
            assert result["left"] in ("step-4", "step-6")
    assert {r["left"] for r in results if r["kill"].startswith("save")} == {"step-4", "step-6"}


def test_early_stopping_and_other_optimisers_resume_exactly(tmp_path):
    config = translation(steps=9, patience=2, learning_rate=0.05, optimizer="adam")
    values = {**config.model_dump(by_alias=True), "model": {"name": "transformer", "size": "tiny", "dropout": 0.2}}
    config = check_config(values, "the test")
    _, whole = train(tmp_path / "whole", config)
    for at, resume in ((3, False), (2, True)):
        with pytest.raises(Killed):
            train(tmp_path / "run", config, resume=resume, reporter=Killer(at))
    _, result = train(tmp_path / "run", config, resume=True)
    assert result.reason == whole.reason
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")


def test_log_and_report_of_a_killed_and_resumed_run_hold_each_update_once(tmp_path, finished):
    with pytest.raises(Killed):
        train(tmp_path / "run", translation(), reporter=Killer(5))
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"event": "upd')  # cut off in the middle of a line
    train(tmp_path / "run", translation(), resume=True)

    def events(out):
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        return [{key: value for key, value in line.items() if key not in ("seconds", "waited")} for line in lines]

    assert events(tmp_path / "run") == events(finished)
    own, whole = (json.loads((p / "report.json").read_text()) for p in (tmp_path / "run", finished))
    assert own["training"]["padding_share"] == whole["training"]["padding_share"]
    assert own["scores"] == whole["scores"]


@pytest.mark.parametrize("left", [[], ["checkpoints"], ["checkpoints", ".format.json.part"]], ids=str)
def test_resume_begins_where_there_is_nothing_to_go_on_from(tmp_path, finished, left):
    out = tmp_path / "run"
    out.mkdir()
    for name in left:
        (out / name).mkdir() if name == "checkpoints" else (out / name).write_text("{")
    train(out, translation(), resume=True)
    assert weights_of(out) == weights_of(finished)
    assert [path.name for path in out.glob(".*")] == [".config.yaml"]


def test_a_run_killed_before_its_first_checkpoint_keeps_its_tokenizers(tmp_path):
    values = translation().model_dump(by_alias=True)
    config = check_config({**values, "tokenizer": {"kind": "unigram", "vocab_size": 40}}, "the test")
    with pytest.raises(Killed):
        train(tmp_path / "run", config, reporter=Killer(1))
    names = ("tokenizer.source.json", "tokenizer.target.json")
    before = [(tmp_path / "run" / name).read_bytes() for name in names]
    train(tmp_path / "run", config, resume=True)
    assert before == [(tmp_path / "run" / name).read_bytes() for name in names]
    assert heed.check_run(tmp_path / "run").whole


# --- the disk


@pytest.mark.parametrize("places", [12, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "every"])
def test_a_full_disk_at_any_write_loses_nothing(tmp_path, monkeypatch, places):
    calls, fail_at = [], [None]
    values = translation().model_dump(by_alias=True)
    less = {"data": {**values["data"], "length": [2, 4], "train": 60, "valid": 6, "test": 6}}
    config = check_config({**values, **less}, "the test")

    def failing(home, name):
        real = getattr(home, name)

        def write(*args, **kwargs):
            calls.append(name)
            if len(calls) == fail_at[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **kwargs)

        monkeypatch.setattr(home, name, write)

    failing(Path, "write_text")
    failing(os, "fsync")
    failing(os, "replace")
    failing(weights, "save_file")
    finished = tmp_path / "counted"
    train(finished, config)
    total = len(calls)
    assert total > 40
    step = 1 if places is None else max(1, total // places)
    for place in range(1, total + 1, step):
        out = tmp_path / f"run-{place}"
        calls.clear()
        fail_at[0] = place
        try:
            train(out, config)
        except DiskError as error:
            assert "disk is full" in str(error) and error.exit_code == 3
        else:  # a folder that could not be renamed before it was deleted
            assert calls[place - 1] == "replace"
        assert not list(out.rglob(".*.part"))
        before = checkpoints_in(out / "checkpoints")
        assert all(not describe_damage(path) for path in before)
        calls.clear()
        fail_at[0] = None
        train(out, config, resume=True)
        assert weights_of(out) == weights_of(finished)


def fill_disk(monkeypatch, at):
    """The disk is full while weights are saved for this time."""
    real, saves = weights.save_file, []

    def full(*args):
        saves.append(args)
        if len(saves) == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*args)

    monkeypatch.setattr(weights, "save_file", full)


def test_the_message_of_a_full_disk_says_what_is_needed_and_what_is_free(tmp_path, monkeypatch):
    fill_disk(monkeypatch, 5)  # in the second checkpoint
    sizes = r"bytes \(.* MiB\) and room for .* are needed, .* bytes \(.* MiB\) are free.*"
    pattern = rf"{sizes}stopped at update 4, the last checkpoint is step-2"
    with pytest.raises(DiskError, match=pattern):
        train(tmp_path / "run", translation())
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-2"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_that_cannot_be_written_warns_once_and_never_ends_training(tmp_path, finished):
    out, reporter = tmp_path / "run", Listener()
    out.mkdir()
    (out / "checkpoints").mkdir()
    (out / "metrics.jsonl").symlink_to("/dev/full")
    shutil.copy(finished / "format.json", out)
    train(out, translation(), resume=True, reporter=reporter)
    warnings = [line for line in reporter.said if "metrics.jsonl cannot be written" in line]
    assert len(warnings) == 1 and "No space left" in warnings[0]
    assert weights_of(out) == weights_of(finished)


# --- checkpoints written while training goes on


def being_written():
    return [thread for thread in threading.enumerate() if thread.name == "heed-checkpoint"]


@pytest.fixture
def beside(monkeypatch):
    """Checkpoints are written beside training, as on a GPU."""
    monkeypatch.setattr(checkpoint, "writes_beside", lambda device: True)
    yield
    assert not being_written()


class Counter(Quiet):
    """Counts updates, in `passed`, a list."""

    def __init__(self):
        self.passed = []

    def update(self, message):
        self.passed.append(1)


def test_checkpoints_written_beside_training_are_those_of_their_update(tmp_path, monkeypatch, finished, beside):
    real, counter, later = weights.save_file, Counter(), []

    def slow(tensors, path, *given):
        folder = Path(path).parent.name  # of a checkpoint, or the run's at the end
        if folder.startswith(".step-"):
            step, until = int(folder[6]), time.monotonic() + 5.0
            while len(counter.passed) == step < 6 and time.monotonic() < until:
                time.sleep(0.001)  # until the weights have been updated again
            later.append(len(counter.passed) > step)
        real(tensors, path, *given)

    monkeypatch.setattr(weights, "save_file", slow)
    train(tmp_path / "run", translation(), reporter=counter)
    assert later == [True] * 6 + [False] * 3  # three files each; the last update has none after it
    assert weights_of(tmp_path / "run") == weights_of(finished)
    for step in checkpoints_in(finished / "checkpoints"):
        own = tmp_path / "run" / "checkpoints" / step.name
        assert not describe_damage(own)
        for name in ("model.safetensors", "optimizer.safetensors", "random.safetensors"):
            assert (own / name).read_bytes() == (step / name).read_bytes()


@pytest.mark.parametrize(("save", "message"), [(4, "[456], .* is step-2"), (7, "6, .* is step-4")])
def test_an_error_of_a_checkpoint_written_beside_training_ends_it(tmp_path, monkeypatch, beside, save, message):
    fill_disk(monkeypatch, save)
    with pytest.raises(DiskError, match=f"the disk is full.*stopped at update {message}"):
        train(tmp_path / "run", translation())
    train(tmp_path / "run", translation(), resume=True)
    assert heed.check_run(tmp_path / "run").whole


def test_ctrl_c_and_an_error_wait_for_the_checkpoint_that_is_being_written(tmp_path, monkeypatch, beside):
    real = weights.save_file
    monkeypatch.setattr(weights, "save_file", lambda *given: (time.sleep(0.05), real(*given)))
    run, result = train(tmp_path / "run", translation(), reporter=Stopper(3))
    assert run is None and result.reason == "interrupted"
    assert latest_checkpoint(tmp_path / "run" / "checkpoints").name == "step-3"
    with pytest.raises(Killed):
        train(tmp_path / "run", translation(), resume=True, reporter=Killer(2))  # while step-4 is written
    assert not being_written() and latest_checkpoint(tmp_path / "run" / "checkpoints").name == "step-4"


def test_a_kill_while_a_checkpoint_is_written_beside_training_leaves_the_one_before(
    tmp_path, monkeypatch, finished, beside
):
    """A copy of the run folder before an operation on the disk is what a kill at that moment leaves."""
    run, left = tmp_path / "run", []

    def copied_before(home, name):
        real = getattr(home, name)

        def instead(*given, **named):
            if being_written() == [threading.current_thread()]:
                left.append(tmp_path / f"{len(left)}-{name}")
                with contextlib.suppress(shutil.Error):  # files that the training removes meanwhile
                    copytree(run, left[-1], ignore=shutil.ignore_patterns(".lock"))
            return real(*given, **named)

        monkeypatch.setattr(home, name, instead)

    copytree = shutil.copytree
    for home, name in ((os, "fsync"), (os, "replace"), (shutil, "rmtree"), (weights, "save_file")):
        copied_before(home, name)
    train(run, translation())
    monkeypatch.undo()
    newest = [latest_checkpoint(folder / "checkpoints") for folder in left]
    names = [path.name if path is not None else "none" for path in newest]
    assert list(dict.fromkeys(names)) == ["none", "step-2", "step-4", "step-6"]
    for name in ("step-2", "step-4"):
        middle = [folder for folder, at in zip(left, names, strict=True) if at == name]
        train(middle[len(middle) // 2], translation(), resume=True)
        assert weights_of(middle[len(middle) // 2]) == weights_of(finished)


# --- the optimiser's moments


class Layers(nn.Module):
    """Four matrices of one shape, of which two are tied."""

    def __init__(self, names):
        super().__init__()
        torch.manual_seed(1)
        layers = {name: nn.Linear(4, 4) for name in ("a", "b", "c", "tied")}
        layers["tied"].weight = layers["c"].weight
        for name in names:
            self.add_module(name, layers[name])

    def forward(self, x):
        return self.tied(self.c(self.b(self.a(x).tanh()).tanh()))


def update(model, optimizer, count):
    generator = torch.Generator().manual_seed(count)
    for _ in range(count):
        model(torch.randn(3, 4, generator=generator)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_model_with_its_layers_in_another_order_resumes_identically(tmp_path):
    settings = TrainingConfig(steps=1, learning_rate=0.1)
    whole = Layers(["a", "b", "c", "tied"])
    optimizer = make_optimizer(whole, settings)
    update(whole, optimizer, 3)
    saving = checkpoint.Saving(tmp_path, torch.device("cpu"), Processes(), lambda error: error)
    saving.save(whole, optimizer, checkpoint.Progress(step=3), {}, "")
    update(whole, optimizer, 4)
    again = Layers(["tied", "c", "b", "a"])
    optimizer = make_optimizer(again, settings)
    assert checkpoint.load_checkpoint(tmp_path / "step-3").restore(again, optimizer, 0, torch.device("cpu")).step == 3
    update(again, optimizer, 4)
    other = dict(again.named_parameters(remove_duplicate=False))
    assert all(torch.equal(parameter, other[name]) for name, parameter in whole.named_parameters())


@pytest.mark.parametrize("before", [True, False])
def test_embeddings_that_are_frozen_or_freed_on_resume_leave_other_moments_in_their_places(tmp_path, before):
    def config(train_embeddings, **training):
        values = {
            "task": "classification",
            "data": {"train": str(tmp_path / "train.tsv"), "valid": 8, "columns": {"text": 1, "label": 0}},
            "model": {"name": "rnn", "size": "tiny", "train_embeddings": train_embeddings},
            "training": {"validate_every": 2, **SMALL, **training},
            "evaluation": {"bootstrap": 10},
        }
        return check_config(values, "the test")

    lines = [f"{'good' if n % 2 else 'bad'}\tthe {'fine' if n % 2 else 'poor'} film number {n % 7}" for n in range(60)]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "run"
    train(out, config(before, steps=2))
    reporter = Listener()
    train(out, config(not before, steps=4), resume=True, reporter=reporter)
    assert f"model.train_embeddings: {before} -> {not before}" in reporter.text
    steps = {
        name.removesuffix(".step"): step.item()
        for name, step in load_file(out / "checkpoints" / "step-4" / "optimizer.safetensors").items()
        if name.endswith(".step")
    }
    trained_later = {name for name, step in steps.items() if step == 2}
    assert {step for name, step in steps.items() if name not in trained_later} == {4}
    assert len(trained_later) == (0 if before else 1) and all("embedding" in name for name in trained_later)


# --- damage


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda p: flip(p / "model.safetensors"), "model.safetensors is altered: its checksum"),
        (lambda p: (p / "optimizer.safetensors").write_bytes(b"x"), "altered: it has 1 byte, but"),
        (lambda p: (p / "random.safetensors").unlink(), "random.safetensors is missing"),
        (lambda p: (p / "checksums.json").write_text("{"), "checksums.json is not readable"),
        (lambda p: (p / "checksums.json").unlink(), "checksums.json is missing"),
    ],
    ids=["altered", "torn", "missing", "checksums torn", "no checksums"],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(folder, finished, harm, problem):
    reporter = Listener()
    harm(folder / "checkpoints" / "step-6")
    (folder / "model.safetensors").unlink()
    train(folder, translation(), resume=True, reporter=reporter)
    assert "warning: checkpoint step-6 is damaged" in reporter.text and problem in reporter.text
    assert "resumed at update 4" in reporter.text
    assert weights_of(folder) == weights_of(finished)


def test_where_all_checkpoints_are_damaged_the_run_begins_afresh_and_says_so(folder, finished):
    reporter = Listener()
    for path in checkpoints_in(folder / "checkpoints"):
        flip(path / "optimizer.safetensors")
    train(folder, translation(), resume=True, reporter=reporter)
    assert reporter.text.count("is damaged") == 2 and "resumed" not in reporter.text
    assert weights_of(folder) == weights_of(finished)


@pytest.mark.parametrize("number", [1, 99])
def test_a_checkpoint_of_another_format_says_so(folder, number):
    path = folder / "checkpoints" / "step-6" / "progress.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": number}))
    with pytest.raises(RunError, match=rf"has checkpoint format {number}, and this version of heed reads format 4"):
        train(folder, translation(), resume=True)


def test_check_names_every_damaged_file_of_a_run_folder(folder, capsys):
    main_ok(["check", str(folder)])
    assert "all files are intact" in capsys.readouterr().out
    assert heed.check_run(folder).whole
    flip(folder / "model.safetensors")
    (folder / "tokenizer.target.json").unlink()
    (folder / "checkpoints" / "step-4" / "progress.json").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(["check", str(folder)])
    assert ended.value.code == 2
    out = capsys.readouterr().out
    assert "3 of " in out and "missing, altered or" in out
    rows = dict(line.strip().split("  ", 1) for line in out.splitlines() if line.startswith("  "))
    assert rows["model.safetensors"].strip().startswith("altered: its checksum")
    assert rows["tokenizer.target.json"].strip() == "missing"
    assert rows["checkpoints/step-4/progress.json"].strip().startswith("altered: it has 2 bytes")
    assert rows["config.yaml"].strip() == "ok"
    assert "a resumed run starts from step-6" in out


def main_ok(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code in (0, None)


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(b"x"), flip], ids=["torn", "a flipped bit"])
def test_the_best_weights_being_damaged_does_not_lose_the_run(tmp_path, monkeypatch, harm):
    losses = iter([1.0, 2.0, 3.0])
    scores = lambda *_: {"loss": next(losses, 3.0), "exact_match": 0.0, "token_accuracy": 0.0}  # noqa: E731
    monkeypatch.setattr(Work, "validate", scores)
    out, reporter = tmp_path / "run", Listener()
    train(out, translation())
    assert not (out / "checkpoints" / "step-2" / "progress.json").exists()  # the best, of which only weights are kept
    harm(out / "checkpoints" / "step-2" / "model.safetensors")
    train(out, translation(), resume=True, reporter=reporter)
    assert "keeping the weights of the last update instead of the best" in reporter.text
    kept = json.loads((out / "report.json").read_text())["training"]["kept"]
    assert kept == "update 6 (the best weights, of update 2, could not be read)"


# --- settings


def test_what_a_configuration_leaves_open_stays_as_it_was(folder):
    values = {"data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 16, "test": 16}}
    reporter = Listener()
    train(folder, check_config({**values, "training": {"steps": 6}}, "the test"), resume=True, reporter=reporter)
    assert "changed since" not in reporter.text
    assert read_config(folder / "config.yaml")["model"]["d_hidden"] == 12


def test_a_run_goes_on_with_another_kind_of_budget_or_optimiser(folder):
    reporter = Listener()
    config = translation(steps=None, minutes=0.02, optimizer="sgd", learning_rate=0.1)
    _, result = train(folder, config, resume=True, reporter=reporter)
    assert "training.optimizer: adamw -> sgd" in reporter.text
    assert "training.steps: 6 -> None" in reporter.text
    assert result.finished


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"model": {"d_hidden": 16}}, "model.d_hidden: 12 -> 16: the weights .* fit only the model"),
        ({"model": {"name": "luong"}}, "model.name: bahdanau -> luong: the weights .* fit only the model"),
        ({"tokenizer": {"lowercase": True}}, "tokenizer.lowercase: False -> True: the tokenizer was trained"),
        ({"training": {"steps": 4}}, "training.steps is 4, but the run in .* has already made 6 updates; give"),
    ],
    ids=["width", "model", "tokenizer", "updates"],
)
def test_what_cannot_change_is_refused_before_anything_is_written(folder, section, problem):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    values = {"data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 16, "test": 16}}
    with pytest.raises(ConfigError, match=problem):
        train(folder, check_config({**values, "training": {"steps": 6}, **section}, "the test"), resume=True)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_other_data_begins_a_new_pass_and_says_so(folder):
    reporter = Listener()
    train(folder, translation(steps=9, batch_tokens=100), resume=True, reporter=reporter)
    assert "the data or batch settings changed since the checkpoint; starting pass " in reporter.text
