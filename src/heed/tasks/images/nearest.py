"""The baseline of pictures: the label, or the number, of the nearest training picture."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from heed.tasks.base.labels import LabelPrediction
from heed.tasks.base.predictions import Prediction
from heed.tasks.heads.number import Number, NumberPrediction, mean_number, values_of_labels
from heed.tasks.run import Run
from heed.tasks.work import Baselines

_MOST_NUMBERS = 20_000_000
"""Largest number of values in the training pictures used, and of distances computed at a time: some seconds for ten
thousand pictures. Of very many training pictures, only every n-th is used."""


def baselines(run: Run) -> Baselines:
    """Nearest neighbour: the label or number of the training picture of least distance, at the size the model sees."""
    if (pictures := run.known()) is None:
        return {}
    store: Any = run.input.encode(pictures)
    places = range(0, len(store), 1 + len(store) * prod(store.sizing.shape) // _MOST_NUMBERS)
    known = torch.from_numpy(np.concatenate([*store.parts(places)])).flatten(1).float()
    near, squares = [pictures[i] for i in places], known.square().sum(1)
    answers: list[Prediction] = [LabelPrediction(one.label, (one.label,), 0.0, {}) for one in near]
    if is_number := isinstance(run.head, Number):
        answers = [NumberPrediction(value) for value in values_of_labels(near).tolist()]

    def predict(examples: Sequence[Any]) -> list[Prediction]:
        asked: Any = run.input.encode(examples)
        nearest: list[int] = []
        for part in asked.parts():
            for rows in torch.from_numpy(part).flatten(1).float().split(max(1, _MOST_NUMBERS // len(known))):
                # |a - b|^2 without |a|^2, which is the same for all b; of equally near pictures the first
                nearest += torch.addmm(squares, rows, known.T, alpha=-2.0).argmin(1).tolist()
        return [answers[i] for i in nearest]

    some = f" (of {len(near):,} training pictures)" if len(near) < len(store) else ""
    return {f"nearest neighbour on pixels{some}": predict, **(mean_number(run) if is_number else {})}
