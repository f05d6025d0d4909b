"""Training the missing runs of a comparison: each in a separate process, in one folder that can be resumed.

Separate processes, because the peak memory of a process is that of its largest run, and speed must not depend on
earlier runs. Seeds are the outer loop, so that an interrupted comparison has all models with fewer seeds.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from heed import folder as folders
from heed.comparison.choices import Planned
from heed.comparison.entries import Entry
from heed.errors import ConfigError, HeedError, RunError, TrainingError
from heed.runs.loading import load
from heed.runs.resume import differences
from heed.runs.train import train_config
from heed.storage.files import damaged, read_object
from heed.storage.lock import LOCK, Ownership
from heed.storage.outputs import make_folder, write_outputs
from heed.tasks import check_config, task_class
from heed.training.interrupt import handled
from heed.training.progress import Quiet, Reporter, TerminalReporter, duration

_PLAN = "compare.plan.json"


def is_comparison(path: Path) -> bool:
    """True for a folder made by `train_missing`."""
    return (path / _PLAN).is_file()


def train_missing(folder: Path, planned: Sequence[Planned], reporter: Reporter) -> bool:
    """Train the missing runs one after the other; unfinished ones are resumed.

    Each has a separate process, so that its memory is measured by itself and no run inherits another's state.

    Returns:
        False if it was interrupted.

    Raises:
        ConfigError: A model cannot be built (checked before any training), or the folder has a run of that name with
            other settings.
        RunError, TrainingError: A run failed, or another process is training in the folder.
    """
    with Ownership() as ownership:
        if is_comparison(folder):
            ownership.take(folder)
        _agree(folder, planned)
        missing = [one for one in planned if not _is_finished(folder / one.name)]
        labels: set[str] = set()
        sizes: set[int | None] = set()
        for one in missing:
            if one.label not in labels or one.train_size not in sizes:
                labels.add(one.label)
                sizes.add(one.train_size)
                parameters = sum(
                    p.numel() for p in task_class(one.config.task).prepare(one.config).build_model().parameters()
                )
                reporter.say(f"{described(one)}: {parameters:,} parameters")
        ownership.take(folder, make=True)
        _write_plan(folder, _agree(folder, planned))  # checked again: another process may have made the folder
        minutes = [one.config.training.minutes for one in missing if one.config.training.steps is None]
        budget = f", about {duration(60 * sum(m or 0 for m in minutes))}" if len(minutes) == len(missing) > 0 else ""
        there = len(planned) - len(missing)
        reporter.say(f"{folder}: {there} of {len(planned)} runs exist; {len(missing)} to train{budget}")
        for place, one in enumerate(missing, start=1):
            reporter.say(f"\n{place} of {len(missing)}: {described(one)}, seed {one.config.training.seed}")
            if not _train_apart(one, folder / one.name, isinstance(reporter, Quiet)):
                return False
        return True


def described(planned: Planned) -> str:
    """A description of a planned run, without its seed."""
    size = planned.train_size
    return planned.label if size is None else f"{planned.label} on {size:,} training examples"


def finished_entries(
    folder: Path, only: Sequence[Planned] | None = None, force: bool = False
) -> dict[int | None, list[Entry]]:
    """The runs of a comparison's folder (or `only` some), a row for each model as requested.

    `force` opens runs despite missing or altered files, with a warning.

    Returns:
        The rows by the number of training examples, in rising order; None (last) stands for all.

    Raises:
        RunError: A run has not finished.
    """
    plan = _read_plan(folder)
    names = list(plan) if only is None else [one.name for one in only]
    groups: dict[int | None, dict[str, list[str]]] = {}
    for name in names:
        size = plan[name]["config"].get("training", {}).get("train_size")
        groups.setdefault(size, {}).setdefault(plan[name]["label"], []).append(name)
    return {
        size: [
            Entry(label, tuple(load(folder / name, finished=True, force=force) for name in group))
            for label, group in groups[size].items()
        ]
        for size in sorted(groups, key=lambda size: (size is None, size))
    }


def _is_finished(path: Path) -> bool:
    return folders.state_of(path) is folders.State.FINISHED and "scores" in folders.read_report(path)


def _agree(folder: Path, planned: Sequence[Planned]) -> dict[str, Any]:
    """The folder's plan with the runs requested now; runs that it already has must have the same settings."""
    if (
        folder.exists()
        and not is_comparison(folder)
        and (not folder.is_dir() or any(path.name != LOCK for path in folder.iterdir()))
    ):
        raise RunError(f"'{folder}' exists and is not a comparison; give another --out")
    plan = _read_plan(folder) if is_comparison(folder) else {}
    for one in planned:
        asked = one.config.model_dump(mode="json", by_alias=True)
        for found in differences(plan[one.name]["config"], asked) if one.name in plan else ():
            raise ConfigError(
                f"'{folder / one.name}' was planned with {found.name} {found.before}, but now {found.name} is "
                f"{found.after}; give another --out"
            )
        plan[one.name] = {"label": one.label, "config": asked}
    first = next(iter(plan.values()))["config"]
    for name, entry in plan.items():
        for section in ("task", "data", "tokenizer"):
            if entry["config"][section] != first[section]:
                raise ConfigError(f"'{folder / name}' has a different section '{section}'; give another --out")
    return plan


