"""Learning curves of translation: updates -> share of the final score (benchmarks/learning_curves.py).

One thread of a shared machine, 2026-11-22, one seed, default settings.
chrF of pairs: 10 for a guess; final scores are the recipes' test scores: 47 with 5,000 pairs of Multi30k, 54.5 with
29,000, 33 with 2,900 pairs of English and Hindi. The points of 20,000 and 29,000 pairs, and the last but one of 5,000
and of 2,900, are test scores of runs with time budgets.
"""

from __future__ import annotations

from heed.config.data import FilesData
from heed.tasks.base.learning import Curve
from heed.tasks.translation.config import TranslationConfig


def learner(config: TranslationConfig) -> str | None:
    """The model of the curves that apply; None for characters and embedded data.

    Embedded tasks go from nothing to nearly everything within about 100 updates, at a point that differs by task:
    98 updates gave 19 % of copied and 25 % of reversed strings, 196 gave 94 % of reversed ones.
    """
    if not isinstance(config.data, FilesData) or config.tokenizer.kind == "char":
        return None
    return config.model.name


CURVES = (
    Curve("Multi30k, 5,000 pairs", "bahdanau", "chrf", 210, {210: 0.0, 2968: 0.95, 6000: 1.0}),
    Curve("Tatoeba English-Hindi, 2,900 pairs", "bahdanau", "chrf", 67, {536: 0.0, 3000: 0.83, 16500: 1.0}),
    Curve("Multi30k, 20,000 and 29,000 pairs", "bahdanau", "chrf", 400, {478: 0.15, 638: 0.48, 2076: 0.85, 4000: 1.0}),
    Curve("Multi30k, 20,000 and 29,000 pairs", "transformer", "chrf", 400, {359: 0.37, 1376: 0.57, 3600: 1.0}),
)
