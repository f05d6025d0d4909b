"""Predictions: lists that print and convert to data frames, and the lines that `heed predict` writes."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from heed.data.examples import Conversation, Picture
from heed.data.kinds.inputs import pair_of, pairs_typed, texts_of
from heed.errors import ConfigError
from heed.tasks import spec_of
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.data.findings import Findings
    from heed.data.text_files import Numbered

P = TypeVar("P")
_SHOWN = 10
"""Number of predictions in the `repr` of a list."""


@dataclass(frozen=True)
class Prediction:
    """The output of a run for one input, which formats itself for every use."""

    unread: int = field(default=0, kw_only=True)
    """Tokens of the input that were not read, because it is longer than the model reads."""

    def __repr__(self) -> str:
        return f"<{short(self.summary())}>"

    @property
    def uncertainty(self) -> float:
        """The larger, the earlier `--sort uncertainty` lists the input."""
        return 0.0

    def rows(self) -> list[dict[str, Any]]:
        """The rows of a data frame: one, or one for each part such as a word."""
        return [self.as_json()]

    def values(self) -> dict[str, Any]:
        """The prediction as plain data, without the input."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """The values of `heed predict --json`: rounded, with the number of tokens not read if there are any."""
        values: dict[str, Any] = rounded(self.values())
        return values | ({"unread": self.unread} if self.unread else {})

    def lines(self, text: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The lines of `heed predict` for the input `text`, by the values of the task's flags."""
        return (one_line(self.summary()),)

    def summary(self) -> str:
        """The answer to a typed input."""
        raise NotImplementedError


class Predictions(list[P]):
    """A run's predictions for several inputs, in their order."""

    def __init__(self, predictions: Iterable[P], numbered: str = "") -> None:
        """`numbered`: the data-frame column with the number of the input, for inputs with several rows."""
        super().__init__(predictions)
        self._numbered = numbered

    def to_frame(self) -> Any:
        """Convert to a pandas data frame: a row for each input; with tags, a row for each word."""
        rows: list[dict[str, Any]] = []
        for number, prediction in enumerate(self):
            before = {self._numbered: number} if self._numbered else {}
            rows += [{**before, **row} for row in prediction.rows()]  # type: ignore[attr-defined]  # every prediction has them
        return data_frame(rows)

    def __repr__(self) -> str:
        lines = [repr(prediction) for prediction in self[:_SHOWN]]
        more = [f"... and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "[" + ",\n ".join([*lines, *more]) + "]"


class Scores(dict[str, Any]):
    """The report of some examples: plain values, with a `repr` for readers."""

    def __init__(self, values: dict[str, Any], lines: Callable[[dict[str, Any]], list[str]]) -> None:
        """`lines` returns the lines that the `repr` shows of the values."""
        super().__init__(values)
        self._lines = lines

    def __repr__(self) -> str:
        count = self["examples"]
        return "\n".join([f"scores of {count:,} example{'' if count == 1 else 's'}", *self._lines(self)])


def rounded(value: Any) -> Any:
    """Plain data with its numbers rounded to six digits after the point, as JSON has them."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value


def data_frame(rows: Any, **options: Any) -> Any:
    """A pandas data frame."""
    import pandas

    return pandas.DataFrame(rows, **options)


def short(text: str, width: int = 60) -> str:
    """A text in quotes, cut at the end if it is long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= width else line[: width - 3] + "...")


def some_pieces(pieces: Iterable[str], limit: int = 20) -> list[str]:
    """The first different pieces of a text, long ones cut, for a notice of bounded length; "..." if there are more."""
    every = [piece if len(piece) <= _LONGEST else piece[: _LONGEST - 3] + "..." for piece in dict.fromkeys(pieces)]
    return [*every[:limit], *(["..."] if len(every) > limit else [])]


_LONGEST = 60
"""Most characters of a piece in a notice."""


def check_choices(choices: Sequence[str], what: str) -> None:
    """Refuse texts that cannot be ranked; `what` names them.

    Raises:
        ConfigError: None is given, one is blank, or one is given twice.
    """
    if isinstance(choices, str):
        raise ConfigError(f"rank takes several {what}; for one, write [{choices!r}]")
    if not choices:
        raise ConfigError(f"there are no {what} to rank; give at least one")
    for number, choice in enumerate(choices, start=1):
        if not choice.strip():
            raise ConfigError(f"choice {number} is blank: {choice!r}")
        if choice in choices[: number - 1]:
            raise ConfigError(f"choice {choice!r} occurs twice; give each choice once")


_BREAKS = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


@dataclass(frozen=True)
class Written:
    """The output for one input: its lines, the model's uncertainty (0 if not asked for), and the tokens not read.

    `problem` says why there is no answer, if the input could not be used.
    """

    lines: tuple[str, ...]
    uncertainty: float = 0.0
    problem: str = ""
    unread: int = 0


