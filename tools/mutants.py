"""Mutation testing: deliberate bugs in src/heed, each run against the tests closest to it.

    python tools/mutants.py [--only N ...] [--jobs N] [--list]

Each edit of tools/wrong_edits/ is applied to a copy of src/heed, on which the tests named in the edit are run. "killed"
means that a test failed, as it should; "survived" that all passed; "stale" that the text to edit no longer occurs
exactly once, or that the tests could not run: update the list. The named tests must first pass on an unchanged copy.
The exit status is 1 unless every edit was killed.
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
"""Time limit for the tests of an edit, which may cause an endless loop; exceeding it counts as killed."""
LARGE = (
    "torch",
    "sklearn.metrics",
    "seqeval.metrics",
    "sacrebleu.metrics",
    "pydantic",
    "tokenizers",
    "safetensors.torch",
)
"""Imported once, before the forks that run the tests; all other modules are imported in each fork."""


def place_of(edit: Edit, package: Path) -> Path | None:
    """The file that contains the edit's text, wherever it has moved; None unless the text occurs exactly once."""
    found = [path for path in package.rglob("*.py") for _ in range(path.read_text("utf-8").count(edit.old))]
    return found[0] if len(found) == 1 else None


@dataclass
class Attempt:
    """Tests running in a separate process, on a copy with one edit or none.

    Attributes:
        edit: The edit, None for an unchanged copy.
        folder: Contains the copy of `heed` and the output of the tests.
        process: Process id of the tests; None if the edit could not be applied.
        deadline: Time at which the tests are killed.
    """

    edit: Edit | None
    folder: Path
    process: int | None
    deadline: float

    @classmethod
    def begin(cls, edit: Edit | None, tests: list[str]) -> Attempt:
        """Copy the package, apply the edit, start the tests."""
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
        """Outcome (killed, survived or stale) and a line of details; None while the tests run."""
        if self.process is None:
            assert self.edit is not None
            return "stale", f"does not occur exactly once in src/heed: {self.edit.old!r}"
        ended, status = os.waitpid(self.process, os.WNOHANG)
        if not ended and time.monotonic() < self.deadline:
            return None
        if not ended:
            self.stop()
            return "killed", f"not finished after {SECONDS} s"
        lines = (self.folder / "output.txt").read_text("utf-8", "replace").splitlines()
        first = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "\n".join(lines[-3:]))
        code = os.waitstatus_to_exitcode(status)
        return {0: "survived", 1: "killed"}.get(code, "killed" if code < 0 else "stale"), first[:160]

    def stop(self) -> None:
        """Kill the tests and their child processes."""
        if self.process is not None:
            os.killpg(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


def _run_tests(folder: Path, tests: list[str]) -> int:
    """Run the tests on the package in `folder`, in this process; return pytest's exit status."""
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
    """Try the edits, `jobs` at a time; yield number, edit, outcome and details of each as it finishes."""
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
    parser = argparse.ArgumentParser(description="Mutation testing: deliberate bugs against the tests closest to them.")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of the edits to try, from 1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="edits to try at a time")
    parser.add_argument("--list", action="store_true", help="list the file of each edit without running tests")
    options = parser.parse_args()
    chosen = [(n, edit) for n, edit in enumerate(EDITS, 1) if not options.only or n in options.only]
    if len(chosen) < len(set(options.only or [n for n, _ in chosen])):
        parser.error(f"the edits are numbered from 1 to {len(EDITS)}")
    if options.list:
        places = [(n, edit, place_of(edit, ROOT / "src" / "heed")) for n, edit in chosen]
        for n, edit, place in places:
            print(f"{n:3} {edit.what}: {f'STALE {edit.old!r}' if place is None else place.relative_to(ROOT)}")
        return int(any(place is None for *_, place in places))
    for name in LARGE:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as SIGINT: the `finally` blocks stop the tests
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
            print(f"the tests fail on the unchanged copy: {result[1]}")
            return 1
    for number, edit, state, said in attempts(chosen, options.jobs):
        counts[state] += 1
        print(f"{number:3} {state:8} {edit.what}: {said}", flush=True)
    print(", ".join(f"{count} {state}" for state, count in counts.items()) + f" in {time.monotonic() - began:.0f} s")
    return int(counts["killed"] < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
