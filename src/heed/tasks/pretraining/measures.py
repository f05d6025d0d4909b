"""The measures of pretraining: of masked words and of pairs, apart."""

from __future__ import annotations

import numpy as np

from heed.evaluation.measures import Array, Measure, share
from heed.tasks.pretraining.rows import FOLLOWS, NO_QUESTION
from heed.tasks.pretraining.scoring import RowScores


def measures_of(scores: RowScores) -> tuple[Measure, ...]:
    """Accuracies, and losses in nats per masked word and per pair, over rows; none of what is not learned."""
    found: list[Measure] = []
    asked = (scores.labels != NO_QUESTION).astype(np.float64)
    has_words = scores.masked is not None and scores.masked.sum() > 0
    if has_words:
        assert scores.masked is not None and scores.right is not None and scores.nats is not None
        found.append(share("masked_accuracy", "masked words right", scores.right.tolist(), scores.masked.tolist()))
    if scores.follows is not None and scores.follows_not is not None and asked.sum():
        follows = scores.labels == FOLLOWS
        right = asked * (follows == (scores.follows > scores.follows_not))
        found.append(share("next_accuracy", "next sentences right", right.tolist(), asked.tolist()))
        nats = -asked * np.where(follows, scores.follows, scores.follows_not)
        found.append(_rate("next_loss", "nats per pair", nats, asked))
    if has_words:
        assert scores.masked is not None and scores.nats is not None
        found.append(_rate("masked_loss", "nats per masked word", scores.nats, scores.masked))
    return tuple(found)


def _rate(name: str, label: str, total: Array, count: Array) -> Measure:
    """A ratio of sums; NaN where nothing was counted."""

    def formula(sums: Array) -> Array:
        known = sums[:, 1] > 0
        ratios: Array = np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=known)
        return ratios

    return Measure(name, label, np.stack([total, count], axis=1), formula, higher_is_better=False, digits=3)
