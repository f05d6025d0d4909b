"""The scores of pretraining as text."""

from __future__ import annotations

from typing import Any

from heed.tasks.base.report import interval, plain


def body(report: dict[str, Any]) -> list[str]:
    """Lines with the scores of one set: masked words, and pairs."""
    lines = []
    if "masked_accuracy" in report:
        lines.append(f"  {'masked words right':<22} {interval(report['masked_accuracy'])}")
        lines.append(f"  {'nats per masked word':<22}  {plain(report['masked_loss'])}  of {report['masked']:,}")
    if "next_accuracy" in report:
        lines.append(f"  {'next sentences right':<22} {interval(report['next_accuracy'])}")
        lines.append(f"  {'nats per pair':<22}  {plain(report['next_loss'])}  of {report['pairs']:,}")
    return lines
