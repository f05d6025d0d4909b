"""A resumed run trusts nothing that was damaged or changed since, and trains alone in its folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import yaml

import heed
from heed.cli import main
from heed.config import data_files, read_config
from heed.errors import ConfigError, DiskError, HeedWarning, RunError
from heed.runs.train import train_config
from heed.storage import cache as digests
from heed.storage.cache import digest_of
from heed.storage.lock import LOCK, owned
from heed.tasks import check_config
from heed.training.progress import Quiet
from reporters import Killed, Killer, Listener
from test_resume import flip

SMALL = {"validate_every": 2, "batch_tokens": 150, "threads": 1, "device": "cpu", "warmup": 2}


def lines_of(count):
    return [
        f"{'good' if n % 2 else 'bad'}\tthe {'fine' if n % 2 else 'poor'} film number {n % 7}\n" for n in range(count)
    ]


def config_of(data, **training):
    return check_config(
        {
            "task": "classification",
            "data": {
                "train": [str(data / "train.tsv")],
                "valid": 8,
                "test": [str(data / "test.tsv")],
                "columns": {"text": 1, "label": 0},
            },
            "model": {"name": "rnn", "size": "tiny"},
            "training": {"steps": 4, **SMALL, **training},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run and one that was killed, beside their data."""
    path = tmp_path_factory.mktemp("made")
    (path / "train.tsv").write_text("".join(lines_of(40)))
    (path / "test.tsv").write_text("".join(lines_of(10)))
    train_config(config_of(path), path / "done", Quiet())
    with pytest.raises(Killed):
        train_config(config_of(path), path / "killed", Killer(3))
    return path


@pytest.fixture
def case(made, tmp_path):
    """Copies of both runs; their data stays where it is."""
    for name in ("done", "killed"):
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path


def resume(folder, config=None, reporter=None):
    """As `heed train RUN --resume`, or as with the settings of another file."""
    given = config or check_config(read_config(folder / "config.yaml"), str(folder / "config.yaml"))
    return train_config(given, folder, reporter or Listener(), resume=True)


def edit(path, name, value):
    values = yaml.safe_load(path.read_text())
    section, key = name.split(".")
    values[section][key] = value
    path.write_text(yaml.safe_dump(values, sort_keys=False))


# --- damage


@pytest.mark.parametrize(("run", "name"), [("killed", "tokenizer.json"), ("done", "labels.json")])
def test_a_damaged_tokenizer_or_label_stops_and_the_seal_stays(case, run, name):
    folder = case / run
    flip(folder / name)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=rf"{name} is altered: .*training cannot be resumed. Restore the file"):
        resume(folder)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert not heed.check_run(folder).whole


def test_a_missing_file_that_training_needs_is_named(case):
    (case / "killed" / "labels.json").unlink()
    with pytest.raises(RunError, match=r"labels.json is missing; training cannot be resumed"):
        resume(case / "killed")


def test_checksums_that_cannot_be_read_stop(case):
    (case / "killed" / "checksums.json").write_text("{")
    with pytest.raises(RunError, match=r"checksums.json is not readable: .*, or delete it, if you are sure"):
        resume(case / "killed")


def test_damaged_results_are_made_again(case, made):
    for name in ("model.safetensors", "report.json", "README.md"):
        flip(case / "done" / name)
    reporter = Listener()
    resume(case / "done", reporter=reporter)
    assert "model.safetensors is altered" in reporter.text and "report.json is altered" in reporter.text
    assert "it will be written again" in reporter.text
    assert heed.check_run(case / "done").whole
    assert (case / "done" / "model.safetensors").read_bytes() == (made / "done" / "model.safetensors").read_bytes()
    own, whole = (json.loads((p / "done" / "report.json").read_text()) for p in (case, made))
    assert own.keys() == whole.keys() and own["scores"] == whole["scores"]


def test_damaged_weights_are_not_certified_by_a_resume_that_is_killed(case, made):
    flip(case / "done" / "model.safetensors")
    with pytest.raises(Killed):
        resume(case / "done", config_of(made, steps=8), Killer(1))
    assert not (case / "done" / "model.safetensors").exists() or not heed.check_run(case / "done").whole


