"""Output of `heed predict`: each task has its lines and its options."""

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
    """The output for one input: its lines, and the model's uncertainty (0 if not asked for).

    `problem` says why there is no answer, if the input could not be used.
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
        """Remarks for the user on the outputs written so far."""
        return []


class TextOutputs(Outputs, ABC):
    """Output for lines of text: each line is a separate input."""

    unit = "pieces"
    """Name, in messages, of parts of a text that were never seen in training."""
    asks = "a text"
    """Name of an input, in the prompt "Type a text"."""
    takes_folders = False
    """True if `inputs` takes a folder; otherwise each of its files becomes a file of outputs."""

    def header(self) -> list[str]:
        """The lines before the first output."""
        return []

    @abstractmethod
    def write(self, texts: list[str]) -> Iterator[Written]:
        """The output for each text."""

    @abstractmethod
    def answer(self, text: str) -> str:
        """The output for one typed text."""

    def arguments(self, texts: list[str]) -> list[str]:
        """The inputs given by the arguments of the command.

        Raises:
            ConfigError: The arguments are not inputs for this run.
        """
        return texts

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """Check the first inputs before any output is written; `where` names their file, None for arguments.

        Arguments come all at once. Further lines may come later: then `expect` is called again with all lines from the
        first on, a few times until there are 1,000.

        Raises:
            ConfigError: The task cannot use inputs that look like these.
        """

    def check(self, text: str, place: str) -> None:
        """Refuse an input that cannot be answered; `place` names it, such as "stdin line 3".

        Raises:
            ConfigError, DataError: The message begins with the place.
        """

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        """The texts of a file of columns or JSON lines, and a remark on which they are; None for plain lines.

        Bad lines that the findings tolerate are yielded as a `BadLine`. The remark may be empty.
        """
        return None

    def command(self, text: str) -> str | None:
        """The reply to a typed command, such as /undo; None if the text is an ordinary input."""
        return None

    def unknown_in(self, text: str) -> Sequence[str]:
        """The parts of a text that were never seen in training."""
        return ()

    @property
    def streams(self) -> bool:
        """True if `pieces` and `grow` yield an output while it is being written."""
        return False

    def pieces(self, text: str) -> Iterator[str]:
        """The answer to one text while it is being written: pieces that add up to `answer`, or all of it at once."""
        yield self.answer(text)

    def grow(self, text: str) -> Iterator[str]:
        """A one-line output while it is being written, if `streams`; the caller handles line breaks within it."""
        yield from self.pieces(text)


class FileOutputs(Outputs, ABC):
    """Output for a file that only makes sense as a whole, such as a table."""

    reads = "a file of columns"
    """Name of the file in messages."""

    @abstractmethod
    def write_file(self, path: Path) -> Iterable[str]:
        """The output for a file, line by line."""


def one_line(text: str) -> str:
    """A text with line breaks and tabs, which a model may have learned, as spaces: one line for each input line."""
    return text.translate({ord(c): " " for c in "\n\r\t"})


def in_line(label: str) -> str:
    r"""A label as part of a line, exact except for line breaks and tabs, which are escaped: `\\n`, `\\r`, `\\t`."""
    return label.translate(_BREAKS)


def units(unit: str) -> str:
    """Plural name of a tokenizer's tokens, for readers."""
    return {"character": "characters", "word": "words"}.get(unit, "pieces")
