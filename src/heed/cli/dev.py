"""`heed dev check`: the tests of a checkout that concern one task, model or score, and what is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from heed.cli.terminal import say, show
from heed.errors import ConfigError, suggest

_TESTS = {
    "task": "test_conformance test_fields test_serve test_docs test_systems",
    "model": "test_models test_conformance test_registry test_systems",
    "score": "test_attend test_opened test_models test_formulas",
}
"""Files of tests, in which those are run whose names contain that of the task, model or score."""


def run_dev_check(name: str) -> int:
    """Run the tests of a task, a model or a score, and list what is missing; returns the exit status.

    Raises:
        ConfigError: There is no such task, model or score, or heed is not run from a checkout.
    """
    from heed.attention import SCORES
    from heed.registry import model_names
    from heed.tasks import task_names

    kinds = {"task": task_names(), "model": model_names(), "score": list(SCORES)}
    kind = next((kind for kind, names in kinds.items() if name in names), None)
    if kind is None:
        raise ConfigError(f"no task, model or score is called {name!r}{suggest(name, [*chain(*kinds.values())])}")
    root = Path(__file__).parents[3]
    tests = root / "tests"
    if not tests.is_dir():
        raise ConfigError(f"heed dev check runs the tests of a checkout of heed, and '{root}' has no folder tests")
    say([f"{name} is a {kind}"])
    files = [str(tests / f"{file}.py") for file in _TESTS[kind].split() if (tests / f"{file}.py").is_file()]
    done = subprocess.run([sys.executable, "-m", "pytest", "--no-header", "-k", name, *files], cwd=root)
    missing = [*_missing(name, kind, root)]
    show("\n".join([f"missing: {line}" for line in missing] or ["nothing is missing"]))
    return 1 if done.returncode not in (0, 5) or missing else 0


def _missing(name: str, kind: str, root: Path) -> Iterator[str]:
    """What a new task, model or score lacks besides its file, one line each."""
    page = {"task": "docs/tasks.md", "model": "docs/systems.md", "score": "docs/systems.md"}[kind]
    path = root / page
    if kind != "score" and path.is_file() and name not in path.read_text(encoding="utf-8"):
        yield f"{page} does not mention it: run python docs/generate.py, and add a section"
    if kind == "task":
        from heed.tasks import spec_of, task_class

        task = task_class(name)
        if not spec_of(name).summary:
            yield "a summary of the task (Task.summary)"
        if (
            hasattr(task, "sample")
            and task.sample is None
            and f'"{name}"' not in (root / "tests/small_runs.py").read_text()
        ):
            yield "made-up examples for the checks (Task.sample)"
