"""Shared fixtures; every test checks the shapes in signatures (attention, kernels, layers) and uses a fresh cache."""

import os

import jaxtyping
import pytest
import torch

import shape_checks

shape_checks.install(["heed.attention", "heed.kernels", "heed.layers"])

torch.set_num_threads(1)  # tensors in tests are tiny


@pytest.fixture
def as_installed():
    """Turn the shape checks off, as for users, so that errors come from heed itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def call(capfd, monkeypatch, tmp_path):
    """Function that runs a command in an empty folder and returns its exit code, stdout and stderr."""
    from heed.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run_command(*words):
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        return ended.value.code or 0, *capfd.readouterr()

    return run_command


@pytest.fixture(autouse=True, scope="session")
def cache_of_the_session(tmp_path_factory):
    """Use a temporary cache, so that no entries of older code are tested and none are left in the user's cache."""
    os.environ.setdefault("HEED_CACHE", str(tmp_path_factory.mktemp("cache")))
