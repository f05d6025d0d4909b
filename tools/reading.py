"""Count the files and functions of heed that are entered between a table and its first batch.

    python tools/reading.py [--list]

A TSV of texts with labels is made, checked and read as `heed train classification FILE` does, up to the first batch of
training. Counted are the files and functions (methods, properties and nested functions too; not module bodies, lambdas
and comprehensions) of `src/heed` that are entered after the imports, and the pairs of files of which one calls into the
other. `--list` prints the functions by file.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import heed
from heed.tasks import check_config, task_class

ROOT = str(Path(heed.__file__).parent) + os.sep


class Entered:
    """The functions of heed that are entered, by file, and the calls from file to file."""

    def __init__(self) -> None:
        self.functions: defaultdict[str, set[str]] = defaultdict(set)
        self.calls: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or code.co_name.startswith("<"):
            return
        file = code.co_filename.removeprefix(ROOT)
        self.functions[file].add(code.co_qualname)
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename.startswith(ROOT):
            self.calls[caller.f_code.co_filename.removeprefix(ROOT), file] += 1


def read(path: Path) -> None:
    """Read a table as `heed train` does, up to the first batch."""
    sections = {"data": {"train": [str(path)]}, "model": {"size": "tiny"}}  # with "auto", models are tried out
    config = check_config({"task": "classification", **sections}, "command line")
    task: Any = task_class(config.task).prepare(config)
    task.collate(next(iter(task.train_batches(0))))


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="the functions by file")
    listed = parser.parse_args().list
    draw, entered = random.Random(1), Entered()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "reviews.tsv")
        words = "a warm funny film that is long but never dull and cold".split()
        lines = [f"{' '.join(draw.choices(words, k=8))}\t{draw.choice(['pos', 'neg'])}\n" for _ in range(400)]
        path.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
        read(path)  # imports, and what is computed once
        sys.setprofile(entered)
        try:
            read(path)
        finally:
            sys.setprofile(None)
    functions, pairs = entered.functions, [pair for pair in entered.calls if pair[0] != pair[1]]
    print(f"{len(functions)} files, {sum(map(len, functions.values()))} functions, {len(pairs)} calls between files")
    within = [names for file, names in functions.items() if file.startswith("data" + os.sep)]
    print(f"of these in data/: {len(within)} files, {sum(map(len, within))} functions")
    for file in sorted(functions) if listed else ():
        print(f"{len(functions[file]):4}  {file}: {', '.join(sorted(functions[file]))}")


if __name__ == "__main__":
    main()
