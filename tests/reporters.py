"""Training reporters for tests: one keeps its messages, one asks for a stop, one ends the process at an update."""

import signal
from collections.abc import Callable

from heed.training.progress import Quiet


class Listener(Quiet):
    """Keeps its messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, message: str) -> None:
        self.messages.append(message)

    @property
    def text(self) -> str:
        return "\n".join(self.messages)


class Stopper(Quiet):
    """Asks for a stop after an update, as Ctrl-C does."""

    def __init__(self, at: int) -> None:
        self.left = at

    def update(self, message: str) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


class Killed(BaseException):
    """Simulated kill: a BaseException, which heed does not catch."""


class Killer(Quiet):
    """Kills the training at an update, after calling a function."""

    def __init__(self, at: int, act: Callable[[], object] = lambda: None) -> None:
        self.left, self.act = at, act

    def update(self, message: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()
            raise Killed
