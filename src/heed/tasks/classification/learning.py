"""Learning curves of classification: updates -> share of the final score (benchmarks/learning_curves.py).

One thread of a shared machine, 2026-11-22, one seed, default settings.
Validation accuracy; on MR, that of the test set. Baseline of guessing: 51 % (SST-2), 49 % (the acts) and 50 % (MR);
final: cnn 76.3 % on SST-2 and 76.4 % on MR, rnn 81.2 % on SST-2 and 80 % on the acts; with n-grams 82.4 % on SST-2,
of which the n-grams alone, fitted before training, reach 81.5 %.
"""

from __future__ import annotations

from heed.tasks.base.learning import Curve
from heed.tasks.classification.config import ClassificationConfig, PlantedData


def learner(config: ClassificationConfig) -> str | None:
    """The name under which curves are listed; a model with n-grams starts with those fitted before training."""
    if isinstance(config.data, PlantedData) or config.tokenizer.kind == "char":
        return None
    beside = (config.model.model_extra or {}).get("ngrams")
    return f"{config.model.name} with n-grams" if beside else config.model.name


CURVES = (
    Curve("SST-2, 6,900 sentences", "rnn with n-grams", "accuracy", 67, {67: 0.98, 134: 1.0}, start=0.97),
    Curve("SST-2, 6,900 sentences", "cnn", "accuracy", 67, {34: 0.05, 67: 0.3, 134: 0.93, 268: 1.0}),
    Curve("MR, 9,600 sentences, size base, learning rate 0.001", "cnn", "accuracy", 104, {120: 0.43, 450: 1.0}),
    Curve("SST-2, 6,900 sentences", "rnn", "accuracy", 67, {34: 0.0, 67: 0.46, 134: 0.83, 268: 1.0}),
    Curve("XDailyDialog acts, 7,400 turns", "rnn", "accuracy", 47, {24: 0.07, 47: 0.21, 94: 0.81, 188: 0.9, 376: 1.0}),
)
