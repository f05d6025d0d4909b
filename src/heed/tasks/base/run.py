"""A trained model with everything it needs, as far as all tasks share it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from torch import nn

from heed.config import RunConfig
from heed.errors import ConfigError, suggest
from heed.evaluation.measures import Outcomes, values_of
from heed.evaluation.report import summarise
from heed.tasks.base.capabilities import CAPABILITIES, Baselines, missing
from heed.tasks.base.task import Task

T = TypeVar("T", bound=Task)
M = TypeVar("M", bound=nn.Module)


class MissingCapabilityError(ConfigError, AttributeError):
    """A run's task lacks a capability that was asked for."""


class Run(ABC, Generic[T, M]):
    """A trained model with everything it needs; made by `heed.train` and `heed.load`, one class for each task.

    Attributes:
        task_class: The task's class.
        folder: The run folder.
        config: Its effective configuration.
        task: Turns text into tensors and back.
        model: The torch module, in evaluation mode.
        report: Scores, counts, speed and versions, as in `report.json`.
    """

    task_class: ClassVar[type[Task]]

    def __init__(self, folder: Path, config: RunConfig, task: T, model: M, report: dict[str, Any]) -> None:
        self.folder = folder
        self.config = config
        self.task = task
        self.model: M = model.eval()
        self.report = report

    def __repr__(self) -> str:
        if len(self.members) > 1:
            return f"<heed ensemble of {', '.join(str(run.folder) for run in self.members)}>"
        test = self.report.get("scores", {}).get("test", {})
        name = self.config.evaluation.select_by
        score = f", test {name.replace('_', ' ')} {test[name]['value']:.4g}" if name in test else ""
        return f"<heed run {self.folder}: {self.config.model.name} on {self.config.data.name}{score}>"

    @abstractmethod
    def examples(self, split: str) -> Sequence[Any]:
        """The examples of a split of the run's data."""

    @abstractmethod
    def read(self, files: Sequence[str | Path]) -> Sequence[Any]:
        """Examples from files written as the run's own."""

    by_length: ClassVar[tuple[str, ...]] = ()
    """Measures that a report also shows for ranges of source length."""

    @abstractmethod
    def outcomes(self, examples: Sequence[Any], outputs: Sequence[Any] | None = None) -> Outcomes:
        """What the run does with any examples, and how well: the one thing that reports and comparisons score.

        Args:
            examples: The examples.
            outputs: What it said of each, where that is known; else it is asked.
        """

    def score(self, examples: Sequence[Any]) -> dict[str, Any]:
        """Score any examples.

        Returns:
            The report, as plain values.
        """
        outcomes = self.outcomes(examples)
        found = summarise(outcomes, self.config.evaluation.bootstrap, self.by_length)
        report = {"task": self.config.task, **found}
        if isinstance(self, Baselines):
            plain = self.baselines(examples)
            report["baselines"] = {name: values_of(made.measures) for name, made in plain.items()}
        return report

    @staticmethod
    @abstractmethod
    def body(report: dict[str, Any]) -> list[str]:
        """The scores of one set, as lines for people."""

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Score a split of the run's data.

        Args:
            split: "test", "valid", or another split that the data has ("unseen").

        Raises:
            ConfigError: The data has no such split.
        """
        splits = self.task.split_names
        if split not in splits:
            raise ConfigError(f"the data has no split '{split}'{suggest(split, splits)}")
        return self.score(self.examples(split))

    @property
    def members(self) -> tuple[Run[Any, Any], ...]:
        """The runs that answer together; of a single run itself."""
        return (self,)

    if not TYPE_CHECKING:  # a type checker shall see what is missing

        def __getattr__(self, name: str) -> Any:
            """Called where an attribute is missing: for a capability the error names the tasks that have it."""
            for kind in CAPABILITIES:
                if name in vars(kind) and not name.startswith("_"):
                    raise MissingCapabilityError(missing(self, kind))
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    @property
    def title(self) -> str:
        """Title of a look."""
        return f"{self.config.model.name} on {self.config.data.name} ({self.folder.name})"
