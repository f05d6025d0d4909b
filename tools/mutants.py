"""Mutation testing: deliberate wrong edits of src/heed, each against the tests nearest to it.

    python tools/mutants.py [--only N ...] [--jobs N] [--list]

Every edit of tools/wrong_edits/ is made in a copy of src/heed, which the tests that it names then import. "killed"
means that a test failed, as it should; "survived" that all passed; "stale" that the text to be edited does not occur
exactly once any more, or that the tests could not run: bring the list up to date. Before the edits all named tests must
pass on an unchanged copy. Exits with 1 unless every edit was killed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from wrong_edits import EDITS, Edit

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 900
"""A wrong edit may never end: that is noticed, too."""
LARGE = (
    "torch",
    "sklearn.metrics",
    "seqeval.metrics",
    "sacrebleu.metrics",
    "pydantic",
    "tokenizers",
    "safetensors.torch",
)
"""Imported once; every run of tests is a fork of this process, and has no other module of the tests."""


def place_of(edit: Edit, package: Path) -> Path | None:
    """The file that holds the edit's text, or None unless it occurs exactly once: files may move."""
    found = [path for path in package.rglob("*.py") for _ in range(path.read_text("utf-8").count(edit.old))]
    return found[0] if len(found) == 1 else None


@dataclass
class Attempt:
    """Tests that run in a process of their own, with one edit made or none.

    Attributes:
        edit: What is wrong, None for nothing.
        folder: Holds `heed` and what the tests print.
        process: Of the tests; None where the edit could not be made.
        deadline: When they are ended.
    """

    edit: Edit | None
    folder: Path
    process: int | None
    deadline: float

    @classmethod
    def begin(cls, edit: Edit | None, tests: list[str]) -> Attempt:
        """Copy the package, make the edit, start the tests."""
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        shutil.copytree(ROOT / "src" / "heed", folder / "heed", ignore=shutil.ignore_patterns("__pycache__"))
        deadline = time.monotonic() + (SECONDS if edit is not None else 10 * SECONDS)
        if edit is not None:
            path = place_of(edit, folder / "heed")
            if path is None:
                return cls(edit, folder, None, deadline)
            path.write_text(path.read_text("utf-8").replace(edit.old, edit.new), encoding="utf-8")
        process = os.fork()
        if not process:
            os._exit(_run_tests(folder, tests))
        return cls(edit, folder, process, deadline)

    def result(self) -> tuple[str, str] | None:
        """What became of it and a line that tells more; None while the tests run."""
        if self.process is None:
            assert self.edit is not None
            return "stale", f"does not occur exactly once in src/heed: {self.edit.old!r}"
        ended, status = os.waitpid(self.process, os.WNOHANG)
        if not ended and time.monotonic() < self.deadline:
            return None
        if not ended:
            self.stop()
            return "killed", "did not end"
        lines = (self.folder / "output.txt").read_text("utf-8", "replace").splitlines()
        first = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "\n".join(lines[-3:]))
        code = os.waitstatus_to_exitcode(status)
        return {0: "survived", 1: "killed"}.get(code, "killed" if code < 0 else "stale"), first[:160]

    def stop(self) -> None:
        """End the tests and what they started."""
        if self.process is not None:
            os.killpg(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


def _run_tests(folder: Path, tests: list[str]) -> int:
    """The tests on the package in a folder, in this process; the exit status of pytest."""
    os.setsid()
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    try:
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])
        return 3 if sys.modules["heed"].__file__ != str(folder / "heed" / "__init__.py") else int(code)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def attempts(chosen: list[tuple[int, Edit]], jobs: int) -> Iterator[tuple[int, Edit, str, str]]:
    """Try the edits, some at a time: number, edit, what became of it and a line that tells more, as they end."""
    waiting, running = list(chosen), dict[int, Attempt]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                number, edit = waiting.pop(0)
                running[number] = Attempt.begin(edit, list(edit.tests))
            time.sleep(0.1)
            for number, attempt in list(running.items()):
                if (result := attempt.result()) is not None and attempt.edit is not None:
                    shutil.rmtree(running.pop(number).folder)
                    yield number, attempt.edit, *result
    finally:
        for attempt in running.values():
            attempt.stop()
            shutil.rmtree(attempt.folder)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Deliberate wrong edits against the tests nearest to them.")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of edits, from 1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="say where each edit is made, and run nothing")
    options = parser.parse_args()
    chosen = [(n, edit) for n, edit in enumerate(EDITS, 1) if not options.only or n in options.only]
    if options.list:
        places = [(n, edit, place_of(edit, ROOT / "src" / "heed")) for n, edit in chosen]
        for n, edit, place in places:
            print(f"{n:3} {edit.what}: {f'STALE {edit.old!r}' if place is None else place.relative_to(ROOT)}")
        return int(any(place is None for *_, place in places))
    for name in LARGE:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either signal ends the tests too
    began, counts = time.monotonic(), {"killed": 0, "survived": 0, "stale": 0}
    if not options.only:
        unchanged, result = Attempt.begin(None, sorted({test for _, edit in chosen for test in edit.tests})), None
        try:
            while (result := unchanged.result()) is None:
                time.sleep(0.1)
        finally:
            if result is None:
                unchanged.stop()
            shutil.rmtree(unchanged.folder)
        if result[0] != "survived":
            print(f"the tests fail without any edit: {result[1]}")
            return 1
    for number, edit, state, said in attempts(chosen, options.jobs):
        counts[state] += 1
        print(f"{number:3} {state:8} {edit.what}: {said}", flush=True)
    print(", ".join(f"{count} {state}" for state, count in counts.items()) + f" in {time.monotonic() - began:.0f} s")
    return int(counts["killed"] < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
