"""The model card of a run, and its scores for people."""

from __future__ import annotations

from typing import Any

from heed.storage.disk import write_whole
from heed.tasks import spec_of
from heed.tasks.base.baselines import baseline_lines
from heed.tasks.base.run import Run


def scores_text(run: Run[Any, Any], scores: dict[str, dict[str, Any]]) -> str:
    """The scores of each set, one block a set."""
    return "\n\n".join(_block(run, name, report) for name, report in scores.items())


def _block(run: Run[Any, Any], name: str, report: dict[str, Any]) -> str:
    if "examples" not in report:  # the validation scores of training
        numbers = ", ".join(f"{key} {value:.4f}" for key, value in report.items() if isinstance(value, float))
        return "\n".join([f"{name}: {numbers} ({report['note']})", *baseline_lines(report)])
    lines = [f"{name}: {report['examples']} examples", *run.body(report)]
    lines += baseline_lines(report)
    if "note" in report:
        lines.append(f"  {report['note']}")
    return "\n".join(lines)


def write_card(run: Run[Any, Any]) -> None:
    """Write the model card, `README.md`."""
    path, report, config = run.folder, run.report, run.config
    training = report["training"]
    uses = (use.format(run=path.name) for use in spec_of(config.task).uses)
    examples = ", ".join(f"{counts['examples']:,} {name}" for name, counts in report["data"].items())
    lines = [
        f"# {config.model.name} on {config.data.name}",
        "",
        f"A {report['task']} model of {report['parameters']:,} parameters, trained by heed "
        f"{report['versions']['heed']} (torch {report['versions']['torch']}).",
        "",
        f"Data: {examples} examples. "
        f"Training: {training['updates']:,} updates in {training['seconds']:.0f} s on {training['device']} "
        f"({training['threads']} threads, {training['precision']}), seed {training['seed']}; "
        f"{training['ended']}; weights of {training['kept']}.",
        "",
        "```",
        scores_text(run, {k: v for k, v in report["scores"].items() if "examples" in v or "baselines" in v}),
        "```",
        "",
        "Use it: " + ", ".join(f"`{use}`" for use in uses) + ".",
    ]
    text = "\n".join(lines) + "\n"
    write_whole(path / "README.md", lambda part: part.write_text(text, encoding="utf-8"))
