"""Commands of heed, run in the process of the tests."""

import io
import sys
from unittest.mock import patch

import pytest


def call(captured, *words, stdin=None):
    """The exit code, stdout and stderr of a command; `captured` is capsys or capfd, `stdin` text or bytes."""
    from heed.cli import main

    data = stdin.encode() if isinstance(stdin, str) else stdin
    given = sys.stdin if data is None else io.TextIOWrapper(io.BytesIO(data))
    captured.readouterr()
    with patch.object(sys, "stdin", given), pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code or 0, *captured.readouterr()


def output_of(captured, *words):
    """The stdout of a command that must succeed."""
    code, out, err = call(captured, *words)
    assert not code, err
    return out


def failing(captured, *words):
    """The stderr of a command that must fail."""
    code, _, err = call(captured, *words)
    assert code
    return err


def compare_here(patch, reporter, trained=None):
    """Let `heed compare` train in this process; the names of the runs are added to `trained`."""
    from heed.comparison import jobs
    from heed.runs.train import train_config

    class Trained:
        def __init__(self, planned, path, quiet, slot, gpu):
            self.planned, self.slot = planned, slot
            if trained is not None:
                trained.append(path.name)
            self._run, _ = train_config(planned.config, path, reporter(), resume=True)

        def has_ended(self):
            return True

        def result(self):
            return self._run is not None

    patch.setattr(jobs, "Job", Trained)
