"""Learning curves of tagging: updates -> share of the final score (benchmarks/learning_curves.py).

One thread of a shared machine, 2026-11-22, one seed, default settings.
Validation F1 of entities; guessing scores 0; final, assumed from other runs: 25 % on WNUT-17, 68 % on the tweets. The
Web Treebank: F1 of the test set; final: 31.8 %.
"""

from __future__ import annotations

from heed.tasks.base.learning import Curve
from heed.tasks.tagging.config import TaggingConfig, TeddyData


def learner(config: TaggingConfig) -> str | None:
    """The name under which curves are listed; None for embedded data."""
    return None if isinstance(config.data, TeddyData) else config.model.name


CURVES = (
    Curve("WNUT-17, 3,400 sentences", "rnn", "entity_f1", 31, {124: 0.0, 248: 0.11, 496: 0.52, 1240: 1.0}),
    Curve("Broad Twitter Corpus, 2,900 tweets", "rnn", "entity_f1", 28, {84: 0.01, 252: 0.85, 504: 1.0}),
    Curve("English Web Treebank, 2,000 sentences", "rnn", "entity_f1", 14, {250: 0.28, 1240: 1.0}),
)
