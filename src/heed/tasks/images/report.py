"""Lines that show the scores of a run over pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heed.tasks.base.report import interval, label_body, shown_errors

TOP = 5
"""Number of most probable labels among which the true label counts as found."""
TOP_NAME = f"top_{TOP}"


def picture_body(report: dict[str, Any]) -> list[str]:
    """The scores of labels, with top-5 accuracy."""
    first, *rest = label_body(report)
    found = [f"  {f'top-{TOP} accuracy':<20} {interval(report[TOP_NAME])}"] if TOP_NAME in report else []
    return [first, *found, *rest]


def picture_errors(report: Mapping[str, Any], most: int) -> list[str]:
    """The wrong examples of a report, most confident first."""
    lines = [
        f"  {e['origin']}  is {e['true']}, predicted {e['predicted']} ({e['probability']:.3f})"
        for e in shown_errors(report, most)
    ]
    return ["errors, most confident first:", *lines] if lines else ["no errors"]
