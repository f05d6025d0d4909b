"""Training the runs of a comparison, one after the other or several at a time, each in a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import torch

from heed import errors
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
    config: RunConfig

    @property
    def train_size(self) -> int | None:
        """Number of training examples; None for all."""
        return self.config.training.train_size

    @property
    def described(self) -> str:
        """Model and size of the training set, without the seed."""
        size = self.train_size
        return self.label if size is None else f"{self.label} on {size:,} training examples"

    @property
    def named(self) -> str:
        """Model, size of the training set, and seed."""
        return f"{self.described}, seed {self.config.training.seed}"


def train_all(folder: Path, missing: Sequence[Planned], reporter: Reporter, jobs: int) -> bool:
    """Train runs in folders of their names, `jobs` at a time in this order; False if they were interrupted.

    Ctrl-C, SIGTERM and a closed terminal stop the trainings, which are saved, and no further one begins. An error
    stops the others.

    Raises:
        HeedError: The first error of a training.
    """
    alone = jobs == 1  # then the training prints its progress
    quiet = not alone or isinstance(reporter, Quiet)
    waiting, running, complete = list(enumerate(missing, start=1)), list[Job](), True
    failure: HeedError | None = None
    signals, forwarded = list[int](), 0  # signals received, and the number that the jobs were stopped for
    last_table = time.monotonic()
    with handled(signals.append):
        while running or (waiting and not signals and failure is None):
            while waiting and not signals and failure is None and len(running) < jobs:
                number, planned = waiting.pop(0)
                reporter.say(f"{chr(10) * alone}{number} of {len(missing)}: {planned.named}")
                slot = min({*range(jobs)} - {other.slot for other in running})
                gpu = {} if alone else one_gpu(planned.config.training.device, slot)
                running.append(Job(planned, folder / planned.name, quiet, slot, gpu))
            while forwarded < len(signals):
                forwarded += 1
                for job in running:
                    job.stop()
            if not (ended := [job for job in running if job.has_ended()]):
                time.sleep(_POLL)
            for job in ended:
                running.remove(job)
                try:
                    if not job.result():
                        complete = False
                    elif not alone:
                        reporter.say(f"{job.planned.named}: finished")
                except HeedError as error:
                    failure = failure or error
                    for other in running:
                        other.stop()
            if running and not alone and time.monotonic() - last_table >= _OFTEN:
                last_table = time.monotonic()
                width = max(len(job.planned.named) for job in running)
                reporter.say("\n".join(f"{job.planned.named:<{width}}  {job.progress()}" for job in running))
    if failure is not None:
        raise failure
    return complete and not signals


_OFTEN = 20.0
"""Seconds between tables of the progress of trainings side by side."""
_POLL = 0.1
"""Seconds between looks at the trainings."""
_COMMAND = (sys.executable, "-P", "-c", "from heed.comparison.jobs import train_alone; train_alone()")


class Job:
    """The training of a run in a new process."""

    def __init__(self, planned: Planned, path: Path, quiet: bool, slot: int, gpu: Mapping[str, str]) -> None:
        """`slot` is its number among the trainings side by side, `gpu` the environment in which it sees one GPU."""
        self.planned, self.slot, self._path, self._stopped = planned, slot, path, False
        # In a separate process group, as Ctrl-C in the terminal would otherwise reach it a second time.
        group: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path), **gpu}
        self._process = subprocess.Popen(_COMMAND, stdin=PIPE, stdout=PIPE, env=env, text=True, **group)
        values = planned.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([values, str(path), quiet]) + "\n")
        self._process.stdin.flush()  # it stays open: the system closes it when this process ends

    def has_ended(self) -> bool:
        """True if the process has ended."""
        return self._process.poll() is not None

    def result(self) -> bool:
        """After its end: False if it was interrupted; its error with the name of the model."""
        written = self._process.communicate()[0].splitlines()
        outcome = json.loads(written[-1]) if written else None
        if isinstance(outcome, list):
            kind, text = outcome
            raise vars(errors)[kind](f"{self.planned.label}: {text}")
        if outcome is None and not self._stopped:
            raise TrainingError(
                f"{self.planned.label}: its process ended with exit code {self._process.returncode}, perhaps because "
                "memory ran out; resume with the same command"
            )
        return bool(outcome)

    def stop(self) -> None:
        """Ask the process to save and end."""
        self._stopped = True
        self._process.terminate()

    def progress(self) -> str:
        """The last logged update and validation."""
        with suppress(RunError, OSError):
            log = Log.read(self._path)
            if log.updates:
                last, scores = log.updates[-1], log.validations[-1] if log.validations else {}
                shown = [f"{name.replace('_', ' ')} {scores[name]:.4g}" for name in log.scores if name in scores]
                return ", ".join([f"update {last['step']:,}", f"loss {last['loss']:.4g}", *shown])
        return "no update yet"


def train_alone() -> None:
    """In the new process: train what stdin says, and print the outcome: true, false for interrupted, or an error."""
    values, path, quiet = json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_at_end_of_stdin, daemon=True).start()
    outcome: Any
    try:
        config = check_config(values, path)
        outcome = train_config(config, path, Quiet() if quiet else TerminalReporter(), resume=True)[0] is not None
    except KeyboardInterrupt:
        outcome = False
    except HeedError as error:
        outcome = [next(kind.__name__ for kind in type(error).__mro__ if kind in vars(errors).values()), str(error)]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this process is ending
    with suppress(OSError):  # the parent process may have been killed
        print(json.dumps(outcome), flush=True)


def _stop_at_end_of_stdin() -> None:
    """Wait until the process at the other end has ended, even by a kill; then stop as for SIGTERM."""
    while os.read(0, 1):
        pass
    with suppress(OSError):
        print("the comparison has ended; stopping this run too", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


def one_gpu(device: str, slot: int) -> dict[str, str]:
    """The environment that shows one of several GPUs to one of several processes, by its slot."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(n) for n in range(torch.cuda.device_count())]
    several = device in ("auto", "cuda") and len(gpus) > 1
    return {"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} if several else {}
