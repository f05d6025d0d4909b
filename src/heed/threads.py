"""Processor cores, and the number of threads for prediction: learned by timing pieces of work, and stored in the cache.

A second thread makes large products faster and small ones slower. So pieces of similar work (passes over a similar
number of positions, decoding steps of a similar number of rows) are timed, and occasionally a few of them are run with
another number of threads; the faster number is kept. Trials take about 2 % of the time.

While other work keeps a core busy, a second thread makes everything slower, since each product waits for the thread
without a core: a factor of thirty has been seen. So at most as many threads are used as `Company` counts as free,
several times a second.

heed does not choose if the user has: `OMP_NUM_THREADS` or `MKL_NUM_THREADS` is set, or torch has one thread. It never
uses more than torch's number of threads. Results differ between thread counts by rounding only.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn

from heed.storage.files import cache_folder

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


_WORTH = 0.9
"""More threads must take less than this share of the time to be kept; fewer threads must only take less time."""
_RECENT = 4
"""Number of recent pieces whose times are compared with a trial."""
_TRIED = 3
"""Pieces of a trial; the fastest counts. The first one starts threads, and kernels are compiled for their number."""
_HOPELESS = 10.0
"""A trial ends after a piece that takes this many times as long as usual: threads are waiting for a core."""
_REST = 0.5
"""Least seconds of work between two trials."""
_SHARE = 50
"""Wait after a useless trial, as a multiple of its cost."""
_LARGE = 1e9
"""Floating-point operations (two for each weight and position) above which more threads are usually faster."""


class Pace:
    """Chooses the number of threads of one kind of work by the times of its pieces.

    Attributes:
        count: The number of threads in use; a trial uses another for a few pieces.
    """

    def __init__(self, count: int, most: int, wait: float = 0.0) -> None:
        """Begin with `count` threads, of at most `most`, and no trial for `wait` seconds of work."""
        choice = choices(most)
        self.count = max(one for one in choice if one <= max(1, count))
        self._choices, self._wait = choice, wait
        self._recent: deque[float] = deque(maxlen=_RECENT)  # seconds for each unit of work
        self._since, self._trial, self._upwards = 0.0, 0, True
        self._tried: list[float] = []  # as `_recent`, of the running trial
        self._extra = 0.0  # seconds that it has cost more than usual

    @property
    def next(self) -> int:
        """The number of threads of the next piece."""
        return self._trial or self.count

    def done(self, work: float, seconds: float) -> bool:
        """Record the time of a piece; `work` is its size in any unit proportional to time. True if it ended a trial."""
        cost = seconds / work
        if self._trial:
            usual = min(self._recent)
            self._tried.append(cost)
            self._extra += seconds - usual * work
            if len(self._tried) < _TRIED and cost < _HOPELESS * usual:
                return False
            if min(self._tried) < usual * (_WORTH if self._trial > self.count else 1.0):
                self.count, self._wait = self._trial, _REST
                self._recent.clear()
            else:
                self._wait = max(_REST, _SHARE * self._extra)
            self._tried.clear()
            self._since, self._extra, self._trial = 0.0, 0.0, 0
            return True
        self._recent.append(cost)
        self._since += seconds
        if len(self._recent) == _RECENT and self._since >= self._wait and len(self._choices) > 1:
            self._trial, self._upwards = self._neighbour(), not self._upwards
        return False

    def _neighbour(self) -> int:
        """Alternately the next larger and the next smaller number; at either end, the only neighbour."""
        place = self._choices.index(self.count)
        wanted = place + (1 if self._upwards else -1)
        return self._choices[wanted if 0 <= wanted < len(self._choices) else 2 * place - wanted]


@contextmanager
def sparing() -> Iterator[None]:
    """Context manager around prediction: `threads_for` chooses the threads of a model's work; other work has one.

    It does nothing inside another `sparing`, or if the user has set the number of threads.
    """
    most = torch.get_num_threads()
    if _here.limit is not None or given_by_user():
        yield
        return
    _here.limit = most
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _here.limit = None
        torch.set_num_threads(most)


@contextmanager
def fixed(count: int | None = None) -> Iterator[None]:
    """Context manager without any choice of threads: `count` threads are used, or as many as before."""
    limit, before = _here.limit, torch.get_num_threads()
    _here.limit = 1
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        _here.limit = limit
        torch.set_num_threads(before)


@contextmanager
def threads_for(model: nn.Module, work: int, kind: str = "pass") -> Iterator[None]:
    """Context manager around a piece of prediction, run with the number of threads learned for it.

    Args:
        model: The model.
        work: The number of tokens or other positions to compute.
        kind: Only pieces of one kind are compared: "pass" over whole inputs, "step" of decoding.
    """
    most = _here.limit or torch.get_num_threads()
    if most == 1 or given_by_user() or _is_elsewhere(model):
        yield
        return
    work = max(1, work)
    learned, name = learned_of(model), f"{kind} {work.bit_length()}"
    pace = learned.pace(name, work, most)
    wanted = pace.next
    count = wanted if wanted == 1 else min(wanted, COMPANY.free_cores())
    start = time.perf_counter()
    with fixed(count):
        yield
    if count == wanted and pace.done(work, time.perf_counter() - start):
        learned.keep(name, pace.count)


def _is_elsewhere(model: nn.Module) -> bool:
    """True if the model is not on the CPU."""
    if (known := _first.get(model)) is None:  # kept: finding it takes longer than everything else before a step
        if (known := next(model.parameters(), None)) is None:
            return False
        _first[model] = known
    return known.device.type != "cpu"


class Learned:
    """Stored measurements for models of one shape on this machine: a `Pace` for each kind and size of work."""

    def __init__(self, shape: str, weights: int) -> None:
        """Read the stored numbers; `weights` is the number of weights that every position is multiplied by."""
        name = hashlib.blake2b(f"{machine()}, {shape}".encode(), digest_size=16).hexdigest()
        self._path = cache_folder() / "threads" / f"{name}.json"
        self._weights = weights
        self._paces: dict[tuple[str, int], Pace] = {}
        self._known: dict[str, int] = {}
        with suppress(OSError, ValueError, TypeError):
            read = dict(json.loads(self._path.read_text(encoding="utf-8")))
            self._known = {name: int(count) for name, count in read.items()}

    def pace(self, name: str, work: int, most: int) -> Pace:
        """The pace of a kind of work with at most `most` threads; a new one if there is none."""
        if (name, most) not in self._paces:
            guess = most if 2.0 * self._weights * work >= _LARGE else 1
            wait = _REST if name in self._known else 0.0
            self._paces[name, most] = Pace(self._known.get(name, guess), most, wait)
        return self._paces[name, most]

    def known(self, name: str) -> int | None:
        """The number stored for a kind and size of work (unchecked: any number); None if there is none."""
        return self._known.get(name)

    def keep(self, name: str, count: int) -> None:
        """Store a number for other processes."""
        if self._known.get(name) == count:
            return
        self._known[name] = count
        part = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # it only saves time
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(self._known), encoding="utf-8")
            os.replace(part, self._path)


def _in_fork() -> None:
    """Use one thread in a forked process: torch's other threads are not there, and would be waited for without end."""
    _here.limit = 1
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_fork)


class _Here(threading.local):
    """State of the running thread."""

    limit: int | None = None
    """Most threads for a piece; None for torch's number."""


_here = _Here()
_of_models: WeakKeyDictionary[nn.Module, Learned] = WeakKeyDictionary()
_of_shapes: dict[str, Learned] = {}
_first: WeakKeyDictionary[nn.Module, nn.Parameter] = WeakKeyDictionary()


def learned_of(model: nn.Module) -> Learned:
    """The stored measurements for models with these parameter shapes."""
    if model not in _of_models:
        parameters = list(model.parameters())
        shape = f"{type(model).__name__} {[tuple(p.shape) for p in parameters]}"
        if shape not in _of_shapes:
            tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
            _of_shapes[shape] = Learned(shape, sum(p.numel() for p in parameters if id(p) not in tables))
        _of_models[model] = _of_shapes[shape]
    return _of_models[model]
