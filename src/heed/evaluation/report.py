"""Reports for people."""

from __future__ import annotations

from typing import Any

__all__ = ["scores_text"]


def scores_text(scores: dict[str, dict[str, Any]]) -> str:
    """The scores of each set, one block a set."""
    return "\n\n".join(_block(name, report) for name, report in scores.items())


def _block(name: str, report: dict[str, Any]) -> str:
    if "examples" not in report:  # the validation scores of training
        numbers = ", ".join(f"{key} {value:.4f}" for key, value in report.items() if isinstance(value, float))
        return f"{name}: {numbers} ({report['note']})"
    lines = [f"{name}: {report['examples']} examples"]
    names = {"exact_match": "exact match", "token_accuracy": "token accuracy", "alignment_error": "alignment error"}
    lines += [f"  {label:<16} {_interval(report[key])}" for key, label in names.items() if key in report]
    lines.append(f"  {'perplexity':<16} {report['perplexity']:.4f}")
    lines.append("  exact match by source length:")
    for bucket in report["by_source_length"]:
        span = f"{bucket['first']}-{bucket['last']}"
        lines.append(f"    {span:>8}  {_interval(bucket['exact_match'])}  ({bucket['examples']})")
    if "note" in report:
        lines.append(f"  {report['note']}")
    return "\n".join(lines)


def _interval(values: dict[str, float]) -> str:
    return f"{values['value']:7.2%}  [{values['low']:.2%}, {values['high']:.2%}]"
