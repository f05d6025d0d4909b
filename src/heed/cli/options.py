"""Options of the commands: names, help texts, completion; those that tasks add; values given by the user."""

from __future__ import annotations

import functools
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer import Argument, BadParameter, Option
from typer.core import TyperCommand, TyperGroup

import heed.models
from heed.errors import ConfigError, refuse_huge, whole_number
from heed.tasks import spec_of, task_names
from heed.tasks.base import Flag, shared_flags

_UsageError: Any = BadParameter.__bases__[0]


@contextmanager
def _in_one_line(words: Sequence[str] = ()) -> Iterator[None]:
    """Report wrong words of a command line as other errors: typer's text, and the value of the option in `words`."""
    try:
        yield
    except _UsageError as error:
        names = getattr(getattr(error, "param", None), "opts", ())
        value = next((after for word, after in pairwise(words) if word in names), "")
        text = " ".join(error.format_message().split())
        raise ConfigError(text if value in text else f"{text}; '{value[:40]}' was given") from None


class Command(TyperCommand):
    """A command; wrong options are `ConfigError`s."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            ConfigError: An option is unknown, or has a wrong value.
        """
        words = list(args)
        with _in_one_line(words):
            remaining = super().parse_args(ctx, args)
        for param in self.params:
            if isinstance(value := ctx.params.get(param.name or ""), int):
                refuse_huge(max(param.opts, key=len), value)
        return remaining


