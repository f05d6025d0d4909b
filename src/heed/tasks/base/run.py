"""A trained model with everything it needs, as far as all tasks share it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from torch import nn

from heed import tasks
from heed.config import RunConfig
from heed.data.read.findings import Findings
from heed.data.read.memory import to_texts
from heed.errors import ConfigError, DataError, UnknownKeywordError, suggest
from heed.evaluation.measures import Outcomes
from heed.evaluation.report import summarise
from heed.memory import explain_methods
from heed.tasks.base.baselines import beside
from heed.tasks.base.capabilities import CAPABILITIES, Baselines, missing
from heed.tasks.base.curves import ShownCurves, curves_of
from heed.tasks.base.predictions import Predictions, Scores
from heed.tasks.base.task import Task

T = TypeVar("T", bound=Task[Any, Any])
M = TypeVar("M", bound=nn.Module)


P = TypeVar("P")
"""What a run says of a text."""


class MissingCapabilityError(ConfigError, AttributeError):
    """A run's task lacks a capability that was asked for."""


class Run(ABC, Generic[T, M]):
    """A trained model with everything it needs; made by `heed.train` and `heed.load`, one class for each task.

    Attributes:
        folder: The run folder.
        config: All settings.
        task: Data, tokenizers, labels.
        model: In evaluation mode.
        report: As in `report.json`.
        so_far: Which weights these are where training has not finished; empty where it has.
    """

    task_class: ClassVar[type[Task[Any, Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Where memory runs out, what a run is asked for says what to do; so it is for the classes of every task."""
        super().__init_subclass__(**options)
        explain_methods(cls)

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        task: T,
        model: M,
        report: dict[str, Any],
        members: Sequence[Run[Any, Any]] = (),
    ) -> None:
        self._members = tuple(members)
        self.folder = folder
        self.config = config
        self.task = task
        self.model: M = model.eval()
        self.report = report
        self.so_far = ""
        self.reading: list[str] = []  # what there is to say of the files that `read` read last

    def __repr__(self) -> str:
        if len(self.members) > 1:
            return f"<heed ensemble of {', '.join(str(run.folder) for run in self.members)}>"
        test = self.report.get("scores", {}).get("test", {})
        name = self.config.evaluation.select_by
        score = f", test {name.replace('_', ' ')} {test[name]['value']:.4g}" if name in test else ""
        so_far = ", training not finished" if self.so_far else ""
        return f"<heed run {self.folder}: {self.config.model.name} on {self.config.data.name}{score}{so_far}>"

    @property
    def uses(self) -> Sequence[str]:
        """Commands for this run, `{run}` being its folder."""
        return tasks.spec_of(self.config.task).uses

    def examples(self, split: str) -> Sequence[Any]:
        """The examples of a split of the run's data."""
        return self.task.splits.examples[split]

    def known(self) -> Sequence[Any] | None:
        """The training examples; None for a stream, or where they cannot be read any more."""
        try:
            splits = self.task.splits
        except DataError:
            return None
        return None if splits.stream is not None else splits.examples["train"]

    @abstractmethod
    def read(self, files: Sequence[str | Path]) -> Sequence[Any]:
        """Examples from files written as the run's own."""

    by_length: ClassVar[tuple[str, ...]] = ()
    """Measures that a report also shows for ranges of source length."""

    @abstractmethod
    def outcomes(self, examples: Sequence[Any], outputs: Sequence[Any] | None = None) -> Outcomes:
        """The outputs for any examples and their measures, which reports and comparisons share.

        `outputs` are the run's own predictions of these examples, where they are known.
        """

    def score(self, examples: Sequence[Any]) -> dict[str, Any]:
        """Score any examples, beside baselines where there are some; the report as plain values."""
        report: dict[str, Any] = Scores(self.report_of(examples), self.body)
        report |= self.beside(report, examples)
        return report

    def beside(self, scores: Mapping[str, Any], examples: Sequence[Any]) -> dict[str, Any]:
        """What baselines reach on examples with these scores of the model, for a report; nothing without baselines."""
        made = self.baselines(examples) if isinstance(self, Baselines) else {}
        return beside(scores, made, self.config.evaluation.bootstrap) if made else {}

    def validated(self) -> Sequence[Any]:
        """The validation examples that the scores of a validation are of."""
        return self.examples("valid")

    def report_of(self, examples: Sequence[Any]) -> dict[str, Any]:
        """The scores of examples with their intervals, as a report has them."""
        outcomes = self.outcomes(examples)
        return {"task": self.config.task, **summarise(outcomes, self.config.evaluation.bootstrap, self.by_length)}

    @staticmethod
    @abstractmethod
    def body(report: dict[str, Any]) -> list[str]:
        """The scores of one set, as lines for people."""

    def held(self, data: Any) -> Sequence[Any]:
        """Examples of data in Python, in the forms that `heed.train` takes; blank ones are left out.

        Raises:
            DataError: It cannot be used; the message names the place and the value.
        """
        findings = Findings.of(self.config.data, strict=True)
        examples = self.task.hold(data, "examples", self.config, findings)
        return [one for one in examples if not one.blank]

    def evaluate(self, split: Any = "test") -> dict[str, Any]:
        """Score a split of the run's data, or other examples.

        Args:
            split: "test", "valid", or another split that the data has ("unseen"); or files, as `Path` objects; or data
                in one of the forms that `heed.train` takes, with what is right for each example.

        Raises:
            ConfigError: The data has no such split.
            DataError: The split was handed over in Python and is not kept; or the examples cannot be used.
        """
        files = [split] if isinstance(split, Path) else split
        if isinstance(files, list | tuple) and files and all(isinstance(one, Path) for one in files):
            return self.score(self.read(files))
        if not isinstance(split, str):
            return self.score(self.held(split))
        splits = self.task.split_names
        if split not in splits:
            raise ConfigError(f"the data has no split '{split}'{suggest(split, splits)}")
        return self.score(self.examples(split))

    @property
    def members(self) -> tuple[Any, ...]:
        """The runs that answer together; of a single run itself."""
        return self._members or (self,)

    if not TYPE_CHECKING:  # a type checker shall see what is missing

        def __getattr__(self, name: str) -> Any:
            """Called where an attribute is missing: for a capability the error names the tasks that have it."""
            for kind in CAPABILITIES:
                if name in vars(kind) and not name.startswith("_"):
                    raise MissingCapabilityError(missing(self, kind))
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    def curves(self) -> ShownCurves:
        """Loss, validation scores, learning rate and speed of the run's training; a notebook displays them.

        Raises:
            RunError: Nothing was logged.
        """
        return curves_of(self.folder, self.config)

    @property
    def title(self) -> str:
        """Title of a look."""
        return f"{self.config.model.name} on {self.config.data.name} ({self.folder.name})"


explain_methods(Run)


def check_one_task(runs: Sequence[Run[Any, Any]], what: str) -> None:
    """Refuse runs of several tasks.

    Raises:
        ConfigError: It says what runs of one task can do.
    """
    first = runs[0]
    for run in runs[1:]:
        if run.config.task != first.config.task:
            raise ConfigError(
                f"'{first.folder}' is a run of {first.config.task} and '{run.folder}' one of {run.config.task}; only "
                f"runs of one task {what}"
            )


class TextRun(Run[T, M], Generic[T, M, P]):
    """A run that reads texts."""

    text_columns: ClassVar[tuple[str, ...]] = ("text",)
    """Names of the column of a data frame that holds the texts to predict, best first."""
    options: ClassVar[frozenset[str] | None] = None
    """Keywords of `predictions`; None where they are not listed."""

    @overload
    def predict(self, text: str, **options: Any) -> P: ...

    @overload
    def predict(self, text: Sequence[str], **options: Any) -> Predictions[P]: ...

    def predict(self, text: str | Sequence[str], **options: Any) -> P | Predictions[P]:
        """The prediction for a text, or for each of several; see `predictions` for the options.

        Several texts are a list, an array, a series, or a data frame with a column of texts. Their predictions are a
        list with `to_frame()`.

        Raises:
            DataError: One of them is no text; the message says which.
        """
        self.check_options(options)
        if isinstance(text, str):
            return self.predictions([text], **options)[0]
        return Predictions(self.predictions(to_texts(text, "texts", self.text_columns), **options))

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse keywords that `predict` does not have.

        Raises:
            UnknownKeywordError: It names the nearest one.
        """
        if self.options is not None:
            for name in options.keys() - self.options:
                near = suggest(name, self.options) if self.options else "; this task has no options"
                raise UnknownKeywordError(f"predict has no keyword '{name}'{near}")

    def typed(self, texts: Sequence[str]) -> list[str]:
        """The inputs that a person typed one after the other; each text is one, unless the task says otherwise."""
        return list(texts)

    @abstractmethod
    def predictions(self, texts: Sequence[str], **options: Any) -> list[P]:
        """The prediction for each text."""


def part(name: str) -> Any:
    """A class method that gives the class in another file of the task's folder, imported when it is called.

    A run has the capability where it has the method.
    """
    return classmethod(lambda cls: tasks.class_in(cls.__module__.rpartition(".")[0], name))
