"""Count the files and functions of heed that a command enters: what one must read to follow it.

    python tools/reading.py [--list]

On a TSV of texts with labels, as commands of their own would: `heed train` up to the first batch of training, then
`heed predict` and `heed look` with the trained run. Counted are the files and functions (methods, properties and nested
functions too; not module bodies, lambdas and comprehensions) of `src/heed` that are entered after the imports. `--list`
prints the functions by file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import heed
from heed.cli import main as heed_command
from heed.tasks.work import Work

ROOT = str(Path(heed.__file__).parent) + os.sep


class Entered:
    """The functions of heed that are entered, by file, up to the first call of one whose name is `until`."""

    def __init__(self, until: str = "") -> None:
        self.functions: defaultdict[str, set[str]] = defaultdict(set)
        self.until = until

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or code.co_name.startswith("<"):
            return
        if code.co_qualname == self.until:
            sys.setprofile(None)
            return
        self.functions[code.co_filename.removeprefix(ROOT)].add(code.co_qualname)


def entered(command: list[str], until: str = "") -> dict[str, set[str]]:
    """The functions that a command enters, by file; it was run once before, for imports and what is made once."""
    profile = Entered(until)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        sys.setprofile(profile)
        try:
            heed_command(command)
        except SystemExit as end:
            assert not end.code, f"{command} failed"
        finally:
            sys.setprofile(None)
    return profile.functions


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="the functions by file")
    listed, draw = parser.parse_args().list, random.Random(1)
    first_batch: Callable[..., Any] = Work.collate
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        words = "a warm funny film that is long but never dull and cold".split()
        lines = [f"{' '.join(draw.choices(words, k=8))}\t{draw.choice(['pos', 'neg'])}\n" for _ in range(400)]
        Path("reviews.tsv").write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
        # With a time budget, or "auto" for the size, models are tried out before.
        train = ["train", "classification", "reviews.tsv", "--model", "rnn", "--size", "tiny", "training.steps=4"]
        commands = {
            "train": ([*train, "--out", "run"], first_batch.__qualname__),
            "predict": (["predict", "run", "a warm film"], ""),
            "look": (["look", "run", "a warm film"], ""),
        }
        for name, (command, until) in commands.items():
            entered(command)
            again = [word.replace("run", "again") for word in command] if name == "train" else command
            functions = entered(again, until)
            print(f"heed {name}: {len(functions)} files, {sum(map(len, functions.values()))} functions")
            for file in sorted(functions) if listed else ():
                print(f"{len(functions[file]):4}  {file}: {', '.join(sorted(functions[file]))}")


if __name__ == "__main__":
    main()
