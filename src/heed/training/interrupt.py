"""Ctrl-C and similar signals: the first stops a run so that it can be resumed, the second ends the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from heed.training.progress import Reporter

_HANG_UP = getattr(signal, "SIGHUP", None)
"""Sent when a terminal is closed; Windows has none."""


@contextmanager
def interrupts(stop: threading.Event, reporter: Reporter) -> Iterator[None]:
    """Context manager in which the first Ctrl-C, SIGTERM or SIGHUP asks the loop to stop after the current update.

    Another Ctrl-C or SIGTERM ends the process. Another SIGHUP does not: a closed terminal may send two, one from the
    system and one from the shell. Where SIGHUP is ignored, as under `nohup`, it stays ignored.
    """

    def ask(number: int) -> None:
        if not stop.is_set():
            stop.set()
            reporter.say("stopping after this update; press Ctrl-C again to stop now")
        elif number != _HANG_UP:
            raise KeyboardInterrupt

    with handled(ask):
        yield


@contextmanager
def handled(handle: Callable[[int], None]) -> Iterator[None]:
    """Context manager in which signals that ask a process to end call `handle` instead; no effect in other threads.

    These are SIGINT, SIGTERM, and SIGHUP unless it is ignored.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        asking: list[int] = [signal.SIGINT, signal.SIGTERM]
        if _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:
            asking.append(_HANG_UP)
        for number in asking:
            before[number] = signal.signal(number, lambda sent, _: handle(sent))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
