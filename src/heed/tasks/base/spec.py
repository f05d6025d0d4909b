"""What the command line knows of a task before anything heavy is imported; standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Flag:
    """A command-line option that only some tasks have.

    Attributes:
        command: The command that takes it.
        name: As typed, without dashes.
        type: What its text becomes; `bool` for a switch.
        help: One line.
        default: The value where it is not given.
        many: Whether it may be given several times.
    """

    command: Literal["predict", "look", "evaluate"]
    name: str
    type: type[bool] | type[int] | type[float] | type[str]
    help: str
    default: Any = None
    many: bool = False

    @property
    def key(self) -> str:
        """The name as a keyword."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class TaskSpec:
    """A task in a few words.

    Attributes:
        summary: One line.
        example: Its training files, as in `heed train TASK <example>`.
        num_files: Fewest and most training files.
        interfaces: Interfaces of the models it can use, the preferred one first.
        files: What messages call its training files.
        flags: Options that only some tasks have.
        next_command: What to type after training.
    """

    summary: str
    example: str
    num_files: tuple[int, int | None]
    interfaces: tuple[str, ...]
    files: str = "training files"
    flags: tuple[Flag, ...] = ()
    next_command: str = "heed look {run} TEXT"
