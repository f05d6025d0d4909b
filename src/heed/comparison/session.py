"""`heed.compare`: compare existing runs, or train models with several seeds and training-set sizes first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heed.comparison.comparison import Comparison, compare_entries
from heed.comparison.entries import ComparisonOptions, Entry, group_by_seed, open_runs
from heed.comparison.training import (
    Planned,
    finished_entries,
    is_comparison,
    plan_runs,
    read_sizes,
    split_models,
    train_missing,
)
from heed.config import RunConfig, read_config, set_field
from heed.errors import ConfigError
from heed.evaluation.significance import SEED
from heed.tasks import check_config, task_names, with_paths
from heed.tasks.base.run import Run
from heed.training.progress import Quiet, Reporter, usual_reporter

Files = str | Path | Sequence[str | Path]
AnyRun = Run[Any, Any] | str | os.PathLike[str] | Entry


def compare(
    runs: Sequence[AnyRun] | str | os.PathLike[str],
    *,
    models: Sequence[str] | str = (),
    train_size: Sequence[int | str | None] | str | int = (),
    seeds: int = 1,
    train: Files | None = None,
    valid: Files | int | None = None,
    test: Files | None = None,
    data: str | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    size: str | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
    split: str | None = None,
    baseline: str | None = None,
    beam_size: int | None = None,
    threads: int | None = None,
    device: str = "auto",
    resamples: int | None = None,
    seed: int = SEED,
    say: Callable[[str], None] = lambda message: None,
) -> Comparison:
    """Score runs on their common examples, and test their differences; with `models`, train them first.

    Every run predicts the examples in this session, one after the other, on the same device with the same threads and
    batches. Runs that differ only in their seed are one row: the mean over seeds.

    Args:
        runs: Runs of one task, or their folders. Or the folder of a comparison. Or, with `models`, a task or a
            configuration file.
        models: Models to train and compare, each "name", "name@RUN" (from the weights of a run) or "@RUN", then
            ":field=value"; every run is trained in a separate process, and a run already in `out` is not trained again.
        train_size: Numbers of training examples, such as [100, 1000, "all"], for learning curves. Smaller sets are
            parts of larger ones, drawn by the seed of each run, with labels in the same shares.
        seeds: Number of runs of each model, with seeds 1, 2, ...
        train: Training files.
        valid: Validation files, or the number of examples to hold out.
        test: Test files; for existing runs, the files to score instead of a split.
        data: Embedded data instead of files.
        minutes: Time budget of each run.
        steps: Number of updates of each run instead.
        size: Named size of the models.
        settings: Any other common fields, such as `{"training.learning_rate": 0.001}`.
        out: Folder for the runs and the files of the comparison; `runs/compare-<data>` by default.
        quiet: Print nothing while training.
        split: The set to score: "test" by default, "valid" if no run has a test set.
        baseline: Label or folder of the run to test the others against in addition to the best; the first by default.
        beam_size: Beam for all runs; each run's own by default (translation only).
        threads: Processor threads; by default the largest number that a run was trained with.
        device: Device for training and predicting.
        resamples: Resamples of intervals, and trials of the tests. By default intervals have as many resamples as in
            the runs' reports (`evaluation.bootstrap`), so that both are the same; the tests have 10,000 trials.
        seed: Seed of the resamples; the reports use 1.
        say: Called with progress messages.

    Raises:
        ConfigError: Fewer than two runs, or an option that does not fit them.
        DataError: The runs do not have the same examples.
        RunError: A run cannot be opened.
        KeyboardInterrupt: Training was interrupted; the same call resumes it.
    """
    options = ComparisonOptions(split, beam_size, threads, device, resamples, seed)
    sizes = read_sizes(train_size) if isinstance(train_size, str | int) or train_size else []
    if not isinstance(runs, str | os.PathLike):
        if models or sizes:
            raise ConfigError("models and train_size are for training; give a task or a YAML file instead of runs")
        if test is not None:
            options = replace(options, files=(str(test),) if isinstance(test, str | Path) else tuple(map(str, test)))
        entries = [one for one in runs if isinstance(one, Entry)]
        if not entries:
            given = [one if isinstance(one, Run) or one == "last" else Path(one) for one in runs]  # type: ignore[arg-type]
            entries = group_by_seed(open_runs(given))
        return compare_entries(entries, options, baseline, say)
    if is_comparison(Path(runs)):
        return compare_entries(chosen_sizes(finished_entries(Path(runs)), sizes), options, baseline, say)
    budget = {"training.minutes": minutes, "training.steps": steps}
    where = {"training.device": None if device == "auto" else device, "model.size": size}
    fields = {"data.name": data, "data.train": train, "data.valid": valid, "data.test": test, **budget, **where}
    config = _configured(str(runs), {**fields, **(settings or {})})
    planned = plan_runs(config, split_models(models) if isinstance(models, str) else list(models), seeds, sizes)
    reporter = Quiet() if quiet else usual_reporter()
    made = train_and_compare(planned, Path(out or default_folder(config)), options, baseline, reporter)
    if made is None:
        raise KeyboardInterrupt("interrupted; saved. Resume with the same call")
    made.save(out or default_folder(config))
    return made


def default_folder(config: RunConfig) -> Path:
    """The default folder of a comparison."""
    return Path("runs") / f"compare-{config.data.name}"


def train_and_compare(
    planned: Sequence[Planned], out: Path, options: ComparisonOptions, baseline: str | None, reporter: Reporter
) -> Comparison | None:
    """Train the runs missing in a folder, and compare the planned ones; None if training was interrupted."""
    if not train_missing(out, planned, reporter):
        return None
    return compare_entries(finished_entries(out, planned), options, baseline, reporter.say)


def chosen_sizes(entries: Sequence[Entry], sizes: Sequence[int | None]) -> list[Entry]:
    """The rows of some sizes, or of all if none is given.

    Raises:
        ConfigError: No run has such a size.
    """
    known = dict.fromkeys(entry.train_size for entry in entries)
    for size in sizes:
        if size not in known:
            have = ", ".join("all" if one is None else str(one) for one in known)
            raise ConfigError(f"--train-size: no run has size {'all' if size is None else size}; sizes: {have}")
    return [entry for entry in entries if not sizes or entry.train_size in sizes]


def _configured(what: str, fields: Mapping[str, Any]) -> RunConfig:
    """The common configuration: a task or a configuration file, and further fields."""
    is_file = what.endswith((".yaml", ".yml"))
    if not is_file and what not in task_names():
        raise ConfigError(
            f"'{what}' is not a task, configuration or folder of a comparison; to compare runs: heed.compare([a, b])"
        )
    values = with_paths(read_config(what), Path(what).absolute().parent) if is_file else {"task": what}
    for name, value in fields.items():
        if value is not None:
            many = name in ("data.train", "data.test") or (name == "data.valid" and not isinstance(value, int))
            set_field(values, name, _paths(name, value) if many else value)
    return check_config(with_paths(values, Path.cwd()), what if is_file else "heed.compare")


def _paths(name: str, files: Any) -> list[str]:
    if isinstance(files, str | Path):
        return [str(files)]
    if isinstance(files, list | tuple) and all(isinstance(one, str | Path) for one in files):
        return [str(one) for one in files]
    raise ConfigError(
        f"{name.removeprefix('data.')} is data in memory, but each run trains in a separate process, which reads "
        "files; write the data to a file, and give its name"
    )
