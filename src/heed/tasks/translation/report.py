"""Scores of a translation, printed for people."""

from __future__ import annotations

from typing import Any

from heed.tasks.base.report import counted, interval, points, span

_TEXT_NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER (less is better)"}
_LINKS = {"aer": "AER (less is better)", "alignment_precision": "link precision", "alignment_recall": "link recall"}


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    names = {"exact_match": "exact match", "token_accuracy": "token accuracy", "alignment_error": "alignment error"}
    lines = [f"  {label:<20} {points(report[key])}" for key, label in _TEXT_NAMES.items() if key in report]
    lines += [f"  {label:<20} {interval(report[key])}" for key, label in names.items() if key in report]
    if "alignment" in report:  # the reason why there is no alignment error although links are known
        lines.append(f"  {names['alignment_error']:<20} {report['alignment']}")
    if "aer" in report:
        lines += [f"  {label:<20} {interval(report[key])}" for key, label in _LINKS.items()]
    lines.append(f"  {'perplexity':<20} {report['perplexity']:.4f}")
    shown, show = ("chrf", points) if "chrf" in report else ("exact_match", interval)
    lines.append(f"  {_TEXT_NAMES.get(shown, 'exact match')} by source tokens:")
    for bucket in report["by_source_length"]:
        lines.append(f"    {span(bucket):>8}  {show(bucket[shown])}  ({bucket['examples']})")
    lines += [f"  {label}: {report[key]['signature']}" for key, label in _TEXT_NAMES.items() if key in report]
    if report.get("cut_off"):
        were = "was" if report["cut_off"] == 1 else "were"
        lines.append(f"  {counted(report['cut_off'], 'output')} {were} cut off at generation.max_length")
    return lines
