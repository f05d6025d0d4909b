"""Work is never lost: kills, full disks, damage, changed settings and data; a resumed run trusts nothing damaged."""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn

import heed
from commands import failing
from heed.config import TrainingConfig, data_files, read_config
from heed.errors import ConfigError, DiskError, HeedWarning, RunError
from heed.folder import FORMAT
from heed.storage.cache import digest_of
from heed.storage.files import describe_damage
from heed.storage.lock import LOCK, owned
from heed.tasks import check_config
from heed.tasks.work import Work
from heed.training import checkpoint, weights
from heed.training.checkpoint import checkpoints_in, latest_checkpoint
from heed.training.optimizer import make_optimizer
from heed.training.processes import Processes
from heed.training.progress import Quiet
from reporters import Listener, Stopper
from resuming import SMALL, changed, files_in, flip, killed, resumed, train, translation, weights_of

HERE = Path(__file__).parent
FEW = {"length": [2, 4], "train": 60, "valid": 6, "test": 6}


@pytest.fixture(scope="module")
def finished(shared):
    return shared("resume", lambda out: train(out, translation()))


@pytest.fixture
def folder(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


# --- kills


def test_a_run_killed_at_any_moment_and_resumed_is_the_uninterrupted_one(tmp_path):
    bpe = {"kind": "bpe", "vocab_size": 60}
    config = translation(data=FEW, tokenizer=bpe, batch_tokens=75, accumulate=2, average=2)
    (tmp_path / "config.yaml").write_text(json.dumps(config.model_dump(by_alias=True)))
    (tmp_path / "runs").mkdir()
    words = [sys.executable, HERE / "killing.py", tmp_path / "runs", tmp_path / "config.yaml"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"fsync", "replace", "unlink", "save_file"} <= set(report["steps"])
    results = report["results"]
    assert len(results) >= 20
    for result in results:
        assert result["resumed"] == 0, (result, done.stderr)
        assert result["same"] and result["leftovers"] == [], result
        assert result["signal"] == 9 or not result["kill"].startswith("save")
    assert {r["left"] for r in results if r["kill"].startswith("save")} == {"step-4", "step-6"}


def test_early_stopping_and_other_optimisers_resume_exactly(tmp_path):
    model = {"name": "transformer", "size": "tiny", "dropout": 0.2}
    config = translation(model, steps=9, patience=2, learning_rate=0.05, optimizer="adam")
    _, whole = train(tmp_path / "whole", config)
    for at, resume in ((3, False), (2, True)):
        killed(tmp_path / "run", config, at, resume)
    _, result = train(tmp_path / "run", config, resume=True)
    assert result.reason == whole.reason
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")


def test_log_and_report_of_a_killed_and_resumed_run_hold_each_update_once(tmp_path, finished):
    out = killed(tmp_path / "run", translation(), 5)
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"event": "upd')  # cut off in the middle of a line
    train(out, translation(), resume=True)

    def events(out):
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        return [{key: value for key, value in line.items() if key not in ("seconds", "waited")} for line in lines]

    assert events(out) == events(finished)
    own, whole = (json.loads((p / "report.json").read_text()) for p in (out, finished))
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
    config = translation(tokenizer={"kind": "unigram", "vocab_size": 40})
    out = killed(tmp_path / "run", config, 1)
    files = [out / "tokenizer.source.json", out / "tokenizer.target.json"]
    before = [path.read_bytes() for path in files]
    train(out, config, resume=True)
    assert before == [path.read_bytes() for path in files] and heed.check_run(out).whole


@pytest.mark.parametrize("files", [[], ["tokenizer.source.json"], ["labels.json", "report.json", ".report.json.part"]])
def test_a_folder_whose_run_was_killed_before_its_settings_is_begun_again(tmp_path, files, capsys):
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "format.json").write_text(json.dumps({"format": FORMAT}))
    for name in files:
        (folder / name).write_text("{}")
    state = str(heed.check_run(folder))
    assert f"begin it again with the same command as before and --out {folder}" in state and "--resume" not in state
    for finished in (False, True):
        with pytest.raises(RunError, match=r"stopped before config\.yaml was written: begin it again"):
            heed.load(folder, finished=finished)
    assert "begin it again" in failing(capsys, "train", folder, "--resume")
    run, _ = train(folder, translation())
    assert heed.check_run(folder).whole and not (folder / "labels.json").exists()
    assert run.predict("12").text == heed.load(folder).predict("12").text


