"""What the command line knows of a task before anything heavy is imported; standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Flag:
    """A command-line option that only some tasks have."""

    command: Literal["predict", "look", "evaluate"]  # the command that takes it
    name: str  # as typed, without dashes
    type: type | tuple[str, ...]  # what its text becomes, `bool` for a switch; or the words it may be
    help: str  # one line
    default: Any = None  # the value where it is not given
    least: int | None = None  # the smallest number
    keyword: str | None = None  # keyword of the Python method, where it is not the name

    @property
    def key(self) -> str:
        """The name as a keyword."""
        return self.keyword or self.name.replace("-", "_")


@dataclass(frozen=True)
class TaskSpec:
    """A task in a few words.

    Attributes:
        summary: One line.
        example: Its training files, as in `heed train TASK <example>`.
        interfaces: Interfaces of the models it can use, the preferred one first.
        num_files: Fewest and most training files; None for any number.
        files: What messages say of its training files.
        flags: Options that only some tasks have.
        uses: Commands for a trained model; `{run}` is its folder.
        next_command: The command to type after training.
    """

    summary: str
    example: str
    interfaces: tuple[str, ...]
    num_files: tuple[int, int | None] = (1, None)
    files: str = "any number of files"
    flags: tuple[Flag, ...] = ()
    uses: tuple[str, ...] = ("heed predict {run} TEXT", "heed look {run} TEXT", "heed evaluate {run}")
    next_command: str = "heed look {run} TEXT"
