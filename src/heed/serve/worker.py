"""One thread that owns the models, and the line before it.

Models are used by this thread alone, because only one pass can be watched at a time, and because two passes at once
only take cores from each other. What nobody waits for any longer is stopped at the next module of the network.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any

from torch import nn

WAITING = 32
"""Jobs that may wait."""


class BusyError(Exception):
    """Too much waits already."""


class GivenUpError(Exception):
    """Nobody waits for the result of this job any longer."""


class Job:
    """A call for the worker; `given_up` is set by who no longer waits for it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.result: Future[Any] = Future()
        self.given_up = threading.Event()

    def run(self) -> None:
        """Call, and keep the result or the error."""
        if self.given_up.is_set() or not self.result.set_running_or_notify_cancel():
            return
        try:
            self.result.set_result(self.call())
        except BaseException as error:  # of a library, such as a panic of Rust: it must not end the event loop
            self.result.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))


class Worker:
    """The thread and what waits for it; methods are called from the event loop, `stop` from anywhere."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._now: Job | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="heed models", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._hook = nn.modules.module.register_module_forward_pre_hook(self._stop_given_up)
        self._thread.start()

    def stop(self) -> None:
        """Give up what is computed, and end the thread: torch aborts a process that exits while it computes."""
        with self._changed:
            self._ended = True
            if self._now is not None:
                self._now.given_up.set()
            self._changed.notify()
        self._thread.join(timeout=2)
        self._hook.remove()

    def _stop_given_up(self, module: nn.Module, inputs: Any) -> None:
        if self._now is not None and self._now.given_up.is_set() and threading.current_thread() is self._thread:
            raise GivenUpError

    def _work(self) -> None:
        while True:
            with self._changed:
                self._now = None
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                self._now = job = self._waiting.popleft()
            job.run()

    def submit(self, job: Job) -> Job:
        """Put a job into the line.

        Raises:
            BusyError: `WAITING` others wait already.
        """
        with self._changed:
            if len(self._waiting) >= WAITING:
                raise BusyError
            self._waiting.append(job)
            self._changed.notify()
        return job

    async def call(self, call: Callable[[], Any]) -> Any:
        """The result of a call in the worker's thread; cancelling gives it up.

        Raises:
            BusyError: `WAITING` others wait already.
        """
        job = self.submit(Job(call))
        try:
            return await asyncio.wrap_future(job.result)
        finally:
            job.given_up.set()

    async def stream(self, pieces: Callable[[], Iterator[str]]) -> AsyncIterator[str]:
        """What an iterator yields in the worker's thread, as it comes; closing gives it up.

        Raises:
            BusyError: `WAITING` others wait already.
        """
        loop, came = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def write() -> None:
            try:
                for piece in pieces():
                    if job.given_up.is_set():
                        return
                    loop.call_soon_threadsafe(came.put_nowait, piece)
            finally:
                loop.call_soon_threadsafe(came.put_nowait, None)

        job = Job(write)
        self.submit(job)
        try:
            while (piece := await came.get()) is not None:
                yield piece
            await asyncio.wrap_future(job.result)
        finally:
            job.given_up.set()
