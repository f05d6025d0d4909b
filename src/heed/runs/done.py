"""A finished run that is resumed without any change: how to train it longer."""

from __future__ import annotations

from pathlib import Path

from heed import folder as folders
from heed.config import RunConfig, TrainingConfig
from heed.runs.check import check_run
from heed.runs.resume import Unfinished
from heed.tasks.base.report import counted
from heed.training.checkpoint import Progress
from heed.training.contracts import TrainResult
from heed.visible import shell_word

_SPEEDS = "target_tokens_per_second", "padding_share", "waiting_share"
_READ = {"updates", "planned_updates", "ended", "kept", *_SPEEDS}
"""Fields read from `training` of a report."""


def result_if_done(folder: Path, given: RunConfig) -> TrainResult | None:
    """The result of a run that is whole and finished, with no setting changed; None if there is something to do.

    A damaged run folder counts as something to do: resuming writes the files again.

    Args:
        folder: A folder that may be a run folder.
        given: The present settings.

    Raises:
        ConfigError: A setting was changed that cannot change in a resumed run.
        RunError: The folder is of another format.
    """
    if folders.state_of(folder) is not folders.State.FINISHED:
        return None
    found = Unfinished.find(folder, given)
    if found is None or found.changes or found.damage:
        return None
    report = folders.read_report(folder)
    training = report.get("training", {})
    if not _READ <= training.keys() or "valid" not in report.get("scores", {}) or not check_run(folder).whole:
        return None
    progress = Progress(step=training["updates"], total_steps=training["planned_updates"])
    validation = {name: value for name, value in report["scores"]["valid"].items() if isinstance(value, float)}
    speeds = (training[name] for name in _SPEEDS)
    return TrainResult(folder, True, training["ended"], progress, validation, training["kept"], *speeds)


def how_to_go_on(folder: Path, result: TrainResult, training: TrainingConfig) -> str:
    """A message that a run has finished, with the command to train it longer."""
    steps, minutes = training.steps, training.minutes
    budget = f"training.steps={2 * steps}" if steps is not None else f"training.minutes={2 * (minutes or 1):g}"
    now = counted(steps, "update") if steps is not None else f"{minutes:g} minute{'' if minutes == 1 else 's'}"
    return (
        f"'{folder}' has finished ({result.reason}), and no setting was changed; to train it longer than its budget of "
        f"{now}, give a larger one: heed train {shell_word(folder)} --resume {budget}"
    )
