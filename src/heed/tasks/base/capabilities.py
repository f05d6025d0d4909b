"""Capabilities: what runs of some tasks can do and others cannot. A run has one if its class has the method.

Also the commands that can use a file, by its content.

There is no registry. Printing a report (`Run.body`) is not a capability: every run that is scored can print its report.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from heed.config import HubSection
from heed.config.data import InMemory
from heed.data.findings import Findings
from heed.data.kinds.contents import picture_content
from heed.errors import ConfigError, DataError
from heed.tasks import run_class, spec_of, task_names
from heed.visible import shell_word

CAPABILITIES = {
    "outputs": "`heed predict`",
    "look": "`look`",
    "examiner": "`compare`",
    "ensemble": "An ensemble (`--with`)",
    "export": "`export`",
    "align": "`align`",
    "errors": "A list of errors (`--errors`)",
    "errors_page": "A page of errors (`--page`)",
}
"""Method of a run -> its name in messages and in the table of docs/tasks.md."""
_SINGLE = ("look", "examiner", "ensemble", "export")
"""Capabilities of one run, not of an ensemble."""


class MissingCapabilityError(ConfigError, AttributeError):
    """The task of a run lacks the requested capability."""


def tasks_with(name: str) -> list[str]:
    """The tasks whose runs have a capability."""
    return [task for task in task_names() if hasattr(run_class(task), name)]


def capability(run: Any, name: str) -> Any:
    """The run itself, if it has a capability.

    Raises:
        MissingCapabilityError: It lacks the capability; the message names the tasks that have it.
    """
    if hasattr(type(run), name) and not (name in _SINGLE and len(run.members) > 1):
        return run
    raise MissingCapabilityError(missing(run, name))


def missing(run: Any, name: str) -> str:
    """The error message for a capability that a run lacks."""
    what = CAPABILITIES[name]
    if len(run.members) > 1:
        folders = ", ".join(str(one.folder) for one in run.members)
        return f"{what} is not available for an ensemble; use one run at a time: {folders}"
    reason = run.why_not.get(name)
    because = f" ({reason})" if reason else ""
    return f"{what} is not available for {run.config.task}{because}; it is for {', '.join(tasks_with(name))}"


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


def refuse_pictures(config: Any) -> None:
    """Refuse training files that contain pictures, unless the task reads pictures.

    Raises:
        DataError: The message names the command that can use the files.
    """
    takes = (content for content, _ in spec_of(config.task).takes)
    files = getattr(config.data, "train", None)
    if not isinstance(files, list) or isinstance(config.data, HubSection | InMemory) or "pictures" in takes:
        return
    for file in files:
        content = picture_content(Path(file), Findings.of(config.data))
        if content is not None:
            unit, remedy = spec_of(config.task).unit, suggest_task("pictures", Path(file))
            raise DataError(f"'{file}': {content.why}; {config.task} reads {unit}s{remedy}")
