"""A number for each example: regression by the squared error of the standardised value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heed.config import Section
from heed.data.columns import shown
from heed.data.corpus import label_sets_in
from heed.data.kinds.features import Standard, load, save
from heed.data.kinds.numbers import Rows as Table
from heed.data.kinds.numbers import numbers_in, target_of
from heed.data.splits import Splits
from heed.errors import ConfigError
from heed.evaluation.forecasts import number_measures
from heed.evaluation.measures import Measure, Outcomes
from heed.tasks.base.labels import MAX_ERRORS, check_labels
from heed.tasks.base.predictions import Prediction
from heed.tasks.base.report import score_lines
from heed.tasks.contracts import Batch, Draw, Facts, Head, Input, Rows, TargetScore
from heed.tasks.heads.labels import Labeller, Labels, origin_of
from heed.tasks.inputs.rows import column_lines
from heed.tasks.work import Work

_TARGET = "target.json"


@dataclass(frozen=True, repr=False)
class NumberPrediction(Prediction):
    """The predicted number of one example."""

    value: float | None  # in the unit of the label; None for a blank text

    def as_json(self) -> dict[str, Any]:
        return {"value": None if self.value is None else float(self.summary())}

    def summary(self) -> str:
        """The number with the seven digits that a network computes with."""
        return "" if self.value is None else f"{self.value:.7g}"


def values_of_labels(examples: Sequence[Any]) -> NDArray[np.float64]:
    """The numbers `(examples,)` that labels are.

    Raises:
        DataError: A label is not a finite number; the message has its place.
    """
    sets, numbers = label_sets_in(examples)
    if not any(sets):  # no names, but values
        return numbers_in([one.truth for one in examples], lambda at: str(examples[at].origin))
    first = lambda at: int(np.flatnonzero(numbers == at)[0])  # noqa: E731
    labels = [labels[0] if labels else "" for labels in sets]
    return numbers_in(labels, lambda at: origin_of(examples, first(at)))[numbers]


def _name_of(examples: Sequence[Any], config: Any) -> str:
    """The name of the number: that of its column, or of the field of the examples."""
    if isinstance(examples, Table):
        return examples.label_name
    fields: list[str] = [*type(examples[0]).roles]
    return str(config.data.columns.label or "label") if "labels" in fields else fields[-1]


def mean_number(run: Any) -> Mapping[str, Callable[[Sequence[Any]], list[NumberPrediction]]]:
    """The mean of the training set, as a baseline."""
    if (known := run.training_examples()) is None:
        return {}
    mean = NumberPrediction(float(values_of_labels(known).mean()))
    return {"mean": lambda examples: [mean] * len(examples)}


@dataclass(frozen=True)
class Number(Head):
    """One number for each example; `standard` has its name, mean and deviation in the training set."""

    names: ClassVar = "number"
    is_number: ClassVar = True
    blank: ClassVar = NumberPrediction(None)

    standard: Standard | None = None
    labels: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """The name of the number."""
        assert self.standard is not None
        return self.standard.columns[0]

    def learn(self, config: Any, splits: Splits[Any]) -> tuple[Any, Head]:
        train = splits.examples["train"]
        values = values_of_labels(train)
        check_labels([f"{number:g}" for number in np.unique(values)])
        name = _name_of(train, config)
        number = f"does not apply to label '{name}', which is a number (data.target)"
        if config.evaluation.select_by not in ("auto", "loss"):
            raise ConfigError(f"evaluation.select_by {config.evaluation.select_by} {number}; set it to loss")
        fields = type(config.data).model_fields
        classes = [field for field in ("class_weights", "classes", "several_labels") if field in fields]
        meant = [f"data.{field}" for field in classes if getattr(config.data, field) != fields[field].default]
        if config.training.label_smoothing:
            meant.append("training.label_smoothing")
        if meant:
            raise ConfigError(f"{meant[0]} {number}; leave it out")
        return config, replace(self, standard=Standard.of((name,), values[:, None]))

    def save(self, folder: Path) -> None:
        save(folder / _TARGET, self.standard)

    def restore(self, config: Any, folder: Path) -> Self:
        return replace(self, standard=load(folder / _TARGET, Standard))

    def rows(self) -> Mapping[str, Rows]:
        return {"labels": Rows([f"number {self.name}"])}

    def encode(self, examples: Sequence[Any], input: Input | None = None) -> Tensor:
        """The standardised numbers, `(examples,)`."""
        assert self.standard is not None
        values = self.standard.apply(values_of_labels(examples)[:, None])[:, 0]
        return torch.tensor(values, dtype=torch.float32)

    def collate(self, truths: Tensor, batch: Batch, draw: Draw | None) -> Batch:
        return replace(batch, targets={"numbers": truths[np.array(batch.rows)]}, num_targets=len(batch.rows))

    def build(self, body: nn.Module, options: Any, facts: Facts) -> nn.Module:
        return Labeller(body, len(facts.rows["labels"]))

    def loss(self, model: Any, states: Tensor, batch: Batch, smoothing: float) -> Tensor:
        total: Tensor = (states[:, 0].float() - batch.targets["numbers"]).square().sum()
        return total

    def judge(self, model: Any, states: Tensor, batch: Batch) -> Tensor:
        squares = (states[:, 0].double() - batch.targets["numbers"]).square()
        return torch.stack([squares, torch.zeros_like(squares), torch.ones_like(squares)], dim=1)

    def decode(self, model: Any, states: Tensor, batch: Batch) -> Sequence[Tensor]:
        return [*states[:, 0].double().cpu()]

    def predict(self, answer: Tensor, example: Any = None, input: Input | None = None) -> NumberPrediction:
        assert self.standard is not None
        return NumberPrediction(float(self.standard.undo(np.array([[float(answer)]]))[0, 0]))

    def measures(self, predictions: Sequence[NumberPrediction], examples: Sequence[Any]) -> Sequence[Measure]:
        return number_measures(values_of_labels(examples), np.array([one.value for one in predictions]))

    def outcomes(
        self, predictions: Sequence[NumberPrediction], examples: Sequence[Any], input: Input, others: Any = None
    ) -> Outcomes:
        true, predicted = values_of_labels(examples), np.array([one.value for one in predictions])
        order = np.argsort(-np.abs(predicted - true), kind="stable")[:MAX_ERRORS].tolist()
        errors = [{**input.place(examples, i), "true": float(true[i]), "predicted": float(predicted[i])} for i in order]
        outputs = tuple(one.summary() for one in predictions)
        return Outcomes(outputs, number_measures(true, predicted), details={"errors": errors})

    def target_score(self, answer: Tensor, target: str | None, rather_than: str | None) -> TargetScore:
        if (label := target or rather_than) is not None:
            raise ConfigError(f"the model predicts one number, {self.name!r}, and no labels; leave out {label!r}")
        assert self.standard is not None
        mean, deviation = self.standard.mean[0], self.standard.deviation[0]
        return TargetScore(f"the number '{self.name}'", lambda states: mean + deviation * states[:, 0])

    def report(self, scores: Mapping[str, Any]) -> list[str]:
        return score_lines(scores, {"mae": "MAE", "rmse": "RMSE", "r2": "R2"})

    def lines(self, work: Work) -> list[str]:
        assert self.standard is not None
        return ["\nlabel:", *column_lines(self.standard)]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        return {"labels": {}}

    def notes(self, work: Work) -> list[str]:
        values = values_of_labels(work.splits.examples["train"])
        facts = f"{len(np.unique(values)):,} different, {values.min():.6g} to {values.max():.6g}"
        return [
            f"label {shown(self.name)} holds numbers ({facts}): regression; data.target=classes treats them as classes"
        ]


@dataclass(frozen=True)
class LabelsOrNumber(Head):
    """Labels or a number, as `data.target` says; what it learns or restores is one of the two."""

    labels: Labels = field(default_factory=Labels)
    number: Number = Number()

    @property
    def options(self) -> type[Section]:  # type: ignore[override]
        return self.labels.options

    def learn(self, config: Any, splits: Splits[Any]) -> tuple[Any, Head]:
        held = not isinstance(config.data.valid, list)
        some = [splits.examples["train"], splits.left_out, *([splits.examples["valid"]] if held else [])]
        every = [label for part in some for sets, numbers in [label_sets_in(part)]
                 for number in numbers.tolist() for label in sets[number]]  # fmt: skip
        if config.data.target == "auto":
            config = config.settle("by the labels", {"data.target": target_of(config.data, every)})
        return self._meant(config).learn(config, splits)

    def taught(self, *learned: Any) -> Any:
        return self.labels.taught(*learned)

    def restore(self, config: Any, folder: Path) -> Any:
        if (folder / _TARGET).is_file() != (config.data.target == "number"):
            raise ConfigError(f"data.target {config.data.target} is not that of the run in {folder}; start a new run")
        return self._meant(config).restore(config, folder)

    def _meant(self, config: Any) -> Head:
        return self.number if config.data.target == "number" else self.labels
