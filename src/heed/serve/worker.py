"""One thread that owns the models, and the line before it.

Models are used by this thread alone, because only one pass can be watched at a time, and because two passes at once
only take cores from each other. What nobody waits for any longer is stopped at the next module of the network.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException
from torch import nn

WAITING = 32
"""Calls that may wait."""


class BusyError(HTTPException):
    """Too much waits already."""

    def __init__(self) -> None:
        super().__init__(503, "too much waits already; ask again later", {"Retry-After": "1"})


class GivenUpError(Exception):
    """Nobody waits for the result of this call any longer."""


class Worker:
    """The thread and what waits for it; methods are called from the event loop, `stop` from anywhere."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "heed models")
        self._calls: list[Future[Any]] = []
        self._here = threading.local()  # `given_up`, in the thread: set once nobody waits for its call
        self._now = threading.Event()  # that of the current call

    def start(self) -> None:
        """Begin to stop calls."""
        self._hook = nn.modules.module.register_module_forward_pre_hook(self._stop_given_up)

    def stop(self) -> None:
        """Give up what is computed, and end the thread: torch aborts a process that exits while it computes."""
        self._now.set()
        self._pool.shutdown(cancel_futures=True)
        self._hook.remove()

    def _stop_given_up(self, module: nn.Module, inputs: Any) -> None:
        if (given_up := getattr(self._here, "given_up", None)) is not None and given_up.is_set():
            raise GivenUpError

    def _submit(self, call: Callable[[], Any], given_up: threading.Event) -> Future[Any]:
        """Put a call into the line.

        Raises:
            BusyError: `WAITING` others wait already.
        """

        def run() -> Any:
            self._here.given_up = self._now = given_up
            try:
                return None if given_up.is_set() else call()
            except Exception:
                raise
            except BaseException as error:  # of a library, such as a panic of Rust: it must not end the event loop
                raise RuntimeError(repr(error)) from None

        self._calls = [future for future in self._calls if not (future.done() or future.running())]
        if len(self._calls) >= WAITING:
            raise BusyError
        self._calls.append(self._pool.submit(run))
        return self._calls[-1]

    async def call(self, call: Callable[[], Any]) -> Any:
        """The result of a call in the worker's thread; cancelling gives it up.

        Raises:
            BusyError: `WAITING` others wait already.
        """
        given_up = threading.Event()
        try:
            return await asyncio.wrap_future(self._submit(call, given_up))
        finally:
            given_up.set()

    async def stream(self, pieces: Callable[[], Iterator[str]]) -> AsyncGenerator[str]:
        """What an iterator yields in the worker's thread, as it comes; closing gives it up.

        Raises:
            BusyError: `WAITING` others wait already.
        """
        loop, came = asyncio.get_running_loop(), asyncio.Queue[str | None]()
        given_up = threading.Event()

        def write() -> None:
            try:
                for piece in pieces():
                    if given_up.is_set():
                        return
                    loop.call_soon_threadsafe(came.put_nowait, piece)
            finally:
                loop.call_soon_threadsafe(came.put_nowait, None)

        written = self._submit(write, given_up)
        try:
            while (piece := await came.get()) is not None:
                yield piece
            await asyncio.wrap_future(written)
        finally:
            given_up.set()
