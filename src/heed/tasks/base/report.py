"""Printed reports: numbers with their intervals, tables by label, baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heed.evaluation.measures import Measure, Outcomes
from heed.evaluation.significance import shown
from heed.visible import escaped


def counted(count: int, unit: str) -> str:
    """A count with its unit: "1 pair", "1,200 pairs"."""
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def counted_are(count: int, unit: str) -> str:
    """A count as the subject of a sentence: "1 pair is", "1,200 pairs are"."""
    return f"{counted(count, unit)} {'is' if count == 1 else 'are'}"


def first_of(count: int, total: int, unit: str) -> str:
    """As "the first 2 of 5 turns are", or "the first of 5 turns is"."""
    return f"the first of {total:,} {unit}s is" if count == 1 else f"the first {count:,} of {total:,} {unit}s are"


def span(bucket: Mapping[str, Any]) -> str:
    """The lengths of a bucket: "7", "13-15"."""
    first, last = bucket["first"], bucket["last"]
    return str(first) if first == last else f"{first}-{last}"


def interval(values: dict[str, float]) -> str:
    """A share with its interval, in percent."""
    return f"{values['value']:7.2%}  [{values['low']:.2%}, {values['high']:.2%}]"


def points(values: dict[str, float]) -> str:
    """A number of points, with its interval if it has one."""
    span = f"  [{values['low']:.2f}, {values['high']:.2f}]" if "low" in values else ""
    return f"{values['value']:7.2f}{span}"


def plain(values: dict[str, float]) -> str:
    """A number with its interval, in its own unit."""
    return f"{values['value']:.4g} [{values['low']:.4g}, {values['high']:.4g}]"


def label_body(report: dict[str, Any]) -> list[str]:
    """The scores of labels."""
    names = {"accuracy": "accuracy", "macro_f1": "macro F1", "micro_f1": "micro F1"}
    if report["micro_f1"] == report["accuracy"]:  # with one label each, the two are the same number
        del names["micro_f1"]
    lines = [f"  {label:<20} {interval(report[key])}" for key, label in names.items()]
    lines.append(f"  {'calibration error':<20} {report['calibration_error']:7.2%}")
    lines += per_label(report["per_label"], "label")
    if "confusion" in report:
        lines += confusion_table(report["confusion"])
    if report.get("cut"):
        lines.append(f"  {counted_are(report['cut'], 'text')} longer than data.max_length; the rest was not read")
    return lines


def per_label(scores: dict[str, dict[str, float]], kind: str) -> list[str]:
    """Precision, recall and F1 of each label."""
    shown = {escaped(label): values for label, values in scores.items()}
    width = min(24, max(map(len, [kind, *shown]), default=0))
    lines = [f"  {kind:<{width}} {'precision':>10} {'recall':>10} {'F1':>10} {'support':>9}"]
    for label, values in shown.items():
        numbers = " ".join(f"{values[key]:10.2%}" for key in ("precision", "recall", "f1"))
        lines.append(f"  {label[:width]:<{width}} {numbers} {values['support']:>9,}")
    return lines


_SHOWN = 12
"""Most labels of a confusion matrix that is printed; larger ones are in the report only."""
_WIDE = 16
"""Longest label in that matrix; of longer ones the beginning is printed."""


def confusion_table(confusion: dict[str, Any]) -> list[str]:
    """Counts by true and predicted label."""
    labels, matrix = [escaped(label) for label in confusion["labels"]], confusion["matrix"]
    if len(labels) > _SHOWN:
        return [f"  confusion matrix of {len(labels)} labels: see --json"]
    labels = [label if len(label) <= _WIDE else f"{label[: _WIDE - 3]}..." for label in labels]
    width = max(7, *map(len, labels)) + 1
    lines = ["  confusion (rows true, columns predicted)", "  " + " " * width]
    lines[1] += "".join(f"{label:>{width}}" for label in labels)
    for label, row in zip(labels, matrix, strict=True):
        lines.append(f"  {label:>{width}}" + "".join(f"{count:>{width},}" for count in row))
    return lines


def shown_errors(report: Mapping[str, Any], most: int) -> list[dict[str, Any]]:
    """The first errors of a report, each text on one line, with invisible characters escaped."""
    return [
        {name: escaped(value) if isinstance(value, str) else value for name, value in error.items()}
        for error in report["errors"][:most]
    ]


def label_errors(report: Mapping[str, Any], most: int) -> list[str]:
    """The wrong examples of a report, most confident first."""
    lines = [
        f"  {e['origin']}  is {e['true'] or '(none)'}, predicted {e['predicted'] or '(none)'} "
        f"({e['probability']:.3f})\n    {e['text']}"
        for e in shown_errors(report, most)
    ]
    return ["errors, most confident first:", *lines] if lines else ["no errors"]


def baseline_scores(report: Mapping[str, Any], made: Mapping[str, Outcomes], resamples: int) -> dict[str, Any]:
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
