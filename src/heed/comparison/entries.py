"""The runs of a comparison (opened, grouped by seed), their common examples, and their predictions for these."""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from heed.comparison.results import Resampling
from heed.errors import ConfigError, DataError, suggest
from heed.evaluation.measures import Outcomes
from heed.evaluation.significance import SEED
from heed.evaluation.text_scores import ROUGE
from heed.runs.advice import ENOUGH_PASSES, enough_updates
from heed.runs.loading import load
from heed.tasks import capability
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.curves import Log
from heed.tasks.base.looking import check_one_task
from heed.tasks.base.predictions import typed
from heed.tasks.run import Run
from heed.threads import fixed
from heed.training.device import choose_device
from heed.watch.looks import Look

_TIMED_SECONDS, _MOST_PASSES = 2.0, 5
"""Prediction of the set is repeated until this much time is measured, or this many times."""


@dataclass(frozen=True)
class Speed:
    """How fast a run gave its outputs."""

    examples: float  # examples per second; the median over passes
    tokens: float  # tokens written per second, end tokens included; tokens read, for a task that writes none
    passes: int  # how often the whole set was predicted


def predict_timed(examiner: Examiner, run: Any, beam_size: int | None) -> tuple[list[Any], Speed]:
    """The outputs for all examples and their speed, measured after a warm-up on a few examples."""
    examples = examiner.examples
    examiner.predict(run, examples[:16], beam_size)
    seconds: list[float] = []
    while not seconds or (sum(seconds) < _TIMED_SECONDS and len(seconds) < _MOST_PASSES):
        start = time.perf_counter()
        outputs = examiner.predict(run, examples, beam_size)
        seconds.append(time.perf_counter() - start)
    taken = statistics.median(seconds)
    return outputs, Speed(len(examples) / taken, examiner.count_tokens(run, outputs) / taken, len(seconds))


@dataclass(frozen=True)
class Entry:
    """One row of a comparison."""

    label: str  # label in tables
    runs: tuple[Run, ...]  # one run, or several that differ only in their seed
    train_size: int | None = None  # number of training examples, as requested; None for all

    @property
    def seeds(self) -> list[int]:
        """The seed of each run."""
        return [run.config.training.seed for run in self.runs]

    @cached_property
    def shortfall(self) -> str:
        """Why the row was not trained enough to be compared, such as "10 of about 1,000 updates"; empty if it was."""
        found = {seed: lack for seed, run in zip(self.seeds, self.runs, strict=True) if (lack := _shortfall(run))}
        return "; ".join(f"seed {seed}: {lack}" if len(self.runs) > 1 else lack for seed, lack in found.items())


def _shortfall(run: Run) -> str:
    """Of one run. Steps that the user chose, and those until it converged, are enough, unless all were warm-up."""
    training, report = run.config.training, run.report.get("training", {})
    updates, warmup, passes = (report.get(name) for name in ("updates", "warmup_updates", "passes"))
    if updates is None or passes is None:  # imported
        return ""
    if warmup and updates <= warmup:
        return f"{updates:,} updates, all of them warm-up"
    enough = enough_updates(run.task)
    if training.steps is not None or updates >= enough or passes >= ENOUGH_PASSES or _has_converged(run, updates):
        return ""
    return f"{updates:,} of about {enough:,} updates"


def _has_converged(run: Run, updates: int) -> bool:
    """True if validations could get no better, or got no better in the second half of the run or until it ended early.

    The score is that which chose the weights; of equal scores the lower loss is better, so that a score that has not
    begun to rise is not taken for one that no longer rises.
    """
    log, select_by = Log.read(run.folder), run.config.evaluation.select_by
    if (best := log.best(select_by)) is None:
        return False
    perfect = math.inf if select_by == "loss" else 100.0 if select_by in ("bleu", "chrf", *ROUGE) else 1.0
    since = [event for event in log.validations if event["step"] > best["step"]]
    return (
        best.get(select_by, 0.0) > perfect - 1e-9
        or re.search("no better|no longer improved", run.report["training"].get("ended", "")) is not None
        or (len(since) >= _FLAT and best["step"] <= updates / 2)
    )


_FLAT = 5
"""Fewest validations without a better score in the second half of a run that has converged."""


def open_runs(runs: Sequence[Run | str | Path], force: bool = False) -> list[Run]:
    """Open runs on the CPU; `force` opens them despite missing or altered files, with a warning.

    Raises:
        ConfigError: Fewer than two runs, or one run twice.
        RunError: A folder is not a run, or its training has not finished.
    """
    opened = [run if isinstance(run, Run) else load(run, finished=True, force=force, device="cpu") for run in runs]
    if len(opened) < 2:
        raise ConfigError(f"{'1 run' if opened else 'no run'} was given; a comparison takes two or more")
    folders = [run.folder.absolute() for run in opened]
    for number, run in enumerate(opened):
        if folders[number] in folders[:number]:
            raise ConfigError(f"run '{run.folder}' was given twice")
    return opened


