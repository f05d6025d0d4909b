"""The number of processor threads for prediction: learned by timing pieces of work, and stored in the cache.

A second thread makes large products faster and small ones slower. So pieces of similar work (passes over a similar
number of positions, decoding steps of a similar number of rows) are timed, and occasionally a few of them are run with
another number of threads; the faster number is kept. Trials take about 2 % of the time.

While other work keeps a core busy, a second thread makes everything slower, since each product waits for the thread
without a core: a factor of thirty has been seen. So at most as many threads are used as `heed.cores` counts as free,
several times a second.

heed does not choose if the user has: `OMP_NUM_THREADS` or `MKL_NUM_THREADS` is set, or torch has one thread. It never
uses more than torch's number of threads. Results differ between thread counts by rounding only.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary

import torch
from torch import nn

from heed.cores import COMPANY, choices, given_by_user, machine
from heed.storage.cache import cache_folder

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
