"""Reports of outcomes, as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from heed.evaluation.measures import Measure, Outcomes, length_buckets
from heed.evaluation.significance import intervals


def summarise(outcomes: Outcomes, resamples: int = 1000, by_length: Sequence[str] = ()) -> dict[str, Any]:
    """The report of one test set.

    Args:
        outcomes: Outcomes of a run.
        resamples: Bootstrap resamples for the intervals.
        by_length: Names of measures to report also for ranges of source length.

    Returns:
        "examples"; by name, each measure's value with its interval, and its note as "signature"; the details; and with
        `by_length` the same by range of source length, a list under "by_source_length".
    """
    report = {"examples": len(outcomes.outputs), **shown((*outcomes.measures, *outcomes.further), resamples)}
    report |= outcomes.details
    if by_length:
        report["by_source_length"] = []
        chosen = [outcomes.measure(name) for name in by_length]
        for first, last in length_buckets(outcomes.lengths):
            inside = [i for i, length in enumerate(outcomes.lengths) if first <= length <= last]
            scores = shown([measure.of(inside) for measure in chosen], resamples)
            report["by_source_length"].append({"first": first, "last": last, "examples": len(inside), **scores})
    return report


def shown(measures: Sequence[Measure], resamples: int = 1000) -> dict[str, Any]:
    """value, low, high and, if a measure has a note, signature, by name; value 0 if there is nothing to score."""
    found = intervals(measures, resamples)
    return {
        measure.name: asdict(replace(one, value=0.0) if math.isnan(one.value) else one)
        | ({"signature": measure.note} if measure.note else {})
        for measure, one in zip(measures, found, strict=True)
    }


def score_line(scores: Mapping[str, float]) -> str:
    """Validation scores in one line; micro F1 only if it differs from accuracy (it is equal with one label each)."""
    same = "accuracy" in scores and scores.get("micro_f1") == scores["accuracy"]
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items() if not (same and name == "micro_f1"))
