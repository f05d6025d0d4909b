"""Processor cores, and the number of threads for prediction and training.

A second thread makes large products faster and small ones slower. So a piece of work uses all cores if a forward pass
over its positions takes at least 1e9 floating-point operations (two for each weight and position, tables of embeddings
not counted), and one thread if it takes fewer.

While other work keeps a core busy, a second thread makes everything slower, since each product waits for the thread
without a core: a factor of thirty has been seen. So at most as many threads are used as `Company` counts as free,
several times a second.

heed does not choose if the user has: `OMP_NUM_THREADS` or `MKL_NUM_THREADS` is set, or torch has one thread. It never
uses more than torch's number of threads. Results differ between thread counts by rounding only.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn

_PART = 0.3
"""Share of a core that other work may use while the core still counts as free."""
_STALE = 5.0
"""Seconds after which the load since the last measurement says little about the present load."""
_SHORTEST = 0.05
"""Shortest measurement in seconds: the system counts in hundredths."""


def cores() -> set[int]:
    """The numbers of the cores that this process may use."""
    return set(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def given_by_user() -> bool:
    """True if an environment variable that torch reads sets the number of threads."""
    return any(os.environ.get(name, "").strip() for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))


class Times(NamedTuple):
    """Seconds: of the clock; total and idle, summed over the cores since the system started; of this process."""

    clock: float
    counted: float
    idle: float
    own: float


def read_times() -> Times:
    """The present times; those of the cores are 0 where the system does not report them (only Linux does)."""
    counted = idle = 0.0
    with suppress(OSError, ValueError, IndexError):
        tick = os.sysconf("SC_CLK_TCK")
        mine = {f"cpu{number}" for number in cores()}
        for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
            name, *numbers = line.split()
            if name in mine:
                ticks = [int(number) for number in numbers[:8]]  # user, nice, system, idle, waiting for a disk, ...
                counted, idle = counted + sum(ticks) / tick, idle + (ticks[3] + ticks[4]) / tick
    return Times(time.perf_counter(), counted, idle, time.process_time())


class Company:
    """Measures how many cores the other processes of a machine leave free."""

    def __init__(self, held: float = 0.25) -> None:
        """Measure from now on; a measurement is reused for `held` seconds."""
        self._held, self._before = held, read_times()
        self._free, self._measured = 0, False

    def free_cores(self) -> int:
        """The number of threads that would each have a core, at least 1; all cores where the system does not report it.

        Measured over the time since the last call, or over the next twentieth of a second if that was long ago.
        """
        passed = time.perf_counter() - self._before.clock
        if self._measured and passed < self._held:
            return self._free
        if passed > _STALE:
            self._before, passed = read_times(), 0.0
        if passed < _SHORTEST:
            time.sleep(_SHORTEST - passed)
        before, self._before, self._measured = self._before, read_times(), True
        seconds, counted, idle, own = (new - old for new, old in zip(self._before, before, strict=True))
        self._free = most = len(cores())
        if 0.5 < counted / (seconds * most) < 2:  # else these are not the counts of the cores
            self._free = max(1, min(most, int((idle + own) / seconds + _PART)))
        return self._free


COMPANY = Company()
"""Measured from the import of this module on."""


_LARGE = 1e9
"""Floating-point operations (two for each weight and position) from which all cores are used."""


def threads_of(model: nn.Module, work: int, most: int) -> int:
    """The number of threads, 1 or `most`, for a pass of a model over `work` positions."""
    return most if 2.0 * _facts_of(model)[0] * work >= _LARGE else 1


def _facts_of(model: nn.Module) -> tuple[int, nn.Parameter | None]:
    """The number of weights outside tables of embeddings, and a parameter, whose device may change."""
    if model not in _facts:  # kept: counting takes longer than everything else before a step
        tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
        weights = sum(p.numel() for p in model.parameters() if id(p) not in tables)
        _facts[model] = weights, next(model.parameters(), None)
    return _facts[model]


@contextmanager
def sparing() -> Iterator[None]:
    """Context manager around prediction: `threads_for` chooses the threads of a model's work; other work has one.

    It does nothing inside another `sparing`, or if the user has set the number of threads.
    """
    if _thread.limit is not None or given_by_user():
        yield
        return
    with _set(torch.get_num_threads(), 1):
        yield


@contextmanager
def _set(limit: int, count: int) -> Iterator[None]:
    """Context manager with `count` threads, and at most `limit` for a piece."""
    before = _thread.limit, torch.get_num_threads()
    _thread.limit = limit
    torch.set_num_threads(count)
    try:
        yield
    finally:
        _thread.limit = before[0]
        torch.set_num_threads(before[1])


@contextmanager
def fixed(count: int | None = None) -> Iterator[None]:
    """Context manager without any choice of threads: `count` threads are used, or as many as before."""
    with _set(1, torch.get_num_threads() if count is None else count):
        yield


def threads_for(model: nn.Module, work: int) -> AbstractContextManager[None]:
    """Context manager around a piece of prediction over `work` tokens or other positions: with the threads for it."""
    most, first = _thread.limit or torch.get_num_threads(), _facts_of(model)[1]
    if most == 1 or given_by_user() or (first is not None and first.device.type != "cpu"):
        return nullcontext()
    count = threads_of(model, work, most)
    return fixed(count if count == 1 else min(count, COMPANY.free_cores()))


def _in_fork() -> None:
    """Use one thread in a forked process: torch's other threads are not there, and would be waited for without end."""
    _thread.limit = 1
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_in_fork)


class _ThreadState(threading.local):
    """State of the running thread."""

    limit: int | None = None
    """Most threads for a piece; None for torch's number."""


_thread = _ThreadState()
_facts: WeakKeyDictionary[nn.Module, tuple[int, nn.Parameter | None]] = WeakKeyDictionary()
