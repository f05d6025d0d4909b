"""Files that the scripts of examples/data write, for tests that need small data of a task."""

import importlib
import tempfile
from functools import cache
from pathlib import Path

_FOLDERS = []
"""Temporary folders, removed when the tests end."""


@cache
def written(name: str, train: int, valid: int, test: int, *options: str) -> Path:
    """The folder with the files of a script, of these sizes."""
    _FOLDERS.append(tempfile.TemporaryDirectory())
    folder = Path(_FOLDERS[-1].name) / name
    sizes = [f"--train={train}", f"--valid={valid}", f"--test={test}"]
    importlib.import_module(name).main([str(folder), *sizes, *options])
    return folder


def section(name: str, train: int, valid: int, test: int) -> dict[str, str]:
    """The fields `train`, `valid` and `test` of a `data` section with the files of a script."""
    files = {path.stem: str(path) for path in written(name, train, valid, test).iterdir()}
    return {split: files[split] for split in ("train", "valid", "test")}
