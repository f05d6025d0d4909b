"""Options of the commands: names, help texts, completion; those that tasks add; values given by the user."""

from __future__ import annotations

import functools
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer import Argument, BadParameter, Option
from typer.core import TyperCommand

import heed.models
from heed.errors import ConfigError, refuse_huge, whole_number
from heed.tasks import spec_of, task_names
from heed.tasks.base import Flag


class Command(TyperCommand):
    """A command that reports the wrong value of an option in one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            ConfigError: An option has a value that is no number or out of range, or not one of its choices.
        """
        try:
            rest = super().parse_args(ctx, args)
        except BadParameter as error:
            raise ConfigError(" ".join(error.format_message().split())) from None
        for param in self.params:
            if isinstance(value := ctx.params.get(param.name or ""), int):
                refuse_huge(max(param.opts, key=len), value)
        return rest


def option(*words: str, complete: Any = None, **given: Any) -> Any:
    """A `typer.Option`: words that begin with a dash are its names, the other word is its group in the help."""
    names = [word for word in words if word.startswith("-")]
    group = next((word for word in words if not word.startswith("-")), None)
    return Option(*names, rich_help_panel=group, autocompletion=complete, **given)


def complete_task(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a task, a configuration or a run for the first word, then files."""
    if ctx.params.get("words"):
        return _files(incomplete)
    return _beginning(incomplete, [*task_names(), *map(str, Path().glob("*.y*ml")), *_runs()]) or _files(incomplete)


def complete_run(incomplete: str) -> list[str]:
    """Complete a run folder."""
    return _beginning(incomplete, _runs()) or _files(incomplete)


def complete_run_or_task(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete run folders; for the first word also a task or a configuration."""
    return complete_run(incomplete) if ctx.params.get("words") else complete_task(ctx, incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Complete the name of a model, the last one in a list separated by commas."""
    before, comma, name = incomplete.rpartition(",")
    names = sorted(module.name for module in pkgutil.iter_modules(heed.models.__path__) if module.name != "base")
    return [f"{before}{comma}{one}" for one in _beginning(name, names)]


def complete_size(incomplete: str) -> list[str]:
    """Complete a named size."""
    from heed.config import ModelSection

    return _beginning(incomplete, get_args(ModelSection.model_fields["size"].annotation))


def _runs() -> list[str]:
    return ["last", *sorted(str(path.parent) for path in Path("runs").glob("*/format.json"))]


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _files(incomplete: str) -> list[str]:
    """Files for fish only; other shells complete files themselves if nothing is offered, and do it better."""
    if os.environ.get("_HEED_COMPLETE") != "complete_fish":
        return []
    folder, _, name = incomplete.rpartition("/")
    found = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).glob(f"{name}*"))
    return [f"{path}/" if os.path.isdir(path) else str(path) for path in found]


RunArgument = Annotated[
    str,
    Argument(
        metavar="RUN",
        help="Run folder, packed run (.zip), or 'last', the newest usable run under runs/.",
        autocompletion=complete_run,
    ),
]
_TASKS = f"{', '.join(task_names()[:-1])} or {task_names()[-1]}"
_FILES = (
    f"A task ({_TASKS}) and its training files, source before target; or hub:USER/NAME, a data set of the Hugging Face "
    "Hub; or a YAML file with all settings. SECTION.KEY=VALUE sets any field (docs/configuration.md)."
)
WordsArgument = Annotated[
    list[str],
    Argument(metavar="TASK FILE...", help=f"{_FILES} With --resume, a run folder.", autocompletion=complete_task),
]
CheckedArgument = Annotated[
    list[str],
    Argument(metavar="TASK FILE...", help=f"{_FILES} Or a run folder.", autocompletion=complete_task),
]
ComparedArgument = Annotated[
    list[str],
    Argument(
        metavar="RUN...",
        help="Run folders, or the folder of a comparison. With --models: a task and its training files, or a YAML "
        "file, as for `heed train`.",
        autocompletion=complete_run_or_task,
    ),
]
_SIZES = "auto, tiny, small or base; for some models also scarce, medium and large (heed models NAME)"
_Model = Annotated[
    str | None,
    option("Model", "--model", metavar="NAME", help="Name of the model (heed models).", complete=complete_model),
]
_Size = Annotated[
    str | None, option("Model", "--size", metavar="SIZE", help=f"Named size: {_SIZES}.", complete=complete_size)
]
_With = Annotated[
    list[str] | None,
    option(
        "--with", metavar="RUN", help="Another run to average probabilities with; repeatable.", complete=complete_run
    ),
]
_Json = Annotated[bool, option("--json", help="Print everything as JSON.")]
_Open = Annotated[bool, option("Output", "--open", help="Show the page in a browser.")]
_Split = Annotated[
    str | None, option(metavar="NAME", help="Set to score: test, valid or, for dates, unseen; files take its place.")
]
_Form = Annotated[
    Literal["text", "html", "svg", "json"] | None,
    option(
        "Output", "--as", metavar="text|html|svg|json", help="Format; by default from the ending of --out, else text."
    ),
]
_Out = Annotated[
    Path | None,
    option("Output", metavar="FILE", help="Write to a file: .html, .svg, .png, .pdf, .json, .txt."),
]
EditsOption = Annotated[
    list[str] | None,
    option("View", "--edit", metavar="JSON|FILE", help="Change attention weights (docs/looking.md); repeatable."),
]
ScoreOption = Annotated[
    str | None,
    option("Score", "--for", metavar="NAME", help="A label, TAG:WORD or TOKEN:POSITION; by default the answer."),
]
RatherThanOption = Annotated[
    str | None, option("Score", "--rather-than", metavar="NAME", help="Subtract the score of this label, tag or token.")
]
_FIELDS = {
    "model": "model.name",
    "size": "model.size",
    "parent": "model.from",
    "minutes": "training.minutes",
    "epochs": "training.epochs",
    "train_size": "training.train_size",
    "seed": "training.seed",
    "device": "training.device",
}
"""The field of the configuration that an option sets."""


# Options by what they are for: each field is an option; `spread` gives them to commands ----------------------------


@dataclass(frozen=True)
class DataOptions:
    """Where data is held out."""

    valid: Annotated[
        list[str] | None,
        option("Data", metavar="FILE|N", help="Validation files (two as a,b), or the number of examples to hold out."),
    ] = None
    test: Annotated[
        list[str] | None,
        option("Data", metavar="FILE", help="Test files, in the same form as the training files; two as a,b."),
    ] = None

    def fields(self) -> dict[str, Any]:
        """The fields of the configuration that were given."""
        given = {"data.valid": held_out(self.valid), "data.test": split_files(self.test)}
        given |= {field: getattr(self, name, None) for name, field in _FIELDS.items()}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class TrainOptions(DataOptions):
    """What to train, how long and where to."""

    model: _Model = None
    size: _Size = None
    parent: Annotated[
        str | None,
        option("Model", "--from", metavar="RUN", help="Start from this run's weights.", complete=complete_run),
    ] = None
    minutes: Annotated[
        float | None, option("Training", metavar="N", help="Time budget in minutes, including scoring; 2 by default.")
    ] = None
    epochs: Annotated[
        float | None, option("Training", metavar="N", help="Passes over the data, instead of --minutes.")
    ] = None
    train_size: Annotated[
        int | None, option("Training", metavar="N", help="Train on a random subset of N examples.")
    ] = None
    seed: Annotated[
        int | None, option("Training", metavar="N", help="Seed of weights, order and dropout; 1 by default.")
    ] = None
    device: Annotated[str | None, option("Training", metavar="NAME", help="auto, cpu, cuda, cuda:N or mps.")] = None
    out: Annotated[
        Path | None, option("Run folder", metavar="DIR", help="Folder to create; runs/<data>-<model>-N by default.")
    ] = None
    resume: Annotated[bool, option("Run folder", "--resume", help="Resume from the run's last checkpoint.")] = False
    dry_run: Annotated[bool, option("--dry-run", help="Print only settings, counts and predicted cost.")] = False
    verbose: Annotated[bool, option("--verbose", help="Print all settings, including defaults.")] = False


@dataclass(frozen=True)
class Opening:
    """How a run is opened."""

    device: Annotated[str, option(metavar="NAME", help="Where to compute: auto, cpu, cuda, cuda:N or mps.")] = "auto"
    force: Annotated[
        bool, option("--force", help="Use a run despite missing or altered files; heed check lists them.")
    ] = False


@dataclass(frozen=True)
class PredictOptions(Opening):
    """The input of `heed predict`, and how to treat it."""

    input: Annotated[
        Path | None,
        option("Files", "--input", "-i", metavar="PATH", help="A file with one text per line, or a folder of files."),
    ] = None
    out: Annotated[
        Path | None, option("Files", metavar="PATH", help="Write to this file, or to this folder if the input is one.")
    ] = None
    bad_lines: Annotated[
        Literal["error", "skip"] | None,
        option(
            "Files",
            metavar="error|skip",
            help="On an unusable line, stop or write an empty line; as in training by default.",
        ),
    ] = None
    sort_window: Annotated[
        int,
        option("Files", metavar="N", help="Number of lines sorted by length and computed together.", min=1),
    ] = 2_000
    others: _With = None


@dataclass(frozen=True)
class EvaluateOptions(Opening):
    """What to score, and how to report it."""

    split: _Split = None
    others: _With = None
    equal: Annotated[
        bool, option("--equal-weights", help="Also score the run while each attention weights its keys equally.")
    ] = False
    as_json: _Json = False


@dataclass(frozen=True)
class HeadsOptions(Opening):
    """On what heads are scored."""

    split: _Split = None
    examples: Annotated[int, option(metavar="N", help="At most N examples, evenly chosen.", min=1)] = 500
    as_json: _Json = False


@dataclass(frozen=True)
class AlignOptions(Opening):
    """Which attention links words."""

    layer: Annotated[
        int | None, option("Links", metavar="N", help="Layer from 0, negative from the end; see docs/alignment.md.")
    ] = None
    head: Annotated[str | None, option("Links", metavar="N", help="Head from 0, or mean (over the heads).")] = None
    state: Annotated[
        Literal["read", "written"] | None,
        option("Links", metavar="read|written", help="Use the state after reading a target word, or while writing it."),
    ] = None
    scores: Annotated[
        bool, option("Output", "--scores", help="Write a score for each pair, a tab, and links with their weights.")
    ] = False
    out: Annotated[Path | None, option("Output", metavar="FILE", help="Write to this file instead of stdout.")] = None


@dataclass(frozen=True)
class ServeOptions(Opening):
    """Where and how a server listens."""

    open_it: _Open = False
    port: Annotated[int, option(metavar="N", help="Port; 0 for a free one.", min=0, max=65_535)] = 0
    minutes: Annotated[float | None, option(metavar="N", help="Stop after N minutes without a request.", min=0.01)] = (
        None
    )
    host: Annotated[str, option("Other machines", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1"
    token_file: Annotated[
        Path | None, option("Other machines", metavar="FILE", help="File with the token that requests must carry.")
    ] = None
    names: Annotated[
        list[str] | None,
        option("Other machines", "--name", metavar="HOST[:PORT]", help="Host name that requests may use; repeatable."),
    ] = None


@dataclass(frozen=True)
class Figure:
    """How a picture is drawn."""

    theme: Annotated[
        Literal["light", "dark"] | None,
        option("Picture", metavar="light|dark", help="Background: light by default; SVG curves follow the reader."),
    ] = None
    width: Annotated[
        str | None, option("Picture", metavar="WIDTH", help="Width: 85mm, 3.3in or 600px (96 px to the inch).")
    ] = None
    scale: Annotated[float | None, option("Picture", metavar="X", help="PNG pixels per px: 2 by default.")] = None
    dpi: Annotated[float | None, option("Picture", metavar="N", help="PNG pixels per inch, in place of --scale.")] = (
        None
    )
    fonts: Annotated[
        list[Path] | None, option("Picture", "--font", metavar="FILE", help="Font file for PNG; repeatable.")
    ] = None

    def figure(self) -> dict[str, Any]:
        """The options of a picture that were given, by their names in Python."""
        return typed(self, *(one.name for one in fields(Figure)))


@dataclass(frozen=True)
class Drawing(Opening, Figure):
    """Where and how a drawing is written, and how its run is opened."""

    form: _Form = None
    out: _Out = None
    open_it: _Open = False
    panels: Annotated[
        str | None,
        option("Picture", metavar="NAMES", help="Only these parts of a look, such as map,words,attribution."),
    ] = None

    def figure(self) -> dict[str, Any]:
        """The options of a picture that were given, by their names in Python."""
        panels = {"panels": [name.strip() for name in self.panels.split(",")]} if self.panels else {}
        return super().figure() | panels


@dataclass(frozen=True)
class LessonOptions:
    """Which part of a lesson is shown, and how."""

    row: Annotated[
        str | None, option(metavar="TOKEN", help="Compute only the row of this token (or row N from 0).")
    ] = None
    stage: Annotated[list[str] | None, option(metavar="NAME", help="Show only this stage; repeatable.")] = None
    form: _Form = None
    out: _Out = None
    slides: Annotated[
        bool, option("--slides", help="One stage a page, 16:9: .html; .svg, .png or .pdf, a file for each.")
    ] = False
    no_remarks: Annotated[bool, option("--no-remarks", help="Leave out a file's remarks and notes.")] = False


@dataclass(frozen=True)
class CompareOptions(DataOptions):
    """What to train and how to compare, and what to write."""

    models: Annotated[
        str | None,
        option(
            "Training",
            metavar="NAMES",
            help="Models to train, such as bahdanau,luong:score=dot:training.clip=1; NAME@RUN starts from a run.",
            complete=complete_model,
        ),
    ] = None
    sizes: Annotated[
        str | None,
        option(
            "Training",
            "--train-size",
            metavar="N,N,all",
            help="Numbers of training examples, such as 100,1000,all; several give learning curves.",
        ),
    ] = None
    minutes: Annotated[float | None, option("Training", metavar="N", help="Time budget of each run in minutes.")] = None
    seeds: Annotated[
        int,
        option(
            "Training", metavar="N", help="Runs per model, seeds 1 to N; tests then cover seeds too.", min=1, max=1_000
        ),
    ] = 1
    size: _Size = None
    jobs: Annotated[
        int | None,
        option("Training", metavar="N", help="Train N runs at a time, spread over the GPUs.", min=1, max=1_000),
    ] = None
    split: Annotated[
        str | None,
        option("Comparison", metavar="NAME", help="test by default, valid if there is none; for dates also unseen."),
    ] = None
    baseline: Annotated[
        str | None,
        option("Comparison", metavar="RUN", help="Run to test the others against; the first by default."),
    ] = None
    beam: Annotated[
        int | None,
        option("Comparison", metavar="N", help="Beam size for all runs; each run's own by default.", min=1, max=1_000),
    ] = None
    threads: Annotated[
        int | None,
        option("Comparison", metavar="N", help="Threads to decode with; as in training by default.", min=1, max=1_024),
    ] = None
    device: Annotated[
        str | None,
        option("Comparison", metavar="NAME", help="Where to train and decode: auto, cpu, cuda, cuda:N or mps."),
    ] = None
    resamples: Annotated[
        int | None,
        option(
            "Comparison",
            metavar="N",
            help="Resamples of the examples (evaluation.bootstrap by default).",
            min=1,
            max=1_000_000,
        ),
    ] = None
    out: Annotated[
        Path | None,
        option(
            "Output",
            metavar="PATH",
            help="Folder for compare.html, .tex, .csv, .json and new runs; for trained runs, also a .svg or .png.",
        ),
    ] = None
    sentences: Annotated[int, option("Output", metavar="N", help="Examples on the page.", min=0)] = 15
    look: Annotated[
        str | None, option("Output", metavar="TEXT", help="Also show the attention of every run for this text.")
    ] = None
    open_it: _Open = False
    as_json: _Json = False
    force: Annotated[bool, option("--force", help="Use trained runs despite missing or altered files.")] = False


@dataclass(frozen=True)
class View:
    """What of a model's attention is shown."""

    steps: Annotated[bool, option("View", "--steps", help="One frame per token read or written.")] = False
    mechanism: Annotated[
        str | None,
        option("View", metavar="NAME", help="Only this attention: cross, encoder, decoder, or an encoder's rollout."),
    ] = None
    layer: Annotated[
        str | None,
        option("View", metavar="N", help="Layer from 0, negative from the end (default -1), or all."),
    ] = None
    head: Annotated[
        str | None, option("View", metavar="N", help="Head from 0, mean (over the heads; default) or all.")
    ] = None
    overview: Annotated[
        bool, option("View", "--overview", help="Thumbnails of all layers and heads, or of the chosen ones.")
    ] = False
    sort: Annotated[
        str | None,
        option(
            "View",
            metavar="MEASURE",
            help="Order of the overview: entropy (smallest first) or untrained (largest distance).",
        ),
    ] = None
    edits: EditsOption = None


@dataclass(frozen=True)
class Weight:
    """The options of `heed look` that open one weight."""

    number: Annotated[
        tuple[str, str] | None,
        option(
            "View", metavar="QUERY KEY", help="Show how one weight is computed; its row and column in the map, from 0."
        ),
    ] = None
    every: Annotated[bool, option("View", "--all", help="With --number: list every component and key.")] = False
    numpy: Annotated[bool, option("View", "--numpy", help="With --number: print only the Python that computes it.")] = (
        False
    )


@dataclass(frozen=True)
class Attribution:
    """Which score is attributed, and how."""

    method: Annotated[
        Literal["ig", "grad", "gradxinput", "loo"] | None,
        option("Method", metavar="ig|grad|gradxinput|loo", help="Integrated gradients (the default), or another."),
    ] = None
    target: ScoreOption = None
    rather_than: RatherThanOption = None
    baseline: Annotated[
        str | None, option("Method", metavar="NAME", help="With ig: mean (the default), zero or unknown.")
    ] = None
    steps: Annotated[
        int | None, option("Method", metavar="N", help="With ig: steps; by default enough for an error of 1 %.", min=1)
    ] = None
    without: Annotated[
        Literal["deleted", "unknown", "mean"] | None,
        option("Method", metavar="deleted|unknown|mean", help="With loo: how a word is left out; deleted by default."),
    ] = None
    edits: EditsOption = None


@dataclass(frozen=True)
class Patching:
    """Which score is patched."""

    target: ScoreOption = None
    rather_than: RatherThanOption = None
    edits: EditsOption = None


@dataclass(frozen=True)
class Lens:
    """Edits of the model that is read."""

    edits: EditsOption = None


@dataclass(frozen=True)
class Beams:
    """Which candidates are shown."""

    beam_size: Annotated[
        int | None, option("View", "--beam", metavar="N", help="Beam size; the run's by default.", min=1, max=1_000)
    ] = None
    every: Annotated[bool, option("View", "--all", help="Also the candidates that were dropped.")] = False
    edits: EditsOption = None


def typed(options: Any, *names: str) -> dict[str, Any]:
    """The options that were given, by their names in Python; of some `names` only."""
    every = {one.name: getattr(options, one.name) for one in fields(options)}
    return {name: value for name, value in every.items() if value not in (None, False, []) and name in (names or every)}


_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT"}


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """The command of a function: a dataclass among its parameters stands for an option for each field.

    A parameter `flags` stands for the options that tasks add to the command of this name; it gets those given.
    """
    hints, parameters = get_type_hints(function, include_extras=True), list[inspect.Parameter]()
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    owners: dict[str, tuple[Flag, list[str]]] = {}
    for task in task_names() if "flags" in hints else ():
        for flag in spec_of(task).flags_of(function.__name__):
            owners.setdefault(flag.key, (flag, []))[1].append(task)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            kinds = get_type_hints(groups[name], include_extras=True)
            parameters += [_keyword(one.name, one.default, kinds[one.name]) for one in fields(groups[name])]
        elif name == "flags":
            parameters += [_parameter(flag, tasks) for flag, tasks in owners.values()]
        else:
            parameters.append(_keyword(name, parameter.default, hints[name]))

    @functools.wraps(function)
    def command(**values: Any) -> None:
        own = {name: value for name, value in values.items() if name in hints}
        for name, group in groups.items():
            own[name] = group(**{one.name: values[one.name] for one in fields(group)})
        if "flags" in hints:
            given = {flag: values[key] for key, (flag, _) in owners.items() if values[key] not in (None, False, [])}
            own["flags"] = {flag.name: tuple(value) if flag.several else value for flag, value in given.items()}
        function(**own)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parameter(flag: Flag, tasks: list[str]) -> inspect.Parameter:
    kind: Any = Literal[flag.type] if isinstance(flag.type, tuple) else flag.type
    kind = list[kind] if flag.several else kind
    metavar = "|".join(flag.type) if isinstance(flag.type, tuple) else flag.metavar or _METAVARS.get(flag.type)
    others = [name for name in task_names() if name not in tasks]
    start, named = ("For", tasks) if len(tasks) <= len(others) or not others else ("For all but", others)
    group = f"{start} {' and '.join(', '.join(named).rsplit(', ', 1))}"
    described = option(f"--{flag.name}", group, metavar=metavar, help=flag.help, min=flag.least, max=flag.most)
    switch = kind is bool
    return _keyword(flag.key, False if switch else None, Annotated[kind if switch else kind | None, described])


def split_files(files: list[str] | None) -> list[str] | None:
    """The files of an option; `--valid a --valid b` and `--valid a,b` are the same."""
    if files is None:
        return None
    return [name for given in files for name in ([given] if os.path.exists(given) else given.split(","))]


def held_out(files: list[str] | None) -> list[str] | int | None:
    """Validation files, or the number of examples to hold out."""
    names = split_files(files)
    is_number = names is not None and len(names) == 1 and names[0].isdecimal() and not os.path.exists(names[0])
    return whole_number(names[0]) if names and is_number else names


def read_as_texts(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Texts that are names of files, which people give in place of `--input`; each with a line that says so."""
    for text in texts:
        if os.path.isfile(text):  # unlike Path.is_file, False for a text too long for a name
            yield text, f"'{text}' is the name of a file, but was read as a text"
