"""Scores of predicted labels against true ones, by scikit-learn, with bootstrap intervals over the examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heed.evaluation.measures import Measure, Outcomes, share, values_of

Array = np.ndarray[Any, Any]
_BINS = 15


def f1_measures(true: Array, predicted: Array) -> tuple[Measure, Measure, Measure]:
    """Accuracy (all labels of an example correct), macro F1 and micro F1.

    F1 = 2 correct / (predicted + true). Macro F1 is the mean over the labels that were predicted or are true for some
    example; micro F1 is over all decisions together.

    Args:
        true: `(examples, labels)` of bool.
        predicted: `(examples, labels)` of bool.
    """
    hits, both = (true & predicted).astype(float), predicted.astype(float) + true
    return (
        share("accuracy", "accuracy", (true == predicted).all(1).astype(float).tolist()),
        Measure("macro_f1", "macro F1", np.concatenate([hits, both], axis=1), _macro, is_share=True),
        share("micro_f1", "micro F1", (2 * hits.sum(1)).tolist(), both.sum(1).tolist()),
    )


def _macro(sums: Array) -> Array:
    right, both = np.split(sums, 2, axis=1)
    occurs = both > 0
    each = np.where(occurs, 2 * right / np.maximum(both, 1), 0.0)
    macro: Array = each.sum(1) / np.maximum(1, occurs.sum(1))
    return macro


def label_outcomes(
    outputs: Sequence[str], true: Array, predicted: Array, probabilities: Array, labels: Sequence[str], several: bool
) -> Outcomes:
    """Labels of examples with their scores.

    Args:
        outputs: Readable outputs.
        true: `(examples, labels)` of bool, one True in each row unless `several`.
        predicted: As `true`.
        probabilities: `(examples, labels)`.
        labels: Names of the labels.
        several: True if an example may have several labels, or none.

    Returns:
        accuracy, macro_f1, micro_f1 (equal to accuracy unless `several`) and calibration_error; the details have
        per_label precision, recall, f1 and support, and unless `several` the confusion matrix, rows true.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    accuracy, macro, micro = f1_measures(true, predicted)
    calibration = Measure(
        "calibration_error",
        "calibration error",
        _calibration(true, predicted, probabilities, several),
        _calibration_gap,
        higher_is_better=False,
        is_share=True,
    )
    measures = (micro, macro, accuracy, calibration) if several else (accuracy, macro, calibration)
    of_labels = precision_recall_fscore_support(true.astype(int), predicted.astype(int), average=None, zero_division=0)
    details: dict[str, Any] = {
        **values_of([calibration]),
        "per_label": {
            label: {"precision": float(p), "recall": float(r), "f1": float(f1), "support": int(support)}
            for label, p, r, f1, support in zip(labels, *of_labels, strict=True)
        },
    }
    if not several:
        matrix = confusion_matrix(true.argmax(1), predicted.argmax(1), labels=range(len(labels)))
        details["confusion"] = {"labels": list(labels), "matrix": matrix.tolist()}
    return Outcomes(tuple(outputs), measures, () if several else (micro,), details=details)


def calibration_error(true: Array, predicted: Array, probabilities: Array, several: bool = False) -> float:
    """Expected calibration error: the difference between accuracy and confidence, averaged over bins of confidence.

    `sum over bins of (share of decisions in the bin) * |accuracy - mean confidence|`, 15 bins of equal width. A
    decision is the predicted label of an example; with `several`, each label of each example (confidence p or 1 - p).

    Source: Guo et al. 2017 (arXiv:1706.04599), equation 3.
    """
    sums = _calibration(true, predicted, probabilities, several).sum(0, keepdims=True)
    return float(_calibration_gap(sums)[0]) if len(true) else 0.0


def _calibration(true: Array, predicted: Array, probabilities: Array, several: bool) -> Array:
    """For each example: correct decisions minus confidence in each bin, and number of decisions, `(examples, 16)`."""
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
