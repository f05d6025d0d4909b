"""`heed train`."""

from __future__ import annotations

import sys
from pathlib import Path

from heed import folder
from heed.config import RunConfig, apply_overrides, check_section, config_text, read_config
from heed.errors import ConfigError
from heed.evaluation.report import scores_text
from heed.run import train_config
from heed.training.progress import TerminalReporter

__all__ = ["run_train"]


def run_train(config: str, overrides: list[str], out: Path | None, resume: bool) -> None:
    """Train, print the scores, say what to type next."""
    place = Path(config)
    if resume and (config == "last" or place.is_dir()):
        out = folder.find(config)
        folder.check_format(out)
        place = out / folder.CONFIG
    elif place.is_dir():
        raise ConfigError(f"'{config}' is a folder; give a YAML file, or --resume to go on with a run")
    values = apply_overrides(read_config(place), overrides)
    settings = check_section(RunConfig, values, str(place))
    print(config_text(settings), file=sys.stderr)
    run, result = train_config(settings, out, TerminalReporter(), resume=resume)
    if run is None:
        where = result.folder
        print(
            f"interrupted at update {result.progress.step}; saved. Go on with: heed train {where} --resume",
            file=sys.stderr,
        )
        raise SystemExit(130)
    print(scores_text(run.report["scores"]))
    print(f"\nrun folder: {run.folder}\nnext: heed look {run.folder} TEXT", file=sys.stderr)
