"""Shell completion: tasks, models, sizes and run folders; without slow imports, since it runs at every Tab."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import typer

import heed.models
from heed.tasks import task_names


def complete_task(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a task, a configuration or a run for the first word, then files."""
    if ctx.params.get("words"):
        return _files(incomplete)
    return _beginning(incomplete, [*task_names(), *map(str, Path().glob("*.y*ml")), *_runs()]) or _files(incomplete)


def complete_run(incomplete: str) -> list[str]:
    """Complete a run folder."""
    return _beginning(incomplete, _runs()) or _files(incomplete)


def complete_run_or_task(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete run folders; for the first word also a task or a configuration."""
    return complete_run(incomplete) if ctx.params.get("words") else complete_task(ctx, incomplete)


def complete_model(incomplete: str) -> list[str]:
    """Complete the name of a model, the last one in a list separated by commas."""
    before, comma, name = incomplete.rpartition(",")
    names = sorted(module.name for module in pkgutil.iter_modules(heed.models.__path__) if module.name != "base")
    return [f"{before}{comma}{one}" for one in _beginning(name, names)]


def complete_size(incomplete: str) -> list[str]:
    """Complete a named size."""
    from heed.config import ModelSection

    return _beginning(incomplete, get_args(ModelSection.model_fields["size"].annotation))


def complete_file(incomplete: str) -> list[str]:
    """Complete a file or a folder."""
    return _files(incomplete)


def _runs() -> list[str]:
    return ["last", *sorted(str(path.parent) for path in Path("runs").glob("*/format.json"))]


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _files(incomplete: str) -> list[str]:
    """Files for fish only; other shells complete files themselves if nothing is offered, and do it better."""
    if os.environ.get("_HEED_COMPLETE") != "complete_fish":
        return []
    folder, _, name = incomplete.rpartition("/")
    found = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).glob(f"{name}*"))
    return [f"{path}/" if path.is_dir() else str(path) for path in found]
