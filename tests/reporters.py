"""Reporters of a training for tests: one that keeps what is said, one that ends the process at an update."""

from collections.abc import Callable

from heed.training.progress import Quiet


class Listener(Quiet):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)

    @property
    def text(self) -> str:
        return "\n".join(self.said)


class Killed(BaseException):
    """What a kill is in tests: nothing catches it."""


class Killer(Quiet):
    """Ends a training at an update, after doing something."""

    def __init__(self, at: int, act: Callable[[], object] = lambda: None) -> None:
        self.left, self.act = at, act

    def update(self, message: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()
            raise Killed