@pytest.mark.parametrize("kept", ["notes.txt", "checkpoints/step-2/progress.json", "config.yaml", "checksums.json"])
def test_a_folder_with_anything_else_is_not_begun_again(tmp_path, kept):
    folder = tmp_path / "run"
    (folder / kept).parent.mkdir(parents=True)
    (folder / "format.json").write_text(json.dumps({"format": FORMAT}))
    (folder / kept).write_text("{}")
    with pytest.raises(RunError, match="already exists, and runs are never overwritten"):
        train(folder, translation())
    assert (folder / kept).read_text() == "{}"


# --- the disk


@pytest.mark.parametrize("places", [12, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "every"])
def test_a_full_disk_at_any_write_loses_nothing(tmp_path, monkeypatch, places):
    calls, fail_at = [], [None]
    config = translation(data=FEW)

    def failing(home, name):
        real = getattr(home, name)

        def write(*args, **kwargs):
            calls.append(name)
            if len(calls) == fail_at[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **kwargs)

        monkeypatch.setattr(home, name, write)

    for home, name in ((Path, "write_text"), (os, "fsync"), (os, "replace"), (weights, "save_file")):
        failing(home, name)
    finished = tmp_path / "counted"
    train(finished, config)
    total = len(calls)
    assert total > 40
    for place in range(1, total + 1, 1 if places is None else max(1, total // places)):
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
        assert all(not describe_damage(path) for path in checkpoints_in(out / "checkpoints"))
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
    sizes = r"bytes \(.* MiB\) and room for .* are needed, .* bytes \(.* MiB\) (were|are) free.*"
    with pytest.raises(DiskError, match=rf"{sizes}stopped at update 4, the last checkpoint is step-2"):
        train(tmp_path / "run", translation())
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-2"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_that_cannot_be_written_warns_once_and_never_ends_training(tmp_path, finished):
    out = tmp_path / "run"
    (out / "checkpoints").mkdir(parents=True)
    (out / "metrics.jsonl").symlink_to("/dev/full")
    shutil.copy(finished / "format.json", out)
    said, _ = resumed(out, translation())
    assert said.count("metrics.jsonl cannot be written") == 1 and "No space left" in said
    assert weights_of(out) == weights_of(finished)


# --- checkpoints written while training goes on


def being_written():
    return [thread for thread in threading.enumerate() if thread.name == "heed-checkpoint"]


@pytest.fixture
def beside(monkeypatch):
    """Checkpoints are written beside training, as on a GPU."""
    monkeypatch.setattr(checkpoint, "saves_in_background", lambda device: True)
    yield
    assert not being_written()


class Counter(Quiet):
    """Counts updates."""

    passed = 0

    def update(self, message):
        self.passed += 1


def test_checkpoints_written_beside_training_are_those_of_their_update(tmp_path, monkeypatch, finished, beside):
    real, counter, later = weights.save_file, Counter(), []

    def slow(tensors, path, *given):
        folder = Path(path).parent.name  # of a checkpoint, or the run's at the end
        if folder.startswith(".step-"):
            step, until = int(folder[6]), time.monotonic() + 5.0
            while counter.passed == step < 6 and time.monotonic() < until:
                time.sleep(0.001)  # until the weights have been updated again
            later.append(counter.passed > step)
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
    real, checkpoints = weights.save_file, tmp_path / "run" / "checkpoints"
    monkeypatch.setattr(weights, "save_file", lambda *given: (time.sleep(0.05), real(*given)))
    run, result = train(tmp_path / "run", translation(), reporter=Stopper(3))
    assert run is None and result.reason == "interrupted"
    assert latest_checkpoint(checkpoints).name == "step-3"
    killed(tmp_path / "run", translation(), 2, resume=True)  # while step-4 is written
    assert not being_written() and latest_checkpoint(checkpoints).name == "step-4"


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


# --- checkpoints


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
    harm(folder / "checkpoints" / "step-6")
    (folder / "model.safetensors").unlink()
    said, _ = resumed(folder)
    assert "warning: checkpoint step-6 is damaged" in said and problem in said and "resumed at update 4" in said
    assert weights_of(folder) == weights_of(finished)


def test_where_all_checkpoints_are_damaged_the_run_begins_afresh_and_says_so(folder, finished):
    for path in checkpoints_in(folder / "checkpoints"):
        flip(path / "optimizer.safetensors")
    said, _ = resumed(folder)
    assert said.count("is damaged") == 2 and "resumed" not in said
    assert weights_of(folder) == weights_of(finished)


@pytest.mark.parametrize("number", [1, 99])
def test_a_checkpoint_of_another_format_says_so(folder, number):
    path = folder / "checkpoints" / "step-6" / "progress.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": number}))
    with pytest.raises(RunError, match=rf"has checkpoint format {number}, and this version of heed reads format 4"):
        resumed(folder)


