"""Ctrl-C and similar signals: the first stops a run so that it can be resumed, the second ends the process."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from heed.training.progress import Reporter

_HANG_UP = getattr(signal, "SIGHUP", None)
"""Sent when a terminal is closed; Windows has none."""


class Interrupts:
    """The first Ctrl-C, SIGTERM or SIGHUP asks the loop to stop after the current update.

    Another Ctrl-C or SIGTERM ends the process. Another SIGHUP does not: a closed terminal may send two, one from the
    system and one from the shell. Where SIGHUP is ignored, as under `nohup`, it stays ignored.
    """

    def __init__(self, stop: threading.Event, reporter: Reporter) -> None:
        self._stop = stop
        self._reporter = reporter
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in stopping_signals():
                self._before[number] = signal.signal(number, self._ask)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._reporter.say("stopping after this update; press Ctrl-C again to stop now")
        elif number != _HANG_UP:
            raise KeyboardInterrupt


def stopping_signals() -> list[int]:
    """The signals that ask a process to end: SIGINT, SIGTERM, and SIGHUP unless it is ignored."""
    hangs_up = _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([_HANG_UP] if _HANG_UP is not None and hangs_up else [])]
