"""Base classes of runs: a trained model with everything it needs."""

from __future__ import annotations

import functools
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from torch import nn

from heed import tasks
from heed.config import RunConfig
from heed.config.data import without_missing
from heed.data.findings import Findings
from heed.data.kinds.inputs import is_pair, pair_fields, pair_of, pairs_of, pairs_typed
from heed.data.readers import to_texts
from heed.data.tables import column_names
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError, UnknownKeywordError, nearest, suggest
from heed.evaluation.measures import Measure, Outcomes
from heed.evaluation.significance import summarise
from heed.memory import explain_methods
from heed.observe.equal_weights import EqualWeights, equal_weights
from heed.observe.shown import ShownCurves
from heed.tasks import CAPABILITIES, MissingCapabilityError, missing
from heed.tasks.base.curves import curves_of
from heed.tasks.base.predictions import Outputs, Predictions, Scores, TextOutputs, short
from heed.tasks.base.report import baseline_scores
from heed.tasks.base.task import Task
from heed.threads import sparing
from heed.training.device import predicting

T = TypeVar("T", bound=Any)
M = TypeVar("M", bound=nn.Module)


P = TypeVar("P")
"""A prediction for a text."""


_PREDICTING = "predict predictions predict_file predict_files evaluate score outcomes report_of".split()


def _predicting(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Run[Any, Any], *args: Any, **options: Any) -> Any:
        first = next(self.model.parameters(), None)
        with nullcontext() if first is None else predicting(self.precision, first.device):
            return method(self, *args, **options)

    call.predicts = True  # type: ignore[attr-defined]
    return call


