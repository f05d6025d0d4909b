"""Scores of predicted labels against true ones: by scikit-learn, with bootstrap intervals over the texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from heed.evaluation.measures import Measure, share
from heed.evaluation.metrics import Interval

Array = np.ndarray[Any, Any]
_BINS = 15


def f1_scores(true: Array, predicted: Array) -> tuple[float, float]:
    """Macro and micro F1 from indicator matrices.

    Args:
        true: `(examples, labels)` of bool.
        predicted: The same.

    Returns:
        The mean of the F1 of the labels that occur on either side, and the F1 of all decisions together; 0 where
        nothing is true or predicted.
    """
    right, said, there = (true & predicted).sum(0), predicted.sum(0), true.sum(0)
    return _macro_micro(right, said + there)


def _macro_micro(right: Array, both: Array) -> tuple[float, float]:
    """F1 = 2 right / (predicted + true), `both` being the denominator, per label in the last dimension."""
    occurs = both > 0
    each = np.where(occurs, 2 * right / np.maximum(both, 1), 0.0)
    macro = float(each.sum() / max(1, occurs.sum()))
    return macro, float(2 * right.sum() / max(1, both.sum()))


def score_labels(
    true: Array, predicted: Array, probabilities: Array, labels: Sequence[str], several: bool, resamples: int = 1000
) -> dict[str, Any]:
    """The report of one test set, as plain values.

    Args:
        true: `(examples, labels)` of bool, one True a row unless `several`.
        predicted: The same.
        probabilities: `(examples, labels)`.
        labels: Their names.
        several: Whether a text may have several labels, or none.
        resamples: Bootstrap resamples for the intervals.

    Returns:
        examples; accuracy (all labels of a text right), macro_f1 and micro_f1 with intervals; calibration_error;
        per_label precision, recall, f1 and support; for one label a text the confusion matrix, rows true.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    precision, recall, f1, support = precision_recall_fscore_support(
        true.astype(int), predicted.astype(int), average=None, zero_division=0
    )
    exact = (true == predicted).all(1)
    macro, micro = f1_scores(true, predicted)
    drawn: dict[str, list[float]] = {"accuracy": [], "macro_f1": [], "micro_f1": []}
    generator = np.random.default_rng(1)
    hits, both = true & predicted, predicted.astype(np.int32) + true
    for _ in range(resamples):
        counts = np.bincount(generator.integers(len(true), size=len(true)), minlength=len(true))
        resampled = _macro_micro(counts @ hits, counts @ both)
        for name, value in zip(drawn, (float(counts @ exact / len(true)), *resampled), strict=True):
            drawn[name].append(value)
    values = {"accuracy": float(exact.mean()), "macro_f1": macro, "micro_f1": micro}
    report: dict[str, Any] = {"task": "classification", "examples": len(true)}
    report |= {name: asdict(_interval(value, drawn[name])) for name, value in values.items()}
    report["calibration_error"] = calibration_error(true, predicted, probabilities, several)
    report["per_label"] = {
        label: {
            "precision": float(precision[i]),
            "recall": float(recall[i]),
            "f1": float(f1[i]),
            "support": int(support[i]),
        }
        for i, label in enumerate(labels)
    }
    if not several:
        matrix = confusion_matrix(true.argmax(1), predicted.argmax(1), labels=range(len(labels)))
        report["confusion"] = {"labels": list(labels), "matrix": matrix.tolist()}
    return report


def _interval(value: float, drawn: list[float]) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975]) if drawn else (value, value)
    return Interval(value, float(low), float(high))


def calibration_error(true: Array, predicted: Array, probabilities: Array, several: bool = False) -> float:
    """Expected calibration error: how far the share of right decisions lies from the probability they were given.

    `sum over bins of (share of decisions in the bin) * |accuracy - mean confidence|`, 15 bins of equal width. A
    decision is the predicted label of a text; with several labels each label of each text is one (confidence p or
    1 - p).

    Source: Guo et al. 2017 (arXiv:1706.04599), equation 3.
    """
    sums = _calibration(true, predicted, probabilities, several).sum(0, keepdims=True)
    return float(_calibration_gap(sums)[0]) if len(true) else 0.0


def _calibration(true: Array, predicted: Array, probabilities: Array, several: bool) -> Array:
    """Per example the right decisions less their confidence in each bin, and how many decisions, `(examples, 16)`."""
    if several:
        right, confidence = true == predicted, np.where(predicted, probabilities, 1 - probabilities)
    else:
        chosen = predicted.argmax(1)[:, None]
        right, confidence = (np.take_along_axis(array, chosen, 1) for array in (true, probabilities))
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    statistics = np.zeros((len(true), _BINS + 1))
    np.add.at(statistics, (np.arange(len(true))[:, None], bins), right - confidence)
    statistics[:, _BINS] = right.shape[1]
    return statistics


def _calibration_gap(sums: Array) -> Array:
    gap: Array = np.abs(sums[:, :_BINS]).sum(1) / np.maximum(1, sums[:, _BINS])
    return gap


def label_measures(true: Array, predicted: Array, probabilities: Array, several: bool) -> tuple[Measure, ...]:
    """The scores of `score_labels` as measures, the one that matters most first: for comparisons.

    Args:
        true: `(examples, labels)` of bool.
        predicted: The same.
        probabilities: `(examples, labels)`.
        several: Whether a text may have several labels, or none.
    """
    hits, both = (true & predicted).astype(float), predicted.astype(float) + true
    accuracy = share("accuracy", "accuracy", (true == predicted).all(1).astype(float).tolist())
    macro = Measure("macro_f1", "macro F1", np.concatenate([hits, both], axis=1), _macro_of_sums, is_share=True)
    micro = share("micro_f1", "micro F1", (2 * hits.sum(1)).tolist(), both.sum(1).tolist())
    calibration = Measure(
        "calibration_error",
        "calibration error",
        _calibration(true, predicted, probabilities, several),
        _calibration_gap,
        higher_is_better=False,
        is_share=True,
    )
    return (micro, macro, accuracy, calibration) if several else (accuracy, macro, calibration)


def _macro_of_sums(sums: Array) -> Array:
    half = sums.shape[1] // 2
    return np.array([_macro_micro(row[:half], row[half:])[0] for row in sums])
