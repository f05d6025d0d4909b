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
    several: bool = False  # whether it may be given several times; the value is then a tuple

    @property
    def key(self) -> str:
        """The name as a keyword."""
        return self.keyword or self.name.replace("-", "_")


@dataclass(frozen=True)
class TaskSpec:
    """A task in a few words; in `uses`, commands for a trained model, `{run}` is its folder."""

    summary: str  # one line
    example: str  # its training files, as in `heed train TASK <example>`
    interfaces: tuple[str, ...]  # of the models it can use, the preferred one first
    per_token: bool = False  # whether its models must give a state for each token, not one vector for a text
    num_files: tuple[int, int | None] = (1, None)  # fewest and most training files; None for any number
    files: str = "any number of files"  # how messages call its training files
    flags: tuple[Flag, ...] = ()  # options that only some tasks have
    uses: tuple[str, ...] = ("heed predict {run} TEXT", "heed look {run} TEXT", "heed evaluate {run}")
    next_command: str = "heed look {run} TEXT"  # after training
    unit: str = "example"  # what one example is, in reports: "pair", "text"
    takes: tuple[tuple[str, str], ...] = ()  # contents of files it trains on (`heed.data.read.contents`), and how
    architectures: tuple[str, ...] = ()  # endings of class names of Hugging Face checkpoints that are of this task