def group_by_seed(runs: Sequence[Run]) -> list[Entry]:
    """Group runs that differ only in their seed into one entry; if only one would be left, each run is an entry."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        seedless = {"training": run.config.training.model_copy(update={"seed": 0})}
        groups.setdefault(run.config.model_copy(update=seedless).model_dump_json(by_alias=True), []).append(run)
    kept = list(groups.values()) if len(groups) > 1 else [[run] for run in runs]
    labels = [_label([run.folder.name for run in group]) for group in kept]
    for i, group in enumerate(kept):  # folders of the same name in different places
        if labels.count(labels[i]) > 1:
            labels[i] = str(group[0].folder)
    return [Entry(label, tuple(group)) for label, group in zip(labels, kept, strict=True)]


def _label(names: list[str]) -> str:
    """The common part of the names of a group's folders: "luong-seed1" and "luong-seed2" give "luong"."""
    if len(names) == 1:
        return names[0]
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in alike)
    return re.sub(r"[-_. ]*(seed)?[-_. ]*$", "", shared) or names[0]


def find_entry(entries: Sequence[Entry], name: str) -> int:
    """The number of the entry with a label or run folder.

    Raises:
        ConfigError: There is no such entry.
    """
    for i, entry in enumerate(entries):
        if name == entry.label or any(name in (str(run.folder), run.folder.name) for run in entry.runs):
            return i
    raise ConfigError(f"baseline '{name}' is not one of the runs{suggest(name, [entry.label for entry in entries])}")


def common_examples(
    runs: Sequence[Run],
    split: str | None,
    kind: type[Examiner],
    files: Sequence[str] = (),
) -> tuple[str, list[Any]]:
    """The name of a split, and its examples, that all runs are scored on.

    By default it is the test set, or the validation set if no run has a test set; with `files` it is these, as read by
    the first run. An imported run has no data and is scored on that of the others.

    Raises:
        DataError: The runs do not have the same examples; the message says which runs differ and where.
        ConfigError: No such split.
    """
    if files:
        name = ", ".join(Path(file).name for file in files)
        if not (read := list(runs[0].read(files))):
            raise DataError(f"there is nothing to score in {', '.join(files)}")
        return name, read
    owners = [run for run in runs if getattr(run.config.data, "imported", None) is None]
    if not owners:
        raise DataError(
            f"'{runs[0].folder}' and the other runs were imported and have no data; give a test file: heed compare RUN "
            "RUN --test FILE"
        )
    runs = owners
    # A data set that several runs share is read once.
    readers = [next(other for other in runs if other.config.data == run.config.data) for run in runs]
    if split is None:
        split = "test" if any("test" in run.task.split_names for run in readers) else "valid"
    for run, reader in zip(runs, readers, strict=True):
        if split not in reader.task.split_names:
            have = ", ".join(name for name in reader.task.split_names if name != "train")
            raise ConfigError(f"'{run.folder}' has no {split} set (it has {have}); give a --split that all runs have")
    first = list(readers[0].examples(split))
    if not first:
        raise DataError(f"the {split} set of '{runs[0].folder}' is empty")
    for run, reader in zip(runs[1:], readers[1:], strict=True):
        if reader is not readers[0] and (problem := _difference(first, reader.examples(split), kind, run)):
            raise DataError(
                f"the {split} sets of '{runs[0].folder}' and '{run.folder}' differ: {problem}; "
                "only runs with the same examples can be compared"
            )
    return split, first


def _difference(first: Sequence[Any], second: Sequence[Any], kind: type[Examiner], run: Run) -> str:
    if len(first) != len(second):
        return f"{len(first):,} examples and {len(second):,}"
    for i, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        if (a := one.source) != (b := other.source):
            return f"example {i} is {a!r} and {b!r}"
        if (a := kind.truth_of(one)) != (b := kind.truth_of(other)):
            return f"the {run.head.names} of example {i} is {a!r} and {b!r}"
    return ""


def set_name(split: str) -> str:
    """A set of examples as named in sentences: "validation" for the split "valid"."""
    return "validation" if split == "valid" else split


@dataclass(frozen=True)
class Conditions:
    """The conditions under which all runs made their predictions."""

    device: str  # device of the predictions
    threads: int  # processor threads
    beam_size: int | None  # beam of every run; None for each run's own, or for tasks without beam search
    passes: tuple[int, int]  # fewest and most predictions of the whole set by a run, to measure its speed


