"""`metrics.jsonl`: a line for each update and each validation; `training.log: tensorboard` writes them twice.

The copy for TensorBoard is RUN/tensorboard. Failing to write either log never stops a run.
"""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from warnings import warn

from heed.errors import ConfigError, DiskError, HeedWarning
from heed.storage.disk import write_whole
from heed.storage.files import MissingFileError, read_bytes
from heed.storage.lock import Presence

_MOST_BYTES = 1 << 30
"""Largest size of a log in bytes; a million updates take about 200 million."""
Listener = Callable[[str, int, Mapping[str, float]], None]


class MetricsLog:
    """Appends events to a file; if writing fails, it warns once and continues, unless the folder is gone."""

    def __init__(self, path: Path, say: Callable[[str], None], writes: bool = True) -> None:
        """Open; `say` is called once if writing fails; `writes` is False for all processes but the first."""
        self._path = path
        self._folder = Presence(path.parent)
        self._say = say
        self._writes = writes
        self._warned = False
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call a function with every event, too: its name, its step, its values."""
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
        """All events of the log."""
        return read_metrics(self._path)

    def keep_until(self, step: int) -> None:
        """Remove the events after an update: a run resumed from there will write them again."""
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
    """The complete events of a log, in order; none where there is no log.

    A kill may cut off the last line, and a run that is still training may be writing it: such a line is ignored.
    The log grows and has no checksum: a warning says how many other lines cannot be read.

    Raises:
        RunError: It is not a regular file, or cannot be read.
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
    """The event of a line; None if `MetricsLog` would not write such an event."""
    try:
        event = json.loads(line)
        name, step = event["event"], event["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    numbers = all(type(value) in (int, float) for key, value in event.items() if key != "event")
    whole = name != "update" or {"loss", "seconds"} <= event.keys()
    return event if isinstance(name, str) and type(step) is int and 0 <= step < 1 << 62 and numbers and whole else None


def _is_before(line: str, step: int) -> bool:
    """True for a complete event up to update `step`; the average is computed again at every end of training."""
    try:
        event = json.loads(line)
        return bool(event["step"] <= step and event["event"] != "average")
    except (ValueError, KeyError, TypeError):
        return False  # cut off by a kill


FOLDER = "tensorboard"
"""Folder of a run that TensorBoard reads."""
_NAMES = {"waited": "seconds waited for data", "tokens": "targets", "seconds": "seconds per update"}


def check_log(log: str | None) -> None:
    """Check that the package that `training.log` needs is installed.

    Raises:
        ConfigError: It is not; the message has the command that installs it.
    """
    if log == "tensorboard" and importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "training.log is 'tensorboard', which needs the package tensorboard; install it: "
            "pip install -e '.[tensorboard]', or remove the field (metrics.jsonl is always written)"
        )


def _writer_class() -> Any:
    with warnings.catch_warnings():  # of the packages that it imports in turn
        warnings.simplefilter("ignore")
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter


class TensorBoardLog:
    """Writes the events of training for `tensorboard --logdir RUNS`."""

    def __init__(self, run: Path, say: Callable[[str], None]) -> None:
        """Prepare; files are written from the first event on, whose step is where a resumed run continues."""
        self._path = run / FOLDER
        self._say = say
        self._writer: Any = None
        self._broken = False

    def write(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """Write the values of one event, each under a name such as "update/loss"."""
        if self._broken:
            return
        try:
            if self._writer is None:
                self._writer = _writer_class()(str(self._path), purge_step=step)
            for name, value in values.items():
                self._writer.add_scalar(f"{event}/{_NAMES.get(name, name)}", value, step)
        except OSError as error:
            self._broken = True
            self._say(f"warning: {self._path} cannot be written ({error.strerror or error}); continuing without it")

    def close(self) -> None:
        """Write buffered events."""
        if self._writer is not None and not self._broken:
            self._writer.close()


@contextmanager
def logged(log: str | None, trainer: Any, run: Path) -> Iterator[None]:
    """Context manager that also writes the events of a trainer to the log named by `training.log`."""
    if log is None:
        yield
        return
    events = TensorBoardLog(run, trainer.reporter.say)
    trainer.listen(events.write)
    try:
        yield
    finally:
        events.close()
