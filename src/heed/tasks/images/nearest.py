"""The baseline of pictures: the label of the nearest training picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heed.data.pictures.store import PictureStore
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.run import Run
from heed.tasks.work import Baselines

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
        self._known = np.concatenate([part.reshape(len(part), -1) for part in store.parts(places)])
        self._labels = [labels[i] for i in places]

    @property
    def name(self) -> str:
        """Its name in reports."""
        some = f" (of {len(self._labels):,} training pictures)" if self._step > 1 else ""
        return f"nearest neighbour on pixels{some}"

    def predict(self, sized: NDArray[Any]) -> list[LabelPrediction]:
        """The label of each picture `(pictures, height, width, channels)`, without probabilities."""
        rows = sized.reshape(len(sized), -1)
        nearest = [self._nearest(rows[i : i + _ROWS]) for i in range(0, len(rows), _ROWS)]
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


def baselines(run: Run) -> Baselines:
    """Nearest neighbour: the label of the training picture with the nearest pixels."""
    if (known := run.known()) is None:
        return {}
    nearest = NearestPicture(run.input.encode(known), [picture.label for picture in known])  # type: ignore[arg-type]

    def predict(examples: Sequence[Any]) -> list[LabelPrediction]:
        store: Any = run.input.encode(examples)
        return [one for part in store.parts() for one in nearest.predict(part)]

    return {nearest.name: predict}
