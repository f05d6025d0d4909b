"""Count the files of heed that a reader follows for three small tasks.

    python tools/walk.py [--files]

On one small table of sentence pairs, each in its own process with an empty cache:

- look: `heed look RUN "a small sentence"`, on a run trained before the count;
- train: `heed train translation pairs.tsv --dry-run`, up to the training loop;
- batch: from the table to the first batch, through the task alone.

Counted are the files of the package with at least one frame, the functions entered, and the pairs (A, B) of different
files where a frame of B starts and the nearest calling frame of the package belongs to A. Frames below a `<module>` are
left out: they depend on which file happens to import another first. `--files` lists the files, and their functions.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType

WORDS = "a small red bird sings to the old grey cat on every cold morning".split()
PAIRS = "".join(
    f"{' '.join(line)}\t{' '.join(reversed(line))}\n"
    for line in ([WORDS[(3 * i + j * j) % len(WORDS)] for j in range(3 + i % 4)] for i in range(120))
)
FIELDS = ["model.size=tiny", "training.steps=2", "training.threads=1", "training.seed=1"]
CASES = ("look", "train", "batch")


class Walk:
    """Profile function that collects the functions entered, by file, and the calls between files."""

    def __init__(self, package: Path) -> None:
        self.functions: dict[str, set[str]] = defaultdict(set)
        self.edges: set[tuple[str, str]] = set()
        self._package = f"{package}{os.sep}"

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Record one call; the signature is that of `sys.setprofile`."""
        if event != "call" or not (file := self._file(frame)):
            return
        caller, below = "", frame
        while below is not None:
            if below.f_code.co_name == "<module>" and self._file(below):
                return
            below = below.f_back  # type: ignore[assignment]
            caller = caller or (self._file(below) if below is not None else "")
        self.functions[file].add(frame.f_code.co_qualname)
        if caller and caller != file:
            self.edges.add((caller, file))

    def _file(self, frame: FrameType) -> str:
        """Path of a frame's file within the package; empty for files elsewhere."""
        path = frame.f_code.co_filename
        return path[len(self._package) :] if path.startswith(self._package) else ""


def heed(*words: str) -> None:
    """Run a command in this process."""
    from heed.cli import main

    try:
        main(list(words))
    except SystemExit as ended:
        if ended.code:
            raise


def to_batch(table: str) -> None:
    """Read the table, and make the first batch."""
    from heed.tasks import check_config, run_class

    values = {"task": "translation", "data": {"train": [table], "valid": 10}, "training": {"steps": 2}}
    task = run_class("translation").task_class.prepare(check_config(values, "the walk"))
    task.collate(next(iter(task.train_batches(0))))


def walk(case: str, table: str, run: str) -> Walk:
    """One case under the profiler, in this process."""
    found = importlib.util.find_spec("heed")
    assert found is not None and found.origin is not None
    noted, said = Walk(Path(found.origin).parent), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        threading.setprofile(noted)
        sys.setprofile(noted)
        try:
            if case == "look":
                heed("look", run, "a small red bird sings")
            elif case == "train":
                heed("train", "translation", table, "--dry-run", *FIELDS)
            else:
                to_batch(table)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return noted


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="list the files, and how many functions of each")
    parser.add_argument("--case", nargs=3, metavar=("CASE", "TABLE", "RUN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        noted = walk(*options.case)
        functions = {file: sorted(names) for file, names in sorted(noted.functions.items())}
        print(json.dumps({"functions": functions, "edges": len(noted.edges)}))
        return
    print(f"{'':8}{'files':>8}{'functions':>12}{'calls between files':>22}")
    with tempfile.TemporaryDirectory() as folder:
        table, run = f"{folder}/pairs.tsv", f"{folder}/run"
        Path(table).write_text(PAIRS, encoding="utf-8")
        train = ["train", "translation", table, "--out", run, *FIELDS]
        subprocess.run([sys.executable, "-m", "heed", *train], check=True, capture_output=True, cwd=folder)
        for case in CASES:
            environment = {**os.environ, "HEED_CACHE": f"{folder}/cache-{case}"}
            words = [sys.executable, __file__, "--case", case, table, run]
            done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment, cwd=folder)
            found = json.loads(done.stdout)
            functions = found["functions"]
            if not functions:
                sys.exit("no calls were recorded: another profiler is running, or the package is not loaded from files")
            print(f"{case:8}{len(functions):8}{sum(map(len, functions.values())):12}{found['edges']:22}", flush=True)
            for file, names in functions.items() if options.files else ():
                print(f"    {file}: {', '.join(names)}")


if __name__ == "__main__":
    main()
