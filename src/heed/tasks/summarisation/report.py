"""Scores of a summariser, printed for people."""

from __future__ import annotations

from typing import Any

from heed.evaluation.rouge import ROUGE
from heed.tasks.base.report import counted, counted_are, interval, points, span

_NAMES = {**ROUGE, "bleu": "BLEU", "chrf": "chrF"}


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    lines = [f"  {label:<20} {points(report[key])}" for key, label in _NAMES.items() if key in report]
    names = {"exact_match": "exact match", "token_accuracy": "token accuracy"}
    lines += [f"  {label:<20} {interval(report[key])}" for key, label in names.items() if key in report]
    lines.append(f"  {'perplexity':<20} {report['perplexity']:.4f}")
    lines.append("  ROUGE-2 by document tokens:")
    for bucket in report["by_source_length"]:
        lines.append(f"    {span(bucket):>8}  {points(bucket['rouge2'])}  ({bucket['examples']})")
    signatures = {"ROUGE": "rouge2", "BLEU": "bleu", "chrF": "chrf"}
    lines += [f"  {label}: {report[key]['signature']}" for label, key in signatures.items() if key in report]
    if report.get("cut"):
        more = ", ..." if report["cut"] > 3 else ""
        lines.append(
            f"  {counted_are(report['cut'], 'document')} longer than data.max_source; only the beginning was read: "
            f"{', '.join(report['cut_first'][:3])}{more}"
        )
    if report.get("cut_off"):
        were = "was" if report["cut_off"] == 1 else "were"
        lines.append(f"  {counted(report['cut_off'], 'output')} {were} cut off at generation.max_length")
    return lines
