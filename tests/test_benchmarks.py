"""The benchmarks fit the code and each other: what they import is there."""

import importlib
import sys
import time
from pathlib import Path

import pytest
import torch

from heed import kernels
from heed.threads import cores

FOLDER = Path(__file__).parents[1] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


class SaidError(Exception):
    """The first line was printed."""


@pytest.mark.parametrize("name", [name for name in NAMES if name != "machine"])
def test_it_says_where_it_runs_before_it_measures(monkeypatch, tmp_path, name):
    def said():
        raise SaidError

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    for module in NAMES:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(importlib.import_module("machine"), "print_machine", said)
    monkeypatch.setattr(sys, "argv", [name])
    threads = torch.get_num_threads()
    clock = time.perf_counter  # some count processor time from their import on
    try:
        with pytest.raises(SaidError):
            importlib.import_module(name).main()
    finally:
        torch.set_num_threads(threads)
        time.perf_counter = clock


def test_the_line_names_processor_cores_threads_torch_and_kernels(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delitem(sys.modules, "machine", raising=False)
    machine = importlib.import_module("machine")
    line = machine.machine_line()
    assert f"{len(cores())} cores, {torch.get_num_threads()} thread" in line
    assert f"torch {torch.__version__}" in line and machine.processor() in line
    assert line.endswith("; kernels: fast") or line.endswith("; kernels: fast, products by oneDNN")
    with kernels.plain():
        assert machine.machine_line().endswith("; kernels: plain")


def test_a_machine_that_is_not_quiet_is_marked(monkeypatch, capsys):
    monkeypatch.syspath_prepend(FOLDER)
    machine = importlib.import_module("machine")
    before = machine.Times(clock=100.0, total=200.0, idle=50.0, process=0.0)
    monkeypatch.setattr(machine, "_used", lambda: 17.0)
    for idle, said in ((52.0, "NOT QUIET: during this run other processes kept 1.0 of "), (61.5, "")):
        monkeypatch.setattr(machine, "read_times", lambda idle=idle: machine.Times(110.0, 220.0, idle, 0.0))
        machine.warn("during this run", before, 9.0)
        assert capsys.readouterr().out[: len(said) or None] == said
