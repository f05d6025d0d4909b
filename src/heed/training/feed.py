"""Items made before they are asked for, by a thread, where whoever asks would otherwise wait for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

_TRIED, _SHARE = 20, 0.015
"""From so many items made when asked for on, a thread begins where waiting for them took more than this share."""
_AHEAD = 2
"""Items that are made and not yet asked for."""
_PATIENCE = 5.0
"""Seconds that closing waits for the item at hand; a pipe that nobody writes to may keep the thread for ever."""


class Feed(Generic[T]):
    """The items of an iterator, in its order, whoever makes them. An error of the iterator comes where its item would.

    The thread takes a share of the processor, and of Python's lock, from the one that asks: it begins only where that
    pays. Nothing but the iterator runs in it.
    """

    def __init__(self, source: Iterator[T], ahead: bool = False) -> None:
        """Begin; `ahead` starts the thread at once."""
        self._source = source
        self._made: SimpleQueue[T | BaseException] = SimpleQueue()
        self._room = threading.Semaphore(_AHEAD)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._drawn, self._waited, self._began = 0, 0.0, time.perf_counter()
        if ahead:
            self._start()

    @property
    def is_ahead(self) -> bool:
        """Whether the thread has begun."""
        return self._thread is not None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._thread is not None:
            return self._taken()
        start = time.perf_counter()
        if self._drawn == 0:
            self._began = start
        item = next(self._source)
        now = time.perf_counter()
        self._drawn += 1
        self._waited += now - start
        if self._drawn >= _TRIED and self._waited > _SHARE * (now - self._began):
            self._start()
        return item

    def close(self) -> None:
        """End the thread, if there is one; what it made is lost."""
        self._closed.set()
        self._room.release()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def _start(self) -> None:
        # A daemon, so that one that never comes back does not keep the process.
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
