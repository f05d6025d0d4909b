"""What tasks share; here, what the command line must know of a task, from the standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Flag:
    """A command-line option that only some tasks have."""

    command: str  # the command that takes it, or several with spaces between: "look attribute"
    name: str  # as typed, without dashes
    type: type | tuple[str, ...]  # type of its value, `bool` for a switch; or the allowed words
    help: str  # one line
    default: Any = None  # the value if it is not given
    least: int | None = None  # the smallest allowed number
    most: int | None = None  # the largest allowed number
    keyword: str | None = None  # keyword of the Python method, if it is not the name
    several: bool = False  # may be given several times; the value is then a tuple
    metavar: str = ""  # what a text names: FILE or RUN

    @property
    def word(self) -> str:
        """The name as a field of a request to `heed serve`."""
        return self.name.replace("-", "_")

    @property
    def key(self) -> str:
        """The name as a keyword of the Python method."""
        return self.keyword or self.word


@dataclass(frozen=True)
class TaskSpec:
    """Description of a task; in `uses`, commands for a trained model, `{run}` stands for its folder."""

    summary: str  # one line
    example: str  # its training files, as in `heed train TASK <example>`
    interfaces: tuple[str, ...]  # interfaces of the models it can use, the preferred one first
    input: str = "text"  # what one input is to `heed serve`: text, picture, turns, row or columns (of numbers)
    per_token: bool = False  # its models must return a state for each token, not one vector for a text
    framed: bool = False  # its models must read a start and an end token around each text, as BERT does
    num_files: tuple[int, int | None] = (1, None)  # fewest and most training files; None for any number
    files: str = "any number of files"  # how messages call its training files
    flags: tuple[Flag, ...] = ()  # options that only some tasks have
    why_not: Mapping[str, str] = field(default_factory=dict)  # capability that its runs lack -> why it has no use
    uses: tuple[str, ...] = ("heed predict {run} TEXT", "heed look {run} TEXT", "heed evaluate {run}")
    next_command: str = "heed look {run} TEXT"  # after training
    unit: str = "example"  # what one example is, in reports: "pair", "text"
    scored_unit: str | None = None  # what one score belongs to, if not `unit`: "forecast"
    takes: tuple[tuple[str, str], ...] = ()  # (content of training files, see `heed.data.kinds.contents`; arguments)
    pretrained: tuple[str, ...] = ()  # checkpoints to start from, for English and for other languages if that matters
    few: int = 10_000  # training examples below which that is proposed
    checkpoints: str = ""  # which of `exchange.huggingface.heads` its Hugging Face checkpoints have; "" for none

    def flags_of(self, command: str) -> list[Flag]:
        """The options of a command."""
        return [flag for flag in self.flags if command in flag.command.split()]


JSON = Flag("predict", "json", bool, "One JSON object per output.", default=False)
NBEST = Flag("predict", "nbest", int, "Candidates per input, best first.", default=1, least=1, most=1_000)
SORT = Flag("predict", "sort", ("uncertainty",), "Least certain inputs first, for labelling.")
ERRORS = Flag("evaluate", "errors", int, "List this many wrong examples.", default=0, least=0)
BEAM = Flag("predict", "beam", int, "Beam size; the run's by default.", least=1, most=1_000)
CHOICE = Flag(
    "predict", "choice", str, "A continuation (pretraining: a word at the mask) to rank; repeatable.", several=True
)
LENGTH = Flag(
    "predict", "length", int, "Largest number of tokens to generate; the run's by default.", least=1, most=100_000
)
ENGINE = Flag(
    "predict",
    "engine",
    ("torch", "ctranslate2", "ctranslate2-int8"),
    "Program that runs the model; all but torch need heed export.",
    default="torch",
)
NO_REPEAT = Flag(
    "predict",
    "no-repeat-ngram",
    int,
    "Never write N tokens in a row a second time; the run's N by default, 0 for no limit.",
    least=0,
    most=1_000,
)
LOOK_BEAM = Flag("look", "beam", int, "Beam size; the run's by default.", least=1, most=1_000, keyword="beam_size")
UNITS = Flag(
    "look", "units", str, "Also draw single units of gates and states: the N of largest variance, or numbers (3,17)."
)
GATES = (Flag("look", "gates", bool, "Also draw the mean gates of recurrent networks.", default=False), UNITS)
ATTRIBUTION = Flag("look", "attribution", ("ig", "grad", "gradxinput", "loo"), "Also show what each word adds.")
BESIDE = Flag(
    "look",
    "beside",
    str,
    "Also show the maps of another RUN, of the 'untrained' network or of the weights of 'step-N', and, "
    "for a single one, the differences; repeatable.",
    several=True,
    metavar="RUN",
)
PIECES = Flag("look", "pieces", bool, "Show the tokens that the model reads instead of whole words.", default=False)
SAMPLING = (
    Flag("predict", "sample", bool, "Sample outputs instead of searching for the best.", default=False),
    Flag("predict", "temperature", float, "With --sample: below 1 sharpens, above 1 flattens.", default=1.0),
    Flag("predict", "top-k", int, "With --sample: only from the N most probable tokens."),
    Flag("predict", "top-p", float, "With --sample: only from the most probable tokens with this total probability."),
    Flag("predict", "seed", int, "With --sample: the same seed gives the same outputs.", default=1),
)
WRITING = (NBEST, JSON, BEAM, *SAMPLING, LENGTH)
"""Options of tasks that write texts."""
TARGET = (
    Flag("look", "target", str, "Look at this output instead of the model's own."),
    Flag("attribute", "target", str, "Attribute this output instead of the model's own.", keyword="output"),
)
