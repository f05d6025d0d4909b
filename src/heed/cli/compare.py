"""`heed compare`."""

from __future__ import annotations

import json
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.cli.settings import settings_from
from heed.cli.terminal import use_color, width
from heed.comparison.choices import plan_runs, split_models
from heed.comparison.comparison import compare
from heed.comparison.entries import Entry, group_by_seed, open_runs
from heed.comparison.training import finished_entries, is_comparison, train_missing
from heed.errors import ConfigError
from heed.tasks import task_names
from heed.tasks.base.run import Run
from heed.training.progress import TerminalReporter

_PIPE_WIDTH = 10_000
"""Table rows are not wrapped when output is piped."""


@dataclass(frozen=True)
class CompareOptions:
    """How to compare, and what to write; see the options of `heed compare`."""

    models: str | None
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


def run_compare(words: list[str], fields: list[str], options: CompareOptions) -> None:
    """Train what is missing, compare, print the tables, write the files."""
    reporter = TerminalReporter()
    out = options.out
    if options.models is None and words[0] not in task_names() and not words[0].endswith((".yaml", ".yml")):
        if options.open_it and out is None:
            raise ConfigError("--open shows the page that --out DIR keeps; give both")
        _refuse_training_options(fields, options)
        entries = _opened(words)
    else:
        device = [] if options.device == "auto" else [f"training.device={json.dumps(options.device)}"]
        settings = settings_from(words, [*fields, *device])
        planned = plan_runs(settings, split_models(options.models or ""), options.seeds)
        out = out or Path("runs") / f"compare-{settings.data.name}"
        if not train_missing(out, planned, reporter):
            print("interrupted; saved. The same command goes on", file=sys.stderr)
            raise SystemExit(130)
        (entries,) = finished_entries(out, planned).values()
    comparison = compare(
        entries,
        split=options.split,
        baseline=options.baseline,
        beam_size=options.beam,
        threads=options.threads,
        device=options.device,
        resamples=options.resamples,
        say=reporter.say,
    )
    if options.as_json:
        sys.stdout.write(comparison.to_json())
    else:
        print(comparison.text(width() if sys.stdout.isatty() else _PIPE_WIDTH, use_color()))
    if out is not None:
        written = comparison.save(out, options.sentences)
        print(f"wrote {', '.join(map(str, written))}", file=sys.stderr)
        if options.open_it:
            webbrowser.open(written[0].absolute().as_uri())


def _refuse_training_options(fields: list[str], options: CompareOptions) -> None:
    given = [field.split("=")[0] for field in fields] + (["--seeds"] if options.seeds != 1 else [])
    if given:
        raise ConfigError(
            f"{given[0]} is for training, and runs are trained already; to train, name --models, and instead of runs "
            "a configuration or a task and its files"
        )


def _opened(words: list[str]) -> list[Entry]:
    """Runs by folder; the folder of a comparison stands for all its runs."""
    if len(words) == 1 and is_comparison(Path(words[0])):
        (entries,) = finished_entries(Path(words[0])).values()
        return entries
    runs: list[Run[Any, Any] | str] = []
    for word in words:
        compared = [
            e for group in (finished_entries(Path(word)).values() if is_comparison(Path(word)) else ()) for e in group
        ]
        runs += [run for entry in compared for run in entry.runs] or [word]
    return group_by_seed(open_runs(runs))