# --- a configuration edited by hand


def test_a_configuration_edited_by_hand_is_listed_and_counts_as_given(case):
    for run in ("killed", "done"):
        folder, reporter = case / run, Listener()
        edit(folder / "config.yaml", "training.learning_rate", 0.125)
        edit(folder / "config.yaml", "training.steps", 6)
        _, result = resume(folder, reporter=reporter)
        assert "changed since the run began: training.learning_rate: 0.003 -> 0.125" in reporter.text
        assert "changed since the run began: training.steps: 4 -> 6" in reporter.text
        assert reporter.text.count("changed since") == 2
        assert result.progress.step == 6
        assert read_config(folder / "config.yaml")["training"]["learning_rate"] == 0.125
        assert heed.check_run(folder).whole


def test_what_is_given_counts_more_than_what_was_edited(case, made):
    edit(case / "killed" / "config.yaml", "training.learning_rate", 0.125)
    edit(case / "killed" / "config.yaml", "training.clip", 0.5)
    reporter = Listener()
    resume(case / "killed", config_of(made, learning_rate=0.25), reporter)
    assert "training.learning_rate: 0.003 -> 0.25" in reporter.text
    assert "training.clip: 1.0 -> 0.5" in reporter.text


def test_an_edit_that_cannot_be_is_refused_as_one_that_is_given(case):
    before = json.loads((case / "killed" / "checksums.json").read_text())
    edit(case / "killed" / "config.yaml", "model.d_hidden", 24)
    with pytest.raises(ConfigError, match=r"model.d_hidden: .* -> 24: the weights .* fit only the model"):
        resume(case / "killed")
    assert json.loads((case / "killed" / "checksums.json").read_text()) == before


def test_a_comment_changes_nothing(case):
    path, reporter = case / "killed" / "config.yaml", Listener()
    path.write_text("# mine\n" + path.read_text())
    resume(case / "killed", reporter=reporter)
    assert "changed" not in reporter.text


@pytest.mark.parametrize("harm", [Path.unlink, flip], ids=["no copy", "a damaged copy"])
def test_without_a_whole_copy_of_the_settings_the_edit_is_said_and_used(case, harm):
    harm(case / "killed" / ".config.yaml")
    edit(case / "killed" / "config.yaml", "training.steps", 6)
    reporter = Listener()
    _, result = resume(case / "killed", reporter=reporter)
    assert "config.yaml was edited, and there is no copy of the earlier settings" in reporter.text
    assert result.progress.step == 6


# --- data that changed


@pytest.fixture
def own(tmp_path):
    """A killed and a finished run with data of their own."""
    (tmp_path / "train.tsv").write_text("".join(lines_of(40)))
    (tmp_path / "test.tsv").write_text("".join(lines_of(10)))
    with pytest.raises(Killed):
        train_config(config_of(tmp_path), tmp_path / "run", Killer(3))
    return tmp_path


def test_training_files_that_changed_are_named_when_a_run_resumes(own):
    shuffled = lines_of(40)[::-1]
    (own / "train.tsv").write_text("".join(shuffled))
    (own / "test.tsv").write_text("".join(lines_of(11)))
    reporter = Listener()
    resume(own / "run", reporter=reporter)
    assert (
        f"data.train: '{own / 'train.tsv'}' has changed since the run began: it has the same number of bytes"
        in reporter.text
    )
    assert f"data.test: '{own / 'test.tsv'}' has changed since the run began: it had " in reporter.text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heed.load(own / "run").evaluate("test")  # the scores are of the files as they are now


def test_evaluate_names_a_file_that_changed(own, capsys):
    resume(own / "run")
    with pytest.raises(SystemExit):
        main(["evaluate", str(own / "run")])
    assert "has changed" not in capsys.readouterr().err
    (own / "test.tsv").write_text("".join(lines_of(10)[::-1]))
    with pytest.raises(SystemExit):
        main(["evaluate", str(own / "run")])
    lines = [line for line in capsys.readouterr().err.splitlines() if "has changed" in line]
    assert lines == [
        f"heed: data.test: '{own / 'test.tsv'}' has changed since the run began: it has the same number of "
        "bytes, but different content"
    ]
    with pytest.warns(HeedWarning, match=r"data.test: .* has changed"):
        heed.load(own / "run").evaluate("test")


