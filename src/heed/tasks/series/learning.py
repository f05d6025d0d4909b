"""Learning curves of series: updates -> share of the final score (benchmarks/learning_curves.py).

One thread of a shared machine, 2026-11-22, one seed, default settings.
Validation loss; repeating the last value: 0.157; final: 0.073.
"""

from __future__ import annotations

from heed.tasks.base.learning import Curve

CURVES = (
    Curve("two noisy waves, 2,000 rows", "rnn", "loss", 1, {10: 0.05, 30: 0.19, 100: 0.42, 300: 0.89, 1000: 1.0}),
)
