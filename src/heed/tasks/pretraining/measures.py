"""The measures of pretraining over documents, separate for masked words and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from heed.evaluation.measures import Array, Measure, Outcomes, share
from heed.tasks.pretraining.scoring import DocumentScores

WORDS, PAIRS = ("masked_accuracy", "masked_loss"), ("next_accuracy", "next_loss")
"""Measures of masked words, and of pairs."""


def outcomes_of(scores: Sequence[DocumentScores]) -> Outcomes:
    """Accuracies, and losses in nats per masked word and per pair; only those that the model learns.

    A pair counts for the document of its first text.
    """

    def column(name: str) -> Array:
        return np.array([*map(attrgetter(name), scores)], dtype=np.float64)

    masked, pairs = column("masked"), column("pairs")
    main, further = [], []
    if masked.sum():
        main.append(share(WORDS[0], "masked words right", column("masked_right").tolist(), masked.tolist()))
        further.append(_rate(WORDS[1], "nats per masked word", column("masked_nats"), masked))
    if pairs.sum():
        main.append(share(PAIRS[0], "next sentences right", column("pairs_right").tolist(), pairs.tolist()))
        further.append(_rate(PAIRS[1], "nats per pair", column("pairs_nats"), pairs))
    outputs = tuple(map(_output, scores))
    return Outcomes(
        outputs, tuple(main), tuple(further), details={"masked": int(masked.sum()), "pairs": int(pairs.sum())}
    )


def _output(one: DocumentScores) -> str:
    parts = [f"{one.masked_right} of {one.masked} masked words"] if one.masked else []
    return ", ".join([*parts, *([f"{one.pairs_right} of {one.pairs} pairs"] if one.pairs else [])])


def _rate(name: str, label: str, total: Array, count: Array) -> Measure:
    """A ratio of sums; NaN where nothing was counted."""

    def formula(sums: Array) -> Array:
        known = sums[:, 1] > 0
        ratios: Array = np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=known)
        return ratios

    return Measure(name, label, np.stack([total, count], axis=1), formula, higher_is_better=False, digits=3)
