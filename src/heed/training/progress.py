"""Messages, logs and failures of a training run: reporters, signals, errors of the disk, losses that are not finite.

`metrics.jsonl` has a line for each update and each validation; `training.log: tensorboard` writes them to
RUN/tensorboard too. Failing to write either log never stops a run.
"""

from __future__ import annotations

import importlib.util
import json
import math
import signal
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from heed.config import TrainingConfig
from heed.errors import ConfigError, DiskError, HeedWarning, TrainingError, counted
from heed.evaluation.significance import score_line
from heed.storage.disk import write_whole
from heed.storage.files import MissingFileError, read_bytes
from heed.storage.lock import Presence
from heed.training.checkpoint import Progress, latest_checkpoint
from heed.training.plan import Budget
from heed.visible import lines, plain_stream, shell_word

if TYPE_CHECKING:
    from rich.live import Live


def duration(seconds: float) -> str:
    """Seconds as "42 s", "3 min 05 s" or "2 h 10 min"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def begin_line(p: Progress, device: object, precision: str) -> str:
    """The line before the first update: where and how the run computes."""
    many = f", {p.processes} processes" if p.processes > 1 else ""
    divided_in = f", {p.micro_batches} micro-batches per batch" if p.micro_batches > 1 else ""
    return f"device {device}, {precision}, {counted(p.threads, 'thread')}{many}{divided_in}"


def plan_line(p: Progress, budget: Budget) -> str:
    """The line of the first measured plan: speed, updates, and when the run ends."""
    rate = p.step / p.training_seconds
    if budget.is_whole(p):
        return f"{rate:.1f} updates/s: {p.total_steps} updates, the most for this task, fit into the budget"
    end = time.strftime("%H:%M:%S", time.localtime(time.time() + budget.left))
    return f"{rate:.1f} updates/s: about {p.total_steps} updates in {duration(budget.seconds)}, done at {end}"


def validation_line(p: Progress, scores: Mapping[str, float]) -> str:
    """The line of a validation."""
    of = "" if p.total_steps is None else f" of {p.total_steps}"
    return f"update {p.step}{of}: {score_line(scores)}"


def progress_line(p: Progress, budget: Budget, loss: float, padding: float, targets: str) -> str:
    """The line that moves: the last update's loss and share of padding, speed, time left.

    `targets` is the display name of what the task predicts ("tokens"); padding is omitted if there was none so far.
    """
    of = "" if p.total_steps is None else f"/{p.total_steps}"
    left = "measuring speed"
    if p.total_steps is not None:
        seconds = budget.left if budget.seconds else (p.total_steps - p.step) * p.training_seconds / p.step
        left = f"{duration(seconds)} left"
    rate = p.tokens / p.training_seconds
    padded = f"  padding {padding:.0%}" if p.padding else ""
    return f"update {p.step}{of}  loss {loss:.4f}  {rate:,.0f} {targets}/s{padded}  {left}"


class Reporter:
    """Receives the messages of the training loop."""

    def say(self, message: str) -> None:
        """Print a message that stays."""

    def update(self, message: str) -> None:
        """Show the present state of the run; it replaces the previous one."""

    def close(self) -> None:
        """End the output of a run."""


class Quiet(Reporter):
    """Prints nothing."""


def usual_reporter() -> Reporter:
    """The reporter for where heed runs: one changing output in a notebook, else lines on a terminal or in a log."""
    ipython: Any = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    in_notebook = getattr(shell, "kernel", None) is not None  # an IPython kernel
    return NotebookReporter(shell.display_pub.publish) if in_notebook else TerminalReporter()


class NotebookReporter(Reporter):
    """Writes into the output of a notebook's cell: the messages, and below them one line that changes.

    It is one plain-text output that is replaced each time: standard error would be shown on a red background.
    """

    def __init__(self, publish: Callable[..., Any]) -> None:
        """`publish` is the method of IPython's display publisher."""
        self._publish, self._identity = publish, {"display_id": f"heed-{uuid.uuid4().hex}"}
        self._messages: list[str] = []
        self._moving, self._shown, self._last = "", False, -math.inf

    def say(self, message: str) -> None:
        self._messages.append(message)
        self._show()

    def update(self, message: str) -> None:
        now = time.monotonic()
        if now - self._last >= 0.2:
            self._last, self._moving = now, message
            self._show()

    def close(self) -> None:
        if self._moving:
            self._moving = ""
            self._show()

    def _show(self) -> None:
        text = lines("\n".join([*self._messages, *filter(None, [self._moving])]))
        self._publish(data={"text/plain": text}, metadata={}, transient=self._identity, update=self._shown)
        self._shown = True