def test_check_names_every_damaged_file_of_a_run_folder(folder, call):
    code, out, _ = call("check", folder)
    assert code == 0 and "all files are intact" in out and heed.check_run(folder).whole
    flip(folder / "model.safetensors")
    (folder / "tokenizer.target.json").unlink()
    (folder / "checkpoints" / "step-4" / "progress.json").write_text("{}")
    code, out, _ = call("check", folder)
    assert code == 2 and "3 of " in out and "missing, altered or" in out
    rows = dict(line.split(None, 1) for line in out.splitlines() if line.startswith("  "))
    assert rows["model.safetensors"].startswith("altered: its checksum")
    assert rows["tokenizer.target.json"].strip() == "missing" and rows["config.yaml"].strip() == "ok"
    assert rows["checkpoints/step-4/progress.json"].startswith("altered: it has 2 bytes")
    assert "a resumed run starts from step-6" in out


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(b"x"), flip], ids=["torn", "a flipped bit"])
def test_the_best_weights_being_damaged_does_not_lose_the_run(tmp_path, monkeypatch, harm):
    losses = iter([1.0, 2.0, 3.0])
    scores = lambda *_: {"loss": next(losses, 3.0), "exact_match": 0.0, "token_accuracy": 0.0}  # noqa: E731
    monkeypatch.setattr(Work, "validate", scores)
    out = tmp_path / "run"
    train(out, translation())
    assert not (out / "checkpoints" / "step-2" / "progress.json").exists()  # the best, of which only weights are kept
    harm(out / "checkpoints" / "step-2" / "model.safetensors")
    assert "keeping the weights of the last update instead of the best" in resumed(out)[0]
    kept = json.loads((out / "report.json").read_text())["training"]["kept"]
    assert kept == "update 6 (the best weights, of update 2, could not be read)"


