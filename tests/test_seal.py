"""Files of a run folder: read without waiting, refused in one line where damaged, sealed with checksums at the end."""

import json
import os
import re
import shutil
import socket
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
from heed.storage import files
from heed.storage.files import (
    MissingFileError,
    checksum,
    describe_damage,
    read_bytes,
    read_list,
    read_object,
    read_text,
    read_yaml,
)
from heed.training.progress import Quiet
from heed.training.weights import apply_weights, check_finite
from resuming import flip, killed, resumed, train, translation


@pytest.fixture(scope="session")
def made(small_run):
    """A finished classifier."""
    return small_run("classification")


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
    "labels reversed": ("labels.json", reverse, "altered: its checksum is not the one that was"),
    "a flipped bit in the weights": ("model.safetensors", flip, "altered: its checksum is not the one that was"),
    "a configuration edited by hand": ("config.yaml", lambda p: p.write_text(p.read_text() + "\n"), "altered: it has"),
    "no labels": ("labels.json", Path.unlink, "missing"),
    "a pipe in place of the report": ("report.json", lambda p: (p.unlink(), os.mkfifo(p)), "a named pipe"),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_file_is_refused_with_its_name_and_the_way_out(run, call, harm):
    name, damage, problem = HARM[harm]
    damage(run / name)
    code, out, err = call("predict", run, "one")
    assert (code, out) == (2, "")
    assert f"{run / name} is {problem}" in err and "--force" in err and err.count("\n") == 1
    with pytest.raises(RunError, match=r"force=True"):
        heed.load(run)


def test_every_command_that_opens_a_run_refuses_a_damaged_one_and_has_a_way_past(run, made, call, tmp_path):
    reverse(run / "labels.json")
    named = f"{run / 'labels.json'} is altered"
    commands = {
        "predict": ["predict", run, "one"],
        "together": ["predict", made, "one", "--with", run],
        "evaluate": ["evaluate", run, "--split", "valid"],
        "look": ["look", run, "one"],
        "compare": ["compare", made, run, "--split", "valid", "--resamples", "10"],
        "export": ["export", run, "--to", "huggingface", "--out", tmp_path / "out"],
    }
    for words in commands.values():
        code, out, err = call(*words)
        assert code == 2 and not out and named in err, words
        assert named in call(*words, "--force")[2], words
    code, out, err = call("predict", run, "one", "--force")
    assert code == 0 and out
    assert err == f"heed: {named}: its checksum is not the one that was written; using it anyway (--force)\n"
    flip(run / "report.json")
    code, out, err = call("look", run)  # the curves of training
    assert code == 2 and f"{run / 'report.json'} is altered" in err


def test_a_parent_is_compared_too(run, tmp_path):
    flip(run / "tokenizer.json")
    with pytest.raises(ConfigError, match=r"model\.from: .*is altered.*; restore it from a copy$"):
        heed.train(
            "classification",
            train=[("one", "a"), ("two", "b")] * 9,
            valid=4,
            steps=1,
            parent=run,
            out=tmp_path / "child",
            quiet=True,
        )
    assert not (tmp_path / "child").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_always(run, call, value):
    name = spoil(run / "model.safetensors", value)
    for force in ([], ["--force"]):
        code, out, err = call("predict", run, "one", *force)
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
        ("{", "JSON"),
        ("[]", "an object"),
        ("{}", "it names no file"),
        ('{"config.yaml": 5}', "config.yaml"),
        ('{"config.yaml": {"bytes": "5", "blake2b": ""}}', "config.yaml"),
        ('{"../secret": {"bytes": 1, "blake2b": ""}}', "it names '../secret', which is not a file of the folder"),
        ('{"/dev/zero": {"bytes": 1, "blake2b": ""}}', "it names '/dev/zero', which is not a file of the folder"),
    ],
)
def test_damaged_checksums_are_refused(run, call, content, problem):
    (run / "checksums.json").write_text(content)
    for words in (["predict", run, "one"], ["check", run]):
        code, out, err = call(*words)
        assert code == 2 and "checksums.json" in out + err and problem in out + err
    assert call("predict", run, "one", "--force")[0] == 0


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
    code, out, err = call("predict", run, "one")
    assert code == 0 and out
    assert "training has not finished" in err and "checksums.json is missing, so the other files could not be" in err
    shutil.rmtree(run / "checkpoints")
    code, out, err = call("predict", run, "one")
    assert (code, out) == (2, "") and "model.safetensors has no checksum" in err and "--force" in err
    code, out, err = call("predict", run, "one", "--force")
    assert code == 0 and out and "model.safetensors has no checksum; using it anyway (--force)" in err


