"""Shared fixtures; every test checks the shapes in signatures (attention, kernels, layers) and uses a fresh cache."""

import gc
import math
import os
import shutil
import stat
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: no thread count is measured before each training

import jaxtyping
import pytest
import torch
import typer.main
from filelock import FileLock

import commands
import heed.tasks
import shape_checks

shape_checks.install(["heed.attention", "heed.kernels", "heed.layers"])

torch.set_num_threads(1)  # tensors in tests are tiny
typer.main.get_command = cache(typer.main.get_command)  # to make all commands anew for each takes as long as many do


_fsync = os.fsync


def not_flushed(number):
    """Leave files and folders to the system: what a test writes need not outlive the machine, and a wait takes ms."""
    kind = os.fstat(number).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        _fsync(number)


os.fsync = not_flushed


if folder := os.environ.get("HEED_TASKS"):  # further tasks, for tests of `heed dev check`
    heed.tasks.__path__.append(folder)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Without the garbage collector, which looked through all modules and tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def short_measurements():
    """Before each training, time one update, not a quarter of a second of them; take every size for fast enough.

    What a test sees then does not depend on the speed of the machine.
    """
    from heed.tasks.base import sizing
    from heed.training import cost

    cost._ENOUGH = 0.0
    sizing._SLOWEST = math.inf


@pytest.fixture
def as_installed():
    """Turn the shape checks off, as for users, so that errors come from heed itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache for this test alone."""
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def datasets_cache(tmp_path_factory, monkeypatch):
    """An empty cache of the library `datasets` for this test alone."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    datasets.disable_progress_bars()
    gc.freeze()  # the collection below looks only at objects of this test
    yield
    gc.collect()  # memory-mapped files are closed with their tables


@pytest.fixture
def call(capfd, monkeypatch, tmp_path):
    """Function that runs a command in an empty folder and returns its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return partial(commands.call, capfd)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Function that gives a folder of this name, made once by `make(folder)` for the tests of all workers to read."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"

    def folder(name, make):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        with FileLock(home / f"{name}.lock"):
            if not (home / f"{name}.made").exists():
                make(home / name)
                (home / f"{name}.made").touch()
        return home / name

    return folder


@pytest.fixture(scope="session")
def data(shared):
    """A folder with the data of `small_runs`; tests only read it."""
    from small_runs import write_data

    return shared("data", write_data)


@pytest.fixture(scope="session")
def small_run(shared, data):
    """Function that gives the folder of the run of a task in `small_runs`, of a seed; tests only read it."""
    from small_runs import SMALL

    def folder(task, seed=1):
        small = SMALL[task]
        seeded = replace(small, settings={**small.settings, "training.seed": seed})
        return shared(f"small/{task}" if seed == 1 else f"small/{task}-{seed}", lambda out: seeded.trained(data, out))

    return folder


@pytest.fixture
def untrained(data, tmp_path):
    """Function that gives a run of a task in `small_runs` as drawn: of its model or another one, or of another head."""
    from small_runs import SMALL

    return lambda task, model=None, **head: SMALL[task].untrained(
        data, tmp_path / f"{task}-run", model or SMALL[task].model, head
    )


@pytest.fixture(scope="session")
def made_run(shared):
    """Function that gives the folder of a case of `tools/make_fixtures.py`; tests only read it."""
    sys.path.append(str(Path(__file__).parent.parent / "tools"))
    import make_fixtures

    return lambda case: shared(case, lambda folder: make_fixtures.make(case, folder.parent))


@pytest.fixture(params=["translation", "translation-files", "classification", "tagging", "table", "series"])
def case(request, made_run, tmp_path):
    """A copy of a finished and an unfinished run of a task, and of their data."""
    return Path(shutil.copytree(made_run(request.param), tmp_path / request.param))


@pytest.fixture(autouse=True, scope="session")
def cache_of_the_session(tmp_path_factory):
    """Use a temporary cache, so that no entries of older code are tested and none are left in the user's cache."""
    os.environ.setdefault("HEED_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def compared_here(monkeypatch):
    """`heed compare` trains in this process; starting one for each run takes seconds."""
    from heed.training.progress import TerminalReporter

    commands.compare_here(monkeypatch, TerminalReporter)


@pytest.fixture
def cairo():
    try:
        import cairosvg  # noqa: F401
    except (ImportError, OSError):
        pytest.skip("CairoSVG or cairo is not installed")
