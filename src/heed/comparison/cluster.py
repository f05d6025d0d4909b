"""Trainings on a Ray cluster: `heed compare --on ray`. The folder of the comparison is on storage that all nodes see.

Each run is a Ray actor, which trains it in a process of its own as on one machine. A worker that Ray reports as lost
may still be alive and write, behind a broken connection. So each attempt has a number, never used again, and a folder
of its own, `.attempt-N/NAME`: the next attempt goes on from a copy of the last checkpoint there, and what the lost
worker writes later is never read. Only a run whose worker has answered is moved to its place in the comparison.
"""

from __future__ import annotations

import io
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path
from typing import Any, Self

from heed import folder as folders
from heed.comparison.jobs import POLL, Apart, Planned, progress_of
from heed.config import RunConfig
from heed.errors import ConfigError, HeedError, RunError, TrainingError
from heed.storage.disk import make_folder, remove_folder, write_folder
from heed.storage.lock import LOCK
from heed.training.checkpoint import checkpoints_in, step_of

_LOSSES = 5
"""Lost workers after which a run that has saved nothing new is given up: it may be the run that ends them. More than
one, since Ray may send a worker to a node whose end it has not noticed yet."""
_COPIES = 3
"""Tries to copy a folder that a lost worker still writes to."""


def ray_module() -> Any:
    """The package ray.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            f"--on ray needs the package ray ({error}); install it here and on every machine of the cluster: "
            "pip install -e '.[cluster]'"
        ) from None
    return ray


def _attempts(final: Path) -> list[Path]:
    """The folders of the attempts at a run, the first to the last."""
    found = {path.parent.name.removeprefix(".attempt-"): path for path in final.parent.glob(f".attempt-*/{final.name}")}
    return [found[number] for number in sorted(filter(str.isdecimal, found), key=int)]


def begin_attempt(final: Path, number: int) -> Path:
    """Make the folder of an attempt from the run's own folder, or else from what the attempt before it has saved."""
    made, before = final.parent / f".attempt-{number}" / final.name, _attempts(final)
    make_folder(made.parent)
    if final.is_dir():
        os.replace(final, made)
    elif before:
        _copy(before[-1], made)
    else:
        make_folder(made)
    return made


def settle(final: Path, ended: bool = False) -> None:
    """Put what the last attempt has saved into the run's own folder, and delete all attempts.

    Args:
        final: The run's own folder; if it is there, attempts are what a kill has left.
        ended: The worker of the last attempt has ended, so the folder can be moved instead of copied.
    """
    attempts = _attempts(final)
    if attempts and not final.exists():
        (os.replace if ended else _copy)(attempts[-1], final)
    for path in attempts:
        remove_folder(path)
        with suppress(OSError):  # other runs are there
            path.parent.rmdir()


def _copy(source: Path, made: Path) -> None:
    """Copy a run folder; what is deleted meanwhile is left out."""
    for _ in range(_COPIES):
        with write_folder(made, checksums=False) as part:
            for root, _folders, files in os.walk(source):
                to = part / Path(root).relative_to(source)
                to.mkdir(exist_ok=True)
                for name in set(files) - {LOCK}:
                    with suppress(FileNotFoundError):
                        shutil.copyfile(Path(root, name), to / name)
        if not folders.damage(made):
            return
        time.sleep(1.0)  # the run is being sealed


class Worker:
    """An actor: trains a run in a process of its own on the machine where it is."""

    def __init__(self, planned: Planned, path: Path) -> None:
        self._planned, self._path = planned, path
        self._apart: Apart | None = None

    def poll(self, signals: Sequence[int]) -> bool | HeedError | None:
        """Begin at the first call, hand on signals, wait a little: the outcome of `Apart.result`, or None so far."""
        if self._apart is None:
            if not self._path.is_dir():
                return RunError(
                    f"{self._planned.label}: {socket.gethostname()} does not see '{self._path}'; --out must be a "
                    "folder on storage that every machine of the cluster sees under the same path"
                )
            self._apart = Apart(self._planned, self._path, True)
            return None
        for number in signals:
            self._apart.stop(number)
        if not self._apart.receiver.poll(POLL):
            return None
        try:
            return self._apart.result()
        except HeedError as error:
            return error


