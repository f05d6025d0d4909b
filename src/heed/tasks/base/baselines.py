"""What plain ways without a model reach on the same examples, as a report keeps it and as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heed.evaluation.measures import Measure, Outcomes
from heed.evaluation.report import shown


def beside(report: Mapping[str, Any], made: Mapping[str, Outcomes], resamples: int) -> dict[str, Any]:
    """By the name of each baseline its measures with their intervals, and where the model's report is worse.

    Args:
        report: The scores of the model: numbers, or a report with intervals.
        made: The outcomes of the baselines on the same examples.
        resamples: Bootstrap resamples for the intervals.

    Returns:
        By baseline, by measure: value, low, high, label, is_share. Under "better", by baseline, the measures in which
        it is better than the model: of the first measure that both have, which is the one that matters most.
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
    """The baselines of a report, a line each, and a line more for each that is better than the model."""
    lines = []
    better = report.get("better_baselines", {})
    for name, values in report.get("baselines", {}).items():
        scores = ", ".join(f"{_label(key, one)} {_shown(one)}" for key, one in values.items())
        lines.append(f"  {name}, a baseline: {scores}")
        for key in better.get(name, ()):
            one = values[key]
            model = _number(_value(report[key]), one)
            lines.append(
                f"    the model is below this baseline: {_label(key, one)} {model} against {_number(one['value'], one)}"
            )
    return lines


def _label(key: str, one: Mapping[str, Any]) -> str:
    return str(one.get("label", key.replace("_", " ")))  # runs of before have no label


def _number(value: float, one: Mapping[str, Any]) -> str:
    return f"{value:.2%}" if one.get("is_share") else f"{value:.4g}"


def _shown(one: Mapping[str, Any]) -> str:
    return f"{_number(one['value'], one)} [{_number(one['low'], one)}, {_number(one['high'], one)}]"
