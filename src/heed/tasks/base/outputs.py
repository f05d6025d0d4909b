"""How predictions are written by `heed predict`: each task has its lines and its options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heed.data.read.findings import Findings
    from heed.data.read.incoming import Numbered
    from heed.tasks.base.run import Run


_BREAKS = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


@dataclass(frozen=True)
class Written:
    """What is written for one input: its lines, and how unsure the model is (0 where that is not asked).

    `problem` says why the lines have no answer, where the input could not be used.
    """

    lines: tuple[str, ...]
    uncertainty: float = 0.0
    problem: str = ""


class Outputs:
    """Predictions of a run as text, by the values of the task's flags (`options`)."""

    def __init__(self, run: Run[Any, Any], options: Mapping[str, Any]) -> None:
        self.run: Any = run
        self.options = options

    def notes(self) -> list[str]:
        """What a person should know of what was written so far."""
        return []


class TextOutputs(Outputs, ABC):
    """Lines for lines: each line of input is an input of its own."""

    unit = "pieces"
    """What messages call the parts of a text that training never saw."""
    asks = "a text"
    """What a person is asked to type."""
    takes_folders = False
    """Whether `inputs` takes a folder; otherwise each of its files becomes a file of outputs."""

    def header(self) -> list[str]:
        """The lines before the first output."""
        return []

    @abstractmethod
    def write(self, texts: list[str]) -> Iterator[Written]:
        """The output of each text."""

    @abstractmethod
    def answer(self, text: str) -> str:
        """The output of one text, for the person who typed it."""

    def arguments(self, texts: list[str]) -> list[str]:
        """The inputs that a person typed one after the other.

        Raises:
            ConfigError: They are no inputs of this run.
        """
        return texts

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """The first of the inputs, before one of them is written; `where` names their file, None for arguments.

        Arguments come all at once. Of lines more may come later: then this is called again, with all from the first
        on, a few times until there are 1,000.

        Raises:
            ConfigError: The task cannot use what they look like.
        """

    def check(self, text: str, place: str) -> None:
        """Refuse an input that cannot be answered; `place` names it, as "stdin line 3".

        Raises:
            ConfigError, DataError: The message begins with the place.
        """

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        """The texts of a file of columns or JSON lines and a remark that says which these are; None for plain lines.

        What the findings let pass stands there as a `BadLine`. The remark may be blank.
        """
        return None

    def command(self, text: str) -> str | None:
        """What a command that a person typed gives, as /undo; None where it is an input like any other."""
        return None

    def unknown_in(self, text: str) -> Sequence[str]:
        """The parts of a text that training never saw."""
        return ()

    @property
    def streams(self) -> bool:
        """Whether `pieces` and `grow` come while an output is written."""
        return False

    def pieces(self, text: str) -> Iterator[str]:
        """The answer to one text as it is written: pieces that together are `answer`, or all of it at once."""
        yield self.answer(text)

    def grow(self, text: str) -> Iterator[str]:
        """The one line of an output as it is written, where `streams`; line breaks in it are for the caller."""
        yield from self.pieces(text)


class FileOutputs(Outputs, ABC):
    """Lines for a file that only makes sense as a whole, as a table does."""

    reads = "a file of columns"
    """What messages call that file."""

    @abstractmethod
    def write_file(self, path: Path) -> Iterable[str]:
        """The output of a file, line by line."""


def one_line(text: str) -> str:
    """A text without the line breaks and tabs that a model may have learned: a line in is a line out."""
    return text.translate({ord(c): " " for c in "\n\r\t"})


def in_line(label: str) -> str:
    r"""A label as a part of a line, exact but for line breaks and tabs, which are written out: `\\n`, `\\r`, `\\t`."""
    return label.translate(_BREAKS)


def units(unit: str) -> str:
    """The plural of what a tokenizer's tokens are, where a person knows it."""
    return {"character": "characters", "word": "words"}.get(unit, "pieces")
