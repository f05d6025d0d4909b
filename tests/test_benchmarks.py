"""The benchmarks fit the code and each other: what they import is there."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_imported(monkeypatch, name):
    """Peers are imported when they are used, so that this needs none of them."""
    monkeypatch.syspath_prepend(FOLDER)
    for module in NAMES:  # they import each other by short names, which others may have as well
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert callable(importlib.import_module(name).main)