@dataclass(frozen=True)
class ComparisonOptions:
    """The options of a comparison; see `heed.compare`."""

    split: str | None = None
    beam_size: int | None = None
    threads: int | None = None
    device: str = "auto"
    resamples: int | None = None
    seed: int = SEED
    files: tuple[str, ...] = ()
    """Files to score the runs on, instead of a split."""
    look: str | None = None
    """A text whose attention in every run is shown."""


def looks_of(entries: Sequence[Entry], text: str) -> tuple[Look, ...]:
    """The look of the first run of each entry at a text: its last layer, the mean of its heads.

    Raises:
        ConfigError: The runs do not read texts, or this one cannot be looked at.
    """
    found = []
    for run in (entry.runs[0] for entry in entries):
        if not run.input.is_text:
            raise ConfigError(f"--look takes a text, and runs of {run.config.task} read none")
        looking: Any = capability(run, "look")
        found.append(looking.look(typed(looking, [text])[0]).look)
    return tuple(found)


@dataclass(frozen=True)
class Predicted:
    """The outputs of several entries for the same examples."""

    split: str  # name of the set of examples
    examiner: Examiner  # of the task
    outcomes: tuple[tuple[Outcomes, ...], ...]  # per entry and run, the outputs
    speeds: tuple[tuple[Speed, ...], ...]  # per entry and run, the speed of prediction; empty if not measured
    resampling: Resampling  # of intervals and p-values
    conditions: Conditions  # of the outputs


def predict_all(
    entries: Sequence[Entry], options: ComparisonOptions, say: Callable[[str], None], timed: bool = True
) -> Predicted:
    """Predict the common examples with every run, on the same device with the same threads and batches.

    Args:
        entries: The runs.
        options: The options.
        say: Called with a message for each run.
        timed: Repeat the predictions until the speed is known.

    Raises:
        ConfigError: An option does not fit the runs.
        DataError: The runs do not have the same examples.
    """
    opened = [run for entry in entries for run in entry.runs]
    where, beam_size, threads = choose_device(options.device, "device"), options.beam_size, options.threads
    bootstrap = max(run.config.evaluation.bootstrap for run in opened)
    resampling = Resampling(bootstrap if options.resamples is None else options.resamples, options.seed)
    if resampling.count < 1 or (threads is not None and threads < 1) or (beam_size is not None and beam_size < 1):
        raise ConfigError("resamples, threads and beam_size must be at least 1")
    check_one_task(opened, "can be compared")
    kind = capability(opened[0], "examiner").task.task.examiner_class()
    if beam_size is not None and not kind.has_beam:
        raise ConfigError(f"beam_size {beam_size} does not apply to runs of {opened[0].config.task}")
    name, examples = common_examples(opened, options.split, kind, options.files)
    examiner, speeds = kind(opened, examples), dict[int, Speed]()
    count = threads or max(run.report.get("training", {}).get("threads", 1) for run in opened)

    def outcomes_of(run: Run) -> Outcomes:
        say(f"{run.folder}: {len(examples):,} {set_name(name)} examples")
        before = next(run.model.parameters()).device
        run.model.to(where)
        try:
            if timed:
                outputs, speeds[id(run)] = predict_timed(examiner, run, beam_size)
            else:
                outputs = examiner.predict(run, examples, beam_size)
            made: Outcomes = examiner.outcomes(run, outputs)
            return made
        finally:
            run.model.to(before)

    with fixed(count):
        outcomes = tuple(tuple(map(outcomes_of, entry.runs)) for entry in entries)
    passes = [speed.passes for speed in speeds.values()] or [1]
    conditions = Conditions(str(where), count, beam_size, (min(passes), max(passes)))
    measured = tuple(tuple(speeds[id(run)] for run in entry.runs if timed) for entry in entries)
    return Predicted(name, examiner, outcomes, measured, resampling, conditions)


def remarks_on(examiner: Examiner, split: str, beam_size: int | None) -> tuple[str, ...]:
    """Remarks on the scores and speeds of runs."""
    remarks, runs = [], examiner.runs
    if split == "valid":
        remarks.append("Each run's weights were selected on this set, so its scores are optimistic.")
    remarks += examiner.remarks
    beams = sorted({run.task.config.generation.beam_size for run in runs}) if examiner.has_beam else []
    if beam_size is None and len(beams) > 1:
        own = ", ".join(map(str, beams))
        remarks.append(f"Each run decodes with its own beam ({own}); --beam (in Python beam_size) sets one for all.")
    for name, what in (("threads", "with different numbers of threads"), ("device", "of different devices")):
        found = sorted({run.report["training"][name] for run in runs if name in run.report.get("training", {})})
        if len(found) > 1:
            remarks.append(f"Training speeds are {what} ({', '.join(map(str, found))}).")
    if any(not run.report for run in runs):
        remarks.append("Numbers of training are missing for runs without a report.")
    return tuple(remarks)
