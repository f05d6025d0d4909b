"""Learning curves of table: updates -> share of the final score (benchmarks/learning_curves.py).

One thread of a shared machine, 2026-11-22, one seed, default settings.
Digits: validation accuracy; guessing: 10 %; final: 97.5 %. Generated classes: test accuracy; guessing: 25 %; final:
85.6 %.
"""

from __future__ import annotations

from heed.tasks.base.learning import Curve

CURVES = (
    Curve("digits of scikit-learn, 1,800 rows", "mlp", "accuracy", 1, {10: 0.04, 30: 0.74, 100: 0.99, 300: 1.0}),
    Curve("four generated classes, 3,000 rows", "mlp", "accuracy", 2, {50: 0.39, 1000: 1.0}),
)