class OnCluster:
    """A run that is trained on a cluster, in as many attempts as workers are lost."""

    def __init__(self, cluster: Cluster, planned: Planned, final: Path, slot: int) -> None:
        self.planned, self.slot, self.final = planned, slot, final.absolute()
        self._cluster = cluster
        self._signals: list[int] = []
        self._stopping = False
        self._losses, self._saved = 0, -1  # workers lost since the update that was saved last
        self.outcome: bool | HeedError | None = None
        self._begin()

    def _begin(self) -> None:
        self.attempt = self._cluster.next_attempt(self.planned.name)
        self.path = begin_attempt(self.final, self.attempt)
        self._answered = False  # True once the worker has begun
        self._worker = self._cluster.worker(self.planned, self.path)
        self.ask()

    def ask(self) -> None:
        """Ask the worker for the outcome."""
        signals, self._signals = self._signals, []
        self.answer = self._worker.poll.remote(signals)

    def answered(self, outcome: bool | HeedError | None) -> None:
        """Take an answer of the worker."""
        self._answered, self.outcome = True, outcome
        if outcome is None:
            self.ask()
            return
        self._cluster.end(self._worker)
        settle(self.final, ended=True)

    def lost(self, why: Exception) -> None:
        """Begin another attempt, since the worker was lost."""
        self._cluster.end(self._worker)
        if self._stopping:
            self.outcome = False
            return
        saved = max(map(step_of, checkpoints_in(self.path / "checkpoints")), default=0)
        self._losses = self._losses + 1 if saved <= self._saved else 1
        if self._losses == _LOSSES:
            self.outcome = TrainingError(
                f"{self.planned.label}: {_LOSSES} workers were lost at update {saved}, the last because: "
                f"{' '.join(str(why).split())}; resume with the same command"
            )
            return
        self._begin()
        self._saved = max(map(step_of, checkpoints_in(self.path / "checkpoints")), default=0)
        on = f"goes on from update {self._saved}" if self._saved else "begins again"
        self._cluster.say(f"{self.planned.named}: its worker was lost; attempt {self.attempt} {on}")

    def stop(self, number: int) -> None:
        self._stopping = True
        self._signals.append(number)
        if not self._answered:  # it waits for a node, or has only begun
            self._cluster.end(self._worker)
            self.outcome = False

    def result(self) -> bool:
        if isinstance(self.outcome, HeedError):
            raise type(self.outcome)(str(self.outcome).replace(str(self.path), str(self.final)))
        return bool(self.outcome)

    def progress(self) -> str:
        return progress_of(self.path) if self._answered else "waiting for a node of the cluster"


class Cluster:
    """The nodes of a Ray cluster, that of RAY_ADDRESS or of this machine; a context manager.

    A run takes one GPU if it may train on one and the cluster has some, and `training.threads` processors, or one.
    """

    talks = False

    def __init__(self, next_attempt: Callable[[str], int], say: Callable[[str], None]) -> None:
        """`next_attempt` gives the number of the next attempt at the run of a name; `say` is called with messages."""
        self.next_attempt, self.say = next_attempt, say
        self._ray = ray_module()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        address = os.environ.get("RAY_ADDRESS", "")
        if address.startswith("ray://"):
            raise ConfigError(
                f"RAY_ADDRESS is '{address}', for a Ray client; --on ray is run on a machine of the cluster, with "
                "RAY_ADDRESS=HOST:6379, or without it"
            )
        self._stack.enter_context(redirect_stdout(io.StringIO()))  # Ray prints lost nodes there, among results
        if not self._ray.is_initialized():
            try:
                host, colon, port = address.rpartition(":")
                if colon and port.isdecimal():  # Ray itself tries for minutes
                    socket.create_connection((host, int(port)), timeout=10.0).close()
                self._ray.init("auto", log_to_driver=False, logging_level=logging.CRITICAL)
            except (OSError, RuntimeError, ValueError, OverflowError) as error:
                self._stack.close()
                where = f" at RAY_ADDRESS={address}" if address else ""
                raise ConfigError(
                    f"--on ray cannot reach a cluster{where}: {' '.join(str(error).split())}; start one with 'ray "
                    "start --head', and 'ray start --address=HOST:6379' on the other machines, or set RAY_ADDRESS"
                ) from None
            self._stack.callback(self._ray.shutdown)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def check(self, planned: Sequence[Planned]) -> None:
        """Refuse runs for which no node has room.

        Raises:
            ConfigError: No node has as many processors, or a GPU; or a run asks for one GPU of a machine by its number.
        """
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for one in planned:
            device = one.config.training.device
            if ":" in device:
                raise ConfigError(f"training.device is {device}, but on a cluster Ray chooses the GPU; give cuda")
            needs = {name: count for name, count in self._needs(one.config).items() if count}
            if not any(all(node.get(name, 0) >= count for name, count in needs.items()) for node in nodes):
                wanted = " and ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in needs.items())
                raise ConfigError(
                    f"{one.label}: no node of the cluster has {wanted} (training.threads, training.device)"
                )

    def _needs(self, config: RunConfig) -> dict[str, int]:
        device, gpus = config.training.device, self._ray.cluster_resources().get("GPU", 0)
        return {"CPU": config.training.threads or 1, "GPU": int(device == "cuda" or (device == "auto" and gpus > 0))}

    def worker(self, planned: Planned, path: Path) -> Any:
        """A new actor."""
        needs = self._needs(planned.config)
        options = {"num_cpus": needs["CPU"], "num_gpus": needs["GPU"], "scheduling_strategy": "SPREAD"}
        return self._ray.remote(Worker).options(**options, max_restarts=0).remote(planned, path)

    def end(self, worker: Any) -> None:
        """End an actor."""
        with suppress(Exception):  # it may have ended
            self._ray.kill(worker)

    def begin(self, planned: Planned, path: Path, slot: int) -> OnCluster:
        return OnCluster(self, planned, path, slot)

    def ended(self, running: Sequence[OnCluster]) -> list[OnCluster]:
        failures = self._ray.exceptions
        waiting = {one.answer: one for one in running if one.outcome is None}
        try:
            answers, _ = self._ray.wait([*waiting], timeout=1.0) if waiting else ([], [])
            for answer in answers:
                try:
                    outcome = self._ray.get(answer)
                except failures.RayActorError as error:  # the actor, its node or the way there
                    waiting[answer].lost(error)
                else:
                    waiting[answer].answered(outcome)
        except (failures.RaySystemError, failures.LocalRayletDiedError, BrokenPipeError) as error:
            raise TrainingError(
                f"the connection to the cluster was lost: {' '.join(str(error).split())}; resume with the same command"
            ) from None
        return [one for one in running if one.outcome is not None]
