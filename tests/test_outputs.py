"""Files that a user names for results: written whole or not at all, what was there before stays."""

import errno
import os
import resource
import stat
import subprocess
import sys
import threading

import pytest
import torch

import heed
from heed.cli import main, terminal
from heed.errors import ConfigError, DiskError
from heed.storage import disk
from heed.storage.disk import make_folder, open_output, write_folder, write_outputs, write_whole
from heed.training.weights import save_weights


@pytest.fixture
def at_most():
    """Limit the size of files that this process writes; the limit is gone afterwards."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda count: resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# --- one file of lines


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("old\n")
    with open_output(out) as file:
        file.write("new\n")
        file.flush()
        assert out.read_text() == "old\n"
    assert out.read_text() == "new\n" and names(tmp_path) == ["out.txt"]


def test_lines_written_before_an_error_stay_beside_the_old_file_and_the_error_says_where(tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("old\n")
    with pytest.raises(ConfigError) as found, open_output(out) as file:
        file.write("first\nsecond\nthi")
        raise ConfigError("line 3 is bad")
    assert found.value.__notes__ == [f"the 2 lines written before are in '{out}.part'"]
    assert out.read_text() == "old\n" and (tmp_path / "out.txt.part").read_text() == "first\nsecond\n"


@pytest.mark.parametrize("written", ["", "less than a line"])
def test_nothing_is_left_of_less_than_a_line(tmp_path, written):
    with pytest.raises(ZeroDivisionError) as found, open_output(tmp_path / "out.txt") as file:
        file.write(written)
        raise ZeroDivisionError
    assert not hasattr(found.value, "__notes__") and names(tmp_path) == []


def test_of_two_programs_that_write_one_file_the_last_one_wins_and_a_left_over_part_is_replaced(tmp_path):
    out = tmp_path / "out.txt"
    (tmp_path / "out.txt.part").write_text("of a killed process, longer than what follows\n")
    with open_output(out) as first:
        first.write("one\n")
        with open_output(out) as second:
            second.write("two\n")
        assert out.read_text() == "two\n"
        with pytest.raises(ZeroDivisionError), open_output(out) as third:
            third.write("three\n")
            raise ZeroDivisionError
    assert out.read_text() == "one\n" and (tmp_path / "out.txt.part").read_text() == "three\n"
    with open_output(out) as first:
        first.write("four\n")
        write_outputs({out: "five\n"})
    assert out.read_text() == "four\n" and names(tmp_path) == ["out.txt"]


def test_a_link_stays_a_link_and_the_mode_of_the_old_file_is_kept(tmp_path):
    real, link, new = tmp_path / "real.txt", tmp_path / "link.txt", tmp_path / "new.txt"
    real.write_text("old\n")
    real.chmod(0o640)
    link.symlink_to("real.txt")
    for write in (lambda path: write_outputs({path: "text\n"}), write_line):
        write(link)
        assert link.is_symlink() and real.read_text() == "text\n" and stat.S_IMODE(real.stat().st_mode) == 0o640
        write(new)
        assert stat.S_IMODE(new.stat().st_mode) == 0o666 & ~umask()
        new.unlink()


def write_line(path):
    with open_output(path) as file:
        file.write("text\n")


def umask():
    before = os.umask(0)
    os.umask(before)
    return before


def test_names_as_long_as_a_file_system_takes_can_be_written(tmp_path):
    for name in ("n" * 255, "é" * 127):
        write_outputs({tmp_path / name: "text\n"})
        write_whole(tmp_path / name, lambda part: part.write_text("again\n"))
        assert (tmp_path / name).read_text() == "again\n"
    assert len(names(tmp_path)) == 2
    with pytest.raises(ConfigError, match="File name too long"), open_output(tmp_path / ("n" * 256)):
        pytest.fail("this must be said before anything is written")


def test_pipes_and_devices_are_written_to_directly(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    for write in (write_line, lambda path: write_outputs({path: "text\n"})):
        reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
        reader.start()
        write(pipe)
        reader.join()
        write(tmp_path.__class__("/dev/null"))
    assert got == ["text\n", "text\n"] and names(tmp_path) == ["pipe"]
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_dev_stdout_is_what_stdout_is():
    code = "from pathlib import Path; from heed.storage.disk import write_outputs\n"
    code += "write_outputs({Path('/dev/stdout'): 'text\\n'})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"text\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device_and_a_full_stdout_are_one_line(tmp_path):
    with pytest.raises(DiskError, match=r"^cannot write '/dev/full': No space left on device$"):
        write_line(tmp_path.__class__("/dev/full"))
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "heed", "models"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 3
    assert done.stderr == b"heed: cannot write to stdout: No space left on device\n"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none/out.txt", "cannot write '.*none/out.txt': No such file or directory; create the folder '.*none' first"),
        ("folder", "cannot write '.*folder': it is a folder; name a file in it"),
        ("file/out.txt", "cannot write '.*file/out.txt': Not a directory"),
    ],
)
def test_a_wrong_path_is_said_before_anything_is_written(tmp_path, path, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=message), open_output(tmp_path / path):
        pytest.fail("opened")
    with pytest.raises(ConfigError, match=message):
        write_outputs({tmp_path / path: "text"})
    assert names(tmp_path) == ["file", "folder"]


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").touch()
    for path in ("file", "file/within"):
        with pytest.raises(ConfigError, match=f"cannot create folder '.*{path}': it, or one of its parents, is a file"):
            make_folder(tmp_path / path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_and_a_read_only_folder_are_left_alone(tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("old\n")
    out.chmod(0o444)
    with pytest.raises(DiskError, match=r"cannot write '.*out.txt': Permission denied"), open_output(out):
        pytest.fail("opened")
    out.chmod(0o644)
    tmp_path.chmod(0o555)
    with pytest.raises(DiskError, match=r"cannot write .*: Permission denied"), open_output(out):
        pytest.fail("opened")
    tmp_path.chmod(0o755)
    assert out.read_text() == "old\n"


# --- limits and refusals


def test_a_limit_of_the_file_size_is_explained_with_the_bytes_needed(tmp_path, at_most):
    out = tmp_path / "out.txt"
    out.write_text("old\n")
    at_most(1000)
    with pytest.raises(
        DiskError, match=r"too large .*: '.*out.txt' could not be written \(3,000 bytes .* are needed, "
    ):
        write_outputs({out: "x" * 3000})
    assert out.read_text() == "old\n" and names(tmp_path) == ["out.txt"]
    with pytest.raises(DiskError, match="too large") as found, open_output(out) as file:
        for _ in range(5000):
            file.write("text\n")
    assert found.value.__notes__ == [f"the 200 lines written before are in '{out}.part'"]
    assert out.read_text() == "old\n" and (tmp_path / "out.txt.part").read_text() == "text\n" * 200


def test_a_limit_of_the_file_size_inside_safetensors_and_tokenizers_is_explained(tmp_path, at_most):
    from tokenizers import Tokenizer, models

    tokenizer = Tokenizer(models.WordLevel({str(i): i for i in range(1000)}, unk_token="0"))
    at_most(1000)
    for write in (lambda part: save_weights(torch.nn.Linear(100, 100), part), lambda part: tokenizer.save(str(part))):
        with pytest.raises(
            DiskError, match=r"too large .*: '.*file' could not be written \(40,400 bytes .* are needed"
        ):
            with write_folder(tmp_path / "file", 40_400) as part:
                write(part / "inside")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, r"the disk is full: '.*file' could not be written \(70 bytes .* are needed, .* are free\)"),
        (errno.EDQUOT, r"your disk quota is used up: '.*file' could not be written \(70 bytes .* are needed, "),
        (errno.EFBIG, r"the file would be too large .*: '.*file' could not be written \(70 bytes .* are needed, "),
        (errno.EROFS, "cannot write '.*file': Read-only file system"),
        (errno.EIO, "cannot write '.*file': Input/output error"),
    ],
)
def test_every_refusal_of_the_disk_is_one_line(tmp_path, number, message):
    assert disk.error_number(Exception(f"I/O error: what rust says (os error {number})")) == number
    with pytest.raises(DiskError, match=message) as found, write_folder(tmp_path / "file", 70):
        raise OSError(number, os.strerror(number))
    assert "\n" not in str(found.value) and found.value.exit_code == 3


def test_a_disk_with_space_and_without_inodes_says_so(tmp_path, monkeypatch):
    full = os.statvfs_result((4096, 4096, 10**6, 10**6, 10**6, 1000, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    found = disk.disk_error(OSError(errno.ENOSPC, "No space left on device"), tmp_path / "file")
    assert "no inode for another file" in str(found)


# --- folders


def test_a_folder_keeps_its_old_content_where_the_new_one_cannot_get_its_name(tmp_path, monkeypatch):
    final, real = tmp_path / "folder", os.replace
    write_named(final, "old")

    def refuse(source, target):
        if str(source).endswith(".part"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(DiskError, match="disk is full"), write_folder(final, checksums=False) as part:
        (part / "file").write_text("new")
    assert (final / "file").read_text() == "old" and names(tmp_path) == ["folder"]


def write_named(final, text):
    with write_folder(final, checksums=False) as part:
        (part / "file").write_text(text)


def test_a_folder_moved_away_by_a_killed_write_comes_back(tmp_path):
    write_named(tmp_path / "folder", "old")
    (tmp_path / "folder").rename(tmp_path / ".folder.old")
    disk.remove_leftovers(tmp_path)
    assert (tmp_path / "folder" / "file").read_text() == "old"
    (tmp_path / "folder").rename(tmp_path / ".folder.old")
    with pytest.raises(ZeroDivisionError), write_folder(tmp_path / "folder"):
        raise ZeroDivisionError
    assert (tmp_path / "folder" / "file").read_text() == "old" and names(tmp_path) == ["folder"]
    write_named(tmp_path / ".folder.old", "older")
    disk.remove_leftovers(tmp_path)
    assert (tmp_path / "folder" / "file").read_text() == "old" and names(tmp_path) == ["folder"]


def test_what_a_killed_safetensors_left_is_removed(tmp_path):
    for name in (".tmpoy5B49", ".model.safetensors.part", "model.safetensors", ".tmp"):
        (tmp_path / name).touch()
    disk.remove_leftovers(tmp_path)
    assert names(tmp_path) == [".tmp", "model.safetensors"]


# --- files that belong together


def test_files_that_belong_together_are_all_written_or_none_is(tmp_path, at_most):
    for name in "ab":
        (tmp_path / name).write_text("old")
    at_most(100)
    with pytest.raises(DiskError, match=r"too large .*: '.*b'"):
        write_outputs({tmp_path / "a": "new", tmp_path / "b": "x" * 200})
    assert [(tmp_path / name).read_text() for name in "ab"] == ["old", "old"] and names(tmp_path) == ["a", "b"]


def test_commands_say_where_the_lines_before_an_error_are(tmp_path, monkeypatch, capsys):
    def wrong(*_):
        with terminal.open_output(tmp_path / "out.txt") as file:
            file.write("first\n")
            raise KeyboardInterrupt if wrong.interrupt else ConfigError("line 2 is bad")

    monkeypatch.setattr("heed.cli.show.models_text", wrong)
    for wrong.interrupt, code, message in ((False, 2, "line 2 is bad"), (True, 130, "interrupted")):
        with pytest.raises(SystemExit) as done:
            main(["models"])
        assert done.value.code == code
        said = capsys.readouterr().err
        assert said == f"heed: {message}; the line written before is in '{tmp_path / 'out.txt'}.part'\n"


def test_looks_are_saved_whole(tmp_path, at_most):
    page = tmp_path / "page.html"
    page.write_text("old")
    at_most(1000)
    with pytest.raises(DiskError, match="too large"):
        heed.run_lesson("lion").save(page)
    assert page.read_text() == "old" and names(tmp_path) == ["page.html"]
