"""Items made ahead of time by a thread, where waiting for them would cost time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

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
