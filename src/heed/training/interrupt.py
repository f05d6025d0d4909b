"""Ctrl-C: the first asks a run to stop where it can go on later, the second ends the process."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from heed.training.progress import Reporter


class Interrupts:
    """The first Ctrl-C (or SIGTERM) asks the loop to stop after the update at hand; the second one ends the process."""

    def __init__(self, stop: threading.Event, reporter: Reporter) -> None:
        self._stop = stop
        self._reporter = reporter
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt
        self._stop.set()
        self._reporter.say("stopping after this update; press Ctrl-C again to stop now")
