"""`heed.compare`: compare existing runs, or train what `--models` asks for first, each run in a separate process.

Separate processes, because the peak memory of a process is that of its largest run, and speed must not depend on
earlier runs. Seeds are the outer loop, so that an interrupted comparison has all models with fewer seeds.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from heed import folder as folders
from heed.comparison.comparison import Comparison, check_folder, compare_entries
from heed.comparison.entries import ComparisonOptions, Entry, group_by_seed, open_runs
from heed.comparison.jobs import Planned, train_all
from heed.config import RunConfig, apply_overrides
from heed.errors import ConfigError, HeedError, RunError, whole_number
from heed.evaluation.significance import SEED
from heed.runs.loading import load
from heed.runs.prepare import settings_of
from heed.runs.resume import differences
from heed.storage.disk import make_folder, write_outputs
from heed.storage.files import damaged, read_object
from heed.storage.lock import LOCK, Ownership
from heed.tasks import check_config, task_class, task_names, with_paths
from heed.tasks.run import Run
from heed.training.progress import Quiet, Reporter, duration, usual_reporter

Files = str | Path | Sequence[str | Path]
AnyRun = Run | str | os.PathLike[str] | Entry

_COMMON = ("training.minutes", "training.steps", "training.seed", "training.device", "training.train_size")
_COMMON_SECTIONS = ("task", "data", "tokenizer", "evaluation")


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
    look: str | None = None,
    jobs: int | None = None,
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
        resamples: Resamples of the examples; by default as many as in the runs' reports (`evaluation.bootstrap`), so
            that both have the same intervals.
        seed: Seed of the resamples; the reports use 1.
        look: A text whose attention in every run is shown too.
        jobs: With `models`, trainings side by side, on the cores or GPUs of this machine; 1 by default.
        say: Called with progress messages.

    Raises:
        ConfigError: Fewer than two runs, or an option that does not fit them.
        DataError: The runs do not have the same examples.
        RunError: A run cannot be opened.
        KeyboardInterrupt: Training was interrupted; the same call resumes it.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is {jobs}, expected at least 1")
    options = ComparisonOptions(split, beam_size, threads, device, resamples, seed, look=look)
    sizes = read_sizes(train_size) if isinstance(train_size, str | int) or train_size else []
    fields: dict[str, Any] = {"data.name": data, "model.size": size}
    fields |= {"training.minutes": minutes, "training.steps": steps, **(settings or {})}
    trained: Sequence[AnyRun] | None = None if isinstance(runs, str | os.PathLike) else runs
    if isinstance(runs, str | os.PathLike) and is_comparison(Path(runs)):
        trained = [runs]
    if trained is not None:
        splits = {"data.train": train, "data.valid": valid}
        refuse_training({"models": models, "seeds": None if seeds == 1 else seeds, "jobs": jobs, **splits, **fields})
        if out is not None:
            raise ConfigError(f"out is for training; save the result with its method save({str(out)!r})")
        files = () if test is None else (str(test),) if isinstance(test, str | Path) else tuple(map(str, test))
        options = replace(options, files=files)
        return compare_entries(open_entries(trained, sizes), options, baseline, say)
    if str(runs) not in task_names() and not str(runs).endswith((".yaml", ".yml")):
        raise ConfigError(
            f"'{runs}' is not a task, configuration or folder of a comparison; to compare runs: heed.compare([a, b])"
        )
    fields["training.device"] = None if device == "auto" else device
    config, memory = settings_of(str(runs), {"train": train, "valid": valid, "test": test}, fields, "heed.compare")
    if memory:
        raise ConfigError(
            f"{next(iter(memory))} is data in memory, but each run trains in a separate process, which reads files; "
            "write the data to a file, and give its name"
        )
    reporter = Quiet() if quiet else usual_reporter()
    comparison = train_and_compare(config, models, seeds, sizes, out, options, baseline, reporter, jobs)
    if comparison is None:
        raise KeyboardInterrupt("interrupted; saved. Resume with the same call")
    comparison.save(out or default_folder(config))
    return comparison


def refuse_training(options: Mapping[str, Any]) -> None:
    """Refuse options of training, since the runs are already trained."""
    for name, value in options.items():
        if value is not None and value != ():
            raise ConfigError(
                f"{name} is for training, but these runs are already trained; to train, give models and, instead of "
                "runs, a configuration or a task and its files"
            )


def open_entries(runs: Sequence[AnyRun], sizes: Sequence[int | None], force: bool = False) -> list[Entry]:
    """Open trained runs; the folder of a comparison stands for all its runs, alone also for some of its `sizes`."""
    if entries := [run for run in runs if isinstance(run, Entry)]:
        return entries
    opened: list[Run | str | Path] = []
    for run in runs:
        if isinstance(run, Run | Entry) or not is_comparison(Path(run)):
            opened.append(run if isinstance(run, Run) else str(run))
        elif len(runs) == 1:
            return chosen_sizes(finished_entries(Path(run), force=force), sizes)
        else:
            opened += [run for entry in finished_entries(Path(run), force=force) for run in entry.runs]
    return chosen_sizes(group_by_seed(open_runs(opened, force)), sizes)


def default_folder(config: RunConfig) -> Path:
    """The default folder of a comparison."""
    return Path("runs") / f"compare-{config.data.name}"


def train_and_compare(
    config: RunConfig,
    models: Sequence[str] | str,
    seeds: int,
    sizes: Sequence[int | None],
    out: str | Path | None,
    options: ComparisonOptions,
    baseline: str | None,
    reporter: Reporter,
    jobs: int | None = None,
) -> Comparison | None:
    """Train the runs missing in a folder, and compare those asked for; None if training was interrupted."""
    planned = plan_runs(config, split_models(models) if isinstance(models, str) else list(models), seeds, sizes)
    out = Path(out or default_folder(config))
    new = [folder for folder in (out, *out.parents) if not os.path.lexists(folder)]
    check_folder(out)
    try:
        if not train_missing(out, planned, reporter, jobs):
            return None
        return compare_entries(finished_entries(out, planned), options, baseline, reporter.say)
    except HeedError:
        for folder in new:  # a comparison that could not begin leaves nothing behind
            with suppress(OSError):
                folder.rmdir()
        raise


def chosen_sizes(entries: Sequence[Entry], sizes: Sequence[int | None]) -> list[Entry]:
    """The rows of some sizes, or of all if none is given.

    Raises:
        ConfigError: No run has such a size.
    """
    available = dict.fromkeys(entry.train_size for entry in entries)
    for size in sizes:
        if size not in available:
            have = ", ".join("all" if size is None else str(size) for size in available)
            raise ConfigError(f"train_size: no run has size {'all' if size is None else size}; sizes: {have}")
    return [entry for entry in entries if not sizes or entry.train_size in sizes]


# Planning ---------------------------------------------------------------------------------------------------------


def plan_runs(base: RunConfig, models: Sequence[str], seeds: int, sizes: Sequence[int | None] = ()) -> list[Planned]:
    """Plan every model with every seed and size; seeds are the outer loop, so that a part is a complete comparison.

    Args:
        base: The common settings: data, tokenizer, budget; of its model section only the size is used.
        models: Each `name`, or `name@RUN` to start from the weights of a run, or `@RUN` for that run's model; then
            `:field=value:field=value`. A plain field is the model's; `section.field` may be any field that need not be
            the same for all, such as `training.learning_rate`. `LABEL=` before it names the row.
        seeds: Number of seeds, starting from the configuration's.
        sizes: Numbers of training examples, None for all (`training.train_size`); by default the configuration's.

    Raises:
        ConfigError: A model is named twice, or a field is invalid.
    """
    if sizes and base.training.train_size is not None:
        raise ConfigError(
            f"train_size and training.train_size={base.training.train_size} both set the number of training "
            "examples; give only one"
        )
    sizes = sizes or [base.training.train_size]
    if not models:
        raise ConfigError("name the models to compare, for example bahdanau,bahdanau:cell=lstm")
    labels = [_label(model)[0] for model in models]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ConfigError(f"models names '{twice[0]}' twice")
    if len(models) * len(sizes) < 2:
        raise ConfigError(f"models names only '{models[0]}'; a comparison takes two or more, or several train_size")
    planned: dict[str, Planned] = {}
    for number, size, (label, model) in product(range(seeds), sizes, map(_label, models)):
        config, seed = _configured(base, model), base.training.seed + number
        training = config.training.model_copy(update={"seed": seed, "train_size": size})
        part = "" if size is None else f"-n{size}"
        name = re.sub(r"[^\w.=+-]", "_", label) + f"{part}-seed{seed}"
        if name in planned:
            raise ConfigError(
                f"models: '{planned[name].label}' and '{label}' would share the folder '{name}'; rename one so that "
                "they differ in letters or digits"
            )
        planned[name] = Planned(label, name, config.model_copy(update={"training": training}))
    return list(planned.values())


def read_sizes(sizes: str | int | Sequence[str | int | None]) -> list[int | None]:
    """Parse the sizes `100,1000,all` or [100, 1000, "all"]; in rising order, with None (last) for all.

    Raises:
        ConfigError: A size is not a positive whole number, or is repeated.
    """
    words = sizes.split(",") if isinstance(sizes, str) else [sizes] if isinstance(sizes, int) else sizes
    numbers: list[int | None] = []
    for word in words:
        text = "all" if word is None else str(word).strip()
        if text != "all" and not (text.isdecimal() and whole_number(text) > 0):
            raise ConfigError(
                f"train_size: '{text}' is not a number of training examples; give whole numbers, and all for the "
                "whole set, such as 100,1000,all"
            )
        size = None if text == "all" else whole_number(text)
        if size in numbers:
            raise ConfigError(f"train_size names {text} twice")
        numbers.append(size)
    return sorted(numbers, key=lambda size: (size is None, size))


def split_models(text: str) -> list[str]:
    """Split `a,b:field=[1,2],c` into models; a comma inside brackets does not separate them."""
    return [model.strip() for model in re.split(r",(?![^\[]*\])", text) if model.strip()]


def _label(model: str) -> tuple[str, str]:
    """The label of a model in tables, and the model: `vectors=rnn:word_vectors=FILE` gives "vectors" and the rest."""
    match = re.match(r"([^:@=]+)=(.*)", model, re.DOTALL)
    return (model, model) if match is None else (match[1].strip(), match[2].strip())


def _configured(base: RunConfig, model: str) -> RunConfig:
    """The common settings with one model. Fields that the user has not set stay unset, as for `heed train`."""
    start, *fields = model.split(":")
    name, at, parent = start.partition("@")
    section: dict[str, Any] = {**({"name": name} if name else {}), **({"from": parent} if at else {})}
    if not section:
        raise ConfigError(f"models: '{model}' names no model; write NAME, NAME@RUN or @RUN before the fields")
    if "size" in base.model.model_fields_set:
        section["size"] = base.model.size
    overrides = []
    for field in fields:
        key, equals, _ = field.partition("=")
        if not equals:
            raise ConfigError(f"models: '{field}' in '{model}' is not field=value")
        over = key.split(".")[0]
        if key in _COMMON or ("." in key and over in _COMMON_SECTIONS):
            raise ConfigError(f"models: '{key}' in '{model}' must be the same for all models; give it for all instead")
        overrides.append(field if "." in key else f"model.{field}")
    values = base.model_dump(mode="json", by_alias=True, exclude_unset=True)
    values["model"] = section
    values = with_paths(apply_overrides(values, overrides), Path.cwd())
    if (parent := values["model"].get("from")) is not None:
        if parent in ("", "last"):  # the last run changes while the comparison trains
            raise ConfigError(f"models: name the folder of the run that '{model}' starts from")
        values["model"]["from"] = str(Path(parent).absolute())
    return check_config(values, f"models: {model}")


# Training ---------------------------------------------------------------------------------------------------------

_PLAN = "compare.plan.json"


def is_comparison(path: Path) -> bool:
    """True for a folder made by `train_missing`."""
    return (path / _PLAN).is_file()


def train_missing(folder: Path, planned: Sequence[Planned], reporter: Reporter, jobs: int | None = None) -> bool:
    """Train the missing runs, `jobs` at a time in the planned order; unfinished ones are resumed.

    Each has a separate process, so that its memory is measured by itself and no run inherits another's state.

    Returns:
        False if it was interrupted.

    Raises:
        ConfigError: A model cannot be built (checked before any training), or the folder has a run of that name with
            other settings.
        RunError, TrainingError: A run failed, or another process is training in the folder.
    """
    with Ownership() as ownership:
        if is_comparison(folder):
            ownership.take(folder)
        _agree(folder, planned)
        missing = [run for run in planned if not _is_finished(folder / run.name)]
        labels: set[str] = set()
        sizes: set[int | None] = set()
        for run in missing:
            if run.label not in labels or run.train_size not in sizes:
                labels.add(run.label)
                sizes.add(run.train_size)
                model = task_class(run.config.task).prepare(run.config).build_model()
                reporter.say(f"{run.described}: {sum(p.numel() for p in model.parameters()):,} parameters")
        ownership.take(folder, make=True)
        _write_plan(folder, _agree(folder, planned))  # checked again: another process may have made the folder
        minutes = [run.config.training.minutes for run in missing if run.config.training.steps is None]
        budget = f", about {duration(60 * sum(m or 0 for m in minutes))}" if len(minutes) == len(missing) > 0 else ""
        exist = len(planned) - len(missing)
        reporter.say(f"{folder}: {exist} of {len(planned)} runs exist; {len(missing)} to train{budget}")
        return train_all(folder, missing, reporter, jobs or 1)


def finished_entries(folder: Path, only: Sequence[Planned] | None = None, force: bool = False) -> list[Entry]:
    """The runs of a comparison's folder (or `only` some): a row for each model as requested and each training size.

    `force` opens runs despite missing or altered files, with a warning. Sizes rise; all examples are the last.

    Raises:
        RunError: A run has not finished.
    """
    plan = _read_plan(folder).runs
    names = list(plan) if only is None else [run.name for run in only]
    groups: dict[tuple[int | None, str], list[str]] = {}
    for name in names:
        size = plan[name].config.get("training", {}).get("train_size")
        groups.setdefault((size, plan[name].label), []).append(name)
    opened = partial(load, finished=True, force=force, device="cpu")  # each is moved while it predicts
    return [
        Entry(label, tuple(opened(folder / name) for name in groups[size, label]), size)
        for size, label in sorted(groups, key=lambda group: (group[0] is None, group[0] or 0))
    ]


def _is_finished(path: Path) -> bool:
    return folders.state_of(path) is folders.State.FINISHED and "scores" in folders.read_report(path)


def _agree(folder: Path, planned: Sequence[Planned]) -> _Plan:
    """The folder's plan with the runs requested now; runs that it already has must have the same settings."""
    if (
        os.path.exists(folder)
        and not is_comparison(folder)
        and (not os.path.isdir(folder) or any(path.name != LOCK for path in folder.iterdir()))
    ):
        raise RunError(f"'{folder}' exists and is not a comparison; give another --out")
    plan = _read_plan(folder) if is_comparison(folder) else _Plan(runs={})
    for run in planned:
        asked = run.config.model_dump(mode="json", by_alias=True)
        for change in differences(plan.runs[run.name].config, asked) if run.name in plan.runs else ():
            raise ConfigError(
                f"'{folder / run.name}' was planned with {change.name} {change.before}, but now {change.name} is "
                f"{change.after}; give another --out"
            )
        plan.runs[run.name] = _PlannedRun(label=run.label, config=asked)
    first = next(iter(plan.runs.values())).config
    for name, earlier in plan.runs.items():
        for section in ("task", "data", "tokenizer"):
            if earlier.config.get(section) != first.get(section):
                raise ConfigError(f"'{folder / name}' has a different section '{section}'; give another --out")
    return plan


class _PlannedRun(BaseModel):
    label: str
    config: dict[str, Any]


class _Plan(BaseModel):
    """The file that makes a folder a comparison."""

    format: int = 1
    runs: dict[str, _PlannedRun]


def _read_plan(folder: Path) -> _Plan:
    try:
        return _Plan.model_validate(read_object(folder / _PLAN))
    except ValidationError:
        raise damaged(folder / _PLAN, "it does not list runs with their labels and settings") from None


def _write_plan(folder: Path, plan: _Plan) -> None:
    make_folder(folder)
    text = json.dumps(plan.model_dump(), indent=1, ensure_ascii=False)
    write_outputs({folder / _PLAN: text + "\n"})