class Run(ABC, Generic[T, M]):
    """A trained model with everything it needs; made by `heed.train` and `heed.load`, one class for each task.

    Attributes:
        folder: The run folder.
        config: All settings.
        task: Data, tokenizers, labels.
        model: In evaluation mode.
        report: As in `report.json`.
        so_far: Which weights these are if training has not finished; "" if it has.
        precision: In which predictions and scores are computed on a GPU, "float32" or "bf16": that of training; it may
            be changed. Looks are computed in float32.
    """

    task_class: ClassVar[type[Task[Any, Any]]]
    names: ClassVar[tuple[str, str]] = ("text", "label")
    """Names of the input and of the output of an example, for readers."""
    targets: ClassVar[str] = ""
    """Plural name of the training targets in comparisons, if it says more than that of the task."""
    outputs_class: ClassVar[type[Outputs]] = TextOutputs
    """Writer of predictions."""
    has_outputs: ClassVar[bool] = True
    """False if the outputs of `outcomes` are scores of the examples."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Make methods of each task's class compute in `precision`, and explain what to do when memory runs out."""
        super().__init_subclass__(**options)
        for name in _PREDICTING:
            method = getattr(cls, name, None)
            if inspect.isfunction(method) and not hasattr(method, "predicts"):
                setattr(cls, name, _predicting(method))
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
        self.precision: str = report.get("training", {}).get("precision", "float32")
        self.reading: list[str] = []  # remarks on the files of the latest call of `read`

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
        """Commands for this run; `{run}` stands for its folder."""
        return tasks.spec_of(self.config.task).uses

    reads_texts: ClassVar[bool] = False
    """True if it predicts for texts."""

    def can(self, name: str) -> bool:
        """True if a run of this task has a capability."""
        return hasattr(type(self), name)

    def outputs(self, options: Mapping[str, Any]) -> Outputs:
        """The writer of predictions, given the values of the task's flags."""
        return self.outputs_class(self, options)

    def examples(self, split: str) -> Sequence[Any]:
        """The examples of a split of the run's data."""
        return self.task.splits.examples[split]  # type: ignore[no-any-return]

    def input_of(self, example: Any) -> Any:
        """The input of an example, as `look` takes it."""
        return example.source

    def known(self) -> Sequence[Any] | None:
        """The training examples; None if they can no longer be read."""
        try:
            return self.learned_from()
        except DataError:
            return None

    def learned_from(self) -> Sequence[Any]:
        """The training examples.

        Raises:
            DataError: They can no longer be read.
        """
        return self.task.splits.examples["train"]  # type: ignore[no-any-return]

    @abstractmethod
    def read(self, files: Sequence[str | Path]) -> Sequence[Any]:
        """Read examples from files in the format of the run's own data."""

    by_length: ClassVar[tuple[str, ...]] = ()
    """Measures that a report also shows for ranges of source length."""

    @abstractmethod
    def outcomes(self, examples: Sequence[Any], outputs: Sequence[Any] | None = None) -> Outcomes:
        """The outputs for any examples and their measures, for reports and comparisons.

        `outputs` are the run's predictions for these examples, if already computed.
        """

    def score_and_loss(self, examples: Sequence[Any]) -> tuple[Measure, Measure | None]:
        """The most important measure of examples, and their loss in nats; None if the task has no such measure."""
        outcomes, names = self.outcomes(examples), ("loss", "perplexity")
        every = (*outcomes.measures, *outcomes.further)
        return every[0], next((one for one in every if one.name in names), None)

    @sparing()
    def score(self, examples: Sequence[Any]) -> dict[str, Any]:
        """Score any examples, and the task's baselines on them; returns the report as plain values."""
        report: dict[str, Any] = Scores(self.report_of(examples), self.body)
        report |= self.baseline_scores(report, examples)
        return report

    def baseline_scores(self, scores: Mapping[str, Any], examples: Sequence[Any]) -> dict[str, Any]:
        """Report entries for the baselines on examples with these `scores` of the model; empty without baselines."""
        made = self.baselines(examples)
        return baseline_scores(scores, made, self.config.evaluation.bootstrap) if made else {}

    def baselines(self, examples: Sequence[Any]) -> Mapping[str, Outcomes]:
        """Outcomes of each baseline on examples, by name."""
        return {}

    def validated(self) -> Sequence[Any]:
        """The examples that a validation scores."""
        return self.examples("valid")

    def report_of(self, examples: Sequence[Any]) -> dict[str, Any]:
        """The scores of examples with their intervals, as in a report."""
        scores = summarise(self.outcomes(examples), self.config.evaluation.bootstrap, self.by_length)
        return {"task": self.config.task, **scores}

    @staticmethod
    @abstractmethod
    def body(report: dict[str, Any]) -> list[str]:
        """The scores of one set, as lines for people."""

    def held(self, data: Any) -> Sequence[Any]:
        """Convert Python data, in the forms that `heed.train` takes, to examples; blank ones are left out.

        Raises:
            DataError: The data cannot be used; the message names the place and the value.
        """
        findings = Findings.of(self.config.data, strict=True)
        examples = self.task.hold(data, "examples", self.section_of(data), findings)
        return [one for one in examples if not one.blank]

    def section_of(self, data: Any) -> RunConfig:
        """The configuration with the columns that Python data has."""
        section = without_missing(self.config.data, column_names(data))
        return self.config.model_copy(update={"data": section})

    @sparing()
    def evaluate(self, split: Any = "test") -> dict[str, Any]:
        """Score a split of the run's data, or other examples.

        Args:
            split: "test", "valid", or another split that the data has ("unseen"); or a file or several; or data in one
                of the forms that `heed.train` takes, with the correct output of each example.

        Raises:
            ConfigError: The data has no such split.
            DataError: The split was passed in Python, which is not kept; or the examples cannot be used.
        """
        return self.score(self.examples_of(split))

    @sparing()
    def equal_weights(self, split: Any = "test") -> EqualWeights:
        """Score a split, or other examples, while the keys of each attention have equal weight.

        `split` is as for `evaluate`. Returns the score, its change and the share of outputs that change for each
        attention of the model, and for all together if there are several.

        Raises:
            ConfigError: The model has no attention, or the run is an ensemble; and as `evaluate`.
            DataError: As `evaluate`.
        """
        return equal_weights(self, self.examples_of(split))

    def examples_of(self, split: Any) -> Sequence[Any]:
        """The examples that `evaluate` scores; arguments and errors are its."""
        several = isinstance(split, list | tuple)
        files = split if several else [split]
        if files and all(isinstance(one, Path) or _is_path(one, exists=several) for one in files):
            return self.read(files)
        if not isinstance(split, str):
            return self.held(split)
        splits = self.task.split_names
        if split not in splits:
            hint = nearest(split, splits) or f"; its splits: {', '.join(splits)}"
            raise ConfigError(f"the data has no split {short(split)}{hint}")
        return self.examples(split)

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer of the inputs."""
        return next(iter(self.task.tokenizers().values()))  # type: ignore[no-any-return]

    def unknown_in(self, text: Any) -> Sequence[str]:
        """The parts of an input that were never seen in training."""
        return self.tokenizer.unknown_in(text) if self.task.tokenizers() else ()

    @property
    def members(self) -> tuple[Any, ...]:
        """The runs of an ensemble; for a single run, the run itself."""
        return self._members or (self,)

    if not TYPE_CHECKING:  # type checkers must see missing attributes

        def __getattr__(self, name: str) -> Any:
            """Explain a missing attribute: for a capability, the error names the tasks that have it."""
            if name in CAPABILITIES:
                raise MissingCapabilityError(missing(self, name))
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


def _is_path(value: Any, exists: bool) -> bool:
    """True for a text that names a file: with a folder, or with an ending, which no split has; it may have to exist."""
    named = isinstance(value, str) and (os.path.dirname(value) or os.path.splitext(value)[1])
    return bool(named) and (not exists or os.path.exists(value))


explain_methods(Run)


def check_one_task(runs: Sequence[Run[Any, Any]], what: str) -> None:
    """Refuse runs of different tasks.

    Raises:
        ConfigError: The message says that only runs of one task can do `what`.
    """
    first = runs[0]
    for run in runs[1:]:
        if run.config.task != first.config.task:
            raise ConfigError(
                f"'{first.folder}' is a run of {first.config.task} and '{run.folder}' one of {run.config.task}; only "
                f"runs of one task {what}"
            )


def check_options(options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Refuse keywords that `predict` does not have.

    Raises:
        UnknownKeywordError: The message names the nearest keyword.
    """
    for name in options.keys() - known:
        near = suggest(name, known) if known else "; this task has no options"
        raise UnknownKeywordError(f"predict has no keyword '{name}'{near}")


