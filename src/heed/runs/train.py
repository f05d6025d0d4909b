"""Training a model into a run folder: `heed.train`, its callbacks, scoring in time, and advice on longer training."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import torch

from heed import folder as folders
from heed import kernels
from heed.config import RunConfig, TrainingConfig
from heed.config.settling import reasons_text
from heed.data.examples import evenly
from heed.errors import ConfigError, counted, suggests_keywords
from heed.runs.card import WRITTEN, write_card
from heed.runs.loading import load
from heed.runs.prepare import (
    SplitExamples,
    about,
    hold_all,
    join_run,
    model_to_train,
    prepare_run,
    setting_named,
    settings_of,
    settings_text,
    settle_updates,
    updates_per_pass,
)
from heed.runs.resume import result_if_done
from heed.storage.disk import write_whole
from heed.storage.lock import Ownership, check_not_owned
from heed.tasks import task_class
from heed.tasks.base.data_files import judged_by
from heed.tasks.base.report import baseline_scores
from heed.tasks.base.writing import VALIDATED
from heed.tasks.run import Run
from heed.tasks.work import Work
from heed.threads import fixed
from heed.training.contracts import TrainResult
from heed.training.cost import Cost, disk_bytes
from heed.training.device import device_of, peak_memory
from heed.training.loop import Trainer
from heed.training.plan import USABLE, VALIDATIONS
from heed.training.processes import current, join, was_restarted
from heed.training.progress import Quiet, Reporter, begin_line, duration, logged, usual_reporter
from heed.training.weights import save_weights
from heed.visible import shell_word


@dataclass(frozen=True)
class TrainingEvent:
    """The argument of a callback after an update or a validation.

    Attributes:
        kind: "update" or "validation".
        step: Updates done.
        total_steps: Updates of the whole run as planned now; None before the first plan.
        seconds: Time since the run began, without pauses between interruption and resumption.
        loss: Of the update, the mean over its targets in nats; or of the validation set.
        learning_rate: Of the update; None after a validation.
        scores: Of the validation, by name, including the loss; empty after an update.
        run: After a validation, the run with its present weights: it predicts, and `run.look(text)` shows its
            attention. None after an update.
    """

    kind: Literal["update", "validation"]
    step: int
    total_steps: int | None
    seconds: float
    loss: float
    learning_rate: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    run: Run | None = None


Callback = Callable[[TrainingEvent], object]
"""Called after each update and validation; training ends if it returns True."""


def call_back(callback: Callback, trainer: Trainer, run: Run) -> None:
    """Call a user's function at the events of a trainer; its random draws do not affect training."""

    def call(kind: Literal["update", "validation"], **values: Any) -> None:
        progress = trainer.progress
        event = TrainingEvent(kind, progress.step, progress.total_steps, trainer.budget.elapsed, **values)
        with torch.random.fork_rng(devices=[]):
            if callback(event) is True:
                trainer.enough.set()

    def logged(event: str, step: int, values: Mapping[str, float]) -> None:
        if event == "update":
            call("update", loss=values["loss"], learning_rate=values["learning_rate"])

    trainer.asks = True
    trainer.listen(logged)
    trainer.on_validation = lambda _, scores: call("validation", loss=scores["loss"], scores=dict(scores), run=run)


_FEW, _LEAST = 8, 50
"""Number of examples scored first, and the fewest of a split that are scored in the end."""
_OVERRUN = 0.05
"""Share of a time budget by which scoring may exceed it."""


def scored_splits(run: Run) -> list[str]:
    """The splits scored at the end of a run: all but the training and validation sets."""
    return [split for split in run.task.split_names if split not in ("train", "valid")]


def validated(run: Run) -> Sequence[Any]:
    """The validation examples on which baselines are scored."""
    examples = run.examples("valid")
    return examples[:VALIDATED] if run.head.samples else examples


