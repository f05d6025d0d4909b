"""`metrics.jsonl`: a line for each update and each validation. A log that cannot be written never stops a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from warnings import warn

from heed.errors import DiskError, HeedWarning
from heed.storage.disk import write_whole
from heed.storage.files import MissingFileError, read_bytes
from heed.storage.lock import Presence

_MOST_BYTES = 1 << 30
"""Bytes that a log may have; a million updates have about 200 million."""
Listener = Callable[[str, int, Mapping[str, float]], None]


class MetricsLog:
    """Appends events to a file; where that fails it says so once and goes on, unless its folder is gone."""

    def __init__(self, path: Path, say: Callable[[str], None], writes: bool = True) -> None:
        """Open; `say` is told once that writing failed, `writes` is False for a process that leaves it to another."""
        self._path = path
        self._folder = Presence(path.parent)
        self._say = say
        self._writes = writes
        self._warned = False
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Have every event told to a function too: its name, its step, its values."""
        self._listeners.append(listener)

    def write(self, event: str, step: int, **values: float) -> None:
        """Append one event.

        Raises:
            DiskError: The folder was deleted, moved or replaced; nothing is written then.
        """
        if not self._writes:
            return
        self._folder.check()
        line = json.dumps({"event": event, "step": step, **values}) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            self._warn(error.strerror or str(error))
        for listener in self._listeners:
            listener(event, step, values)

    def events(self) -> list[dict[str, Any]]:
        """What was logged so far."""
        return read_metrics(self._path)

    def keep_until(self, step: int) -> None:
        """Leave out what came after an update: a run that goes on from there will write it again."""
        if not self._writes or not self._path.is_file():
            return
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            kept = [line for line in lines if _is_before(line, step)]
            if kept != lines:
                write_whole(self._path, lambda path: path.write_text("".join(kept), encoding="utf-8"))
        except (OSError, DiskError) as error:
            self._warn(getattr(error, "strerror", None) or str(error))

    def _warn(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            self._say(f"warning: {self._path} cannot be written ({problem}); continuing without it")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole events of a log, in their order; none where there is no log.

    A kill may cut off the last line, and a run that is still training may be writing it: such a line is passed over.
    The log grows and has no checksum: a warning says how many other lines cannot be read.

    Raises:
        RunError: It is no regular file, or cannot be read.
    """
    try:
        lines = read_bytes(path, _MOST_BYTES).decode("utf-8", errors="replace").splitlines()
    except MissingFileError:
        return []
    events = [event for event in map(_event, lines) if event is not None]
    cut = bool(lines) and _event(lines[-1]) is None
    if left := len(lines) - len(events) - cut:
        lost = f"{left:,} line{'s' * (left > 1)} cannot be read and {'are' if left > 1 else 'is'} left out"
        warn(f"{path} is damaged: {lost}", HeedWarning, stacklevel=2)
    return events


def _event(line: str) -> dict[str, Any] | None:
    """The event of a line; None where it is not one that `Metrics` writes."""
    try:
        event = json.loads(line)
        name, step = event["event"], event["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    numbers = all(type(value) in (int, float) for key, value in event.items() if key != "event")
    whole = name != "update" or {"loss", "seconds"} <= event.keys()
    return event if isinstance(name, str) and type(step) is int and 0 <= step < 1 << 62 and numbers and whole else None


def _is_before(line: str, step: int) -> bool:
    """Whether a line is a whole event of an update up to `step`; the average is made at the end, every time anew."""
    try:
        event = json.loads(line)
        return bool(event["step"] <= step and event["event"] != "average")
    except (ValueError, KeyError, TypeError):
        return False  # cut off by a kill
