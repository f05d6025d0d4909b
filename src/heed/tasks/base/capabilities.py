"""Capabilities: what runs of some tasks can do and others cannot. A run has a capability if it has the method.

There is no registry. Printing a report (`Run.body`) is not a capability: every run that is scored can print its report.
`Writes.outputs` returns an object that writes lines or whole files, because a table is not a list of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from heed import tasks
from heed.errors import ConfigError

if TYPE_CHECKING:
    from heed.evaluation.measures import Outcomes
    from heed.exchange import Exported
    from heed.observe.shown import Shown
    from heed.tasks.base.comparison import Examiner
    from heed.tasks.base.outputs import Outputs
    from heed.tasks.base.run import Run

P = TypeVar("P")


@runtime_checkable
class Writes(Protocol):
    """`heed predict`."""

    def outputs(self, options: Mapping[str, Any]) -> Outputs:
        """The writer of predictions, given the values of the task's flags."""


@runtime_checkable
class Looks(Protocol):
    """`look`."""

    def look(self, text: Any, **options: Any) -> Shown:
        """Maps, gates and steps for one input; some tasks take several."""


@runtime_checkable
class Compares(Protocol):
    """`compare`."""

    @classmethod
    def examiner(cls) -> type[Examiner[Any, Any, Any]]:
        """The class that compares these runs."""


@runtime_checkable
class Combines(Protocol):
    """An ensemble (`--with`)."""

    @classmethod
    def ensemble(cls) -> Callable[[Sequence[Any]], Run[Any, Any]]:
        """The class of an ensemble of these runs, which averages their probabilities."""


@runtime_checkable
class Exports(Protocol):
    """`export`."""

    def export(self, to: str = "ctranslate2", quantization: str = "float32") -> Exported:
        """Write the model for another program."""


@runtime_checkable
class Aligns(Protocol):
    """`align`."""

    def align(self, source: Any, target: Any, **options: Any) -> Any:
        """Links (source word, target word) of one pair, or of several."""

    def aligner(self, pairs: Sequence[Any], **options: Any) -> Any:
        """An aligner of these pairs, which has chosen where to read links; see `heed.tasks.translation.aligning`."""

    def alignment_scores(self, pairs: Sequence[Any], gold: Any, base: Any) -> tuple[dict[str, Any], list[str]]:
        """Scores of the links of pairs against those of a file, for a report, and remarks on the file."""


@runtime_checkable
class ListsErrors(Protocol):
    """A list of errors (`--errors`)."""

    def errors(self, report: Mapping[str, Any], most: int) -> list[str]:
        """The wrong examples of a report, for people."""


@runtime_checkable
class DrawsErrors(Protocol):
    """A page of errors (`--page`)."""

    def errors_page(self, errors: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
        """The wrong examples of reports, by set, as a page of HTML."""


@runtime_checkable
class Baselines(Protocol):
    """A baseline."""

    def baselines(self, examples: Sequence[Any]) -> Mapping[str, Outcomes]:
        """Outcomes of each baseline on examples, by name."""


@runtime_checkable
class DrawsSamples(Protocol):
    """A page of samples (`heed check --out`); a task has it, not a run."""

    def samples_page(self) -> str:
        """Training examples as the model sees them, as a page of HTML."""


CAPABILITIES: tuple[type[Any], ...] = (Writes, Looks, Compares, Combines, Exports, Aligns, ListsErrors, DrawsErrors)


def tasks_with(kind: type[Any]) -> list[str]:
    """The tasks whose runs have a capability."""
    return [name for name in tasks.task_names() if issubclass(tasks.run_class(name), kind)]


def capability(run: Any, kind: type[P]) -> P:
    """The run itself, typed as having a capability.

    Raises:
        ConfigError: The run lacks the capability; the message names the tasks that have it.
    """
    if isinstance(run, kind):
        return run
    raise ConfigError(missing(run, kind))


def missing(run: Any, kind: type[Any]) -> str:
    """The error message for a capability that a run lacks."""
    what = (kind.__doc__ or "").rstrip(".")
    if len(run.members) > 1:
        folders = ", ".join(str(one.folder) for one in run.members)
        return f"{what} is not available for an ensemble; use one run at a time: {folders}"
    reason = getattr(run, f"no_{kind.__name__.lower().rstrip('s')}", "")  # no_look: why it would show nothing
    because = f" ({reason})" if reason else ""
    return f"{what} is not available for {run.config.task}{because}; it is for {', '.join(tasks_with(kind))}"


def capability_table() -> str:
    """Tasks and capabilities as a table in Markdown."""
    names = tasks.task_names()
    rows = [["", *names], ["---"] * (len(names) + 1)]
    rows += [
        [(kind.__doc__ or "").rstrip("."), *("yes" if name in tasks_with(kind) else "" for name in names)]
        for kind in CAPABILITIES
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
