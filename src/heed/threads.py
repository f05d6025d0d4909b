"""Processor cores, and the number of threads for prediction and training.

A second thread makes large products faster and small ones slower. So a piece of work uses all cores if a forward pass
over its positions takes at least 1e9 floating-point operations (two for each weight and position, tables of embeddings
not counted), and one thread if it takes fewer.

While other processes keep a core busy, a second thread makes everything slower, since each product waits for the thread
without a core: a factor of thirty was measured. So no more threads are used than there are `free_cores`.

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
    total: float
    idle: float
    process: float


def read_times() -> Times:
    """The present times; those of the cores are 0 where the system does not report them (only Linux does)."""
    total = idle = 0.0
    with suppress(OSError, ValueError, IndexError):
        tick = os.sysconf("SC_CLK_TCK")
        names = {f"cpu{number}" for number in cores()}
        for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
            name, *numbers = line.split()
            if name in names:
                ticks = [int(number) for number in numbers[:8]]  # user, nice, system, idle, waiting for a disk, ...
                total, idle = total + sum(ticks) / tick, idle + (ticks[3] + ticks[4]) / tick
    return Times(time.perf_counter(), total, idle, time.process_time())


def free_cores(max_age: float = 0.25) -> int:
    """The number of threads that would each have a core, at least 1; all cores where the system does not report it.

    Measured over the time since the last call with this `max_age` (or the import of this module), or over the next
    twentieth of a second if that was long ago. A measurement is reused for `max_age` seconds.
    """
    before, count = _measured.get(max_age, (_AT_IMPORT, 0))
    elapsed = time.perf_counter() - before.clock
    if count and elapsed < max_age:
        return count
    if elapsed > _STALE:
        before, elapsed = read_times(), 0.0
    if elapsed < _SHORTEST:
        time.sleep(_SHORTEST - elapsed)
    now, count = read_times(), len(cores())
    seconds, total, idle, process = (after - earlier for after, earlier in zip(now, before, strict=True))
    if 0.5 < total / (seconds * count) < 2:  # else these are not the counts of the cores
        count = max(1, min(count, int((idle + process) / seconds + _PART)))
    _measured[max_age] = now, count
    return count


_AT_IMPORT = read_times()
_measured: dict[float, tuple[Times, int]] = {}
"""The last measurement of free cores by `max_age`: when it ended, and the result."""


_LARGE = 1e9
"""Floating-point operations (two for each weight and position) from which all cores are used."""


def threads_of(model: nn.Module, work: int, maximum: int) -> int:
    """The number of threads, 1 or `maximum`, for a pass of a model over `work` positions."""
    return maximum if 2.0 * _facts_of(model)[0] * work >= _LARGE else 1


def _facts_of(model: nn.Module) -> tuple[int, nn.Parameter | None]:
    """The number of weights outside tables of embeddings, and a parameter, whose device may change."""
    if model not in _facts:  # cached: counting takes longer than everything else before a step
        tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
        weights = sum(p.numel() for p in model.parameters() if id(p) not in tables)
        _facts[model] = weights, next(model.parameters(), None)
    return _facts[model]


@contextmanager
def prediction_threads() -> Iterator[None]:
    """Context manager around prediction: one thread, except where `threads_for` chooses more for a model's work.

    It does nothing inside another one, or if the user has set the number of threads.
    """
    if _state.limit is not None or given_by_user():
        yield
        return
    with _set(torch.get_num_threads(), 1):
        yield


@contextmanager
def _set(limit: int, count: int) -> Iterator[None]:
    """Context manager with `count` threads, and at most `limit` for a pass of a model."""
    limit_before, count_before = _state.limit, torch.get_num_threads()
    _state.limit = limit
    torch.set_num_threads(count)
    try:
        yield
    finally:
        _state.limit = limit_before
        torch.set_num_threads(count_before)


@contextmanager
def fixed(count: int | None = None) -> Iterator[None]:
    """Context manager without any choice of threads: `count` threads are used, or as many as before."""
    with _set(1, torch.get_num_threads() if count is None else count):
        yield


def threads_for(model: nn.Module, work: int) -> AbstractContextManager[None]:
    """Context manager with the number of threads for a pass of a model over `work` tokens or other positions."""
    maximum, first = _state.limit or torch.get_num_threads(), _facts_of(model)[1]
    if maximum == 1 or given_by_user() or (first is not None and first.device.type != "cpu"):
        return nullcontext()
    count = threads_of(model, work, maximum)
    return fixed(count if count == 1 else min(count, free_cores()))


def _in_fork() -> None:
    """Use one thread in a forked process, which lacks torch's other threads and would wait for them forever."""
    _state.limit = 1
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_in_fork)


class _State(threading.local):
    """State of the running thread."""

    limit: int | None = None
    """Maximum number of torch's threads for a pass of a model; None for torch's number."""


_state = _State()
_facts: WeakKeyDictionary[nn.Module, tuple[int, nn.Parameter | None]] = WeakKeyDictionary()
