"""Scores of baselines on the same examples: stored in a report, and printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heed.evaluation.measures import Measure, Outcomes
from heed.evaluation.report import shown


def beside(report: Mapping[str, Any], made: Mapping[str, Outcomes], resamples: int) -> dict[str, Any]:
    """Measures of each baseline with their intervals, and the baselines that are better than the model.

    Args:
        report: The scores of the model: numbers, or a report with intervals.
        made: The outcomes of the baselines on the same examples, by name.
        resamples: Bootstrap resamples for the intervals.

    Returns:
        "baselines": for each baseline and measure, value, low, high, label, is_share. "better_baselines", if there are
        any: for each baseline that is better than the model by the first, most important measure of both, that measure.
    """
    baselines, better = {}, {}
    for name, outcomes in made.items():
        scores = shown(outcomes.measures, resamples)
        baselines[name] = {
            m.name: {**scores[m.name], "label": m.label, "is_share": m.is_share} for m in outcomes.measures
        }
        first = next((m for m in outcomes.measures if m.name in report), None)
        if first is not None and _is_worse(_value(report[first.name]), scores[first.name]["value"], first):
            better[name] = [first.name]
    return {"baselines": baselines, **({"better_baselines": better} if better else {})}


def _value(score: Any) -> float:
    return float(score["value"] if isinstance(score, Mapping) else score)


def _is_worse(value: float, other: float, measure: Measure) -> bool:
    return value < other if measure.higher_is_better else value > other


def baseline_lines(report: Mapping[str, Any]) -> list[str]:
    """A line for each baseline of a report, followed by a second one if the baseline is better than the model."""
    lines = []
    better = report.get("better_baselines", {})
    for name, values in report.get("baselines", {}).items():
        scores = ", ".join(f"{_label(key, one)} {_shown(one)}" for key, one in values.items())
        lines.append(f"  baseline ({name}): {scores}")
        for key in better.get(name, ()):
            one = values[key]
            model = _number(_value(report[key]), one)
            lines.append(
                f"    the model is worse than this baseline: {_label(key, one)} {model}, baseline "
                f"{_number(one['value'], one)}"
            )
    return lines


def _label(key: str, one: Mapping[str, Any]) -> str:
    return str(one.get("label", key.replace("_", " ")))  # older runs have no label


def _number(value: float, one: Mapping[str, Any]) -> str:
    return f"{value:.2%}" if one.get("is_share") else f"{value:.4g}"


def _shown(one: Mapping[str, Any]) -> str:
    return f"{_number(one['value'], one)} [{_number(one['low'], one)}, {_number(one['high'], one)}]"
