"""One process at a time trains into a folder."""

import multiprocessing
import os
import re
import signal
import socket

import pytest

from heed.errors import RunError
from heed.storage.lock import LOCK, check_not_owned, owned

HERE = socket.gethostname()
fork = multiprocessing.get_context("fork")


def hold(folder, pipe):
    with owned(folder):
        pipe.send(os.getpid())
        pipe.poll(60)


@pytest.fixture
def held(tmp_path):
    """A folder that another process owns, the process, and a pipe: what is sent there lets it end."""
    own, other = fork.Pipe()
    process = fork.Process(target=hold, args=(tmp_path, other))
    process.start()
    assert own.recv() == process.pid
    yield tmp_path, process, own
    own.send("end")
    process.join()


def test_a_second_process_is_refused_and_told_by_whom(held):
    folder, process, pipe = held
    named = (
        rf"is already being trained by process {process.pid} on {re.escape(HERE)} since \d{{4}}-.*kill {process.pid}$"
    )
    for _ in range(2):  # an attempt does not take the name away
        with pytest.raises(RunError, match=named), owned(folder):
            raise AssertionError
        with pytest.raises(RunError, match=named):
            check_not_owned(folder)
    pipe.send("end")
    process.join()
    assert not (folder / LOCK).exists()
    check_not_owned(folder)
    with owned(folder):
        assert (folder / LOCK).read_text().startswith(f"process {os.getpid()} on {HERE} since ")


def test_the_lock_of_a_killed_process_is_taken_over(held):
    folder, process, _ = held
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert (folder / LOCK).exists()
    check_not_owned(folder)
    with owned(folder):
        pass
    assert not list(folder.iterdir())


@pytest.mark.parametrize("text", ["", "[]", "5", f"process 0 on {HERE} since 2026", f"process 99999999999 on {HERE}"])
def test_what_stands_in_a_left_lock_file_does_not_matter(tmp_path, text):
    (tmp_path / LOCK).write_text(text)
    check_not_owned(tmp_path)
    with owned(tmp_path):
        pass


def test_a_refusal_shows_no_control_characters_of_a_lock_file(held):
    folder, process, _ = held
    (folder / LOCK).write_text(f"process {process.pid} on a\x1b[31m since 2026-01-01")
    with pytest.raises(RunError, match=r"is already being trained by another process; wait until it ends$"):
        check_not_owned(folder)


@pytest.mark.parametrize(("process", "host", "refused"), [(1, HERE, True), (2**22 + 1, HERE, False), (9, "far", True)])
def test_without_locks_of_the_file_system_the_named_process_counts(tmp_path, monkeypatch, process, host, refused):
    def none(*_, **__):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("heed.storage.lock.FileLock.acquire", none)
    (tmp_path / LOCK).write_text(f"process {process} on {host} since 2026-01-01 10:00:00\n")
    if refused:
        with pytest.raises(RunError, match=rf"process {process} on {host} .*; if it has ended, delete '.*\.lock'"):
            check_not_owned(tmp_path)
    else:
        with owned(tmp_path):
            assert (tmp_path / LOCK).read_text().startswith(f"process {os.getpid()} on {HERE} since ")
        assert not (tmp_path / LOCK).exists()
