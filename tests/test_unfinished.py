"""A run whose training has not finished can be used, and "last" is always a run that can be."""

import os
import re
import shutil

import pytest

import heed
from heed.errors import ConfigError, HeedWarning, RunError
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training.progress import Quiet
from reporters import Killed, Killer


def copying(**training):
    return check_config(
        {
            "data": {"name": "copy", "length": [2, 6], "train": 60, "valid": 8, "test": 8},
            "model": {"d_embedding": 8, "d_hidden": 8, "d_attention": 8},
            "training": {"steps": 8, "validate_every": 2, "threads": 1, "device": "cpu", **training},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


def killed(out, at, **training):
    with pytest.raises(Killed):
        train_config(copying(**training), out, Killer(at))
    return out


def input_of(run, case):
    tables = {"table": "test.csv", "series": "series.csv"}
    return ["--input", case / "data" / tables[run]] if run in tables else ["one two"]


def test_an_unfinished_run_of_each_task_predicts_and_is_scored(case, call):
    unfinished = case / "unfinished"
    code, out, err = call("predict", unfinished, *input_of(case.name, case))
    assert code == 0 and out
    assert (
        "training has not finished (saved up to update 6 of" in err
        and "using the best weights so far, of update" in err
    )
    assert f"heed train {unfinished} --resume" in err
    code, out, err = call("evaluate", unfinished)
    assert code == 0 and "test: " in out and "training has not finished" in err
    if case.name not in ("table", "series"):
        code, out, err = call("look", unfinished, "one two")
        assert code == 0 and out and "training has not finished" in err


def test_the_best_checkpoint_is_taken_and_not_the_newest(tmp_path, monkeypatch):
    from heed.tasks.work import Work

    scores = iter([0.1, 0.8, 0.4, 0.2])
    say = lambda *_: {"loss": 1.0, "exact_match": next(scores), "token_accuracy": 0.0}  # noqa: E731
    monkeypatch.setattr(Work, "validate", say)
    out = killed(tmp_path / "run", 7)
    with pytest.warns(HeedWarning, match=r"update 6 of 8\).* of update 4 \(validation exact match 0.8\)"):
        heed.load(out)
    shutil.rmtree(out / "checkpoints" / "step-4")
    with pytest.raises(RunError, match=r"step-4.model\.safetensors is missing"):
        heed.load(out)


def test_before_the_first_validation_the_newest_weights_are_taken(tmp_path):
    out = killed(tmp_path / "run", 3, validate_every=8, save_minutes=1e-6)
    with pytest.warns(HeedWarning, match=r"update 2 of 8.*newest checkpoint, which were not validated yet"):
        assert "training not finished" in repr(heed.load(out))


def test_without_any_checkpoint_the_error_says_what_to_do(tmp_path):
    out = killed(tmp_path / "run", 1)
    with pytest.raises(RunError, match=r"has no weights yet: .*resume it with: heed train .*run --resume"):
        heed.load(out)


def test_last_is_the_newest_run_that_can_be_used(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    code, _, err = call("predict", "last", "1")
    assert code == 2 and "no run under" in err and "train one" in err
    killed(tmp_path / "runs" / "c", 1)
    code, _, err = call("predict", "last", "1")
    assert code == 2 and "can be used yet: runs/c has no checkpoint yet" in err
    train_config(copying(steps=2), tmp_path / "runs" / "a", Quiet())
    killed(tmp_path / "runs" / "b", 5)
    killed(tmp_path / "runs" / "d", 1)
    for age, name in enumerate(("d", "c", "b", "a")):  # a is the oldest
        os.utime(tmp_path / "runs" / name / "format.json", ns=(0, (10 - age) * 10**9))
    code, out, err = call("predict", "last", "1")
    assert code == 0 and out.endswith("\n") and out.count("\n") == 1
    assert "heed: 'last' is runs/b: the newer runs/d has no checkpoint yet\n" in err
    assert "heed: runs/b: training has not finished" in err and err.count("heed: runs/b: ") == 1
    # what needs a finished run takes the newest of those
    config = copying(steps=1)
    child = config.model_copy(update={"model": config.model.model_copy(update={"from_": "last"})})
    with pytest.warns(HeedWarning, match="the newer runs/d has not finished"):
        run, _ = train_config(child, tmp_path / "child", Quiet())
    assert run.report["parent"]["run"] == str(tmp_path / "runs" / "a")
    # and what resumes or checks a run takes the newest
    code, out, err = call("check", "last")
    assert code == 0 and "run folder runs/d" in out and "'last'" not in err
    code, out, err = call("train", "last", "--resume")
    assert code == 0 and (tmp_path / "runs" / "d" / "model.safetensors").is_file()


def test_a_finished_run_resumed_says_what_to_give_and_stays_as_it_is(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    train_config(copying(steps=4), "runs/a", Quiet())
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    code, out, err = call("train", "runs/a", "--resume")
    assert code == 0 and "test: 8 pairs" in out
    said = "'runs/a' has finished (all 4 updates done), and no setting was changed; to train it longer than its"
    assert said in err and "heed train runs/a --resume training.steps=8\n" in err
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    code, out, err = call(*re.search(r"heed (train \S+ --resume training\.steps=8)", err)[1].split())
    assert code == 0 and "all 8 updates done" in err and "has finished" not in err


def test_what_needs_a_finished_run_refuses_another(tmp_path):
    train_config(copying(steps=2), tmp_path / "a", Quiet())
    killed(tmp_path / "b", 5)
    with pytest.raises(RunError, match=r"b' has no final model\.safetensors: training has not finished; resume"):
        heed.compare([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(RunError, match="training has not finished"):
        heed.export(tmp_path / "b")
    config = copying(steps=1)
    child = config.model_copy(update={"model": config.model.model_copy(update={"from_": str(tmp_path / "b")})})
    with pytest.raises(ConfigError, match=r"model\.from: .*training has not finished"):
        train_config(child, tmp_path / "c", Quiet())
