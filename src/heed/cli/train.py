"""The commands train, check and demo: settings from words, training, and what is printed before and after it."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from heed import folder
from heed.cli.options import DataOptions, TrainOptions
from heed.cli.predict import ask, outputs_of
from heed.cli.terminal import interactive, show, show_drawing, use_color, width, write_output
from heed.config import RunConfig, apply_overrides, read_config
from heed.config.sections import sections_with
from heed.data.embedded.pairs import LANGUAGES
from heed.errors import ConfigError, DataError, HeedError, suggest
from heed.evaluation.significance import Interval
from heed.folder import CONFIG
from heed.runs.card import scores_text
from heed.runs.prepare import settings_text
from heed.runs.resume import check_run
from heed.runs.train import TrainingEvent, forecast, train_config
from heed.storage.disk import check_output
from heed.tasks import DEFAULT, capability, check_config, config_class, spec_of, task_class, task_names, with_paths
from heed.tasks.base.predictions import TextOutputs
from heed.tasks.base.transfer import start_command
from heed.training.processes import is_first
from heed.training.progress import TerminalReporter
from heed.visible import shell_word


def settings_from(words: list[str], fields: Mapping[str, Any]) -> RunConfig:
    """Build the configuration meant by `CONFIG [k=v]...` or `TASK FILE... [k=v]...`.

    Raises:
        ConfigError: The first word is neither a configuration nor a task, or a field is wrong.
    """
    first, *others = words
    overrides = [word for word in others if _is_field(word)]
    files = [word for word in others if not _is_field(word)]
    values: dict[str, Any]
    if first.endswith((".yaml", ".yml")):
        if files:
            raise ConfigError(f"'{files[0]}' is not section.key=value, and '{first}' names its own files")
        values, where = with_paths(read_config(first), Path(first).absolute().parent), first
    elif os.path.isdir(first):
        if os.path.isfile(Path(first) / CONFIG):
            resume = f"heed train {shell_word(first)} --resume"
            raise ConfigError(f"'{first}' is a run folder; to resume the run: {resume}")
        raise ConfigError(f"'{first}' is a folder; give a YAML file, or --resume to resume a run")
    elif first in task_names():
        values, where = {"task": first}, "command line"
        if files and files[0].startswith("hub:"):
            if len(files) > 1:
                raise ConfigError(
                    f"'{files[0]}' is a whole data set, so '{files[1]}' cannot be added; data.train, --valid and "
                    "--test select its splits, and data.extra adds files"
                )
            overrides.insert(0, f"data.hub={json.dumps(files.pop().removeprefix('hub:'))}")
        for word in files:
            _refuse_field_without_section(word, first)
        spec = spec_of(first)
        if spec.num_files[1] is not None and len(files) > spec.num_files[1]:
            raise ConfigError(
                f"{len(files)} training files were given ({', '.join(files)}), expected {spec.files}; give validation "
                "and test files with --valid and --test"
            )
        if files:
            overrides.insert(0, f"data.train={json.dumps([str(Path(f).absolute()) for f in files])}")
        elif not any(word.startswith("data.") for word in overrides):
            example = f"heed train {first} {spec.example}"
            raise ConfigError(f"heed train {first} needs its training files, for example: {example}")
    else:
        hint = suggest(first, task_names())
        if first == "last":
            hint = "; to resume a run: heed train last --resume"
        elif os.path.exists(first):
            tasks = f"{', '.join(task_names()[:-1])} or {task_names()[-1]}"
            example = f"heed train {DEFAULT} {' '.join(map(shell_word, words))}"
            hint = f"; name its task first ({tasks}), for example: {example}"
        raise ConfigError(f"'{first}' is neither a task nor a YAML file{hint}")
    values = apply_overrides(values, [*overrides, *_as_words(fields)])
    values = with_paths(values, Path.cwd())  # files on the command line are relative to the current directory
    return check_config(values, where)


def _as_words(fields: Mapping[str, Any]) -> list[str]:
    """Options as `section.key=value`."""
    return [f"{name}={json.dumps(value)}" for name, value in fields.items()]


def _is_field(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and "." in name and not os.path.exists(word)


def _refuse_field_without_section(word: str, task: str) -> None:
    """Refuse `learning_rate=0.1`, which would count as a file, with the section of the field where it is known."""
    name, equals, _ = word.partition("=")
    if not equals or not name.isidentifier() or os.path.exists(word):
        return
    meant = [f"{section}.{word}" for section in sections_with(config_class(task), name)]
    hint = f"; did you mean {' or '.join(meant)}?" if meant else ": SECTION.FIELD=VALUE"
    raise ConfigError(f"'{word}' is neither a file nor a field with its section{hint}")


def run_check(words: list[str], data: DataOptions, out: Path | None = None) -> None:
    """Print a report on the data and its problems; for a run folder, the state of each file.

    `out` is a file for a page of samples, for tasks that have one.

    Raises:
        ConfigError: The task has no such page.
        SystemExit: With status 2: a file of the run folder is missing, altered or unusable.
        DataError: The data cannot be trained on. If the reason is bad lines, a report on the data without them is
            printed first, which lists all of them and not only the first.
    """
    if words[0] == "last" or os.path.isdir(words[0]) or folder.is_packed(words[0]):
        if out is not None:
            raise ConfigError(f"--out writes a page of data samples, but '{words[0]}' is a run folder; omit --out")
        state = check_run(words[0])
        show(state)
        if not state.whole:
            raise SystemExit(2)
        return
    fields = data.fields()
    settings = settings_from(words, fields)
    kind, section = task_class(settings.task), settings.data
    if out is not None and getattr(kind, "samples_page", None) is None:
        raise ConfigError(f"--out is not available for {settings.task}: it writes pages of pictures")
    check_output(out)
    try:
        task = kind.prepare(settings)
        show(task.overview())
        if advice := start_command(task, settings, [*words, *_as_words(fields)]):
            show(f"\n{advice}")
        if out is not None:
            write_output(kind.samples_page(task), out)
    except DataError:
        if "bad_lines" not in type(section).model_fields or section.bad_lines == "skip":
            raise
        skipping = settings.model_copy(update={"data": section.model_copy(update={"bad_lines": "skip"})})
        with suppress(HeedError):
            overview = kind.prepare(skipping).overview()
            show(f"training would stop at the first bad line; with data.bad_lines=skip the data is:\n{overview}")
        raise


def run_train(words: list[str], options: TrainOptions) -> None:
    """Train, print the scores and the next command."""
    fields, out, resume = options.fields(), options.out, options.resume
    if {"training.minutes", "training.epochs"} <= fields.keys():
        raise ConfigError("--minutes and --epochs both set how long to train; give only one")
    if resume and folder.is_packed(words[0]):
        raise ConfigError(
            f"'{words[0]}' is a packed run, which has no checkpoints to resume; start a new run from it: "
            f"heed train TASK FILE... --from {shell_word(words[0])}"
        )
    if resume and (words[0] == "last" or os.path.isdir(words[0])):
        if out is not None:
            raise ConfigError(f"--resume continues in '{words[0]}' itself; omit --out")
        out = folder.find(words[0], folder.State.BEGUN)
        folder.check_format(out)
        if folder.was_only_begun(out):
            raise ConfigError(f"'{out}' cannot be resumed: {folder.how_to_finish(out)}")
        words = [str(out / folder.CONFIG), *words[1:]]
    settings = settings_from(words, fields)
    if options.dry_run:
        show(forecast(settings, options.verbose))
        return

    def describe(task: Any) -> str:
        advice = "" if resume else start_command(task, settings, [*words, *_as_words(fields)])
        return f"{settings_text(task, options.verbose)}\n{advice}".rstrip("\n")

    run, result = train_config(settings, out, TerminalReporter(), resume=resume, settings=describe)
    if run is None:
        going_on = f"heed train {shell_word(result.folder)} --resume"
        print(f"interrupted at update {result.progress.step}; saved. Resume with: {going_on}", file=sys.stderr)
        raise SystemExit(130)
    if not is_first():
        return
    scores = run.report["scores"]
    show(scores_text(run, scores))
    if any("better_baselines" in of_split for of_split in scores.values() if isinstance(of_split, dict)):
        show(start_command(run.task, settings, [*words, *_as_words(fields)]))
    use = spec_of(run.config.task).next_command.format(run=shell_word(run.folder))
    print(f"\nrun folder: {run.folder}\nnext: {use}", file=sys.stderr)


_EXAMPLE, _ANSWER = "sábado, 9 de mayo de 1998", "1998-05-09"


def run_demo(minutes: float, seed: int, out: Path | None) -> None:
    """Train a model that converts dates to ISO, show a map of its attention within seconds, and report the results."""
    settings = {"data": {"name": "dates"}, "training": {"minutes": minutes, "seed": seed}}
    config = check_config({"task": "translation", **settings}, "command line")
    print(
        f"heed learns to read dates as people write them in {len(LANGUAGES)} languages and to write them as "
        f"YYYY-MM-DD.\nIt is never told which characters are the year, the month or the day. "
        f"This takes about {minutes:g} minutes.\n",
        flush=True,
    )
    shown: list[bool] = []

    def early_map(event: TrainingEvent) -> None:
        run, scores = event.run, event.scores
        if shown or run is None:
            return
        shown.append(True)
        print(
            f"\nAfter {event.seconds:.0f} s (including set-up) it writes {scores['exact_match']:.0%} of held-out dates "
            f"and {scores['token_accuracy']:.0%} of their characters correctly.\n"
            f"Its attention now, as it is made to write {_ANSWER} (later the matching field should have most weight):\n"
        )
        show_drawing(capability(run, "look").look(_EXAMPLE, target=_ANSWER).text(width(), use_color()) + " \n")

    run, result = train_config(config, out, TerminalReporter(), callback=early_map)
    if run is None:
        print(f"\nStopped and saved. Resume with:  heed train {shell_word(result.folder)} --resume")
        raise SystemExit(130)
    _report_dates(run)
    if interactive():
        print("\nTry one of your own, in any of these languages:", ", ".join(LANGUAGES))
        outputs = outputs_of(run, {})
        assert isinstance(outputs, TextOutputs)
        ask(outputs)
    folder = shell_word(run.folder)
    print(
        f"\nThe run is in {run.folder}. Next:\n"
        f"  heed look {folder} '{_EXAMPLE}' --steps\n"
        f"  heed look {folder} '{_EXAMPLE}' --open\n"
        f"  heed predict {folder} '3 mars 2024'\n"
        f"  heed evaluate {folder}\n"
        f"  heed train CONFIG.yaml        (configurations to start from: examples/)"
    )


def _report_dates(run: Any) -> None:
    scores = run.report["scores"]
    test, unseen = scores["test"], scores.get("unseen")
    print(f"\nExactly right on {test['examples']} held-out dates: {_interval(test['exact_match'])}")
    if unseen is not None:
        languages = ", ".join(sorted({p.origin.split(":")[1] for p in run.task.splits.examples["unseen"]}))
        print(f"In languages it never saw ({languages}): {_interval(unseen['exact_match'])}")
    print(
        f"Characters of year, month and day whose largest weight is outside the matching part of the input: "
        f"{_interval(test['alignment_error'])}"
    )
    pairs = run.task.splits.examples["test"]
    outputs = run.predict([pair.source for pair in pairs])
    right = [pair for pair, out in zip(pairs, outputs, strict=True) if pair.target == out.text]
    if right:
        example = max(right, key=lambda pair: (pair.origin.endswith("full"), pair.origin.split(":")[1] == "es"))
        print("\nA held-out date that it reads correctly:\n")
        show_drawing(run.look(example.source).text(width(), use_color()))
    print(f"\n{run.equal_weights()}")
    misses = [(pair, out) for pair, out in zip(pairs, outputs, strict=True) if pair.target != out.text]
    if misses:
        worst, out = max(misses, key=lambda miss: miss[1].log_prob)
        print(f"\nIts most confident error ({len(misses)} in total):")
        print(f"  {worst.source}  ({worst.origin})\n  should be {worst.target}, but it wrote {out.text}")
    else:
        print("\nIt got every held-out date right.")


def _interval(values: dict[str, float]) -> Interval:
    return Interval(*(values.get(name, math.nan) for name in ("value", "low", "high")))
