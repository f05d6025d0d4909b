"""What tasks share; here, what the command line must know of a task, from the standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Flag:
    """An option of commands, written once.

    The command line, the requests of `heed serve` and the menus of its page are made from it; in Python it is a keyword
    of the method that has the name of the command.
    """

    command: str  # the command that takes it, or several with spaces between: "look attribute"
    name: str  # as typed, without dashes
    type: type  # of its value; `bool` for a switch
    help: str  # one line
    default: Any = None  # the value if it is not given; of a switch False
    choices: tuple[str, ...] = ()  # the allowed words; of an `int`, those allowed in place of a number
    limits: tuple[int | None, int | None] = (None, None)  # the smallest and the largest number
    keyword: str | None = None  # keyword of the Python method, if it is not the name
    several: bool = False  # may be given several times; the value is then a tuple
    metavar: str | None = None  # what a text names: FILE or RUN
    group: str = ""  # heading in the help; by default the tasks that have the option
    served: bool = True  # False for options about files, or about output other than JSON, which no request has
    pictures: bool = True  # False if looks at pictures lack it

    @property
    def word(self) -> str:
        """The name as a field of a request to `heed serve`."""
        return self.name.replace("-", "_")

    @property
    def key(self) -> str:
        """The name as a keyword of the Python method."""
        return self.keyword or self.word

    @property
    def usual(self) -> Any:
        """The value if it is not given."""
        return () if self.several else False if self.type is bool else self.default


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


def shared_flags(command: str) -> list[Flag]:
    """The options of a command in all tasks."""
    return [flag for flag in _SHARED if command in flag.command.split()]


REPLACED = ("deleted", "unknown", "mean")
"""What leave-one-out does with a word."""
_METHODS = ("ig", "grad", "gradxinput", "loo")
_BEAM = "Beam size; the run's by default."
_LOOKING = "look attribute patch lens beams"
_MECHANISM = "Only this attention: cross, encoder, decoder, or an encoder's rollout."
_SORT = "Order of the overview: entropy (smallest first) or untrained (largest distance)."
_FOR = "A label, TAG:WORD or TOKEN:POSITION; by default the answer."
_EDIT = "Change attention weights (docs/looking.md); repeatable."
_WITHOUT = "With loo: how a word is left out; deleted by default."
_of_view: Any = partial(Flag, group="View")
_of_score: Any = partial(Flag, metavar="NAME", group="Score")
_of_method: Any = partial(Flag, group="Method")
_of_links: Any = partial(Flag, group="Links")
_SHARED = (
    _of_view("look", "steps", bool, "One frame per token read or written.", pictures=False),
    _of_view("look", "mechanism", str, _MECHANISM, metavar="NAME"),
    _of_view("look", "layer", int, "Layer from 0, negative from the end (default -1), or all.", choices=("all",)),
    _of_view("look", "head", int, "Head from 0, mean (over the heads; default) or all.", choices=("mean", "all")),
    _of_view("look", "overview", bool, "Thumbnails of all layers and heads, or of the chosen ones.", pictures=False),
    _of_view("look", "sort", str, _SORT, metavar="MEASURE", pictures=False),
    _of_score("attribute patch", "for", str, _FOR, keyword="target"),
    _of_score("attribute patch", "rather-than", str, "Subtract the score of this label, tag or token."),
    _of_view(_LOOKING, "edit", str, _EDIT, keyword="edits", several=True, metavar="JSON|FILE", served=False),
    _of_method("attribute", "method", str, "Integrated gradients (the default), or another.", choices=_METHODS),
    _of_method("attribute", "baseline", str, "With ig: mean (the default), zero or unknown.", metavar="NAME"),
    _of_method("attribute", "steps", int, "With ig: steps; by default enough for an error of 1 %.", limits=(1, None)),
    _of_method("attribute", "without", str, _WITHOUT, choices=REPLACED),
    _of_view("beams", "beam", int, _BEAM, limits=(1, 1_000), keyword="beam_size"),
    _of_view("beams", "all", bool, "Also the candidates that were dropped.", keyword="every"),
    _of_links("align", "layer", int, "Layer from 0, negative from the end; see docs/alignment.md."),
    _of_links("align", "head", int, "Head from 0, or mean (over the heads).", choices=("mean",)),
    _of_links(
        "align", "state", str, "The state after reading a word, or while writing it.", choices=("read", "written")
    ),
)
"""Options of all tasks."""
JSON = Flag("predict", "json", bool, "One JSON object per output.", served=False)
NBEST = Flag("predict", "nbest", int, "Candidates per input, best first.", default=1, limits=(1, 1_000))
SORT = Flag(
    "predict", "sort", str, "Least certain inputs first, for labelling.", choices=("uncertainty",), served=False
)
_PROGRAMS = ("auto", "torch", "ctranslate2", "ctranslate2-int8")
_ENGINE = "Program that runs the model; auto: an export (heed export) if it writes the same."
ENGINE = Flag("predict", "engine", str, _ENGINE, "auto", _PROGRAMS, served=False)
_NO_REPEAT = "Never write N tokens in a row a second time; the run's N by default, 0 for no limit."
NO_REPEAT = Flag("predict", "no-repeat-ngram", int, _NO_REPEAT, limits=(0, 1_000))
ERRORS = Flag("evaluate", "errors", int, "List this many wrong examples.", default=0, limits=(0, None))
BEAM = Flag("predict look", "beam", int, _BEAM, limits=(1, 1_000), keyword="beam_size")
_CHOICE = "A continuation (pretraining: a word at the mask) to rank; repeatable."
CHOICE = Flag("predict", "choice", str, _CHOICE, several=True)
_LENGTH = "Largest number of tokens to generate; the run's by default."
LENGTH = Flag("predict", "length", int, _LENGTH, limits=(1, 100_000))
_UNITS = "Also draw single units of gates and states: the N of largest variance, or numbers (3,17)."
UNITS = Flag("look", "units", str, _UNITS)
GATES = (Flag("look", "gates", bool, "Also draw the mean gates of recurrent networks."), UNITS)
ATTRIBUTION = Flag("look", "attribution", str, "Also show what each word adds.", choices=_METHODS)
_BESIDE = (
    "Also show the maps of another RUN, of the 'untrained' network or of the weights of 'step-N', and, for a single "
    "one, the differences; repeatable."
)
BESIDE = Flag("look", "beside", str, _BESIDE, several=True, metavar="RUN")
PIECES = Flag("look", "pieces", bool, "Show the tokens that the model reads instead of whole words.")
SAMPLE = Flag("predict", "sample", bool, "Sample outputs instead of searching for the best.")
SAMPLING = (
    Flag("predict", "temperature", float, "With --sample: below 1 sharpens, above 1 flattens.", default=1.0),
    Flag("predict", "top-k", int, "With --sample: only from the N most probable tokens."),
    Flag("predict", "top-p", float, "With --sample: only from the most probable tokens with this total probability."),
    Flag("predict", "seed", int, "With --sample: the same seed gives the same outputs.", default=1),
)
WRITING = (NBEST, JSON, BEAM, SAMPLE, *SAMPLING, LENGTH)
"""Options of tasks that write texts."""
OF_PAIRS = (
    Flag("predict", "prefix", str, "Begin every output with this text.", default=""),
    Flag("predict", "align", bool, "Add links i-j from source word i to output word j."),
)
"""Options of tasks that write a text for a text."""
_OF_TEXTS = "predict look attribute patch lens beams evaluate"
LANGUAGES = (
    Flag(_OF_TEXTS, "to", str, "Language to write; data.target_language by default.", keyword="target_language"),
    Flag(_OF_TEXTS, "source-language", str, "Language of the input; data.source_language by default."),
)
"""Options of tasks whose models may have several languages."""
TARGET = (
    Flag("look", "target", str, "Look at this output instead of the model's own."),
    Flag("attribute", "target", str, "Attribute this output instead of the model's own.", keyword="output"),
)
