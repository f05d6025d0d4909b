"""`heed compare`."""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from heed.cli.terminal import show_drawing, use_color, width
from heed.cli.train import settings_from
from heed.comparison.comparison import FORMS, check_folder, compare_entries
from heed.comparison.entries import ComparisonOptions, Entry, group_by_seed, open_runs
from heed.comparison.page import UNWRAPPED
from heed.comparison.training import (
    chosen_sizes,
    default_folder,
    finished_entries,
    is_comparison,
    plan_runs,
    read_sizes,
    split_models,
    train_and_compare,
)
from heed.config import apply_overrides
from heed.errors import ConfigError, HeedError
from heed.show.scene import check_figure
from heed.storage import disk
from heed.tasks import task_names
from heed.tasks.run import Run
from heed.training.progress import TerminalReporter


@dataclass(frozen=True)
class CompareOptions:
    """How to compare, and what to write; see the options of `heed compare`."""

    models: str | None
    train_size: str | None
    seeds: int
    out: Path | None
    split: str | None
    baseline: str | None
    beam: int | None
    threads: int | None
    device: str
    resamples: int | None
    sentences: int
    open_it: bool
    as_json: bool
    look: str | None = None
    force: bool = False
    figure: dict[str, Any] = field(default_factory=dict)  # the options of a picture that were given
    jobs: int | None = None


def run_compare(words: list[str], fields: list[str], options: CompareOptions) -> None:
    """Train missing runs, compare, print the tables, write the files."""
    reporter = TerminalReporter()
    out = options.out
    drawn = options.resamples
    how = ComparisonOptions(options.split, options.beam, options.threads, options.device, drawn, look=options.look)
    sizes = [] if options.train_size is None else read_sizes(options.train_size)
    if options.models is None and words[0] not in task_names() and not words[0].endswith((".yaml", ".yml")):
        if options.open_it and out is None:
            raise ConfigError("--open shows the page that --out DIR writes; give both")
        tests = [field for field in fields if field.startswith("data.test=")]
        _refuse_training_options([field for field in fields if field not in tests], options)
        how = replace(how, files=tuple(apply_overrides({}, tests)["data"]["test"])) if tests else how
        entries = chosen_sizes(_opened(words, options.force), sizes)
        ending = "svg" if out is None or out.suffix not in FORMS else out.suffix[1:]
        check_figure(options.figure, "text" if out is None else ending)
        if out is not None:
            (disk.check_output if out.suffix in FORMS else check_folder)(out)
        made = compare_entries(entries, how, options.baseline, reporter.say)
    else:
        _refuse_model_fields(words)
        device = [] if options.device == "auto" else [f"training.device={json.dumps(options.device)}"]
        settings = settings_from(words, [*fields, *device])
        if out is not None and out.suffix in FORMS:
            raise ConfigError(f"--out: '{out}' must be a folder, for the runs; compare them again for one {out.suffix}")
        check_figure(options.figure, "svg")
        planned = plan_runs(settings, split_models(options.models or ""), options.seeds, sizes)
        out = out or default_folder(settings)
        new = [folder for folder in (out, *out.parents) if not os.path.lexists(folder)]
        check_folder(out)
        try:
            trained = train_and_compare(planned, out, how, options.baseline, reporter, options.jobs)
        except HeedError:
            for folder in new:  # nothing is left of a comparison that could not begin
                with suppress(OSError):
                    folder.rmdir()
            raise
        if trained is None:
            print("interrupted; saved. Resume with the same command", file=sys.stderr)
            raise SystemExit(130)
        made = trained
    if options.as_json:
        sys.stdout.write(made.to_json())
    else:
        show_drawing(made.text(width() if sys.stdout.isatty() else UNWRAPPED, use_color()))
    if out is not None:
        written = made.save(out, options.sentences, **options.figure)
        print(f"wrote {', '.join(map(str, written))}", file=sys.stderr)
        if options.open_it:
            webbrowser.open(written[0].absolute().as_uri())


def _refuse_training_options(fields: list[str], options: CompareOptions) -> None:
    given = [field.split("=")[0] for field in fields] + (["--seeds"] if options.seeds != 1 else [])
    given += ["--jobs"] * (options.jobs is not None)
    if given:
        raise ConfigError(
            f"{given[0]} is for training, but these runs are already trained; to train, give --models and, instead of "
            "runs, a configuration or a task and its files"
        )


def _refuse_model_fields(words: list[str]) -> None:
    """Refuse model fields given for all models: they belong to one model and would be ignored."""
    for word in words[1:]:
        name, equals, _ = word.partition("=")
        if equals and name.startswith("model.") and name != "model.size":
            key = word.removeprefix("model.")
            raise ConfigError(f"'{word}': give the fields of a model in --models: --models NAME:{key}")


def _opened(words: list[str], force: bool) -> list[Entry]:
    """Open runs by folder; the folder of a comparison stands for all its runs, alone also for their training sizes."""
    if len(words) == 1 and is_comparison(Path(words[0])):
        return finished_entries(Path(words[0]), force=force)
    runs: list[Run | str] = []
    for word in words:
        entries = finished_entries(Path(word), force=force) if is_comparison(Path(word)) else []
        runs += [run for entry in entries for run in entry.runs] or [word]
    return group_by_seed(open_runs(runs, force))
