"""Options of some tasks only: added to the commands from the tasks' specifications, refused for other tasks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_type_hints

from heed.cli.help import option
from heed.errors import ConfigError
from heed.tasks import spec_of, task_names
from heed.tasks.base.spec import Flag

_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT"}
_MANY = 4
"""If more tasks than this have an option, the help lists those that lack it, to fit on a line."""


def with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all tasks to a command, found by its name; those typed are passed as `flags`, by name."""
    owners: dict[str, tuple[Flag, list[str]]] = {}
    for task in task_names():
        for flag in spec_of(task).flags:
            if flag.command == function.__name__:
                owners.setdefault(flag.key, (flag, []))[1].append(task)

    @functools.wraps(function)
    def command(**values: Any) -> None:
        flags = {}
        for key, (flag, _) in owners.items():
            value = values.pop(key)
            if value is not None and value is not False and value != []:
                flags[flag.name] = tuple(value) if flag.several else value
        function(**values, flags=flags)

    hints = get_type_hints(function, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "flags"
    ]
    added = [_parameter(flag, tasks) for flag, tasks in owners.values()]
    command.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
    return command


def _parameter(flag: Flag, tasks: list[str]) -> inspect.Parameter:
    kind: Any = Literal[flag.type] if isinstance(flag.type, tuple) else flag.type
    kind = list[kind] if flag.several else kind
    metavar = "|".join(flag.type) if isinstance(flag.type, tuple) else "FILE" if flag.file else _METAVARS.get(flag.type)
    others = [name for name in task_names() if name not in tasks]
    named = ", ".join(tasks if len(tasks) <= _MANY or not others else others)
    start = "For runs of" if len(tasks) <= _MANY or not others else "For runs of every task except"
    words = (f"--{flag.name}", f"{start} {' and '.join(named.rsplit(', ', 1))}")
    described = option(*words, metavar=metavar, help=flag.help, min=flag.least)
    switch = kind is bool
    return inspect.Parameter(
        flag.key,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=False if switch else None,
        annotation=Annotated[kind if switch else kind | None, described],
    )


def options_of(task: str, command: str, given: dict[str, Any]) -> dict[str, Any]:
    """The values of the options that a task has for a command.

    Raises:
        ConfigError: An option was given that the task does not have.
    """
    own = [flag for flag in spec_of(task).flags if flag.command == command]
    for name in given:
        if name not in {flag.name for flag in own}:
            raise ConfigError(f"--{name} does not apply to a run of {task}")
    return {flag.key: given.get(flag.name, () if flag.several else flag.default) for flag in own}
