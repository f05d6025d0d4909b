"""One thread that owns the models: looks stand in a line, predictions that arrive together are computed together.

Models are used by this thread alone, because only one pass can be watched at a time, and because two passes at once
only take cores from each other. What nobody waits for any longer is stopped at the next module of the network.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from torch import nn

from heed.errors import HeedError

LOOKS = 4
"""Jobs other than predictions that may wait."""
INPUTS = 4_096
"""Inputs of predictions that may wait."""
TOGETHER = 1_024
"""Inputs from which on a batch takes no further requests."""
_SECONDS = 2.0
"""The same for its time, by the pace of the last batch, so that the first requests need not wait for all."""


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
        except BaseException as error:
            self.result.set_exception(error)


class Batch(Job):
    """Predictions with the same options, of several requests; open until the worker begins it."""

    def __init__(self, predict: Callable[[list[Any]], list[Any]]) -> None:
        super().__init__(lambda: None)
        self.predict = predict
        self.parts: list[tuple[list[Any], Future[list[Any]]]] = []
        self.awaited = 0  # parts that somebody still waits for

    @property
    def size(self) -> int:
        """Number of inputs."""
        return sum(len(inputs) for inputs, _ in self.parts)

    def run(self) -> None:
        """Predict all inputs at once; if one cannot be used, request by request, so that it spoils no other's."""
        parts = [(inputs, result) for inputs, result in self.parts if result.set_running_or_notify_cancel()]
        try:
            found = iter(self.predict([one for inputs, _ in parts for one in inputs]) if parts else [])
            for inputs, result in parts:
                result.set_result([next(found) for _ in inputs])
        except HeedError as error:
            for inputs, result in parts:
                if len(parts) == 1:
                    result.set_exception(error)
                else:
                    self._alone(inputs, result)
        except BaseException as error:
            for _, result in parts:
                result.set_exception(error)

    def _alone(self, inputs: list[Any], result: Future[list[Any]]) -> None:
        try:
            result.set_result(self.predict(inputs))
        except BaseException as error:
            result.set_exception(error)


class Worker:
    """The thread and what waits for it; methods are called from the event loop, `stop` from anywhere."""

    def __init__(self, batch_seconds: float = 0.01) -> None:
        self._batch_seconds = batch_seconds
        self._waiting: deque[Job] = deque()
        self._open: dict[Hashable, Batch] = {}
        self._changed = threading.Condition()
        self._now: Job | None = None
        self._ended = False
        self._inputs = 0
        self._pace = _SECONDS / 256  # seconds for an input of the last batch
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
                self._open = {key: one for key, one in self._open.items() if one is not job}
            begun = time.monotonic()
            job.run()
            if isinstance(job, Batch):
                self._pace = max(1e-6, (time.monotonic() - begun) / max(1, job.size))

    def submit(self, job: Job) -> Job:
        """Put a job into the line.

        Raises:
            BusyError: `LOOKS` others wait already.
        """
        with self._changed:
            if sum(not isinstance(one, Batch) for one in self._waiting) >= LOOKS:
                raise BusyError
            self._waiting.append(job)
            self._changed.notify()
        return job

    async def call(self, call: Callable[[], Any]) -> Any:
        """The result of a call in the worker's thread; cancelling gives it up.

        Raises:
            BusyError: `LOOKS` others wait already.
        """
        job = self.submit(Job(call))
        try:
            return await asyncio.wrap_future(job.result)
        finally:
            job.given_up.set()

    async def predict(
        self, key: Hashable, predict: Callable[[list[Any]], list[Any]], inputs: Sequence[Any]
    ) -> list[Any]:
        """The predictions for inputs, computed together with those of other requests with the same key.

        Raises:
            BusyError: With these, more than `INPUTS` inputs would wait.
        """
        result: Future[list[Any]] = Future()
        with self._changed:
            if self._inputs and self._inputs + len(inputs) > INPUTS:
                raise BusyError
            self._inputs += len(inputs)
            batch = self._open.get(key)
            if batch is None or batch.size >= min(TOGETHER, _SECONDS / self._pace):
                batch = self._open[key] = Batch(predict)
                asyncio.get_running_loop().call_later(self._batch_seconds, self._enqueue, batch)
            batch.parts.append(([*inputs], result))
            batch.awaited += 1
            batch.given_up.clear()
        try:
            return await asyncio.wrap_future(result)
        finally:
            with self._changed:
                self._inputs -= len(inputs)
                batch.awaited -= 1
                if not batch.awaited:
                    batch.given_up.set()

    def _enqueue(self, batch: Batch) -> None:
        with self._changed:
            self._waiting.append(batch)
            self._changed.notify()

    async def stream(self, pieces: Callable[[], Iterator[str]]) -> AsyncIterator[str]:
        """What an iterator yields in the worker's thread, as it comes; closing gives it up.

        Raises:
            BusyError: `LOOKS` others wait already.
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
