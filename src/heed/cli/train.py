"""The commands train and check, and the settings that they print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from heed import folder
from heed.cli.options import DataOptions, TrainOptions
from heed.cli.terminal import show, write_output
from heed.config import RunConfig, apply_overrides, read_config
from heed.config.sections import sections_with
from heed.errors import ConfigError, DataError, HeedError, suggest
from heed.folder import CONFIG
from heed.runs.card import scores_text
from heed.runs.prepare import settings_text
from heed.runs.resume import check_run
from heed.runs.train import forecast, train_config
from heed.storage.disk import check_output
from heed.tasks import DEFAULT, check_config, config_class, spec_of, task_class, task_names, with_paths
from heed.tasks.base.transfer import start_command
from heed.training.processes import is_first
from heed.training.progress import TerminalReporter
from heed.visible import shell_word


def settings_from(words: list[str], fields: Mapping[str, Any]) -> RunConfig:
    """Build the configuration meant by `CONFIG [k=v]...` or `TASK FILE... [k=v]...`.

    Raises:
        ConfigError: The first word is neither a configuration nor a task, or a field is wrong.
    """
    first, *rest = words
    overrides = [word for word in rest if _is_field(word)]
    files = [word for word in rest if not _is_field(word)]
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
    show(scores_text(run, run.report["scores"]))
    use = spec_of(run.config.task).next_command.format(run=shell_word(run.folder))
    print(f"\nrun folder: {run.folder}\nnext: {use}", file=sys.stderr)