def try_scoring(run: Run, may_take: float, expected: float) -> float | None:
    """Score some examples of each split to be scored; without such a split, compute the validation set's baselines.

    Args:
        run: The run with its present weights.
        may_take: Approximate seconds to spend.
        expected: Expected seconds for all examples.

    Returns:
        Estimated seconds for all examples; None if not even a few examples can be scored in that time.
    """
    splits, score = [run.examples(name) for name in scored_splits(run)], run.score
    if not splits:
        splits, score = [validated(run)], partial(baseline_scores, run, {})
    share, takes = min(1.0, may_take / max(1e-6, expected)), 0.0
    for examples in splits:
        if len(examples) * share < 1:
            return None
        if len(examples) <= _FEW:
            takes += _scored(score, examples, len(examples))
            continue
        _scored(score, examples, 1)  # do the one-time work first (a baseline's table)
        spent = _scored(score, examples, _FEW)
        limit = may_take * len(examples) / sum(map(len, splits))
        # Intervals take about the same time for few examples as for many, so the difference of two tries is used.
        count = min(len(examples), max(4 * _FEW, int(_FEW * limit / max(1e-6, spent))))
        whole = _scored(score, examples, count)
        takes += whole + max(0.0, whole - spent) / (count - _FEW) * (len(examples) - count)
    return takes


def examples_in_time(run: Run, split: str, trainer: Trainer) -> Sequence[Any]:
    """The examples of a split to score: all of them, or as many as a time budget that is nearly spent allows.

    A machine that has become slower since scoring was last timed is noticed by scoring a few.
    """
    examples, budget = run.examples(split), trainer.budget
    if budget.seconds == 0 or len(examples) <= _FEW:
        return examples
    left = max(0.0, budget.left) + _OVERRUN * budget.seconds
    expected = budget.scoring(trainer.progress)
    if expected > _OVERRUN * budget.seconds:
        expected = try_scoring(run, 0.1 * left, expected) or expected
    everything = sum(len(run.examples(name)) for name in scored_splits(run))
    count = int(left / max(1e-6, expected) * everything) if expected > left else len(examples)
    return evenly(examples, max(_LEAST, count))


def _scored(score: Callable[[Sequence[Any]], Any], examples: Sequence[Any], count: int) -> float:
    """Seconds for scoring `count` examples, chosen evenly from all of them."""
    start = time.perf_counter()
    score(evenly(examples, count))
    return time.perf_counter() - start


Files = str | Path | Sequence[str | Path]
"""Two parallel files, one file, or (for labelled texts) any number."""


@suggests_keywords(hint=setting_named)
def train(
    what: str | Path,
    *,
    data: str | None = None,
    train: Files | Any = None,
    hub: str | None = None,
    valid: Files | int | Any = None,
    test: Files | Any = None,
    model: str | None = None,
    size: str | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    seed: int | None = None,
    parent: str | Path | None = None,
    out: str | Path | None = None,
    settings: dict[str, Any] | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    quiet: bool = False,
) -> Run:
    """Train a model: `heed.train("translation", train=("a.en", "a.de"), minutes=10)` or `heed.train("config.yaml")`.

    Data may also be passed directly: data frames, lists of tuples or dicts, or dicts of columns (docs/python.md), as in
    `heed.train("classification", train=[("a good film", "pos"), ...])`. The run folder then records the number of
    examples and a hash of them, not the examples.

    Args:
        what: A task, or a configuration file.
        data: Embedded data instead of files: "dates", "grammar", "copy" or "reverse".
        train: Training files: two parallel files, source first, or one with both sides, or any number of labelled
            files; or a split of `hub`; or the data itself.
        hub: A data set of the Hugging Face Hub, as "user/name"; its columns are named in `settings`.
        valid: Validation files or data, or the number of examples to hold out.
        test: Test files or data.
        model: Name of the model.
        size: "auto", "scarce", "tiny", "small" or "base".
        minutes: Time budget, including evaluation.
        steps: Number of updates instead of a time budget.
        epochs: Passes over the training data instead of a time budget.
        seed: Seed of weights, order and dropout.
        parent: Run to start from (`model.from`).
        out: Run folder to make; `runs/<data>-<model>-<n>` by default.
        settings: Any other fields, such as `{"training.learning_rate": 0.001}`.
        resume: Resume the run in `out`; data passed directly must be passed again.
        callback: Called after each update and each validation with a `TrainingEvent` (step, loss, scores, and after a
            validation the run so far); training ends early if it returns True.
        quiet: Print nothing.

    Returns:
        The finished run.

    Raises:
        ConfigError, DataError, RunError, TrainingError: As the messages say.
    """
    fields = {
        "data.name": data,
        "data.hub": hub,
        "model.name": model,
        "model.size": size,
        "model.from": None if parent is None else str(parent),
        "training.minutes": minutes,
        "training.steps": steps,
        "training.epochs": epochs,
        "training.seed": seed,
        **(settings or {}),
    }
    config, handed = settings_of(what, {"train": train, "valid": valid, "test": test}, fields, "heed.train")
    config, in_memory = hold_all(config, handed) if handed else (config, None)
    reporter = Quiet() if quiet else usual_reporter()
    run, result = train_config(config, out, reporter, resume=resume, in_memory=in_memory, callback=callback)
    if run is None:
        raise KeyboardInterrupt(result.reason)
    return run


