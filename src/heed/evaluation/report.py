"""Reports for people."""

from __future__ import annotations

from typing import Any

from heed.errors import ConfigError

__all__ = ["errors_text", "scores_text"]


_TEXT_NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER (less is better)"}


def scores_text(scores: dict[str, dict[str, Any]]) -> str:
    """The scores of each set, one block a set."""
    return "\n\n".join(_block(name, report) for name, report in scores.items())


def _block(name: str, report: dict[str, Any]) -> str:
    if "examples" not in report:  # the validation scores of training
        numbers = ", ".join(f"{key} {value:.4f}" for key, value in report.items() if isinstance(value, float))
        return f"{name}: {numbers} ({report['note']})"
    lines = [f"{name}: {report['examples']} examples"]
    lines += _BODIES[report.get("task", "translation")](report)
    if "note" in report:
        lines.append(f"  {report['note']}")
    return "\n".join(lines)


def _translation(report: dict[str, Any]) -> list[str]:
    names = {"exact_match": "exact match", "token_accuracy": "token accuracy", "alignment_error": "alignment error"}
    lines = [f"  {label:<20} {_points(report[key])}" for key, label in _TEXT_NAMES.items() if key in report]
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
    return lines


def _classification(report: dict[str, Any]) -> list[str]:
    names = {"accuracy": "accuracy", "macro_f1": "macro F1", "micro_f1": "micro F1"}
    lines = [f"  {label:<20} {_interval(report[key])}" for key, label in names.items()]
    lines.append(f"  {'calibration error':<20} {report['calibration_error']:7.2%}")
    lines += _per_label(report["per_label"], "label")
    if "confusion" in report:
        lines += _confusion(report["confusion"])
    if report.get("cut"):
        lines.append(f"  {report['cut']} texts are longer than data.max_length and were read up to there")
    return lines


def _tagging(report: dict[str, Any]) -> list[str]:
    lines = [f"  {'words':<20} {report['words']:7,}"]
    if "entity_f1" in report:
        lines.append(f"  {'entity F1':<20} {_interval(report['entity_f1'])}")
        lines += [f"  {key:<20} {report[key]:7.2%}" for key in ("precision", "recall")]
    lines.append(f"  {'accuracy of tags':<20} {_interval(report['accuracy'])}")
    if "per_type" in report:
        lines += _per_label(report["per_type"], "type")
    else:
        lines += _per_label(report["per_tag"], "tag")
    for word, found in report.get("per_word", {}).items():
        lines.append(f"  the word {word!r:<11} {_interval(found['accuracy'])}  ({found['support']:,} times)")
    if "never_seen" in report:
        lines.append(f"  never seen in training, so never predicted: {', '.join(report['never_seen'])}")
    return lines


def _per_label(scores: dict[str, dict[str, float]], kind: str) -> list[str]:
    width = min(24, max(map(len, [kind, *scores]), default=0))
    lines = [f"  {kind:<{width}} {'precision':>10} {'recall':>10} {'F1':>10} {'support':>9}"]
    for label, values in scores.items():
        numbers = " ".join(f"{values[key]:10.2%}" for key in ("precision", "recall", "f1"))
        lines.append(f"  {label[:width]:<{width}} {numbers} {values['support']:>9,}")
    return lines


_SHOWN = 12
"""A confusion matrix of more labels is in the report only."""


def _confusion(confusion: dict[str, Any]) -> list[str]:
    labels, matrix = confusion["labels"], confusion["matrix"]
    if len(labels) > _SHOWN:
        return [f"  confusion matrix of {len(labels)} labels: see --json"]
    width = max(7, *(min(12, len(label)) for label in labels)) + 1
    lines = ["  confusion (rows true, columns predicted)", "  " + " " * width]
    lines[1] += "".join(f"{label[: width - 1]:>{width}}" for label in labels)
    for label, row in zip(labels, matrix, strict=True):
        lines.append(f"  {label[: width - 1]:>{width}}" + "".join(f"{count:>{width},}" for count in row))
    return lines


def _series(report: dict[str, Any]) -> list[str]:
    lines = [f"  forecasts of {report['horizon']} rows from each of {report['examples']} rows on"]
    for column, shown in report["columns"].items():
        lines.append(f"  {column[:20]:<20} {'MAE':>32} {'RMSE':>32}   MAE of the model is less by")
        for name, values in shown.items():
            scores = " ".join(f"{_plain(values[kind]):>32}" for kind in ("mae", "rmse"))
            lines.append(f"    {name:<18} {scores}" + (f"   {_interval(values['gain'])}" if "gain" in values else ""))
    return lines


def _plain(values: dict[str, float]) -> str:
    return f"{values['value']:.4g} [{values['low']:.4g}, {values['high']:.4g}]"


_BODIES = {
    "translation": _translation,
    "classification": _classification,
    "tagging": _tagging,
    "series": _series,
}


def _errors_of_labels(errors: list[dict[str, Any]]) -> list[str]:
    return [
        f"  {e['origin']}  is {e['true'] or '(none)'}, predicted {e['predicted'] or '(none)'} "
        f"({e['probability']:.3f})\n    {e['text']}"
        for e in errors
    ]


def _errors_of_tags(errors: list[dict[str, Any]]) -> list[str]:
    lines = []
    for e in errors:
        if "count" in e:
            lines.append(f"  {e['count']:>6,}  {e['true']} predicted as {e['predicted']}")
        else:
            kinds = " as ".join(kind for kind in (e["true"], e["predicted"]) if kind)
            lines.append(f"  {e['origin']}  {e['kind']}: {kinds}\n    {e['context']}")
    return lines


def errors_text(report: dict[str, Any], most: int) -> str:
    """The wrong examples of a report of labels or tags, each with its context.

    Raises:
        ConfigError: Reports of this task list none.
    """
    lists = {"classification": _errors_of_labels, "tagging": _errors_of_tags}
    task = report.get("task", "translation")
    if task not in lists:
        raise ConfigError(f"--errors does not apply to a run of {task}")
    shown = lists[task](report["errors"][:most])
    head = "errors, the surest first:" if task == "classification" else "errors (true entity in [ ], predicted in { }):"
    return "\n".join([head, *shown]) if shown else "no errors"


def _interval(values: dict[str, float]) -> str:
    return f"{values['value']:7.2%}  [{values['low']:.2%}, {values['high']:.2%}]"


def _points(values: dict[str, float]) -> str:
    interval = f"  [{values['low']:.2f}, {values['high']:.2f}]" if "low" in values else ""
    return f"{values['value']:7.2f}{interval}"
