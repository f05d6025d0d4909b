"""A nearest-neighbour baseline on pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heed.data.pictures.store import PictureStore
from heed.tasks.base.labels import LabelPrediction

_MOST_NUMBERS = 20_000_000
"""Largest number of values in the training pictures used: some seconds for ten thousand pictures."""
_ROWS = 1_000
"""Number of pictures compared at a time."""


class NearestPicture:
    """The nearest training picture by the Euclidean distance of pixels, at the size that the model sees.

    With very many training pictures, only every n-th is used.
    """

    def __init__(self, store: PictureStore, labels: Sequence[str]) -> None:
        height, width, channels = store.sizing.shape
        self._step = 1 + (len(store) * height * width * channels) // _MOST_NUMBERS
        places = range(0, len(store), self._step)
        self._known = np.concatenate([_rows(part) for part in store.parts(places)])
        self._labels = [labels[i] for i in places]

    @property
    def name(self) -> str:
        """Its name in reports."""
        some = f" (of {len(self._labels):,} training pictures)" if self._step > 1 else ""
        return f"nearest neighbour on pixels{some}"

    def predict(self, sized: NDArray[Any]) -> list[LabelPrediction]:
        """The label of each picture `(pictures, height, width, channels)`, without probabilities."""
        nearest = [self._nearest(_rows(sized[i : i + _ROWS])) for i in range(0, len(sized), _ROWS)]
        chosen = [self._labels[i] for part in nearest for i in part.tolist()]
        return [LabelPrediction(label, (label,), 0.0, {}) for label in chosen]

    def _nearest(self, rows: NDArray[Any]) -> torch.Tensor:
        """The index of the nearest training picture for each row; the first if several are equally near."""
        asked = torch.from_numpy(rows).float()
        best, found = torch.full((len(rows),), torch.inf), torch.zeros(len(rows), dtype=torch.long)
        for start in range(0, len(self._known), _ROWS):
            known = torch.from_numpy(self._known[start : start + _ROWS]).float()
            # |a - b|^2 without |a|^2, which is the same for all b
            distances = torch.addmm(known.square().sum(1), asked, known.T, alpha=-2.0)
            values, places = distances.min(1)
            nearer = values < best
            best, found = torch.where(nearer, values, best), torch.where(nearer, places + start, found)
        return found


def _rows(sized: NDArray[Any]) -> NDArray[Any]:
    return sized.reshape(len(sized), -1)
