"""Nothing damaged is trusted: every command compares the files it reads with the checksums written with them."""

import json
import os
import shutil
import stat
import warnings
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import heed
from heed import folder as folders
from heed.errors import ConfigError, HeedWarning, RunError
from heed.runs.train import train_config
from heed.storage.files import checksum, describe_damage
from heed.training.progress import Quiet
from reporters import Killed, Killer
from test_resume import flip
from test_unfinished import copying, killed

TEXTS = [(text, label) for label, word in (("neg", "bad"), ("pos", "good")) for text in (f"a {word} film", word) * 6]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A finished classifier, made once."""
    out = tmp_path_factory.mktemp("seal") / "made"
    settings = {"model.name": "rnn", "model.size": "tiny", "training.threads": 1, "evaluation.bootstrap": 10}
    heed.train("classification", train=TEXTS, valid=4, steps=4, out=out, settings=settings, quiet=True)
    return out


@pytest.fixture
def run(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "run"))


def reverse(path):
    path.write_text(json.dumps(json.loads(path.read_text())[::-1], indent=1) + "\n")


def spoil(path, value):
    """Weights with a number that is not finite, under checksums that agree with them."""
    tensors = load_file(path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point())
    tensors[name].view(-1)[0] = value
    save_file(tensors, path, metadata)
    sums = path.parent / "checksums.json"
    if sums.exists():
        sums.write_text(json.dumps({**json.loads(sums.read_text()), path.name: checksum(path)}))
    return name


def reseal(run):
    names = json.loads((run / "checksums.json").read_text())
    (run / "checksums.json").write_text(json.dumps({name: checksum(run / name) for name in names}))


HARM = {
    "labels reversed": ("labels.json", reverse, "altered: its checksum is not the one that was written"),
    "a flipped bit in the weights": (
        "model.safetensors",
        flip,
        "altered: its checksum is not the one that was written",
    ),
    "a configuration edited by hand": ("config.yaml", lambda p: p.write_text(p.read_text() + "\n"), "altered: it has"),
    "no labels": ("labels.json", Path.unlink, "missing"),
    "a pipe in place of the report": ("report.json", lambda p: (p.unlink(), os.mkfifo(p)), "a named pipe"),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_file_is_refused_with_its_name_and_the_way_out(run, call, harm):
    name, damage, problem = HARM[harm]
    damage(run / name)
    code, out, err = call("predict", run, "good")
    assert (code, out) == (2, "")
    assert f"{run / name} is {problem}" in err and "--force" in err and err.count("\n") == 1
    with pytest.raises(RunError, match=r"force=True"):
        heed.load(run)


def test_every_command_that_opens_a_run_refuses_a_damaged_one_and_has_a_way_past(run, made, call, tmp_path):
    reverse(run / "labels.json")
    named = f"{run / 'labels.json'} is altered"
    commands = {
        "predict": ["predict", run, "good"],
        "together": ["predict", made, "good", "--with", run],
        "evaluate": ["evaluate", run, "--split", "valid"],
        "look": ["look", run, "good"],
        "compare": ["compare", made, run, "--split", "valid", "--resamples", "10"],
        "export": ["export", run, "--to", "huggingface", "--out", tmp_path / "out"],
    }
    for words in commands.values():
        code, out, err = call(*words)
        assert code == 2 and not out and named in err, words
        assert named in call(*words, "--force")[2], words
    code, out, err = call("predict", run, "good", "--force")
    assert code == 0 and out
    assert err == f"heed: {named}: its checksum is not the one that was written; using it anyway (--force)\n"
    flip(run / "report.json")
    code, out, err = call("look", run)  # the curves of training
    assert code == 2 and f"{run / 'report.json'} is altered" in err


def test_a_parent_is_compared_too(run, tmp_path):
    flip(run / "tokenizer.json" if (run / "tokenizer.json").exists() else run / "labels.json")
    with pytest.raises(ConfigError, match=r"model\.from: .*is altered.*; restore it from a copy$"):
        heed.train("classification", train=TEXTS, valid=4, steps=1, parent=run, out=tmp_path / "child", quiet=True)
    assert not (tmp_path / "child").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_always(run, call, value):
    name = spoil(run / "model.safetensors", value)
    for force in ([], ["--force"]):
        code, out, err = call("predict", run, "good", *force)
        assert (code, out) == (2, "")
        assert f"tensor '{name}' are not finite (NaN or infinity)" in err and str(run / "model.safetensors") in err


def test_what_no_command_reads_may_change(run):
    (run / "README.md").write_text("My notes.\n")
    (run / "notes.txt").write_text("More.\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heed.load(run)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "invalid JSON"),
        ("[]", "input should be an object"),
        ("{}", "it names no file"),
        ('{"config.yaml": 5}', "config.yaml is 5: input should be an object"),
        ('{"config.yaml": {"bytes": "5", "blake2b": ""}}', 'config.yaml.bytes is "5": input should be a valid integer'),
        ('{"../secret": {"bytes": 1, "blake2b": ""}}', "it names '../secret', which is not a file of the folder"),
        ('{"/dev/zero": {"bytes": 1, "blake2b": ""}}', "it names '/dev/zero', which is not a file of the folder"),
    ],
)
def test_damaged_checksums_are_refused(run, call, content, problem):
    (run / "checksums.json").write_text(content)
    for words in (["predict", run, "good"], ["check", run]):
        code, out, err = call(*words)
        assert code == 2 and "checksums.json" in out + err and problem in out + err
    assert call("predict", run, "good", "--force")[0] == 0


def test_a_pipe_among_the_sealed_files_does_not_hang_a_check(run):
    (run / "metrics.jsonl").unlink()
    (run / "curves.svg").unlink(missing_ok=True)
    os.mkfifo(run / "curves.svg")
    sums = json.loads((run / "checksums.json").read_text())
    (run / "checksums.json").write_text(json.dumps({**sums, "curves.svg": {"bytes": 0, "blake2b": ""}}))
    assert describe_damage(run) == {"curves.svg": "a named pipe, expected a file"}
    os.remove(run / "checksums.json")
    os.mkfifo(run / "checksums.json")
    assert "a named pipe" in describe_damage(run)["checksums.json"]


def test_without_checksums_an_ended_run_is_used_as_an_unfinished_one(run, call):
    (run / "checksums.json").unlink()
    code, out, err = call("predict", run, "good")
    assert code == 0 and out
    assert "training has not finished" in err and "checksums.json is missing, so the other files could not be" in err
    shutil.rmtree(run / "checkpoints")
    code, out, err = call("predict", run, "good")
    assert (code, out) == (2, "") and "model.safetensors has no checksum" in err and "--force" in err
    code, out, err = call("predict", run, "good", "--force")
    assert code == 0 and out and "model.safetensors has no checksum; using it anyway (--force)" in err


class Crash(BaseException):
    pass


def ended_before_the_seal(out, monkeypatch, **training):
    """A run that is killed after its weights, report and card were written, and before they were sealed."""
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr("heed.runs.train.write_card", lambda run: (_ for _ in ()).throw(Crash))
        train_config(copying(**training), out, Quiet())


def test_between_the_weights_and_the_seal_a_run_is_unfinished(tmp_path, monkeypatch, call):
    out = tmp_path / "run"
    ended_before_the_seal(out, monkeypatch)
    assert (out / "model.safetensors").is_file() and "scores" in json.loads((out / "report.json").read_text())
    code, said, _ = call("check", out)
    assert code == 0 and "not finished; all files with a checksum are intact" in said
    assert f"training has not finished; resume it with: heed train {out} --resume" in said
    code, said, err = call("predict", out, "1 2")
    assert code == 0 and said and "training has not finished (saved up to update 8 of 8): using the best weights" in err
    with pytest.raises(RunError, match=r"has no final model\.safetensors: training has not finished"):
        heed.load(out, finished=True)
    assert folders.state_of(out) is folders.State.USABLE
    flip(out / "tokenizer.source.json")  # what was sealed at the start is compared meanwhile
    with pytest.raises(RunError, match=r"tokenizer\.source\.json is altered"):
        heed.load(out)
    flip(out / "tokenizer.source.json")
    run, _ = train_config(copying(), out, Quiet(), resume=True)
    assert run is not None and folders.state_of(out) is folders.State.FINISHED and heed.check_run(out).whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heed.load(out, finished=True)


def test_a_finished_run_that_is_trained_longer_is_unfinished_until_it_ends(tmp_path, call):
    out = tmp_path / "run"
    train_config(copying(steps=2), out, Quiet())
    with pytest.raises(Killed):
        train_config(copying(), out, Killer(3), resume=True)
    code, _, err = call("predict", out, "1 2")
    assert code == 0 and "training has not finished (saved up to update 4 of 8)" in err
    code, _, err = call("train", out, "--resume")
    assert code == 0 and "resumed at update 4" in err and "all 8 updates done" in err
    assert json.loads((out / "report.json").read_text())["training"]["updates"] == 8


def test_the_end_of_training_does_not_certify_damage(tmp_path):
    """A tokenizer that is altered while training goes on keeps the checksum that was written with it."""
    out = tmp_path / "run"

    class Vandal(Quiet):
        def update(self, message):
            if "4" in message and (out / "tokenizer.source.json").stat().st_mtime_ns > 0:
                (out / "tokenizer.source.json").write_text("{}")

    train_config(copying(), out, Vandal())
    assert heed.check_run(out).files["tokenizer.source.json"].startswith("altered")
    with pytest.raises(RunError, match=r"tokenizer\.source\.json is altered"):
        heed.load(out)


def test_a_run_whose_training_goes_on_is_verified_and_used(tmp_path):
    out = killed(tmp_path / "run", 5)
    with pytest.warns(HeedWarning, match="best weights so far"):
        heed.load(out)
    best = max((out / "checkpoints").glob("step-*"))
    flip(best / "model.safetensors")
    (out / "checkpoints" / "kept").mkdir()
    flip(out / "report.json")
    with pytest.raises(RunError, match=r"report\.json is altered"):
        heed.load(out)


def test_a_training_that_ends_meanwhile_is_no_damage(run, monkeypatch):
    """The folder changes, and its checksums with it, between reading the checksums and reading the files."""
    verify, times = folders.verify, []

    def late(path, *args, **options):
        if not times:
            times.append(1)
            report = json.loads((path / "report.json").read_text())
            (path / "report.json").write_text(json.dumps(report))
            try:
                return verify(path, *args, **options)
            finally:
                reseal(path)
        return verify(path, *args, **options)

    monkeypatch.setattr(folders, "verify", late)
    assert heed.load(run).report["task"] == "classification" and times


def test_weights_have_the_permissions_of_other_files(tmp_path):
    before = os.umask(0o026)
    try:
        out = tmp_path / "run"
        train_config(copying(), out, Quiet())
    finally:
        os.umask(before)
    files = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert len([path for path in files if path.suffix == ".safetensors"]) > 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o640}


def test_a_checkpoint_with_weights_that_are_not_finite_is_not_imported():
    from heed.training.weights import apply_weights

    model = torch.nn.Linear(2, 3)
    tensors = {"weight": torch.tensor([[0.0, 1.0], [2.0, float("nan")], [3.0, 4.0]]), "bias": torch.zeros(3)}
    with pytest.raises(RunError, match=r"some/bert: 1 of the 6 numbers of tensor 'weight' are not finite"):
        apply_weights(model, tensors, "some/bert")


def test_huge_weights_are_finite():
    from heed.training.weights import check_finite

    check_finite(torch.full((1000,), 3e38), "a", "here")
    check_finite(torch.full((10,), 1e308, dtype=torch.float64), "a", "here")
    with pytest.raises(RunError, match=r"here: 1 of the 3 numbers of tensor 'a' are not finite"):
        check_finite(torch.tensor([1.0, float("-inf"), 0.0]), "a", "here")


@pytest.mark.parametrize("where", ["model.safetensors", "checkpoints/step-4/model.safetensors"])
def test_check_finds_weights_that_are_not_finite_under_checksums_that_agree(run, call, where):
    name = spoil(run / where, float("nan"))
    count = load_file(run / where)[name].numel()
    code, said, _ = call("check", run)
    assert code == 2 and "missing, altered or unusable" in said
    assert f"not usable: 1 of the {count:,} numbers of tensor '{name}' are not finite" in said


def test_a_report_is_written_without_sealing_the_weights(run):
    def reported(said):
        with folders.unsealed(run, folders.REPORT, final=True):
            folders.write_report(run, {**folders.read_report(run), "note": said})
            assert folders.state_of(run) is folders.State.FINISHED  # also after a kill at this moment

    reported("whole")
    assert heed.check_run(run).whole
    flip(run / "model.safetensors")
    reported("damaged")
    assert heed.check_run(run).files["report.json"] == "ok"
    with pytest.raises(RunError, match=r"model\.safetensors is altered"):
        heed.load(run)


@pytest.mark.parametrize("sums", ["whole", "damaged", "removed"])
def test_the_end_of_training_seals_only_what_it_wrote(tmp_path, sums):
    out = tmp_path / "run"

    class Planter(Quiet):
        def update(self, message):
            (out / "planted.json").write_text("{}")
            if sums == "damaged":
                (out / "checksums.json").write_text("{")
            elif sums == "removed":
                (out / "checksums.json").unlink(missing_ok=True)

    train_config(copying(), out, Planter())
    sealed = json.loads((out / "checksums.json").read_text())
    assert {"model.safetensors", "report.json", "README.md"} <= {*sealed} and "planted.json" not in sealed
    assert ("tokenizer.source.json" in sealed) == (sums == "whole")