class TextRun(Run[T, M], Generic[T, M, P]):
    """A run that reads texts."""

    reads_texts = True

    @classmethod
    def examiner(cls) -> type[Any]:
        """The class that compares these runs."""
        from heed.tasks.base.comparison import Examiner

        return Examiner

    text_columns: ClassVar[tuple[str, ...]] = ("text",)
    """Possible names of the data-frame column with the texts to predict, best first."""
    options: ClassVar[Mapping[str, Any] | None] = None
    """Keywords of `predictions` with their defaults; None if they are not checked."""

    def __init_subclass__(cls, **others: Any) -> None:
        """Show the keywords in the signature of `predict`."""
        super().__init_subclass__(**others)
        if "options" in vars(cls):
            method = cls.predict

            @functools.wraps(method)
            def predict(*args: Any, **options: Any) -> Any:
                return method(*args, **options)

            shown, keyword = inspect.signature(method), inspect.Parameter.KEYWORD_ONLY
            parameters = [one for one in shown.parameters.values() if one.kind < keyword]
            options = cls.options or {}
            parameters += [inspect.Parameter(name, keyword, default=value) for name, value in options.items()]
            predict.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
            cls.predict = predict  # type: ignore[method-assign]

    @overload
    def predict(self, text: str, **options: Any) -> P: ...

    @overload
    def predict(self, text: Sequence[str], **options: Any) -> Predictions[P]: ...

    @sparing()
    def predict(self, text: str | Sequence[str], **options: Any) -> P | Predictions[P]:
        """The prediction for a text, or for each of several; see `predictions` for the options.

        Several texts are a list, an array, a series, or a data frame with a column of texts. Their predictions are a
        list with `to_frame()`. If the run reads pairs, a pair is a tuple of two texts.

        Raises:
            DataError: An item is not a text; the message names it.
        """
        self.check_options(options)
        columns: Any = getattr(self.config.data, "columns", None)
        single = isinstance(text, str)
        if self.task.pairs:
            single = single or is_pair(text)
            fields = pair_fields(columns.text, columns.second)
            inputs: list[Any] = [pair_of(text, "the input")] if single else pairs_of(text, "texts", fields)
        else:
            own = [column for name in ("text", "source") if (column := getattr(columns, name, None)) is not None]
            inputs = [text] if single else to_texts(text, "texts", (*own, *self.text_columns))
        made = self.predictions(inputs, **options)
        return made[0] if single else Predictions(made)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse keywords that `predict` does not have.

        Raises:
            UnknownKeywordError: The message names the nearest keyword.
        """
        if self.options is not None:
            check_options(options, self.options)

    def typed(self, texts: Sequence[str]) -> list[Any]:
        """The inputs given as arguments of the command; if the run reads pairs, each is two, or one with a tab.

        Raises:
            ConfigError: A second text is missing.
        """
        return pairs_typed(texts, "this run reads") if self.task.pairs else list(texts)

    @abstractmethod
    def predictions(self, texts: Sequence[Any], **options: Any) -> list[P]:
        """The prediction for each text, or pair of texts."""
