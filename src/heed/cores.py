"""Processor cores: those this process may use, and how many of them other work leaves free."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

_PART = 0.3
"""Share of a core that other work may use while the core still counts as free."""
_STALE = 5.0
"""Seconds after which the load since the last measurement says little about the present load."""
_SHORTEST = 0.05
"""Shortest measurement in seconds: the system counts in hundredths."""


def cores() -> set[int]:
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def choices(most: int) -> list[int]:
    """The thread counts to try, up to `most`."""
    return sorted({*(min(count, most) for count in (1, 2, 4, 8)), most})


def given_by_user() -> bool:
    """True if an environment variable that torch reads sets the number of threads."""
    return any(os.environ.get(name, "").strip() for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))


@cache
def machine() -> str:
    """Processor, number of cores and version of torch, as one line."""
    name = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):  # Linux only, and not for every processor
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{name}, {len(cores())} cores, torch {torch.__version__}"


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
