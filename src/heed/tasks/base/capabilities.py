"""Capabilities: what runs of some tasks can do and others cannot. A run has one if its class has the method.

There is no registry. Printing a report (`Run.body`) is not a capability: every run that is scored can print its report.
"""

from __future__ import annotations

from typing import Any

from heed import tasks
from heed.errors import ConfigError

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
    return [task for task in tasks.task_names() if hasattr(tasks.run_class(task), name)]


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
    names = tasks.task_names()
    rows = [["", *names], ["---"] * (len(names) + 1)]
    for method, what in CAPABILITIES.items():
        having = tasks_with(method)
        rows.append([what, *("yes" if name in having else "" for name in names)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