def train_config(
    config: RunConfig,
    out: str | Path | None,
    reporter: Reporter,
    *,
    resume: bool = False,
    in_memory: SplitExamples | None = None,
    settings: Callable[[Work], str] | None = None,
    callback: Callback | None = None,
) -> tuple[Run | None, TrainResult]:
    """Train a configuration into a run folder, `runs/<data>-<model>-<n>` by default.

    With `resume`, training continues from the folder's newest undamaged checkpoint, if there is one. `in_memory` has
    the examples of each split if they were passed in Python. `settings` formats the settings, which are printed once
    the data has been read. `callback` is called after each update and validation, and ends training by returning True.

    Returns:
        The finished run, in every process, or None if it was interrupted; and how training ended.

    Raises:
        RunError: The folder exists already (a run is never overwritten).
        ConfigError: A setting was changed that cannot change when a run is resumed.
        DiskError: The disk is full; files written before stay.
    """
    began = time.perf_counter()
    if resume and out is None:
        raise ConfigError("--resume needs the folder of the run to resume")
    processes = join(config.training.device)
    reporter = reporter if processes.is_first else Quiet()
    resume = resume or (out is not None and was_restarted())
    with Ownership() as ownership:
        if resume and out is not None:
            if processes.is_first:
                check_not_owned(Path(out))
            done = processes.broadcast(result_if_done(Path(out), config) if processes.is_first else None)
            if done is not None:
                opened = load(out, finished=True, device=device_of(config.training, processes))
                reporter.say(finished_note(Path(out), done, opened.config.training))
                return opened, done
            if processes.is_first and os.path.isdir(out):
                ownership.take(Path(out))  # before its files are read
        begun = (
            prepare_run(config, out, reporter, resume, ownership, in_memory, settings) if processes.is_first else None
        )
        path = processes.broadcast(Path() if begun is None else begun[0].folder)
        return _train(*(begun or (join_run(path, in_memory), ())), reporter, resume, callback, began)


@fixed()
def _train(
    run: Run, changed: Collection[str], reporter: Reporter, resume: bool, callback: Callback | None, began: float
) -> tuple[Run | None, TrainResult]:
    """Train what has begun; see `train_config`."""
    processes = current()
    path, task, config = run.folder, run.task, run.config
    asked = run.model, task, config.training, config.evaluation.select_by, path, reporter
    trainer = Trainer(*asked, began=began, try_scoring=partial(try_scoring, run))
    run.precision = trainer.precision
    if callback is not None:
        call_back(callback, trainer, run)
    trainer.fingerprint = folders.fingerprint(path)
    trainer.judged_by = processes.broadcast(judged_by(config, path))
    predicted = trainer.predict_cost(task.work)
    if predicted.delay > _DELAYED:
        reporter.say(f"other work is running: updates take {predicted.delay:.1f} times as long as alone")
    if not resume and (advice := warning_if_budget_short(task, predicted.seconds, trainer.budget.elapsed)):
        reporter.say(advice)
    with logged(config.training.log, trainer, path):
        result = trainer.run(resume, changed)
    run.precision = trainer.precision  # chosen by timing, or that of the resumed run
    with processes.first_alone():
        if result.finished and processes.is_first:
            _finish(run, trainer, result, predicted)
    if not result.finished:
        return None, result
    return (run if processes.is_first else load(path, device=trainer.device)), result


