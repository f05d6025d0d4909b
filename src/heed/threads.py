"""How many processor threads a piece of prediction uses: learned from what pieces take, and remembered in the cache.

A second thread makes large products faster and small ones slower. So pieces of like work (passes over so many
positions, decoding steps of so many rows) are timed, and now and then one of them is given another number of threads;
the faster number stays. Trials take about 2 % of the time.

Where other work keeps a core busy, a second thread makes everything slower, since each product waits for the thread
that has no core: thirty times slower has been seen. So no more threads are used than `heed.cores` counts as free,
several times a second.

Nothing is chosen where the user has: `OMP_NUM_THREADS` or `MKL_NUM_THREADS` is set, or torch is left one thread; more
than torch's number of threads are never used. Results differ between numbers of threads by rounding only.
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

_WORTH = 0.95
"""Another number of threads must take less than this share of the time: smaller differences are noise."""
_RECENT = 4
"""Pieces by whose times the number in use is judged."""
_REST = 0.5
"""Seconds of work between two trials at least."""
_SHARE = 50
"""Times what a useless trial has cost, until the next one."""
_LARGE = 1e9
"""Floating-point operations (two for each weight and position) from which on more threads are better, as a rule."""


class Pace:
    """Chooses the number of threads of one kind of work by the times of its pieces.

    Attributes:
        count: The number of threads in use; a trial may use another for one piece.
    """

    def __init__(self, count: int, most: int, wait: float = 0.0) -> None:
        """Begin with a number of threads, of at most so many; without a trial for some seconds of work."""
        choice = choices(most)
        self.count = max(one for one in choice if one <= max(1, count))
        self._choices, self._wait = choice, wait
        self._recent: deque[float] = deque(maxlen=_RECENT)  # seconds for each unit of work
        self._since, self._trial, self._upwards = 0.0, 0, True

    @property
    def next(self) -> int:
        """The number of threads of the next piece."""
        return self._trial or self.count

    def done(self, work: float, seconds: float) -> bool:
        """Note what a piece took; `work` is its size in any unit that its time grows with. Whether it ended a trial."""
        cost = seconds / work
        if self._trial:
            usual = min(self._recent)
            if cost < _WORTH * usual:
                self.count, self._wait = self._trial, _REST
                self._recent.clear()
            else:
                self._wait = max(_REST, _SHARE * (seconds - usual * work))
            self._since, self._trial = 0.0, 0
            return True
        self._recent.append(cost)
        self._since += seconds
        if len(self._recent) == _RECENT and self._since >= self._wait and len(self._choices) > 1:
            self._trial, self._upwards = self._neighbour(), not self._upwards
        return False

    def _neighbour(self) -> int:
        """The next larger and the next smaller number in turns; the other one at either end."""
        place = self._choices.index(self.count)
        wanted = place + (1 if self._upwards else -1)
        return self._choices[wanted if 0 <= wanted < len(self._choices) else 2 * place - wanted]


@contextmanager
def sparing() -> Iterator[None]:
    """Context manager around prediction: `threads_for` chooses the threads of a model's work, all else has one.

    Inside of another one, or where the user has chosen, it changes nothing.
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
    """Context manager in which nothing is chosen; `count` threads are used, or as many as before."""
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
    """Context manager in which a model computes a piece of prediction, with the threads that suit it.

    Args:
        model: The model.
        work: The number of tokens or other positions that it computes.
        kind: Pieces of one kind are compared: "pass" for those of whole inputs, "step" for those of decoding.
    """
    most = _here.limit or torch.get_num_threads()
    if most == 1 or given_by_user() or next((p.device.type != "cpu" for p in model.parameters()), False):
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


class Learned:
    """What is known of models of one shape on this machine: a pace for each kind and size of work."""

    def __init__(self, shape: str, weights: int) -> None:
        """Read what is kept; `weights` is the number of those that every position is multiplied by."""
        name = hashlib.blake2b(f"{machine()}, {shape}".encode(), digest_size=16).hexdigest()
        self._path = cache_folder() / "threads" / f"{name}.json"
        self._weights = weights
        self._paces: dict[tuple[str, int], Pace] = {}
        self._known: dict[str, int] = {}
        with suppress(OSError, ValueError, TypeError):
            read = dict(json.loads(self._path.read_text(encoding="utf-8")))
            self._known = {name: int(count) for name, count in read.items()}

    def pace(self, name: str, work: int, most: int) -> Pace:
        """The pace of a kind of work, with at most so many threads; begun where it is new."""
        if (name, most) not in self._paces:
            guess = most if 2.0 * self._weights * work >= _LARGE else 1
            wait = _REST if name in self._known else 0.0
            self._paces[name, most] = Pace(self._known.get(name, guess), most, wait)
        return self._paces[name, most]

    def known(self, name: str) -> int | None:
        """The number that was kept for a kind and size of work, which may be any; None where there is none."""
        return self._known.get(name)

    def keep(self, name: str, count: int) -> None:
        """Remember a number for other processes."""
        if self._known.get(name) == count:
            return
        self._known[name] = count
        part = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # it only saves time
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(self._known), encoding="utf-8")
            os.replace(part, self._path)


class _Here(threading.local):
    """What is decided for the thread that runs."""

    limit: int | None = None
    """The most threads that a piece may have; None where torch says it."""


_here = _Here()
_of_models: WeakKeyDictionary[nn.Module, Learned] = WeakKeyDictionary()
_of_shapes: dict[str, Learned] = {}


def learned_of(model: nn.Module) -> Learned:
    """What is known of models with such parameters."""
    if model not in _of_models:
        parameters = list(model.parameters())
        shape = f"{type(model).__name__} {[tuple(p.shape) for p in parameters]}"
        if shape not in _of_shapes:
            tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
            _of_shapes[shape] = Learned(shape, sum(p.numel() for p in parameters if id(p) not in tables))
        _of_models[model] = _of_shapes[shape]
    return _of_models[model]
