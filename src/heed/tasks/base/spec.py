"""Descriptions of tasks and flags that the command line reads before heavy imports; standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Flag:
    """A command-line option that only some tasks have."""

    command: Literal["predict", "look", "evaluate"]  # the command that takes it
    name: str  # as typed, without dashes
    type: type | tuple[str, ...]  # type of its value, `bool` for a switch; or the allowed words
    help: str  # one line
    default: Any = None  # the value if it is not given
    least: int | None = None  # the smallest allowed number
    keyword: str | None = None  # keyword of the Python method, if it is not the name
    several: bool = False  # may be given several times; the value is then a tuple
    file: bool = False  # a text that is the name of a file

    @property
    def key(self) -> str:
        """The name as a keyword."""
        return self.keyword or self.name.replace("-", "_")


@dataclass(frozen=True)
class TaskSpec:
    """Description of a task; in `uses`, commands for a trained model, `{run}` stands for its folder."""

    summary: str  # one line
    example: str  # its training files, as in `heed train TASK <example>`
    interfaces: tuple[str, ...]  # interfaces of the models it can use, the preferred one first
    per_token: bool = False  # its models must return a state for each token, not one vector for a text
    framed: bool = False  # its models must read a start and an end token around each text, as BERT does
    num_files: tuple[int, int | None] = (1, None)  # fewest and most training files; None for any number
    files: str = "any number of files"  # how messages call its training files
    flags: tuple[Flag, ...] = ()  # options that only some tasks have
    uses: tuple[str, ...] = ("heed predict {run} TEXT", "heed look {run} TEXT", "heed evaluate {run}")
    next_command: str = "heed look {run} TEXT"  # after training
    unit: str = "example"  # what one example is, in reports: "pair", "text"
    scored_unit: str | None = None  # what one score belongs to, if not `unit`: "forecast"
    takes: tuple[tuple[str, str], ...] = ()  # (content of training files, see `heed.data.read.contents`; arguments)
    architectures: tuple[str, ...] = ()  # endings of the class names of Hugging Face checkpoints for this task
