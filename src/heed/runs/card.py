"""The model card of a run, and its scores as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heed import folder as folders
from heed.config import RunConfig
from heed.errors import RunError
from heed.evaluation.significance import score_line
from heed.runs.pack import CARD, command_lines
from heed.storage.disk import write_whole
from heed.tasks import spec_of
from heed.tasks.base.curves import curves_of
from heed.tasks.base.report import baseline_lines, counted
from heed.tasks.run import Run
from heed.visible import code_span, lines, markdown, shell_word

_CURVES = "curves.svg"
WRITTEN = CARD, _CURVES
_CURVES_SHOWN = "heed look {run}"


def scores_text(run: Run, scores: dict[str, dict[str, Any]]) -> str:
    """The scores as text, one block for each set."""
    return "\n\n".join(_block(run, name, report) for name, report in scores.items())


def _block(run: Run, name: str, report: dict[str, Any]) -> str:
    baselines, spec = baseline_lines(report), spec_of(run.config.task)
    if "examples" not in report:  # the validation scores of training
        numbers = score_line({key: value for key, value in report.items() if isinstance(value, float)})
        return "\n".join([f"{name}: {numbers} ({report['note']})", *baselines])
    head, note = counted(report["examples"], spec.scored_unit or spec.unit), report.get("note")
    return "\n".join([f"{name}: {head}", *run.head.report(report), *baselines, *([f"  {note}"] if note else [])])


def write_card(run: Run) -> None:
    """Write the model card, `README.md`, and the training curves it shows, `curves.svg`."""
    path, report, config = run.folder, run.report, run.config
    training, spec = report["training"], spec_of(config.task)
    where, here = _place(path)
    place = shell_word(Path(where))
    examples = ", ".join(f"{counted(counts['examples'], spec.unit)} ({n})" for n, counts in report["data"].items())
    tested = {k: v for k, v in report["scores"].items() if "examples" in v or "baselines" in v}
    card = [
        f"# {config.model.name} on {markdown(config.data.name)}",
        "",
        f"A {report['task'].replace('_', ' ')} model of {report['parameters']:,} parameters, trained by heed "
        f"{report['versions']['heed']} (torch {report['versions']['torch']}).",
        "",
        f"Data: {examples}. "
        f"Training: {counted(training['updates'], 'update')} in {training['seconds']:.0f} s on {training['device']} "
        f"({counted(training['threads'], 'thread')}, {training['precision']}), seed {training['seed']}; "
        f"{markdown(training['ended'])}; weights of {training['kept']}.",
        "",
        "```",
        lines(scores_text(run, tested or report["scores"])),
        "```",
        "",
        *_licence(path),
        *_curves(path, config),
        *command_lines(
            (use.format(run=place) for use in (*spec.uses, _CURVES_SHOWN)),
            f"{here}; elsewhere, give the path of this folder instead of {code_span(place)}",
        ),
    ]
    write_whole(path / CARD, lambda part: part.write_text("\n".join(card) + "\n", encoding="utf-8"))


def _place(path: Path) -> tuple[str, str]:
    """The name of a run folder in commands, and a description of the directory in which to run them.

    Of a folder outside the current one only the name is used: a model card contains no paths of the machine.
    """
    if path.absolute().is_relative_to(Path.cwd()):
        return str(path.absolute().relative_to(Path.cwd())), "the directory in which it was trained"
    return path.name, "the directory that holds this folder"


def _licence(path: Path) -> list[str]:
    """The card's lines for the licence of the checkpoint that the run was trained from; none if it is not known."""
    from heed.exchange.huggingface.checkpoint import Origin  # most runs are not from checkpoints

    origin = Origin.read(path) if (path / folders.ORIGIN).is_file() else None
    if origin is None or origin.licence is None:
        return []
    return [f"Trained from {markdown(origin.source)}. Licence of the checkpoint: {origin.licence}", ""]


def _curves(path: Path, config: RunConfig) -> list[str]:
    """Draw the curves of training and return the card's lines for them; no lines if nothing was logged."""
    try:
        drawn = curves_of(path, config).svg()
    except RunError:  # the log could not be written; training has warned of that
        return []
    write_whole(path / _CURVES, lambda part: part.write_text(drawn, encoding="utf-8"))
    return [f"![Loss, validation scores, learning rate and speed during training]({_CURVES})", ""]
