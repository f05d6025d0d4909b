"""Where a command used to lead nowhere: folders barely begun, closed streams, outputs refused too late, odd names."""

import errno
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from PIL import Image

import heed
from heed.cli import main
from heed.errors import ConfigError, DiskError, RunError
from heed.folder import FORMAT
from heed.storage import disk
from pictures import noise

SHORT = {"training.device": "cpu", "training.threads": 1, "evaluation.bootstrap": 5}


def trained(out, **given):
    return heed.train("translation", data="copy", model="rnn", size="tiny", steps=2, out=out, quiet=True,
                      settings=SHORT | {"data.train": 40, "data.valid": 6, "data.test": 6}, **given)  # fmt: skip


def refused(*arguments):
    """The exit status of a command."""
    with pytest.raises(SystemExit) as found:
        main([*map(str, arguments)])
    return found.value.code


# --- a run killed before its settings were written


@pytest.mark.parametrize("files", [[], ["tokenizer.source.json"], ["labels.json", "report.json", ".report.json.part"]])
def test_a_folder_whose_run_was_killed_before_its_settings_is_begun_again(tmp_path, files, capsys):
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "format.json").write_text(json.dumps({"format": FORMAT}))
    for name in files:
        (folder / name).write_text("{}")
    state = str(heed.check_run(folder))
    assert f"begin it again with the same command as before and --out {folder}" in state and "--resume" not in state
    for attempt in (lambda: heed.load(folder), lambda: heed.load(folder, finished=True)):
        with pytest.raises(RunError, match=r"stopped before config\.yaml was written: begin it again"):
            attempt()
    assert refused("train", folder, "--resume") == 2 and "begin it again" in capsys.readouterr().err
    run = trained(folder)
    assert heed.check_run(folder).whole and not (folder / "labels.json").exists()
    assert run.predict("abc").text == heed.load(folder).predict("abc").text


@pytest.mark.parametrize("kept", ["notes.txt", "checkpoints/step-2/progress.json", "config.yaml", "checksums.json"])
def test_a_folder_with_anything_else_is_not_begun_again(tmp_path, kept):
    folder = tmp_path / "run"
    (folder / kept).parent.mkdir(parents=True)
    (folder / "format.json").write_text(json.dumps({"format": FORMAT}))
    (folder / kept).write_text("{}")
    with pytest.raises(RunError, match="already exists, and runs are never overwritten"):
        trained(folder)
    assert (folder / kept).read_text() == "{}"


def test_a_resumed_run_writes_nothing_into_a_copy_of_hard_links(tmp_path):
    trained(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy", copy_function=os.link)
    before = {path: path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    heed.train("translation", data="copy", model="rnn", size="tiny", steps=4, out=tmp_path / "run", quiet=True,
               resume=True, settings=SHORT | {"data.train": 40, "data.valid": 6, "data.test": 6})  # fmt: skip
    assert {path: path.read_bytes() for path in before} == before
    assert heed.check_run(tmp_path / "copy").whole


# --- messages


def test_a_full_disk_never_says_that_there_is_room(tmp_path, monkeypatch):
    room = os.statvfs_result((4096, 4096, 100, 4, 4, 1000, 10, 10, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda folder: room)
    full = OSError(errno.ENOSPC, "No space left on device")
    said = str(disk.disk_error(full, tmp_path / "file", 12_012))
    assert "12,012 bytes (0.0 MiB) and room for names and blocks are needed, 16,384 bytes" in said


def test_warnings_of_libraries_are_one_line_with_the_name_of_the_library(capsys, monkeypatch):
    def command(arguments, standalone_mode):
        warnings.warn_explicit("first\n  second", UserWarning, "/usr/lib/python3/site-packages/torch/nn/x.py", 7)
        warnings.warn_explicit("third", UserWarning, "/elsewhere/x.py", 7)
        warnings.warn("ours", heed.errors.HeedWarning, stacklevel=1)

    monkeypatch.setattr("heed.cli.app.app", command)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main([])
    said = "heed: warning of torch: first second\nheed: warning of Python: third\nheed: ours\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("how", ["2>&-", "2>/dev/full", "2> >(true)"])
def test_a_closed_stderr_changes_neither_answer_nor_exit_status(tmp_path, how):
    for text, code in (("heed lesson", 0), ("heed train nonsense", 2)):
        command = text.replace("heed", f"{sys.executable} -m heed")
        done = subprocess.run(["bash", "-c", f"{command} {how}"], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert ("self-attention" in done.stdout.lower() or "The cat sat" in done.stdout) == (code == 0)


def test_line_breaks_in_names_of_pictures_break_no_line(tmp_path, capsys):
    names = [f"{kind}/{n}\nx.png" for kind in ("cat", "dog") for n in range(6)]
    for n, name in enumerate(names):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(n, 8, 8)).save(tmp_path / "photos" / name, format="png")
    (tmp_path / "photos" / "cat" / "bad\nname.png").write_text("no picture")
    photos, run = tmp_path / "photos", tmp_path / "run"
    refused("check", "images", photos, "data.bad_lines=skip")
    shown = capsys.readouterr().out
    assert r"cat/bad\nname.png" in shown and r"cat/0\nx.png" in shown and "\nx.png" not in shown
    heed.train("images", train=photos, steps=1, out=run, quiet=True, settings=SHORT | {"data.bad_lines": "skip"})
    refused("predict", run, photos / names[0], photos / "cat" / "bad\nname.png")
    out, err = capsys.readouterr()
    assert [line.split("\t")[0] for line in out.splitlines()] == [
        rf"{photos}/cat/0\nx.png", rf"{photos}/cat/bad\nname.png",
    ]  # fmt: skip
    assert "name.png' is not a picture" in err and all(line.startswith("heed: ") for line in err.splitlines())


# --- outputs that cannot be written are refused before the work


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    return trained(folder / "a").folder, trained(folder / "b", seed=2).folder


@pytest.mark.parametrize("blocked", ["out", "out/compare.json"])
def test_compare_refuses_its_folder_before_the_work(two, tmp_path, monkeypatch, capsys, blocked):
    monkeypatch.setattr("heed.cli.compare.compare_entries", lambda *given: pytest.fail("compared"))
    if blocked == "out":
        (tmp_path / "out").write_text("a file")
    else:
        (tmp_path / blocked).mkdir(parents=True)
    assert refused("compare", *two, "--out", tmp_path / "out") == 2
    assert "is a file" in (said := capsys.readouterr().err) or "it is a folder" in said


@pytest.mark.parametrize(
    "command",
    [["lesson", "pizza"], ["look", "RUN", "abc"], ["check", "images", "data.name=digits"]],
)
def test_commands_refuse_their_output_before_the_work(two, tmp_path, monkeypatch, capsys, command):
    for work in ("heed.lessons.lesson.run_lesson", "heed.cli.look._look", "heed.tasks.work.Task.prepare"):
        monkeypatch.setattr(work, lambda *given, **named: pytest.fail("worked"))
    (tmp_path / "file").write_text("")
    words = [str(two[0]) if word == "RUN" else word for word in command]
    assert refused(*words, "--out", tmp_path / "file" / "page.html") == 2
    assert "Not a directory" in capsys.readouterr().err
    with pytest.raises((ConfigError, DiskError)):
        disk.check_output(Path("/sys/heed/page.html"))
    assert os.listdir(tmp_path) == ["file"]
