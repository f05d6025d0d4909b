"""Training the runs of a comparison, one after the other or several at a time, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from heed.config import RunConfig
from heed.errors import HeedError, RunError, TrainingError
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.tasks.base.curves import Log
from heed.training.progress import Quiet, Reporter, TerminalReporter, handled


@dataclass(frozen=True)
class Planned:
    """One run of a comparison."""

    label: str  # label in tables: the model as requested, "luong:score=dot", or a name given to it
    name: str  # name of its folder: "luong_score=dot-n1000-seed1"
    config: RunConfig  # what to train

    @property
    def train_size(self) -> int | None:
        """Number of training examples; None for all."""
        return self.config.training.train_size

    @property
    def described(self) -> str:
        """What is trained, without its seed."""
        size = self.train_size
        return self.label if size is None else f"{self.label} on {size:,} training examples"

    @property
    def named(self) -> str:
        """What is trained, with its seed."""
        return f"{self.described}, seed {self.config.training.seed}"


def train_all(folder: Path, missing: Sequence[Planned], reporter: Reporter, jobs: int) -> bool:
    """Train runs in folders of their names, `jobs` at a time in this order; False if they were interrupted.

    Ctrl-C, SIGTERM and a closed terminal are handed on to the trainings, and no further one begins. An error stops the
    others, which are saved.

    Raises:
        HeedError: The first error of a training.
    """
    alone = jobs == 1  # then the training prints what it does
    quiet = not alone or isinstance(reporter, Quiet)
    waiting, running, whole = list(enumerate(missing, start=1)), list[Apart](), True
    failure: HeedError | None = None
    asked, told = list[int](), 0  # signals received, and how many of them were handed on
    said = time.monotonic()
    with handled(asked.append):
        while running or (waiting and not asked and failure is None):
            while waiting and not asked and failure is None and len(running) < jobs:
                number, planned = waiting.pop(0)
                reporter.say(f"{chr(10) * alone}{number} of {len(missing)}: {planned.named}")
                slot = min({*range(jobs)} - {other.slot for other in running})
                with seeing_one(planned.config.training.device, None if alone else slot):
                    running.append(Apart(planned, folder / planned.name, quiet, slot))
            for signalled in asked[told:]:
                told += 1
                for job in running:
                    job.stop(signal.SIGINT if signalled == signal.SIGINT else signal.SIGTERM)
            ended = wait([job.receiver for job in running], timeout=_POLL)
            for job in [job for job in running if job.receiver in ended]:
                running.remove(job)
                try:
                    if not job.result():
                        whole = False
                    elif not alone:
                        reporter.say(f"{job.planned.named}: finished")
                except HeedError as error:
                    failure = failure or error
                    for other in running:
                        other.stop(signal.SIGTERM)
            if running and not alone and time.monotonic() - said >= _OFTEN:
                said = time.monotonic()
                width = max(len(job.planned.named) for job in running)
                reporter.say("\n".join(f"{job.planned.named:<{width}}  {job.progress()}" for job in running))
    if failure is not None:
        raise failure
    return whole and not asked


_OFTEN = 20.0
"""Seconds between tables of the progress of trainings side by side."""
_POLL = 0.5
"""Seconds after which a signal is handed on at the latest."""


class Apart:
    """The training of a run in a new process."""

    def __init__(self, planned: Planned, path: Path, quiet: bool, slot: int) -> None:
        """`slot` is its number among the trainings side by side."""
        context = multiprocessing.get_context("spawn")
        self.planned, self.slot, self._path = planned, slot, path
        self.receiver, sender = context.Pipe(duplex=False)
        self._stopped = False
        values = planned.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
        until, self._alive = context.Pipe(duplex=False)  # nothing is sent: the system closes it when this process ends
        self._process = context.Process(target=_train, args=(values, path, quiet, sender, until))
        with _without_main():
            self._process.start()
        sender.close()
        until.close()

    def result(self) -> bool:
        """After its end: False if it was interrupted; its error with the name of the model."""
        with self._alive, self.receiver:
            try:
                outcome = self.receiver.recv()
            except EOFError:  # it ended without a result
                outcome = None
            self._process.join()
        if isinstance(outcome, HeedError):
            raise type(outcome)(f"{self.planned.label}: {outcome}")
        if outcome is None and not self._stopped:
            raise TrainingError(
                f"{self.planned.label}: its process ended with exit code {self._process.exitcode}, perhaps because "
                "memory ran out; resume with the same command"
            )
        return bool(outcome)

    def stop(self, number: int) -> None:
        """Hand a signal on."""
        self._stopped = True
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, number)

    def progress(self) -> str:
        """The last update and validation that it has logged."""
        with suppress(RunError, OSError):
            log = Log.read(self._path)
            if log.updates:
                last, scores = log.updates[-1], log.validations[-1] if log.validations else {}
                shown = [f"{name.replace('_', ' ')} {scores[name]:.4g}" for name in log.scores if name in scores]
                return ", ".join([f"update {last['step']:,}", f"loss {last['loss']:.4g}", *shown])
        return "no update yet"


def _train(values: dict[str, Any], path: Path, quiet: bool, sender: Connection, until: Connection) -> None:
    """In the new process: train, and send the outcome: True, False for interrupted, or an error."""
    threading.Thread(target=_stop_at_end_of, args=(until,), daemon=True).start()
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C in the terminal then reaches only the parent, which forwards it once
    outcome: bool | HeedError
    try:
        if _MASKS:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        config = check_config(values, str(path))
        run, _ = train_config(config, path, Quiet() if quiet else TerminalReporter(), resume=True)
        outcome = run is not None
    except KeyboardInterrupt:
        outcome = False
    except HeedError as error:
        outcome = error
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process is ending
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
def seeing_one(device: str, slot: int | None) -> Iterator[None]:
    """Context manager to start a process that, side by side with others, sees one GPU of several: that of its slot."""
    given = os.environ.get(_VISIBLE)
    gpus = given.split(",") if given else [str(n) for n in range(torch.cuda.device_count())]
    alone = slot is None or device not in ("auto", "cuda") or len(gpus) < 2
    if not alone:
        os.environ[_VISIBLE] = gpus[(slot or 0) % len(gpus)]
    try:
        yield
    finally:
        if given is not None:
            os.environ[_VISIBLE] = given
        elif not alone:
            del os.environ[_VISIBLE]


_VISIBLE = "CUDA_VISIBLE_DEVICES"


_MASKS = hasattr(signal, "pthread_sigmask")


@contextmanager
def _without_main() -> Iterator[None]:
    """Context manager to start a process without importing the user's script, which might compare again.

    Ctrl-C waits until `_train` handles it: while modules are imported, it would print a traceback.
    """
    before, mask = sys.modules["__main__"], set[Any]()
    sys.modules["__main__"] = ModuleType("__main__")
    if _MASKS:
        resource_tracker.ensure_running()  # its start would let the signal through
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        sys.modules["__main__"] = before
        if _MASKS:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
