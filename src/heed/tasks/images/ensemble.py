"""Ensembles of runs over pictures: the mean of their probabilities decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heed.data.examples import Picture
from heed.data.pictures.source import Pixels
from heed.tasks.base.ensemble import check_labels
from heed.tasks.images.run import ImagesRun, PictureLabeller


class ImagesEnsemble(PictureLabeller):
    """Ensemble of runs; each reads pictures at its own size. The settings are those of the first run."""

    def __init__(self, runs: Sequence[ImagesRun]) -> None:
        check_labels(runs)
        first = runs[0]
        super().__init__(first.folder, first.config, first.task, first.model, {}, runs)

    def probabilities_of(self, arrays: Sequence[Any]) -> Tensor:
        """The mean of the runs' probabilities, `(pictures, labels)`."""
        return torch.stack([run.probabilities_of(arrays) for run in self.members]).mean(0)

    def probabilities(self, examples: Sequence[Picture], pixels: Pixels | None = None) -> Tensor:
        """The same for examples, read by `pixels` or else by the first run."""
        where = pixels or self.task.access.pixels
        return torch.stack([run.probabilities(examples, where) for run in self.members]).mean(0)
