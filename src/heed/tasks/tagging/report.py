"""Lines that show the scores of a tagging run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heed.tasks.base.report import interval, per_label, shown_errors
from heed.visible import escaped


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one split."""
    lines = [f"  {'words':<20} {report['words']:7,}"]
    if "entity_f1" in report:
        lines.append(f"  {'entity F1':<20} {interval(report['entity_f1'])}")
        lines += [f"  {key:<20} {report[key]:7.2%}" for key in ("precision", "recall")]
    lines.append(f"  {'accuracy of tags':<20} {interval(report['accuracy'])}")
    if "per_type" in report:
        lines += per_label(report["per_type"], "type")
    else:
        lines += per_label(report["per_tag"], "tag")
    for word, found in report.get("per_word", {}).items():
        lines.append(f"  the word {word!r:<11} {interval(found['accuracy'])}  ({found['support']:,} times)")
    if "never_seen" in report:
        lines.append(f"  never seen in training, so never predicted: {', '.join(map(escaped, report['never_seen']))}")
    return lines


def error_lines(report: Mapping[str, Any], most: int) -> list[str]:
    """Wrong entities in their context, or the most frequent confusions."""
    lines = []
    for e in shown_errors(report, most):
        if "count" in e:
            lines.append(f"  {e['count']:>6,}  {e['true']} predicted as {e['predicted']}")
        else:
            kinds = " as ".join(kind for kind in (e["true"], e["predicted"]) if kind)
            lines.append(f"  {e['origin']}  {e['kind']}: {kinds}\n    {e['context']}")
    if not lines:
        return ["no errors"]
    counts = "count" in shown_errors(report, 1)[0]
    head = "most frequent errors:" if counts else "errors (true entity in [ ], predicted in { }):"
    return [head, *lines]
