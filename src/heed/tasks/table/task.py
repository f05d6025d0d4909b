"""Table: a label, or a number, of each row of numbers and categories; a network over whole rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from heed.tasks.base.predictions import FileOutputs
from heed.tasks.heads.labels import Labels
from heed.tasks.heads.number import LabelsOrNumber, Number
from heed.tasks.inputs.rows import TableRows
from heed.tasks.run import Run
from heed.tasks.work import Baselines, Task, Work
from heed.visible import to_json

_UPDATES, _PASSES = 1_000, 300
"""Updates, or passes if these are more, after which training ends though time is left: a network memorises a table."""
_CELLS, _ROWS = 10_000_000, 1_000
"""Rows x columns x outputs above which a baseline is fitted to a sample; the least rows of a sample."""
_WIDE = 1_000
"""Columns x outputs above which boosting takes minutes, and is left out."""
_TREES = 2_000
"""Most trees; each step of boosting adds one for each class."""
_SEED = 1


class TableOutputs(FileOutputs):
    """One line for each row of a file, which is read in parts, so that memory does not grow with its length."""

    def write_file(self, path: Path) -> Iterator[str]:
        for one in predict_rows(self.run, path):
            yield from (to_json(one.as_json()),) if self.options["json"] else one.lines("", self.options)


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

    known, head = run.training_examples(), cast("Labels | Number", run.head)
    if known is None:
        return {}
    truths: Any = head.encode(known)
    number, values = isinstance(head, Number), cast(Any, known).values
    targets = truths.numpy() if number else np.array([labels[0] for labels in truths.sets])[truths.numbers]
    outputs = 1 if isinstance(head, Number) else len(head.labels)
    plain = np.zeros(1) if number else np.bincount(targets, minlength=outputs) / len(targets)
    cells = values.shape[1] * outputs
    count, most, note = len(values), max(_ROWS, _CELLS // cells), ""
    if count > most:
        chosen = np.sort(np.random.default_rng(_SEED).choice(count, most, replace=False))
        values, targets, note = values[chosen], targets[chosen], f", fitted to {most:,} of {count:,} rows"
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
        made = np.tile(plain, (len(rows), 1))
        if estimator is not None and number:
            made = estimator.predict(rows)[:, None]
        elif estimator is not None:
            made = np.zeros((len(rows), outputs))
            made[:, estimator.classes_] = estimator.predict_proba(rows)  # classes without a fitted row have 0
        return [head.predict(row[0] if number else row) for row in torch.tensor(made)]

    every = {"mean" if number else "majority class": None, **{f"{name}{note}": one for name, one in estimators.items()}}
    return {name: partial(predict, estimator) for name, estimator in every.items()}


def most_updates(work: Work) -> int:
    """A thousand updates, or 300 passes if these are more."""
    training: Any = work.config.training
    each: int = math.ceil(len(work.splits.examples["train"]) / (training.batch_tokens * training.accumulate))
    return max(_UPDATES, _PASSES * each)


TASK = Task(
    "table",
    input=TableRows(),
    head=LabelsOrNumber("rows", labels=Labels("rows"), number=Number("rows")),
    baselines=baselines,
    outputs=TableOutputs,
    enough_updates=300,
    most_updates=most_updates,
    cannot={"ensemble": ""},
)
