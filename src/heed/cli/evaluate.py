"""`heed evaluate`."""

from __future__ import annotations

import json

import heed
from heed.config import FilesData
from heed.data.readers import read_pairs
from heed.errors import ConfigError
from heed.evaluation.report import scores_text

__all__ = ["run_evaluate"]


def run_evaluate(names: list[str], files: list[str], split: str | None, as_json: bool) -> None:
    """Score a run, or several that write together, on the data of the first, and print the report."""
    if files and split is not None:
        raise ConfigError("give either files or --split, not both")
    run = heed.load(names[0]) if len(names) == 1 else heed.ensemble(names)
    if files:
        data = run.config.data
        # Columns of a Hub data set are none of a file's.
        columns = (data.columns.source, data.columns.target) if type(data) is FilesData else (None, None)
        reports = {" ".join(files): run.score(list(read_pairs(files, *columns)))}
    else:
        tests = [s for s in run.task.splits.pairs if s not in ("train", "valid")] or ["valid"]
        reports = {s: run.evaluate(s) for s in ([split] if split is not None else tests)}
    if "valid" in reports:
        reports["valid"]["note"] = "this is the set that the weights were selected on: the score flatters"
    print(json.dumps(reports, indent=1, ensure_ascii=False) if as_json else scores_text(reports))
