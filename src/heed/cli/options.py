"""Options and flags of the command line: help texts, completion, flags of a task, values given by the user."""

from __future__ import annotations

import functools
import inspect
import json
import os
import pkgutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import typer
from typer import Argument, BadParameter, Option
from typer.core import TyperCommand

import heed.models
from heed.errors import ConfigError, refuse_huge, whole_number
from heed.tasks import spec_of, task_names
from heed.tasks.base import Flag

_REST = "Other options"
_WIDEST = 24
"""Longest option name, in characters, that shares a line with its help text."""


class HelpCommand(TyperCommand):
    """A command whose help has several usage lines and a list for each group of options.

    The group of an option is its `rich_help_panel`.
    """

    usages: ClassVar[tuple[str, ...]] = ()
    """Arguments between the name of the command and its options, one text for each usage line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            ConfigError: An option has a value that is no number or out of range, or not one of its choices.
        """
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except BadParameter as error:
            if (problem := self._problem(ctx, words, error.param)) is None:
                raise
            raise ConfigError(problem) from None
        for param in self.params:
            if isinstance(value := ctx.params.get(param.name or ""), int):
                refuse_huge(max(param.opts, key=len), value)
        return rest

    def _problem(self, ctx: Any, words: list[str], param: Any) -> str | None:
        """Describe the wrong value of an option that is a number or has choices; None for other options and errors."""
        field = getattr(param, "name", None) or ""
        value = self.make_parser(ctx).parse_args(args=words)[0].get(field)
        kind, info = (*get_args(get_type_hints(self.callback, include_extras=True).get(field)), None, None)[:2]
        number = next((one for one in (int, float) if one in (kind, *get_args(kind))), None)
        choices = next((get_args(one) for one in (kind, *get_args(kind)) if get_origin(one) is Literal), ())
        name = max(param.opts, key=len)
        if choices and (value is None or isinstance(value, str)):
            found = "missing" if value is None else f"'{value}'"
            return f"{name} is {found}, expected {' or '.join(', '.join(choices).rsplit(', ', 1))}"
        if not isinstance(value, str):
            return None
        if number is None:
            return None
        try:
            given = number(value)
        except ValueError:
            example = f"whole number, such as {name} 1" if number is int else f"number, such as {name} 1 or {name} 0.5"
            return f"{name} is '{value}', expected a {example}"
        least, most = getattr(info, "min", None), getattr(info, "max", None)
        if least is None or (given >= least and (most is None or given <= most)):
            return None
        return f"{name} is {value}, expected {f'at least {least}' if most is None else f'{least} to {most}'}"

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the usage lines."""
        for number, usage in enumerate(self.usages or ("",)):
            formatter.write_usage(ctx.command_path, f"{usage} [OPTIONS]".strip(), None if number == 0 else " " * 7)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, all in the same two columns."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                groups["Arguments"].append((param.metavar or param.name or "", param.help))  # type: ignore[attr-defined]
            elif (record := param.get_help_record(ctx)) is not None:
                name, text = record
                text = text.replace("[x>=", "[at least ").replace("; x>=", ", at least ").replace("<=x<=", " to ")
                groups.setdefault(getattr(param, "rich_help_panel", None) or _REST, []).append((name, text))
        rest = groups.pop(_REST)  # the last of all, with --help in it
        groups[_REST if any(group != "Arguments" for group in groups) else "Options"] = rest
        names = [name for rows in groups.values() for name, _ in rows]
        width = max((len(name) for name in names if len(name) <= _WIDEST), default=0)
        for group, rows in groups.items():
            if rows:
                with formatter.section(textwrap.fill(group, formatter.width - 1)):
                    formatter.write_dl([(f"{name:<{width}}", text) for name, text in rows], col_max=width)


def called(*usages: str) -> type[HelpCommand]:
    """The class of a command with these usage lines."""
    return type("CalledCommand", (HelpCommand,), {"usages": usages})


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
WithOption = Annotated[
    list[str] | None,
    option(
        "--with", metavar="RUN", help="Another run to average probabilities with; repeatable.", complete=complete_run
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
FilesOption = Annotated[
    list[str] | None,
    option("Data", metavar="FILE", help="Test files, in the same form as the training files; two as a,b."),
]
ValidOption = Annotated[
    list[str] | None,
    option("Data", metavar="FILE|N", help="Validation files (two as a,b), or the number of examples to hold out."),
]
SIZES = "auto, tiny, small or base; for some models also scarce, medium and large (heed models NAME)."
ModelOption = Annotated[
    str | None, option("Model", metavar="NAME", help="Name of the model (heed models).", complete=complete_model)
]
SizeOption = Annotated[str | None, option("Model", metavar="SIZE", help=f"Named size: {SIZES}", complete=complete_size)]
ParentOption = Annotated[
    str | None,
    option("Model", "--from", metavar="RUN", help="Start from this run's weights.", complete=complete_run),
]
BadLinesOption = Annotated[
    Literal["error", "skip"] | None,
    option(
        "Files",
        "--bad-lines",
        metavar="error|skip",
        help="On an unusable line, stop (the default, unless the run was trained with skip) or write an empty line.",
    ),
]
WindowOption = Annotated[
    int,
    option(
        "Files",
        "--sort-window",
        metavar="N",
        help="Number of lines sorted by length and computed together.",
        min=1,
    ),
]
ForceOption = Annotated[
    bool, option("--force", help="Use a run despite missing or altered files; heed check lists them.")
]
DeviceOption = Annotated[
    str, option("--device", metavar="NAME", help="Where to compute: auto (the default), cpu, cuda, cuda:N or mps.")
]
FormOption = Annotated[
    Literal["text", "html", "svg", "json"] | None,
    option(
        "Output", "--as", metavar="text|html|svg|json", help="Format; by default from the ending of --out, else text."
    ),
]
OutOption = Annotated[
    Path | None,
    option("Output", metavar="FILE", help="Write to a file: .html, .svg, .png, .pdf, .json, .txt."),
]
PageOption = Annotated[
    Path | None, option(metavar="FILE", help="Also write an HTML page of samples as the model sees them.")
]


_FIGURE: dict[str, Any] = {
    "theme": Annotated[
        Literal["light", "dark"] | None,
        option("Picture", metavar="light|dark", help="Background: light by default; SVG curves follow the reader."),
    ],
    "width": Annotated[
        str | None, option("Picture", metavar="WIDTH", help="Width: 85mm, 3.3in or 600px (96 px to the inch).")
    ],
    "scale": Annotated[
        float | None,
        option("Picture", metavar="X", help="PNG pixels per px: 2 by default."),
    ],
    "dpi": Annotated[float | None, option("Picture", metavar="N", help="PNG pixels per inch, in place of --scale.")],
    "fonts": Annotated[
        list[Path] | None, option("Picture", "--font", metavar="FILE", help="Font file for PNG; repeatable.")
    ],
}

_PANELS = {
    "panels": Annotated[
        str | None,
        option("Picture", metavar="NAMES", help="Only these parts of a look, such as map,words,attribution."),
    ]
}

_DRAWING: dict[str, Any] = {
    "form": FormOption,
    "out": OutOption,
    "open_it": Annotated[bool, option("Output", "--open", help="Show the page in a browser.")],
    "device": DeviceOption,
    "force": ForceOption,
}


def with_figure(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of pictures to a command; those typed are passed as `figure`, by name."""

    @functools.wraps(function)
    def command(**values: Any) -> None:
        figure = _figure_of(values)
        function(**values, figure=figure)

    return _with_parameters(command, function, "figure", _parameters(_FIGURE))


