"""Tasks, found by the name of their file or folder: the one place where data, model, loss and measure meet.

Also their capabilities: what only runs of some tasks can do. A run has a capability if its class has the method;
there is no registry. A task without `look` says why in its specification (`why_not`), which is read without torch.
Printing a report (`Run.body`) is not a capability: every run that is scored can print its report.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.errors import ConfigError, suggest
from heed.tasks.base import shared_flags
from heed.visible import shell_word

if TYPE_CHECKING:
    from heed.config import RunConfig
    from heed.tasks.base import TaskSpec

__all__ = [
    "CAPABILITIES",
    "DEFAULT",
    "MissingCapabilityError",
    "capability",
    "capability_table",
    "check_config",
    "config_class",
    "languages_in",
    "missing",
    "missing_in",
    "options_of",
    "spec_of",
    "suggest_task",
    "task_class",
    "task_names",
    "tasks_with",
    "with_paths",
]

DEFAULT = "translation"
"""The task of a configuration that names none."""


_SHARED = ("base", "contracts", "heads", "inputs", "look", "run", "specs", "work")


def task_names() -> list[str]:
    """The names of all tasks: the modules of this package, except those that tasks share."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _SHARED)


def spec_of(task: str) -> TaskSpec:
    """The specification of a task for the command line; for heed's own, neither torch nor pydantic is imported.

    Raises:
        ConfigError: There is no such task.
    """
    from heed.tasks.specs import SPECS

    return SPECS[task] if task in SPECS else task_class(task).spec


def options_of(task: str, command: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command by keyword: the `values` given, and the defaults of those that the task has.

    Raises:
        ConfigError: An option was given that the task does not have.
    """
    flags, shared = spec_of(task).flags_of(command), shared_flags(command)
    for name in values:
        if name not in {flag.name for flag in (*flags, *shared)}:
            having = [other for other in task_names() if any(f.name == name for f in spec_of(other).flags_of(command))]
            raise ConfigError(f"--{name} does not apply to a run of {task}; it is for {', '.join(having)}")
    options = {flag.key: values[flag.name] for flag in shared if flag.name in values}
    return options | {flag.key: values.get(flag.name, flag.usual) for flag in flags}


def languages_in(options: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments of `Run.between` in the options of a command, from which they are removed."""
    return options.pop("source_language", None), options.pop("target_language", None)


def config_class(task: str) -> type[RunConfig]:
    """The configuration of a task."""
    return task_class(task).config_class  # type: ignore[no-any-return]


def task_class(task: str) -> Any:
    """The value `TASK` in the file of a task, or in the `__init__.py` of its folder.

    Raises:
        ConfigError: There is no such task.
    """
    if task not in task_names():
        raise ConfigError(f"unknown task {task!r}{suggest(task, task_names())}")
    return importlib.import_module(f"{__name__}.{task}").TASK


def with_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration as written, with the paths in it, relative to a folder, made absolute."""
    from heed.config import with_paths_from

    task = values.get("task", DEFAULT)
    if task not in task_names():
        return values  # refused where the configuration is checked
    return with_paths_from(values, folder, config_class(task))  # type: ignore[no-any-return]


def check_config(values: dict[str, Any], where: str) -> RunConfig:
    """Build the configuration of a run, of the class that its task means; `where` is its place, as messages call it.

    Raises:
        ConfigError: There is no such task, or a field is wrong; all problems, one line each.
    """
    from heed.config import check_section

    task = values.get("task", DEFAULT)
    if task not in task_names():
        raise ConfigError(f"{where}: unknown task {task!r}{suggest(str(task), task_names())}")
    return check_section(config_class(task), values, where)


CAPABILITIES = {
    "outputs": "`heed predict`",
    "look": "`look`",
    "attribute": "`attribute`",
    "patch": "`patch`",
    "lens": "`lens`",
    "beams": "`beams`",
    "examiner": "`compare`",
    "ensemble": "An ensemble (`--with`)",
    "export": "`export`",
    "align": "`align`",
    "errors": "A list of errors (`--errors`)",
    "errors_page": "A page of errors (`--page`)",
}
"""Method of a run -> its name in messages and in the table of docs/tasks.md."""
_SINGLE = ("look", "attribute", "patch", "lens", "beams", "examiner", "ensemble", "export")
"""Capabilities of one run, not of an ensemble."""


class MissingCapabilityError(ConfigError, AttributeError):
    """The task of a run lacks the requested capability."""


def tasks_with(name: str) -> list[str]:
    """The tasks whose runs have a capability; for `look` no task is imported."""
    if name == "look":
        return [task for task in task_names() if name not in spec_of(task).why_not]
    return [task for task in task_names() if task_class(task).can(name)]


def capability(run: Any, name: str) -> Any:
    """The run itself, if it has a capability.

    Raises:
        MissingCapabilityError: It lacks the capability; the message names the tasks that have it.
    """
    if run.can(name) and not (name in _SINGLE and len(run.members) > 1):
        return run
    raise MissingCapabilityError(missing(run, name))


def missing(run: Any, name: str) -> str:
    """The error message for a capability that a run lacks."""
    if len(run.members) > 1:
        folders = ", ".join(str(member.folder) for member in run.members)
        return f"{CAPABILITIES[name]} is not available for an ensemble; use one run at a time: {folders}"
    return missing_in(run.config.task, name)


def missing_in(task: str, name: str) -> str:
    """The error message for a capability that the runs of a task lack."""
    reason = spec_of(task).why_not.get(name)
    because = f" ({reason})" if reason else ""
    return f"{CAPABILITIES[name]} is not available for {task}{because}; it is for {', '.join(tasks_with(name))}"


def capability_table() -> str:
    """Tasks and capabilities as a table in Markdown."""
    names = task_names()
    rows = [["", *names], ["---"] * (len(names) + 1)]
    for method, what in CAPABILITIES.items():
        having = tasks_with(method)
        rows.append([what, *("yes" if name in having else "" for name in names)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def suggest_task(looks_like: str, path: Path) -> str:
    """The commands of the tasks that train on a file with this content, after a semicolon; "" if there are none."""
    near = os.path.relpath(path)
    file = near if len(near) < len(str(path)) else str(path)
    commands = [
        f"heed train {task} {arguments.format(file=shell_word(Path(file)))}"
        for task in task_names()
        for content, arguments in spec_of(task).takes
        if content == looks_like
    ]
    return f"; train on it with: {', or '.join(commands)}" if commands else ""
