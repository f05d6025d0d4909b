"""`heed train`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from heed import folder
from heed.cli.settings import settings_from
from heed.cli.terminal import show
from heed.errors import ConfigError
from heed.runs.card import scores_text
from heed.runs.forecast import forecast
from heed.runs.train import train_config
from heed.tasks import spec_of
from heed.tasks.base.settling import settings_text
from heed.training.processes import is_first
from heed.training.progress import TerminalReporter
from heed.visible import shell_word


def run_train(
    words: list[str], fields: list[str], out: Path | None, resume: bool, dry_run: bool, verbose: bool
) -> None:
    """Train, print the scores and the next command."""
    if {"training.minutes", "training.epochs"} <= {field.partition("=")[0] for field in fields}:
        raise ConfigError("--minutes and --epochs both set how long to train; give only one")
    if resume and (words[0] == "last" or Path(words[0]).is_dir()):
        if out is not None:
            raise ConfigError(f"--resume continues in '{words[0]}' itself; omit --out")
        out = folder.find(words[0], folder.State.BEGUN)
        folder.check_format(out)
        words = [str(out / folder.CONFIG), *words[1:]]
    settings = settings_from(words, fields)
    if dry_run:
        show(forecast(settings, verbose))
        return
    run, result = train_config(
        settings, out, TerminalReporter(), resume=resume, settings=partial(settings_text, whole=verbose)
    )
    if run is None:
        going_on = f"heed train {shell_word(result.folder)} --resume"
        print(f"interrupted at update {result.progress.step}; saved. Resume with: {going_on}", file=sys.stderr)
        raise SystemExit(130)
    if not is_first():
        return
    show(scores_text(run, run.report["scores"]))
    use = spec_of(run.config.task).next_command.format(run=shell_word(run.folder))
    print(f"\nrun folder: {run.folder}\nnext: {use}", file=sys.stderr)