def with_drawing(function: Callable[..., None]) -> Callable[..., None]:
    """Add to a command the options of what it draws, and of the run's opening; they are passed as `drawing`."""

    @functools.wraps(function)
    def command(**values: Any) -> None:
        from heed.cli.terminal import Drawing  # imports what --help does not need

        drawing = Drawing(figure=_figure_of(values), **{name: values.pop(name) for name in _DRAWING})
        function(**values, drawing=drawing)

    return _with_parameters(command, function, "drawing", [*_parameters(_DRAWING), *_parameters(_FIGURE | _PANELS)])


def _figure_of(values: dict[str, Any]) -> dict[str, Any]:
    """The options of a picture that were typed, taken out of the values of a command."""
    typed = {name: values.pop(name) for name in _FIGURE | _PANELS if name in values}
    if typed.get("panels"):
        typed["panels"] = [name.strip() for name in typed["panels"].split(",")]
    return {name: value for name, value in typed.items() if value not in (None, [])}


def _parameters(options: Mapping[str, Any]) -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    defaults = {"open_it": False, "force": False, "device": "auto"}
    return [inspect.Parameter(n, kind, default=defaults.get(n), annotation=one) for n, one in options.items()]


_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT"}
_MANY = 4
"""If more tasks than this have an option, the help lists those that lack it, to fit on a line."""


def with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all tasks to a command, found by its name; those typed are passed as `flags`, by name."""
    owners: dict[str, tuple[Flag, list[str]]] = {}
    for task in task_names():
        for flag in spec_of(task).flags_of(function.__name__):
            owners.setdefault(flag.key, (flag, []))[1].append(task)

    @functools.wraps(function)
    def command(**values: Any) -> None:
        flags = {}
        for key, (flag, _) in owners.items():
            value = values.pop(key)
            if value is not None and value is not False and value != []:
                flags[flag.name] = tuple(value) if flag.several else value
        function(**values, flags=flags)

    return _with_parameters(command, function, "flags", [_parameter(flag, tasks) for flag, tasks in owners.values()])


def _with_parameters(
    command: Callable[..., None], function: Callable[..., None], instead: str, added: list[inspect.Parameter]
) -> Callable[..., None]:
    """A command with the parameters of a function, but others in place of one of them."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.items()
    own = [one.replace(annotation=hints[name]) for name, one in parameters if name != instead]
    every = sorted([*own, *added], key=lambda one: one.kind)
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in every}
    return command


def _parameter(flag: Flag, tasks: list[str]) -> inspect.Parameter:
    kind: Any = Literal[flag.type] if isinstance(flag.type, tuple) else flag.type
    kind = list[kind] if flag.several else kind
    metavar = "|".join(flag.type) if isinstance(flag.type, tuple) else flag.metavar or _METAVARS.get(flag.type)
    others = [name for name in task_names() if name not in tasks]
    named = ", ".join(tasks if len(tasks) <= _MANY or not others else others)
    start = "For runs of" if len(tasks) <= _MANY or not others else "For runs of every task except"
    words = (f"--{flag.name}", f"{start} {' and '.join(named.rsplit(', ', 1))}")
    described = option(*words, metavar=metavar, help=flag.help, min=flag.least, max=flag.most)
    switch = kind is bool
    return inspect.Parameter(
        flag.key,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=False if switch else None,
        annotation=Annotated[kind if switch else kind | None, described],
    )


def fields(given: dict[str, Any]) -> list[str]:
    """Options as `section.key=value` words."""
    return [f"{name}={json.dumps(value)}" for name, value in given.items() if value is not None]


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