class Crash(BaseException):
    pass


def test_between_the_weights_and_the_seal_a_run_is_unfinished(tmp_path, monkeypatch, call):
    """It is killed after its weights, report and card were written, and before they were sealed."""
    out = tmp_path / "run"
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr("heed.runs.train.write_card", lambda run: (_ for _ in ()).throw(Crash))
        train(out, translation(steps=8))
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
    assert resumed(out)[1].finished and folders.state_of(out) is folders.State.FINISHED and heed.check_run(out).whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heed.load(out, finished=True)


def test_a_finished_run_that_is_trained_longer_is_unfinished_until_it_ends(tmp_path, call):
    out = tmp_path / "run"
    train(out, translation(steps=2))
    killed(out, translation(steps=8), 3, resume=True)
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

    train(out, translation(), reporter=Vandal())
    assert heed.check_run(out).files["tokenizer.source.json"].startswith("altered")
    with pytest.raises(RunError, match=r"tokenizer\.source\.json is altered"):
        heed.load(out)


def test_a_run_whose_training_goes_on_is_verified_and_used(tmp_path):
    out = killed(tmp_path / "run", translation(), 5)
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
        train(out, translation())
    finally:
        os.umask(before)
    files = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert len([path for path in files if path.suffix == ".safetensors"]) > 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o640}


def test_a_checkpoint_with_weights_that_are_not_finite_is_not_imported():
    model = torch.nn.Linear(2, 3)
    tensors = {"weight": torch.tensor([[0.0, 1.0], [2.0, float("nan")], [3.0, 4.0]]), "bias": torch.zeros(3)}
    with pytest.raises(RunError, match=r"some/bert: 1 of the 6 numbers of tensor 'weight' are not finite"):
        apply_weights(model, tensors, "some/bert")


def test_huge_weights_are_finite():
    check_finite(torch.full((1000,), 3e38), "a", "here")
    check_finite(torch.full((10,), 1e308, dtype=torch.float64), "a", "here")
    with pytest.raises(RunError, match=r"here: 1 of the 3 numbers of tensor 'a' are not finite"):
        check_finite(torch.tensor([1.0, float("-inf"), 0.0]), "a", "here")


@pytest.mark.parametrize("where", ["model.safetensors", "checkpoints/step-2/model.safetensors"])
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

    train(out, translation(), reporter=Planter())
    sealed = json.loads((out / "checksums.json").read_text())
    assert {"model.safetensors", "report.json", "README.md"} <= {*sealed} and "planted.json" not in sealed
    assert ("tokenizer.source.json" in sealed) == (sums == "whole")


# --- single files

ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


def refused(read, path, *problems):
    with pytest.raises(RunError) as error:
        read(path)
    message = str(error.value)
    assert str(path) in message and "\n" not in message
    for problem in problems:
        assert re.search(problem, message)
    return message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "an object"),
        ('"a"', "an object"),
        ("", "JSON"),
        ('{"a": ', "JSON"),
        ('{"a": ' * 100_000, "nested too deep|recursion limit"),
        ('{"a": "\\ud83d"}', "surrogate pair|hex escape"),
        ('{"a": ' + "9" * 5000 + "}", "JSON"),
    ],
)
def test_json_of_another_type(tmp_path, text, problem):
    path = tmp_path / "report.json"
    path.write_text(text)
    assert "restore the file from a copy" in refused(read_object, path, f"{path} is damaged: ", problem)


