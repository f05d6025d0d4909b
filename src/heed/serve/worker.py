"""One thread that owns the models, and the line before it.

Models are used by this thread alone, because only one pass can be watched at a time, and because two passes at once
only take cores from each other. What nobody waits for any longer is stopped at the next module of the network.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException
from torch import nn

WAITING = 32
"""Calls that may wait."""


class Worker:
    """The thread and what waits for it, a context manager; methods are called from the event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "heed models")
        self._calls = 0  # the one that is computed, and those that wait
        self._here = threading.local()  # `given_up`, in the thread: set once nobody waits for its call
        self._now = threading.Event()  # that of the current call

    async def __aenter__(self) -> None:
        self._hook = nn.modules.module.register_module_forward_pre_hook(self._stop_given_up)

    async def __aexit__(self, *error: object) -> None:
        self._now.set()
        self._pool.shutdown(cancel_futures=True)  # torch aborts a process that exits while it computes
        self._hook.remove()

    def _stop_given_up(self, module: nn.Module, inputs: Any) -> None:
        if (given_up := getattr(self._here, "given_up", None)) is not None and given_up.is_set():
            raise RuntimeError("nobody waits for this result")

    async def call(self, call: Callable[[], Any]) -> Any:
        """The result of a call in the worker's thread; cancelling gives it up.

        Raises:
            HTTPException: `WAITING` others wait already.
        """
        if self._calls > WAITING:
            raise HTTPException(503, "too much waits already; ask again later", {"Retry-After": "1"})
        given_up = threading.Event()

        def run() -> Any:
            self._here.given_up = self._now = given_up
            try:
                return call()
            except Exception:
                raise
            except BaseException as error:  # of a library, such as a panic of Rust: it must not end the event loop
                raise RuntimeError(repr(error)) from None

        self._calls += 1
        try:
            return await asyncio.wrap_future(self._pool.submit(run))
        finally:
            self._calls -= 1
            given_up.set()

    async def stream(self, pieces: Callable[[], Iterator[str]]) -> AsyncGenerator[str]:
        """What an iterator yields in the worker's thread, as it comes; closing gives it up.

        Raises:
            HTTPException: `WAITING` others wait already.
        """
        loop, came = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def write() -> None:
            for piece in pieces():
                loop.call_soon_threadsafe(came.put_nowait, piece)

        written = asyncio.ensure_future(self.call(write))
        written.add_done_callback(lambda _: came.put_nowait(None))
        try:
            while (piece := await came.get()) is not None:
                yield piece
            await written
        finally:
            written.cancel()
