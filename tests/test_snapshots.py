"""Weights kept at shares of the updates: which, where, after a kill, and read back."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file

import heed
from commands import call
from heed.errors import RunError
from heed.training.checkpoint import Progress
from reporters import Killed, Killer
from resuming import train, translation

SHARES = [0.2, 0.5, 1]


def steps_of(out):
    return sorted(int(path.name[5:]) for path in (out / "checkpoints").glob("step-*"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    out = tmp_path_factory.mktemp("kept") / "run"
    train(out, translation(steps=12, validate_every=6, snapshots=SHARES))
    return out


def test_the_weights_at_each_share_are_kept_under_checksums_and_are_those_of_that_update(kept, tmp_path, capsys):
    assert {2, 6, 12} <= {*steps_of(kept)}
    files = {path.name for path in (kept / "checkpoints" / "step-2").iterdir()}
    assert files == {"model.safetensors", "checksums.json"}
    code, out, _ = call(capsys, "check", kept)
    assert code == 0 and re.search(r"checkpoints/step-2/model.safetensors +ok", out)
    short = tmp_path / "run"  # the same run, ended at that update: a schedule without decay
    train(short, translation(steps=2, validate_every=2, schedule="constant"))
    other = tmp_path / "other"
    train(other, translation(steps=12, validate_every=6, snapshots=[1 / 6], schedule="constant"))
    expected = load_file(short / "checkpoints" / "step-2" / "model.safetensors")
    found = load_file(other / "checkpoints" / "step-2" / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_a_killed_run_keeps_them_and_writes_each_once(kept, tmp_path):
    out, config = tmp_path / "run", translation(steps=12, validate_every=6, snapshots=SHARES)
    with pytest.raises(Killed):
        train(out, config, reporter=Killer(9))
    written = (out / "checkpoints" / "step-2" / "model.safetensors").stat().st_mtime_ns
    train(out, config, resume=True)
    assert (out / "checkpoints" / "step-2" / "model.safetensors").stat().st_mtime_ns == written
    assert steps_of(out) == steps_of(kept)
    for step in (2, 6, 12):
        one, other = (load_file(run / "checkpoints" / f"step-{step}" / "model.safetensors") for run in (out, kept))
        assert all(torch.equal(other[name], tensor) for name, tensor in one.items())
    train(out, translation(steps=24, validate_every=6, snapshots=SHARES), resume=True)  # trained longer
    assert {2, 6, 12} <= {*steps_of(out)}
    newest = json.loads((out / "checkpoints" / "step-24" / "progress.json").read_text())
    assert newest["snapshots"] == {"0.2": 2, "0.5": 6, "1": 12}


def test_shares_are_of_the_updates_as_planned_now():
    p = Progress(step=40, total_steps=100)
    assert p.due([0.1, 0.4, 0.5]) == {"0.1": 40, "0.4": 40}
    p.snapshots = {"0.1": 12}
    assert p.due([0.1, 0.5]) == {}
    p.total_steps = 70  # the machine has slowed down
    assert p.due([0.1, 0.5]) == {"0.5": 40}
    assert Progress(step=3).due([0.1]) == {} and Progress(step=0, total_steps=9).due([0.01]) == {}


def test_a_run_is_opened_with_the_weights_of_an_update(kept):
    run = heed.load(kept, step=6)
    stored = load_file(kept / "checkpoints" / "step-6" / "model.safetensors")
    state = run.model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in stored.items())
    assert run.so_far == "using the weights of update 6"
    with pytest.raises(RunError, match=r"no weights of step-5; there are step-2, step-6, step-12"):
        heed.load(kept, step=5)


@pytest.mark.parametrize("given", ["[0]", "[1.5]", "[half]"])
def test_a_share_that_is_none_is_refused(given, capsys):
    code, _, err = call(capsys, "train", "translation", "data.name=copy", f"training.snapshots={given}", "--dry-run")
    assert code != 0 and "training.snapshots" in err