def _finish(run: Run, trainer: Trainer, result: TrainResult, predicted: Cost) -> None:
    """Write the weights, score them, write the report and the model card, and seal the folder."""
    path, task, progress, say = run.folder, run.task, result.progress, trainer.reporter.say
    say(f"{result.reason}; keeping the weights of {result.kept_weights}; scoring")
    scores: dict[str, Any] = {"valid": {**result.validation, "note": "the set that the weights were selected on"}}
    if result.validated < 1.0:
        scores["valid"]["note"] += f"; {result.validated:.0%} of it, evenly chosen, for lack of time"
    for split in scored_splits(run):
        examples, chosen = run.examples(split), examples_in_time(run, split, trainer)
        scores[split] = run.score(chosen)
        if len(chosen) < len(examples):
            note = f"{len(chosen):,} of {len(examples):,} examples, evenly chosen, for lack of time"
            scores[split]["note"] = note
            say(f"{split}: {note}; to score all: heed evaluate {shell_word(path)}")
    if [*scores] == ["valid"]:
        scores["valid"] |= baseline_scores(run, result.validation, validated(run))
    run.report = {
        **folders.read_report(path),
        **about(task, run.model),  # computed again: the file may have been altered since
        "data": task.report_counts(),
        "scores": scores,
        "training": {
            "updates": progress.step,
            "planned_updates": progress.total_steps,
            "warmup_updates": progress.warmup,
            "passes": progress.epoch,
            "ended": result.reason,
            "kept": result.kept_weights,
            "target_tokens_per_second": round(progress.tokens_per_second, 1),
            "padding_share": round(progress.padding / max(1, progress.step), 4),
            "waiting_share": round(progress.waiting_share, 4),
            "seconds": round(trainer.budget.elapsed, 1),
            "seconds_per_update": round(progress.training_seconds / max(1, progress.step), 5),
            "peak_memory_mib": round(peak_memory(trainer.device) / 2**20),
            "predicted": predicted.as_report(),
            "device": str(trainer.device),
            "processes": progress.processes,
            "precision": trainer.precision,
            "threads": progress.threads,
            "micro_batches": progress.micro_batches,
            "kernels": kernels.choice(),
            "seed": trainer.config.seed,
        },
        "versions": {
            "heed": metadata.version("heed-attention"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    with folders.unsealed(path, folders.WEIGHTS, folders.REPORT, *WRITTEN, final=True):
        write_whole(path / folders.WEIGHTS, lambda part: save_weights(run.model, part))
        folders.write_report(path, run.report)
        write_card(run)
    took = run.report["training"]
    say(
        f"{took['seconds_per_update']:.4f} s per update (predicted {predicted.seconds:.4f}), "
        f"{took['peak_memory_mib']:,} MiB of memory (predicted {predicted.memory / 2**20:,.0f}), "
        f"{took['waiting_share']:.1%} of the time spent waiting for data"
    )
    say(f"done in {duration(trainer.budget.elapsed)}")
    if advice := advice_on_budget(trainer.config, path, result, trainer.budget.elapsed):
        say(advice)


ENOUGH_PASSES = 30
"""Passes over the data after which a few updates more teach little."""
_MINUTES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 120)
"""Round budgets to propose."""


def enough_updates(task: Work) -> int:
    """Updates that a model needs to be of use: fewer if it starts from another run, or stands beside n-grams."""
    model = task.config.model
    has_start = model.from_ is not None or model.settings.get("ngrams")
    return task.enough_updates // 10 if has_start else task.enough_updates


def warning_if_short(task: Work, updates: int) -> str:
    """A warning if a run has too few updates for a useful model; else empty."""
    training, passes = task.config.training, updates / updates_per_pass(task)
    enough = enough_updates(task)
    if updates >= enough or passes >= ENOUGH_PASSES:
        return ""
    done = f"only about {counted(updates, 'update')}, {counted(passes, 'pass', 'es')} over the data"
    if training.minutes is None or training.steps is not None:
        return f"warning: {done}; a useful model takes about {enough:,} updates" if updates < 10 else ""
    minutes = round_minutes(training.minutes * enough / updates)
    is_smallest = task.config.model.size in ("tiny", "scarce") or task.config.model.from_ is not None
    smaller = "" if is_smallest else " or a smaller model (model.size=tiny)"
    return (
        f"warning: {done}, fit into {in_minutes(training.minutes)}; a useful model takes about {enough:,} updates, so "
        f"expect little of this one: give --minutes {minutes}{smaller}"
    )


def warning_if_budget_short(task: Work, seconds_per_update: float, elapsed: float) -> str:
    """As `warning_if_short`, for a time budget of which some seconds have passed; empty if `training.steps` is set."""
    training = task.config.training
    if training.steps is not None or training.minutes is None:
        return ""
    return warning_if_short(task, max(1, int((USABLE * 60 * training.minutes - elapsed) / seconds_per_update)))


def advice_on_budget(training: TrainingConfig, folder: Path, result: TrainResult, seconds: float) -> str:
    """A message with the command to train longer, if that would help, or with the unused part of the budget.

    Args:
        training: How the run was trained.
        folder: The run.
        result: Result of its training.
        seconds: Seconds that the run took.
    """
    p = result.progress
    if training.steps is not None or training.minutes is None:
        return ""
    budget = 60 * training.minutes
    if p.step < (p.total_steps or 0) or p.ending or p.bad:
        left = budget - seconds
        return f"{duration(left)} of the budget remained unused" if left > 0.1 * budget else ""
    minutes = round_minutes(2 * training.minutes)
    return (
        "validation was still improving at the end; to train for "
        f"{counted(minutes, 'minute')} in total: heed train {shell_word(folder)} --resume training.minutes={minutes}"
    )


def finished_note(folder: Path, result: TrainResult, training: TrainingConfig) -> str:
    """A message that a run has finished, with the command to train it longer."""
    steps, minutes = training.steps, training.minutes
    budget = f"training.steps={2 * steps}" if steps is not None else f"training.minutes={2 * (minutes or 1):g}"
    now = counted(steps, "update") if steps is not None else in_minutes(minutes or 0.0)
    return (
        f"'{folder}' has finished ({result.reason}), and no setting was changed; to train it longer than its budget of "
        f"{now}, give a larger one: heed train {shell_word(folder)} --resume {budget}"
    )


def in_minutes(minutes: float) -> str:
    """A time budget, as "1 minute" or "2.5 minutes"."""
    return f"{minutes:g} minute{'s' * (minutes != 1)}"


def round_minutes(minutes: float) -> int:
    """The next round budget that is not smaller."""
    return next((budget for budget in _MINUTES if budget >= minutes), 60 * math.ceil(minutes / 60))


_DELAYED = 1.3
"""Delay of updates by other work from which it is said."""


def forecast(config: RunConfig, whole: bool = False) -> str:
    """Settings (all of them if `whole`), counts, and predicted time and memory; nothing is written.

    Time and memory of an update are predicted, and a validation is tried, as at the start of a run.
    """
    began = time.perf_counter()
    task = task_class(config.task).prepare(config)
    settle_updates(task)
    prepared = time.perf_counter() - began
    config, training, model = task.config, task.config.training, model_to_train(task)
    trainer = Trainer(model, task, training, config.evaluation.select_by, Path(), Quiet(), began=began)
    cost = trainer.predict_cost(task.work)
    trainer.first_plan()
    memory = max(cost.memory, peak_memory(trainer.device))
    # The preparation so far takes the same time in the run itself.
    updates, seconds = training.steps or trainer.progress.total_steps or 0, trainer.budget.seconds
    if training.steps is not None:
        validation = task.trained_validation * max(0.1, trainer.progress.validation_seconds)
        seconds = prepared + updates * cost.seconds + (VALIDATIONS + task.finishing_work) * validation
    passes, advice = updates / updates_per_pass(task), warning_if_short(task, updates)
    parameters = sum(p.numel() for p in model.parameters())
    disk = disk_bytes(parameters, sum(p.numel() for p in model.parameters() if p.requires_grad), training)
    return "\n".join(
        [
            settings_text(task, whole),
            reasons_text(config),
            task.notes,
            f"{config.model.name} ({config.model.size}), {parameters:,} parameters",
            begin_line(trainer.progress, trainer.device, trainer.precision),
            f"predicted: {counted(updates, 'update')} ({counted(passes, 'pass', 'es')} over the data), "
            f"{duration(seconds)}, {memory / 2**20:,.0f} MiB of memory, up to {disk / 2**20:,.0f} MiB on disk",
            *filter(None, [advice]),
        ]
    )