class Outputs:
    """Predictions of a run as text, by the values of the task's flags (`options`)."""

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        ranked = "sort" if options.get("sort") else "nbest" if options.get("nbest", 1) != 1 else ""
        if ranked and run.head.is_number:
            raise ConfigError(f"--{ranked} is for runs that predict labels; '{run.folder}' predicts a number")
        self.run: Any = run
        self.options = options

    @property
    def warning(self) -> str:
        """A warning about the run, shown once; may be empty."""
        return ""

    def notes(self) -> list[str]:
        """Remarks for the user on the outputs written so far."""
        return []


class TextOutputs(Outputs):
    """Output for lines of text: each line is a separate input, and its prediction formats itself."""

    key = "text"
    """Name of an input in JSON."""
    asks = "a text"
    """Name of an input, in the prompt "Type a text"."""
    limit = "data.max_length"
    """The setting that limits how much of an input is read."""
    takes_folders = False
    """True if `inputs` takes a folder; otherwise each of its files becomes a file of outputs."""

    @cached_property
    def unit(self) -> str:
        """Plural name, in messages, of parts of a text that were never seen in training."""
        unit = self.run.tokenizer.unit if self.run.task.tokenizers() else ""
        return {"character": "characters", "word": "words"}.get(unit, "pieces")

    @property
    def pairs(self) -> bool:
        """True if an input is a pair of texts."""
        return bool(self.run.input.pairs)

    def write(self, texts: list[Any]) -> Iterator[Written]:
        """The output for each input, a text or a pair of texts."""
        for text, prediction in zip(texts, self.run.predict(texts), strict=True):
            yield Written(self.lines(text, prediction), prediction.uncertainty, unread=prediction.unread)

    def lines(self, text: Any, prediction: Prediction) -> tuple[str, ...]:
        """The lines of one output."""
        parts = texts_of(text)
        if self.options.get("json"):
            return (to_json({**dict(zip((self.key, "second"), parts, strict=False)), **prediction.as_json()}),)
        return prediction.lines("\t".join(parts), self.options)

    def answer(self, text: Any) -> str:
        """The output for one typed input."""
        (prediction,) = self.run.predict([text])
        return prediction.summary() + self.not_read(prediction)  # type: ignore[no-any-return]

    def not_read(self, prediction: Prediction) -> str:
        """A line on the unread tokens of a typed text, after its answer."""
        return f"\n({prediction.unread:,} of its tokens not read: {self.limit})" if prediction.unread else ""

    def arguments(self, texts: list[str]) -> list[Any]:
        """The inputs given by the arguments of the command.

        Raises:
            ConfigError: The arguments are not inputs for this run.
        """
        return typed(self.run, texts)

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """Check the first inputs before any output is written; `where` names their file, None for arguments.

        Arguments come all at once. Further lines may come later: then `expect` is called again with all lines from the
        first on, a few times until there are 1,000.

        Raises:
            ConfigError: The task cannot use inputs that look like these.
        """

    def read(self, line: Any, place: str) -> Any:
        """The input in a line, or in a row; `place` names it, such as "stdin line 3".

        Raises:
            ConfigError, DataError: It cannot be answered; the message begins with the place.
        """
        if self.pairs and isinstance(line, str) and line.strip() and (count := len(line.split("\t"))) != 2:
            what = f"{count} column{'' if count == 1 else 's'}, expected two texts with a tab between them"
            raise ConfigError(f"{place} has {what}: {short(line)}")
        if not self.pairs and not isinstance(line, str):
            raise ConfigError(f"{place} is a pair of texts, but this run reads single texts")
        return pair_of(line, place) if self.pairs else line

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        """The texts of a file of columns or JSON lines, and a remark on which they are; None for plain lines.

        Bad lines that the findings tolerate are yielded as a `BadLine`. The remark may be empty.
        """
        return None

    def unknown_in(self, text: Any) -> Sequence[str]:
        """The parts of a text that were never seen in training."""
        return self.run.input.unknown_in(text) if self.run.input.is_text else ()

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


def typed(run: Any, texts: Sequence[str]) -> list[Any]:
    """The inputs given as arguments of a command: texts, pairs of texts, or all turns of one conversation."""
    if run.input.pairs:
        return pairs_typed(texts, "this run reads")
    several = spec_of(run.config.task).input == "turns" and len(texts) > 1
    return [list(texts)] if several else list(texts)


def question_of(input: Any, example: Any) -> Any:
    """The input of an example, as `look` takes it; of a conversation all but the last turn."""
    if isinstance(example, Conversation):
        return Conversation(example.turns[:-1], example.speakers[:-1])
    if isinstance(example, Picture):
        return example.place
    return tuple(example.texts) if input.pairs else example.source


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


def csv_row(values: Sequence[object]) -> str:
    """A row of CSV without its line end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()


def in_line(label: str) -> str:
    r"""A label as part of a line, exact except for line breaks and tabs, which are escaped: `\\n`, `\\r`, `\\t`."""
    return label.translate(_BREAKS)
