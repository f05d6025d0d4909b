"""Progress of a long job: a moving line on a terminal, occasional lines in a log."""

from __future__ import annotations

import math
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from heed.training.budget import Budget
from heed.training.checkpoint import Progress
from heed.visible import lines, plain_stream

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
    threads = f"{p.threads} thread{'s' if p.threads > 1 else ''}"
    many = f", {p.processes} processes" if p.processes > 1 else ""
    divided_in = f", {p.micro_batches} micro-batches per batch" if p.micro_batches > 1 else ""
    return f"device {device}, {precision}, {threads}{many}{divided_in}"


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
    publish = _notebook_publish()
    return TerminalReporter() if publish is None else NotebookReporter(publish)


def _notebook_publish() -> Callable[..., Any] | None:
    """The function that publishes an output in the running notebook cell; None outside an IPython kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    return shell.display_pub.publish  # type: ignore[no-any-return, union-attr]


class NotebookReporter(Reporter):
    """Writes into the output of a notebook's cell: the messages, and below them one line that changes.

    It is one plain-text output that is replaced each time: standard error would be shown on a red background.
    """

    def __init__(self, publish: Callable[..., Any]) -> None:
        """`publish` is the method of IPython's display publisher."""
        self._publish = publish
        self._identity = {"display_id": f"heed-{uuid.uuid4().hex}"}
        self._said: list[str] = []
        self._moving = ""
        self._shown = False
        self._last = -math.inf

    def say(self, message: str) -> None:
        """Add a message."""
        self._said.append(message)
        self._show()

    def update(self, message: str) -> None:
        """Change the moving line, five times a second at most."""
        now = time.monotonic()
        if now - self._last >= 0.2:
            self._last, self._moving = now, message
            self._show()

    def close(self) -> None:
        """Remove the moving line; the messages stay."""
        if self._moving:
            self._moving = ""
            self._show()

    def _show(self) -> None:
        text = lines("\n".join([*self._said, *([self._moving] if self._moving else [])]))
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
        """Print above the moving line."""
        with suppress(OSError):
            self._console.print(lines(message), markup=False, soft_wrap=True)

    def update(self, message: str) -> None:
        """Move the line, or print one if enough time has passed."""
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
        """Remove the moving line from the terminal."""
        if self._live is not None:
            live, self._live = self._live, None
            with suppress(OSError):
                live.stop()