class TerminalReporter(Reporter):
    """Writes to stderr: a line that moves on a terminal, a line every `interval` seconds elsewhere.

    If stderr can no longer be written to (its terminal was closed, the reader of the pipe has ended), training
    continues silently: it must be able to save.
    """

    def __init__(self, interval: float = 30.0) -> None:
        from rich.console import Console  # slow to import, and only training shows a line that moves

        # Rich writes escape sequences itself, so control characters in messages are made visible here.
        self._console = Console(file=plain_stream(sys.stderr), highlight=False)
        self._interval = interval
        self._last = time.monotonic()
        self._live: Live | None = None

    def say(self, message: str) -> None:
        with suppress(OSError):
            self._console.print(lines(message), markup=False, soft_wrap=True)

    def update(self, message: str) -> None:
        with suppress(OSError):
            self._update(message)

    def _update(self, message: str) -> None:
        now = time.monotonic()
        if self._console.is_terminal:
            from rich.live import Live
            from rich.text import Text

            if self._live is None:
                self._live = Live(console=self._console, transient=True, auto_refresh=False)
                self._live.start()
            if now - self._last >= 0.2:
                self._last = now
                self._live.update(Text(lines(message)), refresh=True)
        elif now - self._last >= self._interval:
            self._last = now
            print(lines(message), file=sys.stderr, flush=True)

    def close(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            with suppress(OSError):
                live.stop()


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
    asking: list[Any] = []
    if threading.current_thread() is threading.main_thread():
        hangs_up = _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN
        asking = [signal.SIGINT, signal.SIGTERM, *([_HANG_UP] if hangs_up else [])]
    before = {number: signal.signal(number, lambda sent, _: handle(sent)) for number in asking}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def not_saved(error: DiskError, p: Progress, checkpoints: Path) -> DiskError:
    """The error for a checkpoint that cannot be written; it says where the run stands and how to resume."""
    before = latest_checkpoint(checkpoints)
    last = f"the last checkpoint is {before.name}" if before is not None else "there is no checkpoint yet"
    return DiskError(
        f"{error}; stopped at update {p.step}, {last}; when there is space on the disk, resume with: "
        f"heed train {shell_word(checkpoints.parent)} --resume"
    )


def not_finite(what: str, config: TrainingConfig, checkpoints: Path) -> TrainingError:
    """The error for a loss or gradient that is not finite; `what` says which, when and on which examples."""
    before = latest_checkpoint(checkpoints)
    back = "" if before is None else f"; the last checkpoint is {before.name}"
    return TrainingError(
        f"{what}; lower training.learning_rate (now {config.learning_rate}) or raise training.warmup (now "
        f"{config.warmup}){back}"
    )


_FIRST = 5
"""Number of first updates whose mean loss is the initial loss."""
_SHARE = 0.1
"""Share of all updates for which the loss must have been above the initial loss without interruption."""
_FEWEST = 10
"""The fewest such updates."""
_ABOVE = 1.05
"""Factor above the initial loss: losses of batches differ, and during a warm-up they hardly change."""
_WINDOW = 10
"""Number of updates (about) over which the loss is averaged."""


class RisingLoss:
    """Listens to the log of a run and warns once if the loss stays above its initial value."""

    def __init__(
        self, config: TrainingConfig, total_steps: Callable[[], int | None], say: Callable[[str], None]
    ) -> None:
        """`total_steps` returns the planned updates, None until decided; `say` prints the warning."""
        self._config, self._total_steps, self._say = config, total_steps, say
        self._first: list[float] = []
        self._mean, self._above, self._warned = 0.0, 0, False

    def recall(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Read the initial loss from the log of a resumed run."""
        losses = (event["loss"] for event in events if event["event"] == "update")
        self._first = [*islice(losses, _FIRST)]

    def __call__(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """Handle one event of the log."""
        if event != "update" or self._warned:
            return
        if len(self._first) < _FIRST:
            self._first.append(values["loss"])
            self._mean = sum(self._first) / len(self._first)
            return
        began, total = sum(self._first) / _FIRST, self._total_steps()
        self._mean += (values["loss"] - (self._mean or began)) / _WINDOW
        self._above = self._above + 1 if self._mean > _ABOVE * began > 0 else 0
        if total is not None and self._above >= max(_FEWEST, _SHARE * total):
            self._warned = True
            rate, warmup = self._config.learning_rate, self._config.warmup
            self._say(
                f"warning: the training loss has been above its initial value ({began:.4g}) for {self._above:,} "
                f"updates and is now {self._mean:.4g}: the learning rate is probably too high; try "
                f"training.learning_rate={rate / 10:.2g} (a tenth of {rate:g}), or a longer "
                f"training.warmup (now {warmup})"
            )


_MAX_BYTES = 1 << 30
"""Largest size of a log in bytes; a million updates take about 200 million."""
Listener = Callable[[str, int, Mapping[str, float]], None]


class MetricsLog:
    """Appends events to a file; if writing fails, it warns once and continues, unless the folder is gone."""

    def __init__(self, path: Path, say: Callable[[str], None], writes: bool = True) -> None:
        """Open; `say` is called once if writing fails; `writes` is False for all processes but the first."""
        self._path, self._folder = path, Presence(path.parent)
        self._say, self._writes, self._warned = say, writes, False
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
            self._warn(error)
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
            # The average is computed again at every end of training.
            events = [(_event(line), line) for line in lines]
            left = [line for event, line in events if event and event["step"] <= step and event["event"] != "average"]
            if left != lines or self._path.stat().st_nlink > 1:  # lines must not reach a copy (cp -al) of the folder
                write_whole(self._path, lambda path: path.write_text("".join(left), encoding="utf-8"))
        except (OSError, DiskError) as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            self._say(unwritten(self._path, error))


def unwritten(path: Path, error: Exception) -> str:
    """The warning for a log that cannot be written."""
    problem = getattr(error, "strerror", None) or str(error)
    return f"warning: {path} cannot be written ({problem}); continuing without it"


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The complete events of a log, in order; none where there is no log.

    A kill may cut off the last line, and a run that is still training may be writing it: such a line is ignored.
    The log grows and has no checksum: a warning says how many other lines cannot be read.

    Raises:
        RunError: It is not a regular file, or cannot be read.
    """
    try:
        lines = read_bytes(path, _MAX_BYTES).decode("utf-8", errors="replace").splitlines()
    except MissingFileError:
        return []
    events = [event for event in map(_event, lines) if event is not None]
    cut = bool(lines) and _event(lines[-1]) is None
    if left := len(lines) - len(events) - cut:
        lost = f"{counted(left, 'line')} cannot be read and {'are' if left > 1 else 'is'} left out"
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
    whole = isinstance(name, str) and _FIELDS.get(name, set()) <= event.keys()
    return event if whole and numbers and type(step) is int and 0 <= step < 1 << 62 else None


_FIELDS = {"update": {"loss", "learning_rate", "seconds"}, "validation": {"loss"}}
"""Fields that events of a name have."""


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


@contextmanager
def logged(log: str | None, trainer: Any, run: Path) -> Iterator[None]:
    """Context manager that also writes the events of a trainer to the log named by `training.log`.

    It is for `tensorboard --logdir RUNS`; each value has a name such as "update/loss". Files are written from the first
    event on, whose step is where a resumed run continues.
    """
    path, is_broken = run / FOLDER, False
    writer: Any = None

    def write(event: str, step: int, values: Mapping[str, float]) -> None:
        nonlocal writer, is_broken
        try:
            if not is_broken:
                writer = writer or _writer_class()(str(path), purge_step=step)
                for name, value in values.items():
                    writer.add_scalar(f"{event}/{_NAMES.get(name, name)}", value, step)
        except OSError as error:
            is_broken = True
            trainer.reporter.say(unwritten(path, error))

    if log is not None:
        trainer.listen(write)
    try:
        yield
    finally:
        if writer is not None and not is_broken:
            writer.close()
