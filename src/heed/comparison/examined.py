"""Predictions of several runs for their common examples, one after the other under the same conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from heed.comparison.compared import Conditions, set_name
from heed.comparison.entries import Entry, common_examples
from heed.comparison.results import Resampling
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.evaluation.significance import SEED
from heed.tasks.base.capabilities import Compares, capability
from heed.tasks.base.comparison import Examiner, Speed, predict_timed
from heed.tasks.base.run import Run, check_one_task
from heed.threads import fixed
from heed.training.device import choose_device

_TRIALS = 10_000
"""Trials of the tests, which resolve p-values down to 0.0001."""


@dataclass(frozen=True)
class Conduct:
    """The options of a comparison; see `heed.compare`."""

    split: str | None = None
    beam_size: int | None = None
    threads: int | None = None
    device: str = "auto"
    resamples: int | None = None
    seed: int = SEED
    files: tuple[str, ...] = ()
    """Files to score the runs on, instead of a split."""


@dataclass(frozen=True)
class Examined:
    """The outputs of several entries for the same examples."""

    split: str  # name of the set of examples
    examiner: Examiner[Any, Any, Any]  # of the task
    outcomes: tuple[tuple[Outcomes, ...], ...]  # per entry and run, the outputs
    speeds: tuple[tuple[Speed, ...], ...]  # per entry and run, the speed of prediction; empty if not measured
    resampling: Resampling  # of intervals and p-values
    conditions: Conditions  # of the outputs


def predict_all(entries: Sequence[Entry], conduct: Conduct, say: Callable[[str], None], timed: bool = True) -> Examined:
    """Predict the common examples with every run, on the same device with the same threads and batches.

    Args:
        entries: The runs.
        conduct: The options.
        say: Called with a message for each run.
        timed: Repeat the predictions until the speed is known.

    Raises:
        ConfigError: An option does not fit the runs.
        DataError: The runs do not have the same examples.
    """
    opened = [run for entry in entries for run in entry.runs]
    where, beam_size, threads = choose_device(conduct.device), conduct.beam_size, conduct.threads
    if conduct.resamples is None:
        resampling = Resampling(max(run.config.evaluation.bootstrap for run in opened), _TRIALS, conduct.seed)
    else:
        resampling = Resampling(conduct.resamples, conduct.resamples, conduct.seed)
    if resampling.count < 1 or (threads is not None and threads < 1) or (beam_size is not None and beam_size < 1):
        raise ConfigError("resamples, threads and beam_size must be at least 1")
    check_one_task(opened, "can be compared")
    kind = capability(opened[0], Compares).examiner()
    if beam_size is not None and not kind.has_beam:
        raise ConfigError(f"beam_size {beam_size} does not apply to runs of {opened[0].config.task}")
    name, examples = common_examples(opened, conduct.split, kind, conduct.files)
    examiner = kind(opened, examples)
    count = threads or max(run.report.get("training", {}).get("threads", 1) for run in opened)
    outcomes: list[tuple[Outcomes, ...]] = []
    speeds: list[tuple[Speed, ...]] = []
    with fixed(count):
        for entry in entries:
            found: list[Outcomes] = []
            measured: list[Speed] = []
            for run in entry.runs:
                say(f"{run.folder}: {len(examples):,} {set_name(name)} examples")
                with _on(run, where):
                    if timed:
                        outputs, speed = predict_timed(examiner, run, beam_size)
                        measured.append(speed)
                    else:
                        outputs = examiner.predict(run, examples, beam_size)
                    found.append(examiner.outcomes(run, outputs))
            outcomes.append(tuple(found))
            speeds.append(tuple(measured))
    passes = [speed.passes for group in speeds for speed in group] or [1]
    conditions = Conditions(str(where), count, beam_size, (min(passes), max(passes)))
    return Examined(name, examiner, tuple(outcomes), tuple(speeds), resampling, conditions)


def remarks_on(examiner: Examiner[Any, Any, Any], split: str, beam_size: int | None) -> tuple[str, ...]:
    """Remarks on the scores and speeds of runs."""
    remarks, runs = [], examiner.runs
    if split == "valid":
        remarks.append("Each run's weights were selected on this set, so its scores are optimistic.")
    remarks += examiner.remarks
    beams = sorted({run.task.config.generation.beam_size for run in runs}) if examiner.has_beam else []
    if beam_size is None and len(beams) > 1:
        remarks.append(f"Each run decodes with its own beam ({', '.join(map(str, beams))}); --beam sets one for all.")
    for name, what in (("threads", "with different numbers of threads"), ("device", "of different devices")):
        found = sorted({run.report["training"][name] for run in runs if name in run.report.get("training", {})})
        if len(found) > 1:
            remarks.append(f"Training speeds are {what} ({', '.join(map(str, found))}).")
    if any(not run.report for run in runs):
        remarks.append("Numbers of training are missing for runs without a report.")
    return tuple(remarks)


@contextmanager
def _on(run: Run[Any, Any], device: torch.device) -> Iterator[None]:
    """Context manager that moves a run's model to a device and back."""
    before = next(run.model.parameters()).device
    run.model.to(device)
    try:
        yield
    finally:
        run.model.to(before)
