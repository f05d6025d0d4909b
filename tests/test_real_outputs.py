"""Outputs, scores and messages on the files that people have: what is said is true of what was read and written."""

import errno
import os
import shlex
from pathlib import Path

import pytest

from commands import call
from heed.errors import DiskError
from heed.storage import disk

EARLIER = "an earlier version of it is unchanged"


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def write_file(path):
    disk.write_whole(path, full_disk)


def write_output(path):
    with disk.open_output(path):
        full_disk()


def write_folder(path):
    with disk.write_folder(path, checksums=False):
        full_disk()


def fail_after_renaming(path):
    """The folder's names cannot be flushed, after the new file has its name."""
    real = os.fsync

    def fsync(number):
        return full_disk() if os.path.isdir(f"/proc/self/fd/{number}") else real(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        disk.write_whole(path, lambda part: part.write_text("new"))


def old_file(path):
    path.write_text("old")


def old_folder(path):
    path.mkdir()
    (path / "file").write_text("old")


def dangling_link(path):
    path.symlink_to("elsewhere")


def nothing(path):
    pass


@pytest.mark.parametrize(
    ("before", "write", "is_kept"),
    [
        (nothing, write_file, False),
        (nothing, write_output, False),
        (nothing, write_folder, False),
        (nothing, fail_after_renaming, False),
        (dangling_link, write_file, False),
        (dangling_link, write_output, False),
        (Path.mkdir, write_folder, False),
        (old_file, fail_after_renaming, False),
        (old_file, write_file, True),
        (old_file, write_output, True),
        (old_folder, write_folder, True),
    ],
)
def test_an_earlier_version_is_mentioned_only_where_it_is_unchanged(tmp_path, before, write, is_kept):
    before(path := tmp_path / "output")
    with pytest.raises(DiskError, match=r"the disk is full: .*could not be written") as raised:
        write(path)
    assert (EARLIER in str(raised.value)) is is_kept
    assert not is_kept or "old" in (path if path.is_file() else path / "file").read_text()


def pairs(first):
    return "".join(f"{a}{first} {b}\t{b} {a}{first}\n" for a in "abcde" for b in "stuvwxyz")


TINY = ("model.d_embedding=8", "model.d_hidden=8", "--model", "rnn")


@pytest.mark.parametrize(
    ("files", "valid", "options"),
    [
        (["p.tsv"], [], "data.train=NEW/p.tsv"),
        (["p.tsv"], ["q.tsv"], "data.train=NEW/p.tsv data.valid=NEW/q.tsv"),
        (["p.tsv", "q.tsv"], ["r.tsv"], "'data.train=[NEW/p.tsv,NEW/q.tsv]' data.valid=NEW/r.tsv"),
    ],
)
def test_a_run_resumed_where_its_data_is_elsewhere_names_the_options(
    tmp_path, capsys, monkeypatch, files, valid, options
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()
    for number, name in enumerate([*files, *valid]):
        (tmp_path / "old" / name).write_text(pairs(number))
    places = [f"old/{name}" for name in files]
    words = ["translation", "--out", "run", "training.steps=1", *TINY, *(f"--valid=old/{name}" for name in valid)]
    assert call(capsys, "train", *words, f"data.train=[{','.join(places)}]")[0] == 0
    Path("old").rename("new")
    code, _, err = call(capsys, "train", "run", "--resume", "training.steps=2")
    command = f"train run --resume {options}"
    assert code == 2 and f"no file '{tmp_path / 'old' / 'p.tsv'}'; if it is elsewhere now" in err
    assert err.rstrip().endswith(f"heed {command}")
    assert call(capsys, *shlex.split(command.replace("NEW", "new")), "training.steps=2")[0] == 0