def test_digests_that_are_damaged_are_said_and_made_anew(own):
    flip(own / "run" / "data.json")
    reporter = Listener()
    resume(own / "run", reporter=reporter)
    assert "data.json is altered" in reporter.text and "cannot tell if the data has changed since" in reporter.text
    assert heed.check_run(own / "run").whole


def test_every_file_of_a_configuration_has_a_digest(tmp_path):
    files = {"train": ["/d/a.en", "/d/a.de"], "valid": ["/d/v.tsv"], "extra": [{"files": ["/d/m.de"]}]}
    translation = {"task": "translation", "data": files, "training": {"alignment": {"files": ["/d/links"]}}}
    assert data_files(check_config(translation, "the test")) == {
        "/d/a.en": "data.train",
        "/d/a.de": "data.train",
        "/d/v.tsv": "data.valid",
        "/d/m.de": "data.extra",
        "/d/links": "training.alignment",
    }
    config = config_of(tmp_path)
    assert data_files(config) == {str(tmp_path / "train.tsv"): "data.train", str(tmp_path / "test.tsv"): "data.test"}


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


def test_a_file_too_large_to_read_whole_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "_WHOLE", 1_000)
    monkeypatch.setattr(digests, "_PIECE", 10)
    path = tmp_path / "large"
    content = bytearray(range(256)) * 100
    path.write_bytes(content)
    first = digest_of(path)
    assert first["pieces"] == 256 and digest_of(path) == first
    content[-1] ^= 1  # the last byte is always among what is read
    path.write_bytes(content)
    assert digest_of(path) != first


# --- one owner


def test_a_second_start_and_a_resume_are_refused_while_a_run_trains(case, made):
    refused = rf"is already being trained by process {os.getpid()} on .* since .*; wait until it ends"
    before = {path: path.read_bytes() for path in (case / "killed").rglob("*") if path.is_file()}
    with owned(case / "killed"):
        for again in (True, False):
            with pytest.raises(RunError, match=refused):
                train_config(config_of(made), case / "killed", Quiet(), resume=again)
        (case / "killed" / LOCK).rename(case / "lock")
        assert before == {path: path.read_bytes() for path in (case / "killed").rglob("*") if path.is_file()}
        (case / "lock").rename(case / "killed" / LOCK)
    with pytest.raises(RunError, match="already exists, and runs are never overwritten"):
        train_config(config_of(made), case / "killed", Quiet())
    resume(case / "killed")
    assert not (case / "killed" / LOCK).exists()


# --- the folder goes away


@pytest.mark.parametrize("gone", ["deleted", "moved", "replaced"])
def test_a_run_whose_folder_goes_away_stops_and_says_so(tmp_path, made, gone):
    run = tmp_path / "run"

    class Remover(Quiet):
        updates = 0

        def update(self, message):
            self.updates += 1
            if self.updates == 1:
                if gone == "deleted":
                    shutil.rmtree(run)
                else:
                    run.rename(tmp_path / "moved")
                if gone == "replaced":
                    run.mkdir()

    reporter = Remover()
    what = "was replaced by another folder" if gone == "replaced" else "was deleted or moved"
    with pytest.raises(DiskError, match=rf"the run folder '.*run' {what} during training; stopping"):
        train_config(config_of(made, steps=100, validate_every=50), run, reporter)
    assert reporter.updates <= 2
    assert not run.exists() or not list(run.iterdir())


# --- signals


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


# --- comparisons


COPYING = {
    "data": {"name": "copy", "length": [2, 6], "train": 60, "valid": 8, "test": 8},
    "model": {"d_embedding": 8, "d_hidden": 8, "d_attention": 8},
    "training": {"steps": 100_000, "threads": 1, "device": "cpu"},
    "evaluation": {"bootstrap": 10},
}


def until(condition):
    deadline = time.monotonic() + 120
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found
    return found