def test_a_resumed_run_writes_nothing_into_a_copy_of_hard_links(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy", copy_function=os.link)
    before = files_in(tmp_path / "copy")
    train(folder, translation(steps=8), resume=True)
    assert files_in(tmp_path / "copy") == before and heed.check_run(tmp_path / "copy").whole


# --- settings


def test_what_a_configuration_leaves_open_stays_as_it_was(folder):
    values = {"data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 16, "test": 16}}
    said, _ = resumed(folder, check_config({**values, "training": {"steps": 6}}, "the test"))
    assert "changed since" not in said
    assert read_config(folder / "config.yaml")["model"]["d_hidden"] == 12


def test_a_run_goes_on_with_another_kind_of_budget_or_optimiser(folder):
    said, result = resumed(folder, translation(steps=None, minutes=0.02, optimizer="sgd", learning_rate=0.1))
    assert "training.optimizer: adamw -> sgd" in said and "training.steps: 6 -> None" in said
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
    before = files_in(folder)
    values = {"data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 16, "test": 16}}
    with pytest.raises(ConfigError, match=problem):
        resumed(folder, check_config({**values, "training": {"steps": 6}, **section}, "the test"))
    assert before == files_in(folder)


def test_other_data_begins_a_new_pass_and_says_so(folder):
    said, _ = resumed(folder, translation(steps=9, batch_tokens=100))
    assert "the data or batch settings changed since the checkpoint; starting pass " in said


# --- runs with data files


def lines_of(count):
    return [f"{('bad', 'good')[n % 2]}\tthe {('poor', 'fine')[n % 2]} film number {n % 7}\n" for n in range(count)]


def write_lines(path, lines):
    path.write_text("".join(lines))


def config_of(data, **training):
    files = {name: [str(data / f"{name}.tsv")] for name in ("train", "test")}
    return check_config(
        {
            "task": "classification",
            "data": {**files, "valid": 8, "columns": {"text": 1, "label": 0}},
            "model": {"name": "rnn", "size": "tiny"},
            "training": {"steps": 4, "validate_every": 2, **SMALL, **training},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


def with_data(folder):
    write_lines(folder / "train.tsv", lines_of(40))
    write_lines(folder / "test.tsv", lines_of(10))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run and one that was killed, beside their data."""
    path = with_data(tmp_path_factory.mktemp("made"))
    train(path / "done", config_of(path))
    killed(path / "killed", config_of(path), 3)
    return path


@pytest.fixture
def texts(made, tmp_path):
    """Copies of both runs; their data stays where it is."""
    for name in ("done", "killed"):
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path


def edit(path, name, value):
    values = yaml.safe_load(path.read_text())
    section, key = name.split(".")
    values[section][key] = value
    path.write_text(yaml.safe_dump(values, sort_keys=False))


@pytest.mark.parametrize(
    ("run", "name", "harm", "problem"),
    [
        ("killed", "tokenizer.json", flip, "altered: .*training cannot be resumed. Restore the file"),
        ("done", "labels.json", flip, "altered: .*training cannot be resumed. Restore the file"),
        ("killed", "labels.json", Path.unlink, "missing; training cannot be resumed"),
        ("killed", "checksums.json", lambda p: p.write_text("{"), "not readable: .*, or delete it, if you are sure"),
    ],
)
def test_damage_to_what_training_needs_stops_and_the_seal_stays(texts, run, name, harm, problem):
    harm(texts / run / name)
    before = files_in(texts / run)
    with pytest.raises(RunError, match=rf"{name} is {problem}"):
        resumed(texts / run)
    assert before == files_in(texts / run) and not heed.check_run(texts / run).whole


def test_damaged_results_are_made_again(texts, made):
    for name in ("model.safetensors", "report.json", "README.md"):
        flip(texts / "done" / name)
    said, _ = resumed(texts / "done")
    assert "model.safetensors is altered" in said and "report.json is altered" in said
    assert "it will be written again" in said and heed.check_run(texts / "done").whole
    assert weights_of(texts / "done") == weights_of(made / "done")
    own, whole = (json.loads((p / "done" / "report.json").read_text()) for p in (texts, made))
    assert own.keys() == whole.keys() and own["scores"] == whole["scores"]


def test_damaged_weights_are_not_certified_by_a_resume_that_is_killed(texts, made):
    flip(texts / "done" / "model.safetensors")
    run = killed(texts / "done", config_of(made, steps=8), 1, resume=True)
    assert not (run / "model.safetensors").exists() or not heed.check_run(run).whole


@pytest.mark.parametrize("run", ["killed", "done"])
def test_a_configuration_edited_by_hand_is_listed_and_counts_as_given(texts, run):
    config = texts / run / "config.yaml"
    config.write_text("# a comment changes nothing\n" + config.read_text())
    edit(config, "training.learning_rate", 0.125)
    edit(config, "training.steps", 6)
    said, result = resumed(texts / run)
    assert "changed since the run began: training.learning_rate: 0.003 -> 0.125" in said
    assert "changed since the run began: training.steps: 4 -> 6" in said
    assert said.count("changed since") == 2 and result.progress.step == 6
    assert read_config(config)["training"]["learning_rate"] == 0.125 and heed.check_run(texts / run).whole


def test_what_is_given_counts_more_than_what_was_edited(texts, made):
    edit(texts / "killed" / "config.yaml", "training.learning_rate", 0.125)
    edit(texts / "killed" / "config.yaml", "training.clip", 0.5)
    said, _ = resumed(texts / "killed", config_of(made, learning_rate=0.25))
    assert "training.learning_rate: 0.003 -> 0.25" in said and "training.clip: 1.0 -> 0.5" in said


def test_an_edit_that_cannot_be_is_refused_as_one_that_is_given(texts):
    sums = texts / "killed" / "checksums.json"
    before = sums.read_text()
    edit(texts / "killed" / "config.yaml", "model.d_hidden", 24)
    with pytest.raises(ConfigError, match=r"model.d_hidden: .* -> 24: the weights .* fit only the model"):
        resumed(texts / "killed")
    assert sums.read_text() == before


@pytest.mark.parametrize("harm", [Path.unlink, flip], ids=["no copy", "a damaged copy"])
def test_without_a_whole_copy_of_the_settings_the_edit_is_said_and_used(texts, harm):
    harm(texts / "killed" / ".config.yaml")
    edit(texts / "killed" / "config.yaml", "training.steps", 6)
    said, result = resumed(texts / "killed")
    assert "config.yaml was edited, and there is no copy of the earlier settings" in said
    assert result.progress.step == 6


def test_a_setting_of_the_model_that_a_resumed_run_changes_leaves_its_checkpoints_its_own(texts, made):
    run = killed(texts / "killed", changed(config_of(made), model={"dropout": 0.3}), 1, resume=True)
    assert heed.check_run(run).whole
    assert resumed(run)[1].finished and heed.load(run).config.model.model_extra["dropout"] == 0.3


@pytest.mark.parametrize("before", [True, False])
def test_embeddings_that_are_frozen_or_freed_on_resume_leave_other_moments_in_their_places(tmp_path, before):
    def config(train_embeddings, steps):
        return changed(config_of(with_data(tmp_path), steps=steps), model={"train_embeddings": train_embeddings})

    out = tmp_path / "run"
    train(out, config(before, steps=2))
    said, _ = resumed(out, config(not before, steps=4))
    assert f"model.train_embeddings: {before} -> {not before}" in said
    moments = load_file(out / "checkpoints" / "step-4" / "optimizer.safetensors")
    steps = {name.removesuffix(".step"): step.item() for name, step in moments.items() if name.endswith(".step")}
    trained_later = {name for name, step in steps.items() if step == 2}
    assert {step for name, step in steps.items() if name not in trained_later} == {4}
    assert len(trained_later) == (0 if before else 1) and all("embedding" in name for name in trained_later)


def test_moments_belong_to_names_and_not_to_places(tmp_path):
    def made(names):
        torch.manual_seed(1)
        layers = {name: nn.Linear(4, 4) for name in "ab"}
        model = nn.ModuleDict({name: layers[name] for name in names})
        return model, make_optimizer(model, TrainingConfig(steps=1, learning_rate=0.1))

    def update(model, optimizer):
        model["b"](model["a"](torch.eye(4)).tanh()).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    whole, again = made("ab"), made("ba")
    update(*whole)
    saving = checkpoint.Saving(tmp_path, torch.device("cpu"), Processes(), lambda error: error)
    saving.save(*whole, checkpoint.Progress(step=3), {}, "")
    assert checkpoint.load_checkpoint(tmp_path / "step-3").restore(*again, 0, torch.device("cpu")).step == 3
    update(*whole)
    update(*again)
    other = again[0].state_dict()
    assert all(torch.equal(tensor, other[name]) for name, tensor in whole[0].state_dict().items())


# --- data that changed


@pytest.fixture
def own(tmp_path):
    """A killed run with data of its own."""
    killed(tmp_path / "run", config_of(with_data(tmp_path)), 3)
    return tmp_path


SAME_SIZE = "has changed since the run began: it has the same number of bytes"


def test_training_files_that_changed_are_named_when_a_run_resumes(own):
    write_lines(own / "train.tsv", lines_of(40)[::-1])
    write_lines(own / "test.tsv", lines_of(11))
    said, _ = resumed(own / "run")
    assert f"data.train: '{own / 'train.tsv'}' {SAME_SIZE}" in said
    assert f"data.test: '{own / 'test.tsv'}' has changed since the run began: it had " in said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heed.load(own / "run").evaluate("test")  # the scores are of the files as they are now


def test_evaluate_names_a_file_that_changed(own, call):
    resumed(own / "run")
    assert "has changed" not in call("evaluate", own / "run")[2]
    write_lines(own / "test.tsv", lines_of(10)[::-1])
    (line,) = [line for line in call("evaluate", own / "run")[2].splitlines() if "has changed" in line]
    assert line == f"heed: data.test: '{own / 'test.tsv'}' {SAME_SIZE}, but different content"
    with pytest.warns(HeedWarning, match=r"data.test: .* has changed"):
        heed.load(own / "run").evaluate("test")


def test_digests_that_are_damaged_are_said_and_made_anew(own):
    flip(own / "run" / "data.json")
    said, _ = resumed(own / "run")
    assert "data.json is altered" in said and "cannot tell if the data has changed since" in said
    assert heed.check_run(own / "run").whole


def test_every_file_of_a_configuration_has_a_digest(tmp_path):
    files = {"train": ["/d/a.en", "/d/a.de"], "valid": ["/d/v.tsv"], "extra": [{"files": ["/d/m.de"]}]}
    translation = {"task": "translation", "data": files, "training": {"alignment": {"files": ["/d/links"]}}}
    assert data_files(check_config(translation, "the test")) == {
        **dict.fromkeys(files["train"], "data.train"), "/d/v.tsv": "data.valid", "/d/m.de": "data.extra",
        "/d/links": "training.alignment",
    }  # fmt: skip
    own = {str(tmp_path / f"{name}.tsv"): f"data.{name}" for name in ("train", "test")}
    assert data_files(config_of(tmp_path)) == own


def test_the_digest_of_a_folder_is_of_names_sizes_and_contents(tmp_path):
    for name in ("a", "b/c", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    first = digest_of(tmp_path)
    assert (first["files"], first["bytes"]) == (2, 4)
    (tmp_path / "a").touch()
    (tmp_path / ".hidden").write_text("other")
    assert digest_of(tmp_path) == first
    (tmp_path / "a").write_text("A")
    assert digest_of(tmp_path) != first
    os.mkfifo(tmp_path / "pipe")
    assert digest_of(tmp_path / "pipe") is None and digest_of(tmp_path / "none") is None


@pytest.mark.parametrize("change", ["the file", "another file", "a measure", "a length", "nothing"])
def test_kept_weights_are_scored_again_where_what_they_were_scored_on_has_changed(tmp_path, change):
    lines = lines_of(40)
    for name, written in (("train", lines), ("test", lines), ("valid", lines[:11])):
        write_lines(tmp_path / f"{name}.tsv", written)
    swapped = [line.replace("good\t", "BAD\t").replace("bad\t", "good\t").replace("BAD", "bad") for line in lines[:11]]
    values = config_of(tmp_path, steps=30, learning_rate=0.01, average=1).model_dump(by_alias=True)
    values["data"]["valid"] = [str(tmp_path / "valid.tsv")]
    killed(tmp_path / "run", check_config(values, "the test"), 29)
    if change == "the file":
        write_lines(tmp_path / "valid.tsv", swapped)
    elif change == "another file":
        write_lines(tmp_path / "other.tsv", swapped)
        values["data"]["valid"] = [str(tmp_path / "other.tsv")]
    elif change == "a measure":
        values["evaluation"]["select_by"] = "loss"
    elif change == "a length":
        values["data"]["max_length"] = 3
    reporter = Listener()
    run, result = train(tmp_path / "run", check_config(values, "the test"), resume=True, reporter=reporter)
    again = "data or settings have changed: kept weights scored again" in reporter.text
    assert again == (change != "nothing")
    scores = result.validation
    assert scores == pytest.approx(run.task.validate(run.model), rel=1e-5)
    kept = json.loads((tmp_path / "run" / "checkpoints" / "step-30" / "progress.json").read_text())
    measure = run.config.evaluation.select_by
    rank = [-scores["loss"]] if measure == "loss" else [scores[measure], -scores["loss"]]
    assert kept["best_rank"] == pytest.approx(rank, rel=1e-5)


# --- one owner, the folder goes away, the terminal closes


def test_a_second_start_and_a_resume_are_refused_while_a_run_trains(texts, made):
    refused = rf"is already being trained by process {os.getpid()} on .* since .*; wait until it ends"
    run = texts / "killed"
    before = files_in(run)
    with owned(run):
        for again in (True, False):
            with pytest.raises(RunError, match=refused):
                train(run, config_of(made), resume=again)
        (run / LOCK).rename(texts / "lock")
        assert before == files_in(run)
        (texts / "lock").rename(run / LOCK)
    with pytest.raises(RunError, match="already exists, and runs are never overwritten"):
        train(run, config_of(made))
    resumed(run)
    assert not (run / LOCK).exists()


@pytest.mark.parametrize("gone", ["deleted", "moved", "replaced"])
def test_a_run_whose_folder_goes_away_stops_and_says_so(tmp_path, gone):
    run = tmp_path / "run"

    class Remover(Counter):
        def update(self, message):
            super().update(message)
            if self.passed == 1:
                if gone == "deleted":
                    shutil.rmtree(run)
                else:
                    run.rename(tmp_path / "moved")
                if gone == "replaced":
                    run.mkdir()

    reporter = Remover()
    what = "was replaced by another folder" if gone == "replaced" else "was deleted or moved"
    with pytest.raises(DiskError, match=rf"the run folder '.*run' {what} during training; stopping"):
        train(run, translation(steps=100, validate_every=50), reporter=reporter)
    assert reporter.passed <= 2 and (not run.exists() or not list(run.iterdir()))


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminals that hang up")
@pytest.mark.parametrize("ignored", [False, True], ids=["hung up", "with nohup"])
def test_a_hang_up_ends_training_after_a_checkpoint(tmp_path, made, ignored):
    program = f"""
import os, signal, sys
from heed.config import read_config
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training.progress import TerminalReporter

class Reporter(TerminalReporter):
    count = 0
    def update(self, message):
        self.count += 1
        if self.count == 3:
            os.close(2)  # the terminal is gone
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)  # from the shell and from the system

signal.signal(signal.SIGHUP, signal.SIG_IGN if {ignored} else signal.SIG_DFL)
config = check_config(read_config({str(made / "done" / "config.yaml")!r}), "it")
run, result = train_config(config, {str(tmp_path / "run")!r}, Reporter())
print(result.reason if run is None else "finished", result.progress.step)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[-2] == ("finished 4" if ignored else "interrupted 3"), done
    if not ignored:
        assert (tmp_path / "run" / "checkpoints" / "step-3").is_dir()


def until(condition):
    deadline = time.monotonic() + 120
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found
    return found


def test_a_comparison_owns_its_folder_and_a_killed_one_leaves_no_training_behind(tmp_path, capsys):
    config = translation(steps=100_000).model_dump(by_alias=True)
    (tmp_path / "copy.yaml").write_text(yaml.safe_dump({name: config[name] for name in ("data", "training")}))
    models = ["--models", "bahdanau,bahdanau:cell=rnn"]
    words = ["compare", str(tmp_path / "copy.yaml"), *models, "--out", str(tmp_path / "out")]
    with (tmp_path / "err").open("w") as err:
        parent = subprocess.Popen([sys.executable, "-m", "heed", *words], stdout=err, stderr=err)
    try:
        log = until(lambda: list((tmp_path / "out").glob("*/metrics.jsonl")))[0]
        child = int((log.parent / LOCK).read_text().split()[1])
        said = failing(capsys, *words)
        assert f"out' is already being trained by process {parent.pid} on" in said
    finally:
        parent.kill()
        parent.wait()
    until(lambda: not (log.parent / LOCK).exists())
    assert list((log.parent / "checkpoints").glob("step-*"))
    assert "the comparison has ended; stopping this run too" in (tmp_path / "err").read_text()
    until(lambda: not Path(f"/proc/{child}/stat").exists() or ") Z" in Path(f"/proc/{child}/stat").read_text())


@pytest.fixture(scope="module")
def stranger(made):
    """A killed run whose tensors have the shapes of those of the other one, but other words."""
    path = made / "stranger"
    path.mkdir()
    for name in ("train.tsv", "test.tsv"):
        (path / name).write_text((made / name).read_text().translate(str.maketrans("film", "milf")))
    return killed(path / "killed", config_of(path), 3)


@pytest.mark.parametrize("command", ["check RUN", "predict RUN film", "train RUN --resume"])
def test_a_checkpoint_of_another_run_is_refused(texts, stranger, command, call):
    run = texts / "killed"
    shutil.copytree(stranger / "checkpoints", run / "checkpoints", dirs_exist_ok=True)
    code, out, err = call(*command.replace("RUN", str(run)).split())
    assert code == 2 and "model.safetensors" in out + err and "of another run" in out + err
    assert not (run / "model.safetensors").exists()


# --- unfinished runs


def input_of(run, case):
    tables = {"table": "test.csv", "series": "series.csv"}
    return ["--input", case / "data" / tables[run]] if run in tables else ["one two"]


def test_an_unfinished_run_of_each_task_predicts_and_is_scored(case, call):
    unfinished = case / "unfinished"
    code, out, err = call("predict", unfinished, *input_of(case.name, case))
    assert code == 0 and out
    assert "training has not finished (saved up to update 6 of" in err
    assert "using the best weights so far, of update" in err and f"heed train {unfinished} --resume" in err
    code, out, err = call("evaluate", unfinished)
    assert code == 0 and "test: " in out and "training has not finished" in err
    if case.name not in ("table", "series"):
        code, out, err = call("look", unfinished, "one two")
        assert code == 0 and out and "training has not finished" in err


def test_the_best_checkpoint_is_taken_and_not_the_newest(tmp_path, monkeypatch):
    scores = iter([0.1, 0.8, 0.4, 0.2])
    say = lambda *_: {"loss": 1.0, "exact_match": next(scores), "token_accuracy": 0.0}  # noqa: E731
    monkeypatch.setattr(Work, "validate", say)
    out = killed(tmp_path / "run", translation(steps=8), 7)
    with pytest.warns(HeedWarning, match=r"update 6 of 8\).* of update 4 \(validation exact match 0.8\)"):
        heed.load(out)
    shutil.rmtree(out / "checkpoints" / "step-4")
    with pytest.raises(RunError, match=r"step-4.model\.safetensors is missing"):
        heed.load(out)


def test_before_the_first_validation_the_newest_weights_are_taken_and_without_any_the_error_says_what_to_do(tmp_path):
    out = killed(tmp_path / "a", translation(steps=8, validate_every=8, save_minutes=1e-6), 3)
    with pytest.warns(HeedWarning, match=r"update 2 of 8.*newest checkpoint, which were not validated yet"):
        assert "training not finished" in repr(heed.load(out))
    out = killed(tmp_path / "run", translation(), 1)
    with pytest.raises(RunError, match=r"has no weights yet: .*resume it with: heed train .*run --resume"):
        heed.load(out)


def test_last_is_the_newest_run_that_can_be_used(tmp_path, call):
    runs = tmp_path / "runs"
    code, _, err = call("predict", "last", "1")
    assert code == 2 and "no run under" in err and "train one" in err
    killed(runs / "c", translation(), 1)
    code, _, err = call("predict", "last", "1")
    assert code == 2 and "can be used yet: runs/c has no checkpoint yet" in err
    train(runs / "a", translation(steps=2))
    killed(runs / "b", translation(), 5)
    killed(runs / "d", translation(), 1)
    for age, name in enumerate("dcba"):  # a is the oldest
        os.utime(runs / name / "format.json", ns=(0, (10 - age) * 10**9))
    code, out, err = call("predict", "last", "1")
    assert code == 0 and out.endswith("\n") and out.count("\n") == 1
    assert "heed: 'last' is runs/b: the newer runs/d has no checkpoint yet\n" in err
    assert "heed: runs/b: training has not finished" in err and err.count("heed: runs/b: ") == 1
    # what needs a finished run takes the newest of those
    with pytest.warns(HeedWarning, match="the newer runs/d has not finished"):
        run, _ = train(tmp_path / "child", changed(translation(steps=1), model={"from": "last"}))
    assert run.report["parent"]["run"] == str(runs / "a")
    # and what resumes or checks a run takes the newest
    code, out, err = call("check", "last")
    assert code == 0 and "run folder runs/d" in out and "'last'" not in err
    assert call("train", "last", "--resume")[0] == 0 and (runs / "d" / "model.safetensors").is_file()


def test_a_finished_run_resumed_says_what_to_give_and_stays_as_it_is(tmp_path, call):
    train("runs/a", translation(steps=4))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    code, out, err = call("train", "runs/a", "--resume")
    assert code == 0 and "test: 16 pairs" in out
    said = "'runs/a' has finished (all 4 updates done), and no setting was changed; to train it longer than its"
    assert said in err and "heed train runs/a --resume training.steps=8\n" in err
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    code, out, err = call(*re.search(r"heed (train \S+ --resume training\.steps=8)", err)[1].split())
    assert code == 0 and "all 8 updates done" in err and "has finished" not in err


def test_what_needs_a_finished_run_refuses_another(finished, tmp_path):
    killed(tmp_path / "b", translation(steps=8), 5)
    with pytest.raises(RunError, match=r"b' has no final model\.safetensors: training has not finished; resume"):
        heed.compare([finished, tmp_path / "b"])
    with pytest.raises(RunError, match="training has not finished"):
        heed.export(tmp_path / "b")
    with pytest.raises(ConfigError, match=r"model\.from: .*training has not finished"):
        train(tmp_path / "c", changed(translation(), model={"from": str(tmp_path / "b")}))
