"""Batches of each update, from any place in the data; a thread makes them ahead if waiting would cost time."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from heed.config import TrainingConfig
from heed.training.contracts import Batch, CollatesTogether, Trainable
from heed.training.device import divided
from heed.training.processes import Processes

T = TypeVar("T")

_TRIED, _SHARE = 20, 0.015
"""After this many items made on request, a thread starts if waiting for them took more than this share of the time."""
_JUDGED = 10
"""After this many items, the thread ends again if waiting for its items took longer than without it."""
_AHEAD = 2
"""Most items that are made and not yet asked for."""
_PATIENCE = 5.0
"""Seconds that closing waits for the current item; a pipe without a writer may block the thread forever."""


class Feed(Generic[T]):
    """The items of an iterator in its order, optionally made by a thread. An error is raised in place of its item.

    The thread takes processor time, and Python's lock, from the consumer: it starts only where it may save time, and
    ends where it does not. (On a busy machine it may be suspended while it holds the lock; the consumer then waits
    hundreds of times as long as making the item takes.) Nothing but the iterator runs in it.
    """

    def __init__(self, source: Iterator[T], ahead: bool = False) -> None:
        """Wrap `source`; `ahead` starts the thread immediately and keeps it."""
        self._source = source
        self._made: SimpleQueue[T | BaseException] = SimpleQueue()
        self._room = threading.Semaphore(_AHEAD)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._alone, self._ahead = _Waiting(), _Waiting()
        self._for_good = ahead
        if ahead:
            self._start()

    @property
    def is_ahead(self) -> bool:
        """True if the thread is running."""
        return self._thread is not None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        start = time.perf_counter()
        if self._thread is None and self._made.empty():
            item = next(self._source)
            self._alone.note(start)
            if not self._for_good and self._alone.count >= _TRIED and self._alone.share > _SHARE:
                self._start()
            return item
        item = self._taken()
        if self._thread is not None and not self._for_good:
            self._ahead.note(start)
            if self._ahead.count == _JUDGED:
                self._for_good = True
                if self._ahead.share > self._alone.share:
                    self.close()
                    if not self._thread.is_alive():
                        self._thread = None  # its items are returned first; the rest are made on request
        return item

    def close(self) -> None:
        """End the thread, if there is one; items it has made can still be taken."""
        self._closed.set()
        self._room.release()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def _start(self) -> None:
        # A daemon, so that a blocked thread does not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="heed-batches", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while True:
                self._room.acquire()
                if self._closed.is_set():
                    return
                self._made.put(next(self._source))
        except BaseException as error:
            self._made.put(error)

    def _taken(self) -> T:
        item = self._made.get()
        if isinstance(item, BaseException):  # the iterator's end or error
            self._made.put(item)  # asked again, it is still the end
            raise item
        self._room.release()
        return item


class _Waiting:
    """Time spent waiting for items, as a share of the time since the first of them.

    The first item and the longest wait do not count: a pass is planned before the first, and on a busy machine any wait
    may take long.
    """

    def __init__(self) -> None:
        self.count, self._sum, self._longest, self._began = 0, 0.0, 0.0, 0.0

    def note(self, start: float) -> None:
        """Record an item that was asked for at time `start` and is now here."""
        self._now = time.perf_counter()
        self.count += 1
        if self.count == 1:
            self._began = self._now
            return
        self._sum += self._now - start
        self._longest = max(self._longest, self._now - start)

    @property
    def share(self) -> float:
        """Share of the time spent waiting."""
        return (self._sum - self._longest) / max(1e-9, self._now - self._began)


@dataclass(frozen=True)
class Place:
    """A position in the training data."""

    epoch: int  # pass over it
    batch: int  # batches of this pass already used
    plan: str  # a hash of this pass's batches; the place is meaningless for other batches


@dataclass(frozen=True)
class Draw:
    """The batches of one update, in one process.

    Each batch has a flag that says if it counts: where a batch has fewer examples than there are processes, the
    remaining processes run an example of another process with weight 0, as all must run the backward pass together.
    """

    batches: list[tuple[Batch, bool]]  # the process's share of each batch, in micro-batches; False if it has weight 0
    place: Place  # where the next update starts
    targets: int  # target tokens of the batches that count
    padding: float  # mean share of padding


def draws(
    task: Trainable,
    config: TrainingConfig,
    processes: Processes,
    place: Place,
    say: Callable[[str], None],
    finish: Callable[[Batch], Batch] = lambda batch: batch,
    micro_batches: int = 1,
) -> Iterator[Draw]:
    """Yield the batches of every update from a place on, endlessly; independent of when they are asked for.

    Args:
        task: Plans passes and makes batches.
        config: Its `accumulate` is the number of batches of an update.
        processes: The processes that share each batch.
        place: Where to begin.
        say: Called with a message if the plan has changed and the place is no longer valid.
        finish: Last step for each batch (pinned memory).
        micro_batches: Number of parts of each batch.
    """
    epoch, start = place.epoch, place.batch
    together = 1
    collate_all: Callable[[Sequence[list[int]], int], list[Any]] = partial(_one_by_one, task)
    if isinstance(task, CollatesTogether):
        together, collate_all = task.updates_together, task.collate_all
    while True:
        plan = task.train_batches(epoch)
        mark = hashlib.blake2b(repr(plan).encode(), digest_size=16).hexdigest()
        if start > 0 and epoch == place.epoch and mark != place.plan:
            epoch, start = epoch + 1, 0
            changed = "the data or batch settings changed since the checkpoint"
            say(f"{changed}; starting pass {epoch + 1} from its first batch")
            continue
        while start < len(plan):
            updates: list[tuple[list[tuple[list[int], bool]], Place]] = []
            while start < len(plan) and len(updates) < together:
                chosen = plan[start : start + config.accumulate]
                start += len(chosen)
                shares = [part for indices in chosen for part in _shares(indices, processes, micro_batches)]
                updates.append((shares, Place(epoch, start, mark)))
            made = iter(collate_all([indices for shares, _ in updates for indices, _ in shares], epoch))
            for shares, end in updates:
                batches = [(finish(next(made)), counts) for _, counts in shares]
                targets = sum(batch.num_targets for batch, counts in batches if counts)
                padding = sum(batch.padding_share for batch, _ in batches) / len(batches)
                yield Draw(batches, end, targets, padding)
        epoch, start = epoch + 1, 0


def _one_by_one(task: Trainable, batches: Sequence[list[int]], epoch: int) -> list[Batch]:
    return [task.collate(indices, epoch) for indices in batches]


def _shares(indices: list[int], processes: Processes, micro_batches: int) -> list[tuple[list[int], bool]]:
    """This process's micro-batches of a batch (as many as in every other process), and whether they count."""
    own = processes.share(indices)
    if not own:
        return [(indices[:1], False)]
    return [(part, True) for part in divided(own, max(1, min(micro_batches, len(indices) // processes.count)))]