def test_a_comparison_owns_its_folder_and_a_killed_one_leaves_no_training_behind(tmp_path, capsys):
    (tmp_path / "copy.yaml").write_text(yaml.safe_dump(COPYING))
    models = ["--models", "bahdanau,bahdanau:cell=rnn"]
    words = ["compare", str(tmp_path / "copy.yaml"), *models, "--out", str(tmp_path / "out")]
    with (tmp_path / "err").open("w") as err:
        parent = subprocess.Popen([sys.executable, "-m", "heed", *words], stdout=err, stderr=err)
    try:
        log = until(lambda: list((tmp_path / "out").glob("*/metrics.jsonl")))[0]
        child = int((log.parent / LOCK).read_text().split()[1])
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        assert f"out' is already being trained by process {parent.pid} on" in capsys.readouterr().err
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
    with pytest.raises(Killed):
        train_config(config_of(path), path / "killed", Killer(3))
    return path / "killed"


@pytest.mark.parametrize("command", ["check", "predict", "resume"])
def test_a_checkpoint_of_another_run_is_refused(case, stranger, command, capsys):
    run = case / "killed"
    shutil.copytree(stranger / "checkpoints", run / "checkpoints", dirs_exist_ok=True)
    words = {
        "check": ["check", str(run)],
        "predict": ["predict", str(run), "the fine film"],
        "resume": ["train", str(run), "--resume"],
    }
    with pytest.raises(SystemExit) as ended:
        main(words[command])
    said = "".join(capsys.readouterr())
    assert ended.value.code == 2 and "model.safetensors" in said and "of another run" in said
    assert not (run / "model.safetensors").exists()


def test_a_setting_of_the_model_that_a_resumed_run_changes_leaves_its_checkpoints_its_own(case):
    run = case / "killed"
    values = read_config(run / "config.yaml")
    values["model"]["dropout"] = 0.3
    changed = check_config(values, "the test")
    with pytest.raises(Killed):
        train_config(changed, run, Killer(1), resume=True)
    assert heed.check_run(run).whole
    result = resume(run)[1]
    assert result.finished and heed.load(run).config.model.model_extra["dropout"] == 0.3


# --- scores of a changed validation set


@pytest.mark.parametrize("change", ["the file", "another file", "a measure", "a length", "nothing"])
def test_kept_weights_are_scored_again_where_what_they_were_scored_on_has_changed(tmp_path, change):
    lines = lines_of(40)
    (tmp_path / "train.tsv").write_text("".join(lines))
    (tmp_path / "test.tsv").write_text("".join(lines))
    (tmp_path / "valid.tsv").write_text("".join(lines[:11]))
    swapped = [line.replace("good\t", "BAD\t").replace("bad\t", "good\t").replace("BAD", "bad") for line in lines[:11]]
    values = config_of(tmp_path, steps=30, learning_rate=0.01, average=1).model_dump(by_alias=True)
    values["data"]["valid"] = [str(tmp_path / "valid.tsv")]
    with pytest.raises(Killed):
        train_config(check_config(values, "the test"), tmp_path / "run", Killer(29))
    if change == "the file":
        (tmp_path / "valid.tsv").write_text("".join(swapped))
    elif change == "another file":
        (tmp_path / "other.tsv").write_text("".join(swapped))
        values["data"]["valid"] = [str(tmp_path / "other.tsv")]
    elif change == "a measure":
        values["evaluation"]["select_by"] = "loss"
    elif change == "a length":
        values["data"]["max_length"] = 3
    heard = Listener()
    run, result = resume(tmp_path / "run", check_config(values, "the test"), heard)
    again = any("data or settings have changed: kept weights scored again" in line for line in heard.said)
    assert again == (change != "nothing")
    assert result.validation == pytest.approx(run.task.validate(run.model), rel=1e-5)
    kept = json.loads((tmp_path / "run" / "checkpoints" / "step-30" / "progress.json").read_text())
    assert kept["best_rank"] == pytest.approx(rank_of(result.validation, run.config.evaluation.select_by), rel=1e-5)


def rank_of(scores, select_by):
    return [-scores["loss"]] if select_by == "loss" else [scores[select_by], -scores["loss"]]
