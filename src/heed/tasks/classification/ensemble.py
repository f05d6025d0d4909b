"""Ensembles of classification runs: the mean of their probabilities decides."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.data.batch.texts import TokenText
from heed.tasks.base.ensemble import check_labels
from heed.tasks.classification.run import ClassificationRun, Labeller


class ClassificationEnsemble(Labeller):
    """Ensemble of runs; each tokenizes texts with its own tokenizer. The settings are those of the first run."""

    def __init__(self, runs: Sequence[ClassificationRun]) -> None:
        check_labels(runs)
        first = runs[0]
        super().__init__(first.folder, first.config, first.task, first.model, {}, runs)

    def probabilities(self, texts: Sequence[str], encoded: Sequence[TokenText] | None = None) -> Tensor:
        """The mean of the runs' probabilities, `(texts, labels)`; each run cuts the texts at its own maximum length."""
        return torch.stack([run.probabilities(texts) for run in self.members]).mean(0)