def _read_plan(folder: Path) -> dict[str, Any]:
    runs = read_object(folder / _PLAN).get("runs")
    if not isinstance(runs, dict) or not all(map(_is_planned, runs.values())):
        raise damaged(folder / _PLAN, "it does not list runs with their labels and settings")
    return runs


def _is_planned(run: Any) -> bool:
    """True if an entry of a plan has the fields that `_agree` reads."""
    return (
        isinstance(run, dict)
        and isinstance(run.get("label"), str)
        and isinstance(run.get("config"), dict)
        and {"task", "data", "tokenizer"} <= run["config"].keys()
    )


def _write_plan(folder: Path, plan: dict[str, Any]) -> None:
    make_folder(folder)
    text = json.dumps({"format": 1, "runs": plan}, indent=1, ensure_ascii=False)
    write_outputs({folder / _PLAN: text + "\n"})


def _train_apart(planned: Planned, path: Path, quiet: bool) -> bool:
    """Train one run in a new process; False if it was interrupted. The model's name is added to its errors."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    values = planned.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
    until, alive = context.Pipe(duplex=False)  # nothing is sent: the system closes it when this process ends
    process = context.Process(target=_train, args=(values, path, quiet, sender, until))
    with _without_main():
        process.start()
    sender.close()
    until.close()
    with alive, _forwarding(process):
        try:
            outcome = receiver.recv()
        except EOFError:  # it ended without a result
            outcome = None
        process.join()
    if isinstance(outcome, HeedError):
        raise type(outcome)(f"{planned.label}: {outcome}")
    if outcome is None:
        raise TrainingError(
            f"{planned.label}: its process ended with exit code {process.exitcode}, perhaps because memory ran out; "
            "resume with the same command"
        )
    return bool(outcome)


def _train(values: dict[str, Any], path: Path, quiet: bool, sender: Connection, until: Connection) -> None:
    """In the new process: train, and send the outcome: True, False for interrupted, or an error."""
    threading.Thread(target=_stop_at_end_of, args=(until,), daemon=True).start()
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C in the terminal then reaches only the parent, which forwards it once
    outcome: bool | HeedError
    try:
        config = check_config(values, str(path))
        run, _ = train_config(config, path, Quiet() if quiet else TerminalReporter(), resume=True)
        outcome = run is not None
    except KeyboardInterrupt:
        outcome = False
    except HeedError as error:
        outcome = error
    with suppress(OSError):  # the parent process may have been killed
        sys.stderr.flush()
        sender.send(outcome)


def _stop_at_end_of(other: Connection) -> None:
    """Wait until the process at the other end of a pipe has ended, even by a kill; then stop as for SIGTERM."""
    with suppress(EOFError, OSError):
        other.recv()
    with suppress(OSError):
        print("the comparison has ended; stopping this run too", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _without_main() -> Iterator[None]:
    """Context manager to start a process without importing the user's script, which might compare again."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = before


@contextmanager
def _forwarding(process: BaseProcess) -> Iterator[None]:
    """Context manager that forwards Ctrl-C, SIGTERM and a closed terminal to the training process."""

    def hand_on(number: int) -> None:
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)

    with handled(hand_on):
        yield
