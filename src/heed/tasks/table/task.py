"""Table: a label, or a number, of each row of numbers and categories; a network over whole rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from heed.tasks.base.predictions import FileOutputs
from heed.tasks.heads.labels import Labels
from heed.tasks.heads.number import LabelsOrNumber, Number
from heed.tasks.inputs.rows import TableRows
from heed.tasks.run import Run
from heed.tasks.table.baselines import fitted
from heed.tasks.work import Baselines, Task, Work
from heed.visible import to_json

_UPDATES, _PASSES = 1_000, 300
"""Updates, or passes if these are more, after which training ends though time is left: a network memorises a table."""


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
    """A constant (training shares, or the mean), a linear model and gradient boosting."""
    known, head = run.known(), cast("Labels | Number", run.head)
    if known is None:
        return {}
    truths: Any = head.encode(known)
    is_number = isinstance(head, Number)
    targets = truths.numpy() if is_number else np.array([labels[0] for labels in truths.sets])[truths.numbers]
    values: Any = known.values  # type: ignore[attr-defined]

    def predicted(predict: Callable[[NDArray[np.float64]], NDArray[np.float64]], examples: Any) -> list[Any]:
        return [head.predict(row[0] if is_number else row) for row in torch.tensor(predict(examples.values))]

    made = fitted(values, targets, 1 if is_number else len(head.labels), number=is_number)
    return {name: partial(predicted, predict) for name, predict in made}


def most_updates(work: Work) -> int:
    """A thousand updates, or 300 passes if these are more."""
    training: Any = work.config.training
    each: int = math.ceil(len(work.splits.examples["train"]) / (training.batch_tokens * training.accumulate))
    return max(_UPDATES, _PASSES * each)


TASK = Task(
    "table",
    input=TableRows(),
    head=LabelsOrNumber("rows"),
    baselines=baselines,
    outputs=TableOutputs,
    enough_updates=300,
    most_updates=most_updates,
    cannot={"ensemble": ""},
)
