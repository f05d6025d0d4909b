"""Ensembles of tagging runs: the mean of the probabilities of tags decides."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.tasks.base.ensemble import check_labels
from heed.tasks.tagging.model import CrfHead
from heed.tasks.tagging.run import TaggingRun, WordTagger


class TaggingEnsemble(WordTagger):
    """Ensemble of runs that tag by their mean probabilities.

    Each word is given the tag with the largest mean. If a run has a CRF, a sentence is given the legal sequence of tags
    with the largest product of means.
    """

    def __init__(self, runs: Sequence[TaggingRun]) -> None:
        check_labels(runs)
        first = next((run for run in runs if isinstance(run.model.head, CrfHead)), runs[0])
        super().__init__(first.folder, runs[0].config, first.task, first.model, {}, runs)

    def tagged(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[str], Tensor]]:
        """The tags of each text, and the mean of the runs' probabilities, `(words, labels)`."""
        each = [[probabilities for _, probabilities in run.tagged(sentences)] for run in self.members]
        means = [torch.stack(one).mean(0) for one in zip(*each, strict=True)]
        return [([self.task.labels[i] for i in self.model.head.choose(mean)], mean) for mean in means]
