"""Count the files of heed that one small training run passes through, and the calls between them.

    python tools/walk.py [--edges] [--json FILE]

Runs `heed train translation` on the embedded dates (Bahdanau's model, two updates, validation, test scores with
bootstrap) in this process under a profiler, with an empty cache, including all threads and the import of the command
line, and prints two rows of three numbers. Only the command line and the package folder are used, so the numbers stay
comparable after modules have moved.

- files: files of the package with at least one frame; loading a module counts.
- call edges: pairs (A, B) of different files where a frame of B starts, or resumes (generators), and the nearest
  calling frame of the package belongs to A. Frames of torch, pydantic or Python in between are skipped, so that a call
  through `torch.nn.Module.__call__` counts. The first import of a module counts as a call from the importing file.
- room pairs: pairs of rooms with such an edge; a room is the first folder below the package, or the top-level module.

The first row counts everything. The second leaves out calls made while a module of the package is being loaded, since
these depend on which file happens to import a module first.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

Edge = tuple[str, str]
COMMAND = """
train translation data.name=dates data.train=2000 data.valid=100 data.test=100 model.name=bahdanau
training.steps=2 training.threads=1 training.seed=1
""".split()


class Walk:
    """Profile function that collects the files entered and the edges between them."""

    def __init__(self, package: Path) -> None:
        self.files: set[str] = set()
        self.edges: set[Edge] = set()
        self.called_files: set[str] = set()
        self.called_edges: set[Edge] = set()
        self._package = f"{package}{os.sep}"
        self._names: dict[CodeType, str] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Record one call; the signature is that of `sys.setprofile`."""
        if event != "call" or not (file := self._file(frame)):
            return
        below = self._below(frame)
        caller = self._file(below) if below is not None else ""
        loading = _is_module(frame)
        while below is not None and not loading:
            loading = _is_module(below)
            below = self._below(below)
        for files, edges in [(self.files, self.edges), (self.called_files, self.called_edges)][: 1 if loading else 2]:
            files.add(file)
            if caller and caller != file:
                edges.add((caller, file))

    def _below(self, frame: FrameType) -> FrameType | None:
        """The nearest calling frame that belongs to the package."""
        below = frame.f_back
        while below is not None and not self._file(below):
            below = below.f_back
        return below

    def _file(self, frame: FrameType) -> str:
        """Path of a frame's file within the package; empty for files elsewhere."""
        name = self._names.get(frame.f_code)
        if name is None:
            path = frame.f_code.co_filename
            inside = path.startswith(self._package)
            name = self._names[frame.f_code] = Path(path[len(self._package) :]).as_posix() if inside else ""
        return name


def _is_module(frame: FrameType) -> bool:
    return frame.f_code.co_name == "<module>"


def rooms(edges: set[Edge]) -> set[Edge]:
    """The pairs of different rooms that the edges connect."""
    pairs = {(room(caller), room(called)) for caller, called in edges}
    return {(caller, called) for caller, called in pairs if caller != called}


def room(file: str) -> str:
    """The first folder below the package, or the top-level module."""
    return file.split("/")[0].removesuffix(".py")


def walk() -> Walk:
    """Train once under the profiler."""
    found = importlib.util.find_spec("heed")
    assert found is not None and found.origin is not None
    noted = Walk(Path(found.origin).parent)
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEED_CACHE"] = f"{folder}/cache"
        threading.setprofile(noted)
        sys.setprofile(noted)
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                from heed.cli import main

                main([*COMMAND, "--out", f"{folder}/run"])
        except SystemExit as ended:
            if ended.code:
                sys.exit(f"{said.getvalue()}\nheed {' '.join(COMMAND)} ended with {ended.code}")
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return noted


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", action="store_true", help="also list room pairs and call edges")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write files, room pairs and call edges to FILE")
    options = parser.parse_args()
    noted = walk()
    if not noted.files:
        sys.exit("no calls were recorded: another profiler is running, or the package is not loaded from files")
    kinds = {"all": (noted.files, noted.edges), "without loading": (noted.called_files, noted.called_edges)}
    print(f"{'':16}{'files':>8}{'call edges':>12}{'room pairs':>12}")
    for name, (files, edges) in kinds.items():
        print(f"{name:16}{len(files):8}{len(edges):12}{len(rooms(edges)):12}")
    if options.edges:
        for caller, called in sorted(rooms(noted.edges)):
            print(f"room  {caller} -> {called}")
        for caller, called in sorted(noted.edges):
            print(f"{'call' if (caller, called) in noted.called_edges else 'load'}  {caller} -> {called}")
    if options.json is not None:
        lists = {
            name: {"files": sorted(files), "edges": sorted(edges), "rooms": sorted(rooms(edges))}
            for name, (files, edges) in kinds.items()
        }
        options.json.write_text(json.dumps(lists, indent=1) + "\n")


if __name__ == "__main__":
    main()
