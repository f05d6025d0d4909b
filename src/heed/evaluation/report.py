"""Reports for people."""

from __future__ import annotations

from typing import Any

__all__ = ["scores_text"]


_TEXT_NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER (less is better)"}


def scores_text(scores: dict[str, dict[str, Any]]) -> str:
    """The scores of each set, one block a set."""
    return "\n\n".join(_block(name, report) for name, report in scores.items())


def _block(name: str, report: dict[str, Any]) -> str:
    if "examples" not in report:  # the validation scores of training
        numbers = ", ".join(f"{key} {value:.4f}" for key, value in report.items() if isinstance(value, float))
        return f"{name}: {numbers} ({report['note']})"
    lines = [f"{name}: {report['examples']} examples"]
    names = {"exact_match": "exact match", "token_accuracy": "token accuracy", "alignment_error": "alignment error"}
    lines += [f"  {label:<20} {_points(report[key])}" for key, label in _TEXT_NAMES.items() if key in report]
    lines += [f"  {label:<20} {_interval(report[key])}" for key, label in names.items() if key in report]
    if "alignment" in report:  # why there is no alignment error although the truth is known
        lines.append(f"  {names['alignment_error']:<20} {report['alignment']}")
    lines.append(f"  {'perplexity':<20} {report['perplexity']:.4f}")
    shown, show = ("chrf", _points) if "chrf" in report else ("exact_match", _interval)
    lines.append(f"  {_TEXT_NAMES.get(shown, 'exact match')} by source tokens:")
    for bucket in report["by_source_length"]:
        span = f"{bucket['first']}-{bucket['last']}"
        lines.append(f"    {span:>8}  {show(bucket[shown])}  ({bucket['examples']})")
    lines += [f"  {label}: {report[key]['signature']}" for key, label in _TEXT_NAMES.items() if key in report]
    if report.get("cut_off"):
        lines.append(f"  {report['cut_off']} outputs were cut off at generation.max_length")
    if "note" in report:
        lines.append(f"  {report['note']}")
    return "\n".join(lines)


def _interval(values: dict[str, float]) -> str:
    return f"{values['value']:7.2%}  [{values['low']:.2%}, {values['high']:.2%}]"


def _points(values: dict[str, float]) -> str:
    interval = f"  [{values['low']:.2f}, {values['high']:.2f}]" if "low" in values else ""
    return f"{values['value']:7.2f}{interval}"