def test_a_list_of_other_values(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text('["a", 5]')
    refused(lambda p: read_list(p, str), path, "element 2 is a number|1 is 5: ")
    path.write_text("{}")
    refused(read_list, path, "a list|a valid array")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ALIASES, "its aliases expand to too many values"),
        ("a: &a [*a]", "nested more than 64 levels deep"),
        ("[" * 5000, "nested too deep"),
        ("a: 2001-99-99", "it is not YAML"),
        ('a: "\\UFFFFFFFF"', "it is not YAML"),
        ("a: !!python/object/apply:os.system [ls]", "it is not YAML: line 1"),
        ("a: [1\nb: }", "it is not YAML: line 2"),
    ],
)
def test_yaml_that_is_none(tmp_path, text, problem):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    refused(read_yaml, path, problem)


def test_bytes_that_are_no_text_and_a_file_that_is_too_large(tmp_path):
    path = tmp_path / "labels.json"
    path.write_bytes(b'["caf\xe9"]')
    refused(read_list, path, "byte 6 is not UTF-8")
    with path.open("wb") as file:
        file.truncate(1 << 40)  # without a byte on the disk
    refused(read_list, path, f"it has more than {files.LIMIT:,} bytes")


def test_what_is_no_regular_file_is_never_waited_for(tmp_path):
    with pytest.raises(MissingFileError, match=r"gone\.json is missing"):
        read_text(tmp_path / "gone.json")
    os.mkfifo(tmp_path / "pipe.json")
    refused(read_text, tmp_path / "pipe.json", "is a named pipe, expected a file")
    (tmp_path / "folder.json").mkdir()
    refused(read_text, tmp_path / "folder.json", "is a folder, expected a file")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket.json"))
        refused(read_text, tmp_path / "socket.json", "is a socket, expected a file")


def test_links_lead_nowhere_else(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret.json").write_text('{"key": 1}')
    (run / "report.json").symlink_to(tmp_path / "secret.json")
    refused(read_object, run / "report.json", "is a link to", "outside of its folder")
    with pytest.raises(RunError, match=r"^\S+report\.json is a link to "):
        read_object(run / "report.json")
    assert read_object(run / "report.json", links=True) == {"key": 1}
    (run / "own.json").write_text(json.dumps({"key": 2}))
    (run / "labels.json").symlink_to("own.json")
    assert read_object(run / "labels.json") == {"key": 2}
    (run / "circle.json").symlink_to("circle.json")
    refused(read_text, run / "circle.json", "cannot read")
    (run / "zero.json").symlink_to("/dev/zero")
    refused(read_bytes, run / "zero.json", "outside of its folder")
    (tmp_path / "other").symlink_to(run)
    assert read_object(tmp_path / "other" / "labels.json") == {"key": 2}  # the run folder itself may be a link


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "RUN", "one"],
        ["evaluate", "RUN"],
        ["look", "RUN", "one"],
        ["look", "RUN"],
        ["heads", "RUN"],
        ["align", "RUN", "my.en", "my.yo"],
        ["compare", "RUN", "OTHER"],
        ["pack", "RUN", "--out", "run.zip"],
        ["export", "RUN", "--to", "ctranslate2"],
        ["serve", "RUN"],
        ["check", "RUN"],
        ["train", "RUN", "--resume"],
        ["train", "translation", "data.name=dates", "--from", "RUN"],
        ["train", "translation", "data.name=dates", "tokenizer.from=RUN"],
    ],
    ids=" ".join,
)
def test_every_command_refuses_a_run_of_another_format_in_one_sentence(made_run, call, tmp_path, words):
    """Also where its settings have a field that this version does not know."""
    run = shutil.copytree(made_run("translation") / "finished", tmp_path / "old")
    (run / "format.json").write_text('{"format": 1}')
    (run / "config.yaml").write_text((run / "config.yaml").read_text() + "gone: 1\n")
    names = {"RUN": str(run), "OTHER": str(made_run("translation") / "finished")}
    code, out, err = call(*(re.sub("RUN|OTHER", lambda m: names[m[0]], word) for word in words))
    assert code == 2 and out == ""
    assert err.splitlines()[-1].endswith(
        f"'{run}' has format 1, and this version of heed reads format 2: train the run again, or use the version that "
        "wrote it"
    )
    assert len(err.splitlines()) == 1
