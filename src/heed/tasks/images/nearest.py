"""The baseline of pictures: the label of the nearest training picture."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from heed.tasks.base.labels import LabelPrediction
from heed.tasks.run import Run
from heed.tasks.work import Baselines

_MOST_NUMBERS = 20_000_000
"""Largest number of values in the training pictures used, and of distances computed at a time: some seconds for ten
thousand pictures. Of very many training pictures, only every n-th is used."""


def baselines(run: Run) -> Baselines:
    """Nearest neighbour: the label of the training picture of least Euclidean distance, at the size the model sees."""
    if (pictures := run.known()) is None:
        return {}
    store: Any = run.input.encode(pictures)
    places = range(0, len(store), 1 + len(store) * prod(store.sizing.shape) // _MOST_NUMBERS)
    known = torch.from_numpy(np.concatenate([*store.parts(places)])).flatten(1).float()
    labels, squares = [pictures[i].label for i in places], known.square().sum(1)

    def predict(examples: Sequence[Any]) -> list[LabelPrediction]:
        asked: Any = run.input.encode(examples)
        nearest: list[int] = []
        for part in asked.parts():
            for rows in torch.from_numpy(part).flatten(1).float().split(max(1, _MOST_NUMBERS // len(known))):
                # |a - b|^2 without |a|^2, which is the same for all b; of equally near pictures the first
                nearest += torch.addmm(squares, rows, known.T, alpha=-2.0).argmin(1).tolist()
        return [LabelPrediction(labels[i], (labels[i],), 0.0, {}) for i in nearest]

    some = f" (of {len(labels):,} training pictures)" if len(labels) < len(store) else ""
    return {f"nearest neighbour on pixels{some}": predict}