class Commands(TyperGroup):
    """All commands; an unknown one is a `ConfigError`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:  # the help is shown
            return super().parse_args(ctx, args)
        with _in_one_line():
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        with _in_one_line():
            return super().resolve_command(ctx, args)


def option(
    help: str,
    group: str | None = None,
    *names: str,
    default: Any = None,
    metavar: str | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    complete: Any = None,
) -> Any:
    """The default of a parameter of a command, or of a field of its options; the type there says what it takes.

    Args:
        help: A sentence for the help.
        group: Heading in the help.
        names: Names with their dashes, if it is not the name of the parameter.
        default: The value if it is not given.
        metavar: What its value is called, if its type does not say so.
        limits: The smallest and the largest number.
        complete: Completes a value in a shell.
    """
    shown = {"help": help, "rich_help_panel": group, "metavar": metavar, "min": limits[0], "max": limits[1]}
    return field(default=default, metadata={"names": names, "shown": {**shown, "autocompletion": complete}})


def argument(help: str, metavar: str, *, complete: Any = None, default: Any = ...) -> Any:
    """The default of a parameter of a command that is given by its place; needed unless it has a default."""
    return field(default=default, metadata={"argument": Argument(metavar=metavar, help=help, autocompletion=complete)})


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
    return [f"{before}{comma}{match}" for match in _beginning(name, names)]


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
    paths = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).glob(f"{name}*"))
    return [f"{path}/" if os.path.isdir(path) else str(path) for path in paths]


RUN = argument(
    "Run folder, packed run (.zip), or 'last', the newest usable run under runs/.", "RUN", complete=complete_run
)
_TASKS = f"{', '.join(task_names()[:-1])} or {task_names()[-1]}"
_FILES = (
    f"A task ({_TASKS}) and its training files, source before target; or hub:USER/NAME, a data set of the Hugging Face "
    "Hub; or a YAML file with all settings. SECTION.KEY=VALUE sets any field (docs/configuration.md)."
)
WORDS = argument(f"{_FILES} With --resume, a run folder.", "TASK FILE...", complete=complete_task)
CHECKED = argument(f"{_FILES} Or a run folder.", "TASK FILE...", complete=complete_task)
COMPARED = argument(
    "Run folders, or the folder of a comparison. With --models: a task and its training files, or a YAML file, as for "
    "heed train.",
    "RUN...",
    complete=complete_run_or_task,
)
_SIZE = option(
    "Named size: auto, tiny, small or base; for some models also scarce, medium and large (heed models NAME).",
    "Model",
    metavar="SIZE",
    complete=complete_size,
)
_WITH = option("A run to average probabilities with; repeatable.", None, "--with", metavar="RUN", complete=complete_run)
_JSON = option("Print everything as JSON.", None, "--json")
_OPEN = option("Show the page in a browser.", "Output", "--open")
_SPLIT = option("Set to score: test, valid or, for dates, unseen; not beside files.", metavar="NAME")
_FORM = option("Format; by default from the ending of --out, else text.", "Output", "--as")
_DRAWN = option("Write to a file: .html, .svg, .png, .pdf, .json, .txt.", "Output")
Form = Literal["text", "html", "svg", "json"]
_FIELDS = {
    "model": "model.name",
    "size": "model.size",
    "parent": "model.from",
    "like": "model.like",
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

    valid: list[str] | None = option(
        "Validation files (two as a,b), or the number of examples to hold out.", "Data", metavar="FILE|N"
    )
    test: list[str] | None = option(
        "Test files, in the form of the training files; two as a,b.", "Data", metavar="FILE"
    )

    def fields(self) -> dict[str, Any]:
        """The fields of the configuration that were given."""
        values = {"data.valid": held_out(self.valid), "data.test": split_files(self.test)}
        values |= {full_name: getattr(self, name, None) for name, full_name in _FIELDS.items()}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class TrainOptions(DataOptions):
    """What to train, how long and where to."""

    model: str | None = option("Name of the model (heed models).", "Model", metavar="NAME", complete=complete_model)
    size: str | None = _SIZE
    parent: str | None = option("Start from a run's weights.", "Model", "--from", metavar="RUN", complete=complete_run)
    like: str | None = option("Language of that run, or mean, that a new one starts from.", "Model", metavar="LANGUAGE")
    minutes: float | None = option("Time budget in minutes, including scoring; 2 by default.", "Training")
    epochs: float | None = option("Passes over the data, instead of --minutes.", "Training")
    train_size: int | None = option("Train on a random subset of N examples.", "Training")
    seed: int | None = option("Seed of weights, order and dropout; 1 by default.", "Training")
    device: str | None = option("auto, cpu, cuda, cuda:N or mps.", "Training", metavar="NAME")
    out: Path | None = option("Folder to create; runs/<data>-<model>-N by default.", "Run folder", metavar="DIR")
    resume: bool = option("Resume from the run's last checkpoint.", "Run folder")
    dry_run: bool = option("Print only settings, counts and predicted cost.")
    verbose: bool = option("Print all settings, including defaults.")


@dataclass(frozen=True)
class Opening:
    """How a run is opened."""

    device: str = option("Where to compute: auto, cpu, cuda, cuda:N or mps.", default="auto", metavar="NAME")
    force: bool = option("Use a run despite missing or altered files; heed check lists them.")


@dataclass(frozen=True)
class PredictOptions(Opening):
    """The input of `heed predict`, and how to treat it."""

    input: Path | None = option("A file with one text per line, or a folder of files.", "Files", "--input", "-i")
    out: Path | None = option("Write to this file, or to this folder if the input is one.", "Files", metavar="PATH")
    bad_lines: Literal["error", "skip"] | None = option(
        "On an unusable line, stop or write an empty line; as in training by default.", "Files"
    )
    sort_window: int = option("Lines sorted by length and computed together.", "Files", default=2_000, limits=(1, None))
    others: list[str] | None = _WITH


@dataclass(frozen=True)
class EvaluateOptions(Opening):
    """What to score, and how to report it."""

    split: str | None = _SPLIT
    others: list[str] | None = _WITH
    equal_weights: bool = option("Also score the run while each attention weights its keys equally.")
    as_json: bool = _JSON


@dataclass(frozen=True)
class HeadsOptions(Opening):
    """On what heads are scored."""

    split: str | None = _SPLIT
    examples: int = option("At most N examples, evenly chosen.", default=500, limits=(1, None))
    as_json: bool = _JSON


@dataclass(frozen=True)
class AlignOptions(Opening):
    """What is written where."""

    scores: bool = option("Write a score for each pair, a tab, and links with their weights.", "Output")
    out: Path | None = option("Write to this file instead of stdout.", "Output")


@dataclass(frozen=True)
class ServeOptions(Opening):
    """Where and how a server listens."""

    open_it: bool = _OPEN
    port: int = option("Port; 0 for a free one.", default=0, limits=(0, 65_535))
    minutes: float | None = option("Stop after N minutes without a request.", metavar="N", limits=(0.01, None))
    host: str = option("Address to listen on.", "Other machines", default="127.0.0.1", metavar="ADDRESS")
    token_file: Path | None = option("File with the token that requests must carry.", "Other machines")
    names: list[str] | None = option(
        "Host name that requests may use; repeatable.", "Other machines", "--name", metavar="HOST[:PORT]"
    )


@dataclass(frozen=True)
class Figure:
    """How a picture is drawn."""

    theme: Literal["light", "dark"] | None = option(
        "Background: light by default; SVG curves follow the reader.", "Picture"
    )
    width: str | None = option("Width: 85mm, 3.3in or 600px (96 px to the inch).", "Picture", metavar="WIDTH")
    scale: float | None = option("PNG pixels per px: 2 by default.", "Picture")
    dpi: float | None = option("PNG pixels per inch, in place of --scale.", "Picture")
    fonts: list[Path] | None = option("Font file for PNG; repeatable.", "Picture", "--font")

    def figure(self) -> dict[str, Any]:
        """The options of a picture that were given, by their names in Python."""
        return typed(self, *(field.name for field in fields(Figure)))


@dataclass(frozen=True)
class Drawing(Opening, Figure):
    """Where and how a drawing is written, and how its run is opened."""

    form: Form | None = _FORM
    out: Path | None = _DRAWN
    open_it: bool = _OPEN
    panels: str | None = option("Only these parts of a look: map,words,attribution.", "Picture", metavar="NAMES")

    def figure(self) -> dict[str, Any]:
        """The options of a picture that were given, by their names in Python."""
        panels = {"panels": [name.strip() for name in self.panels.split(",")]} if self.panels else {}
        return super().figure() | panels


@dataclass(frozen=True)
class LessonOptions:
    """Which part of a lesson is shown, and how."""

    row: str | None = option("Compute only the row of this token (or row N from 0).", metavar="TOKEN")
    stage: list[str] | None = option("Show only this stage; repeatable.", metavar="NAME")
    form: Form | None = _FORM
    out: Path | None = _DRAWN
    slides: bool = option("One stage a page, 16:9: .html; .svg, .png or .pdf, a file for each.", "Output")
    no_remarks: bool = option("Leave out a file's remarks and notes.")


@dataclass(frozen=True)
class CompareOptions(DataOptions):
    """What to train and how to compare, and what to write."""

    models: str | None = option(
        "Models to train, such as bahdanau,luong:score=dot; NAME@RUN starts from a run.",
        "Training",
        metavar="NAMES",
        complete=complete_model,
    )
    sizes: str | None = option(
        "Numbers of training examples, such as 100,1000,all; several give learning curves.",
        "Training",
        "--train-size",
        metavar="N,N,all",
    )
    minutes: float | None = option("Time budget of each run in minutes.", "Training")
    seeds: int = option("Seeds of each model, 1 to N; tests then cover them.", "Training", default=1, limits=(1, 1_000))
    size: str | None = _SIZE
    jobs: int | None = option("Train N runs at a time, spread over the GPUs.", "Training", limits=(1, 1_000))
    split: str | None = option("test by default, else valid; for dates also unseen.", "Comparison", metavar="NAME")
    baseline: str | None = option("Run to test the others against; the first by default.", "Comparison", metavar="RUN")
    beam: int | None = option("Beam size for all runs; each run's own by default.", "Comparison", limits=(1, 1_000))
    threads: int | None = option("Threads for decoding; as in training by default.", "Comparison", limits=(1, 1_024))
    device: str | None = option("Where to train and decode: auto, cpu, cuda:N or mps.", "Comparison", metavar="NAME")
    resamples: int | None = option(
        "Resamples of the examples (evaluation.bootstrap by default).", "Comparison", limits=(1, 1_000_000)
    )
    out: Path | None = option(
        "Folder for compare.html, .tex, .csv, .json and new runs; for trained runs, also a .svg or .png.",
        "Output",
        metavar="PATH",
    )
    sentences: int = option("Examples on the page.", "Output", default=15, limits=(0, None))
    look: str | None = option("Also show the attention of every run for this text.", "Output")
    open_it: bool = _OPEN
    as_json: bool = _JSON
    force: bool = option("Use trained runs despite missing or altered files.")


@dataclass(frozen=True)
class Weight:
    """The options of `heed look` that open one weight."""

    number: tuple[str, str] | None = option(
        "Show how one weight is computed; its row and column in the map, from 0.", "View", metavar="QUERY KEY"
    )
    every: bool = option("With --number: list every component and key.", "View", "--all")
    numpy: bool = option("With --number: print only the Python that computes it.", "View")


def typed(options: Any, *names: str) -> dict[str, Any]:
    """The options that were given, by their names in Python; of some `names` only."""
    every = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: value for name, value in every.items() if _is_given(value) and name in (names or every)}


def _is_given(value: Any) -> bool:
    """True if an option was typed; 0 is a value."""
    return value is not None and value is not False and value != []


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """The command of a function: a dataclass among its parameters stands for an option for each field.

    A parameter `flags` stands for the `Flag`s of the command of this name; it gets the values of those given.
    """
    hints, parameters = get_type_hints(function), list[inspect.Parameter]()
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    flags: dict[str, tuple[Flag, list[str]]] = {}  # each with the tasks that have it, unless all have it
    if "flags" in hints:
        flags |= {flag.key: (flag, []) for flag in shared_flags(function.__name__)}
        for task in task_names():
            for flag in spec_of(task).flags_of(function.__name__):
                flags.setdefault(flag.key, (flag, []))[1].append(task)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name])
            parameters += [_parameter(field.name, types[field.name], field) for field in fields(groups[name])]
        elif name == "flags":
            parameters += [_of_flag(flag, tasks) for flag, tasks in flags.values()]
        else:
            parameters.append(_parameter(name, hints[name], parameter.default))

    @functools.wraps(function)
    def command(**values: Any) -> None:
        arguments = {name: value for name, value in values.items() if name in hints}
        for name, group in groups.items():
            arguments[name] = group(**{field.name: values[field.name] for field in fields(group)})
        if "flags" in hints:
            typed_flags = [(flag, values[key]) for key, (flag, _) in flags.items() if _is_given(values[key])]
            arguments["flags"] = {flag.name: _value(flag, value) for flag, value in typed_flags}
        function(**arguments)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT", Path: "FILE"}


def _parameter(name: str, hint: Any, described: Any) -> inspect.Parameter:
    """A parameter as typer reads it; `described` is what `option` or `argument` returned."""
    kind, default = hint, described.default
    while get_origin(kind) in (Union, UnionType, list):
        kind = get_args(kind)[0]
    if (info := described.metadata.get("argument")) is None:
        shown = dict(described.metadata["shown"])
        usual = "|".join(get_args(kind)) if get_origin(kind) is Literal else _METAVARS.get(kind)
        shown["metavar"] = shown["metavar"] or usual
        info = Option(*(described.metadata["names"] or [f"--{name.replace('_', '-')}"]), **shown)
        default = bool(default) if kind is bool else default
    default = inspect.Parameter.empty if default is ... else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, info])


def _of_flag(flag: Flag, tasks: list[str]) -> inspect.Parameter:
    """The option of some tasks, or of all."""
    kind: Any = flag.type
    if flag.choices:
        kind = str if kind is int else Literal[flag.choices]
    others = [name for name in task_names() if name not in tasks]
    start, names = ("For", tasks) if len(tasks) <= len(others) or not others else ("For all but", others)
    group = flag.group or f"{start} {' and '.join(', '.join(names).rsplit(', ', 1))}"
    metavar = flag.metavar or ("N" if flag.type is int else None)
    described = option(flag.help, group, f"--{flag.name}", metavar=metavar, limits=flag.limits)
    kind = list[kind] if flag.several else kind
    return _parameter(flag.key, kind if kind is bool else kind | None, described)


def _value(flag: Flag, value: Any) -> Any:
    """The value of a flag from what typer read.

    Raises:
        ConfigError: It is neither a number nor one of the words.
    """
    if flag.several:
        return tuple(value)
    if flag.type is not int or not flag.choices or value in flag.choices:
        return value
    try:
        return int(value)
    except ValueError:
        expected = " or ".join(", ".join(["a number", *flag.choices]).rsplit(", ", 1))
        raise ConfigError(f"--{flag.name} is '{value}'; give {expected}") from None


def split_files(files: list[str] | None) -> list[str] | None:
    """The files of an option; `--valid a --valid b` and `--valid a,b` are the same."""
    if files is None:
        return None
    return [name for value in files for name in ([value] if os.path.exists(value) else value.split(","))]


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
