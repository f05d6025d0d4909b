"""Scores of responses, printed for people."""

from __future__ import annotations

from typing import Any

from heed.tasks.base.predictions import short
from heed.tasks.base.report import counted, counted_are, interval, plain, points, span

_POINTS = {"bleu": "BLEU", "chrf": "chrF"}
_SHARES = {
    "exact_match": "exact match",
    "token_accuracy": "token accuracy",
    "distinct_1": "distinct-1",
    "distinct_2": "distinct-2",
    "commonest": "10 commonest outputs",
}
_SHOWN = 3
"""Number of most common outputs that are shown."""


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    lines = [f"  {'responses':<21} {report['responses']:7,}, intervals over conversations"]
    lines.append(f"  {'perplexity':<21} {plain(report['perplexity'])}")
    lines += [f"  {label:<21} {points(report[key])}" for key, label in _POINTS.items() if key in report]
    lines += [f"  {label:<21} {interval(report[key])}" for key, label in _SHARES.items() if key in report]
    common = [f"{short(one['text'])} ({one['count']:,})" for one in report["common"][:_SHOWN]]
    lines.append(f"  most frequent responses: {', '.join(common)}")
    lines.append("  perplexity by turns before the response:")
    for bucket in report["by_turns_read"]:
        lines.append(f"    {span(bucket):>8}  {bucket['perplexity']:7.2f}  ({bucket['responses']:,})")
    lines += [f"  {label}: {report[key]['signature']}" for key, label in _POINTS.items() if key in report]
    if report["history_cut"]:
        lines.append(f"  {counted_are(report['history_cut'], 'response')} to a history whose first turns were not read")
    if report["cut_off"]:
        were = "was" if report["cut_off"] == 1 else "were"
        lines.append(f"  {counted(report['cut_off'], 'output')} {were} cut off at generation.max_length")
    return lines
