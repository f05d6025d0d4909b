"""Table: a label, or a number, of each row of numbers and categories, by a network over whole rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch

from heed.config.data import Source, Sources, section
from heed.config.sections import EvaluationConfig, ModelSection, RunConfig
from heed.tasks.base.predictions import FileOutputs
from heed.tasks.heads.labels import Labels
from heed.tasks.heads.number import LabelsOrNumber, Number
from heed.tasks.inputs.rows import TableRows
from heed.tasks.run import Run
from heed.tasks.work import Baselines, Task, Work
from heed.visible import to_json


class Rows(Source):
    """Rows of columns with a label: CSV or TSV, column names first (`heed.data.kinds.numbers`)."""

    labelled: ClassVar = True

    columns: Any = section(
        label=(int | str, "label"),
        features=(tuple[int | str, ...] | None, None),
        categories=(tuple[int | str, ...], ()),
    )
    """Which columns are read.

    - label: Column of the label, by name or by number from 0.
    - features: Columns to read, by name or by number from 0; by default all but the label and columns that count rows.
    - categories: Columns of numbers to read as categories; columns of texts always are.
    """
    target: Literal["auto", "classes", "number"] = "auto"
    """What the label is: one of several classes, or a number (regression: squared error of the standardised value).
    Auto is a number if the labels are more than 20 different numbers, or numbers with fractions."""


class TableModelSection(ModelSection):
    """Which model of a table; all other fields are the model's own (`heed models NAME` lists them)."""

    name: str = "mlp"
    """File in `heed/models`."""


class TableEvaluation(EvaluationConfig):
    """How predictions for rows are scored."""

    select_by: Literal["auto", "accuracy", "macro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, or loss if the label is a number."""


class TableConfig(RunConfig):
    """The configuration of a run over rows of numbers."""

    task: Literal["table"] = "table"
    """What is learned."""
    data: Annotated[Rows, Sources(Rows)]
    """Where the examples come from."""
    model: TableModelSection = TableModelSection()
    """Which model."""
    evaluation: TableEvaluation = TableEvaluation()
    """How it is scored."""


_UPDATES, _PASSES = 1_000, 300
"""Updates, or passes if these are more, after which training ends though time is left: a network memorises a table."""
_CELLS, _ROWS = 10_000_000, 1_000
"""Rows x columns x outputs above which a baseline is fitted to a sample; the smallest number of rows of a sample."""
_WIDE = 1_000
"""Columns x outputs above which boosting takes minutes, and is left out."""
_TREES = 2_000
"""Largest number of trees; each step of boosting adds one for each class."""
_SEED = 1


class TableOutputs(FileOutputs):
    """One line for each row of a file, which is read in parts, so that memory does not grow with its length."""

    def write_file(self, path: Path) -> Iterator[str]:
        for prediction in predict_rows(self.run, path):
            yield from (to_json(prediction.as_json()),) if self.options["json"] else prediction.lines("", self.options)


def predict_rows(run: Run, path: str | Path) -> Iterator[Any]:
    """The label, or the number, of each row of a file with the run's columns."""
    assert isinstance(run.input, TableRows)
    for part in run.input.parts(Path(path)):
        yield from run.predicted(part)


def baselines(run: Run) -> Baselines:
    """A constant (training shares, or the mean), a linear model and gradient boosting, fitted to the training rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, head = run.training_examples(), cast("Labels | Number", run.head)
    if train is None:
        return {}
    truths: Any = head.encode(train)
    number, values = isinstance(head, Number), cast(Any, train).values
    targets = truths.numpy() if number else np.array([labels[0] for labels in truths.sets])[truths.numbers]
    outputs = 1 if isinstance(head, Number) else len(head.labels)
    plain = np.zeros(1) if number else np.bincount(targets, minlength=outputs) / len(targets)
    cells = values.shape[1] * outputs
    count, max_rows, note = len(values), max(_ROWS, _CELLS // cells), ""
    if count > max_rows:
        chosen = np.sort(np.random.default_rng(_SEED).choice(count, max_rows, replace=False))
        values, targets, note = values[chosen], targets[chosen], f", fitted to {max_rows:,} of {count:,} rows"
    estimators: dict[str, Any] = {}
    if len(np.unique(targets)) > 1:
        linear = make_pipeline(StandardScaler(), Ridge() if number else LogisticRegression(max_iter=200))
        estimators["ridge regression" if number else "logistic regression"] = linear
        if cells <= _WIDE:
            boosting = HistGradientBoostingRegressor if number else HistGradientBoostingClassifier
            steps = min(100, _TREES // outputs)
            estimators["gradient boosting"] = boosting(max_iter=steps, early_stopping=False, random_state=_SEED)
    for estimator in estimators.values():
        with warnings.catch_warnings(action="ignore"):  # of few iterations: a baseline need not have converged
            estimator.fit(values, targets)

    def predict(estimator: Any, examples: Any) -> list[Any]:
        rows = examples.values
        answers = np.tile(plain, (len(rows), 1))
        if estimator is not None and number:
            answers = estimator.predict(rows)[:, None]
        elif estimator is not None:
            answers = np.zeros((len(rows), outputs))
            answers[:, estimator.classes_] = estimator.predict_proba(rows)  # classes without a fitted row have 0
        return [head.predict(row[0] if number else row) for row in torch.tensor(answers)]

    every = {
        "mean" if number else "majority class": None,
        **{name + note: fitted for name, fitted in estimators.items()},
    }
    return {name: partial(predict, estimator) for name, estimator in every.items()}


def most_updates(work: Work) -> int:
    """A thousand updates, or 300 passes if these are more."""
    training: Any = work.config.training
    per_pass: int = math.ceil(len(work.splits.examples["train"]) / (training.batch_tokens * training.accumulate))
    return max(_UPDATES, _PASSES * per_pass)


TASK = Task(
    "table",
    input=TableRows(),
    head=LabelsOrNumber("rows", labels=Labels("rows"), number=Number("rows")),
    config=TableConfig,
    baselines=baselines,
    outputs=TableOutputs,
    enough_updates=300,
    most_updates=most_updates,
    cannot={"ensemble": ""},
)
