"""Scores of translations against references, by sacrebleu, on raw text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heed.evaluation.measures import Array, Measure

__all__ = ["text_measure", "text_scores"]

_LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


def text_scores(
    outputs: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
    resamples: int = 0,
) -> dict[str, Any]:
    """Corpus scores with sacrebleu's signatures.

    Args:
        outputs: Raw text, one per example.
        references: Raw text, one per example.
        metrics: Any of "bleu", "chrf", "ter".
        resamples: Bootstrap resamples for a 95 % interval; 0 for none.

    Returns:
        Per metric value, and with resamples low and high, and the signature that tells how it was computed.

    Source: Post 2018 (arXiv:1804.08771). BLEU and chrF: higher is better; TER: lower.
    """
    result: dict[str, Any] = {}
    for name in metrics:
        metric = _metric(name)
        score = metric.corpus_score(list(outputs), [list(references)], n_bootstrap=max(1, resamples))
        entry: dict[str, Any] = {"value": float(score.score)}
        if resamples > 1 and len(outputs) > 1:
            entry["low"], entry["high"] = float(score._mean - score._ci), float(score._mean + score._ci)
        entry["signature"] = str(metric.get_signature())
        result[name] = entry
    return result


def text_measure(name: str, outputs: Sequence[str], references: Sequence[str]) -> Measure:
    """A corpus score in a form that can be resampled: sacrebleu's statistics of each example, and its formula.

    Args:
        name: "bleu", "chrf" or "ter".
        outputs: Raw text, one per example.
        references: Raw text, one per example.
    """
    metric = _metric(name)
    statistics = metric._extract_corpus_statistics(list(outputs), [list(references)])

    def formula(sums: Array) -> Array:
        return np.array([metric._compute_score_from_stats(row).score for row in sums.tolist()], dtype=np.float64)

    return Measure(
        name,
        _LABELS[name],
        np.array(statistics, dtype=np.float64),
        formula,
        higher_is_better=name != "ter",
        note=str(metric.get_signature()),
    )


def _metric(name: str) -> Any:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    metric = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[name]()
    _in_python_floats(metric)
    return metric


def _in_python_floats(metric: Any) -> None:
    """Give a metric its statistics as Python's numbers.

    A resample's are NumPy's float32, and a score of them is one too, except where nothing matches (an untrained
    model): then it is Python's 0.0, and sacrebleu's mean of both kinds raises a TypeError.
    """
    compute = metric._compute_score_from_stats
    metric._compute_score_from_stats = lambda stats: compute([float(value) for value in stats])
