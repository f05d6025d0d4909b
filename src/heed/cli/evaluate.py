"""`heed evaluate`."""

from __future__ import annotations

import json

import heed
from heed.evaluation.report import scores_text

__all__ = ["run_evaluate"]


def run_evaluate(name: str, split: str | None, as_json: bool) -> None:
    """Score a run and print the report."""
    run = heed.load(name)
    tests = [s for s in run.task.splits.pairs if s not in ("train", "valid")]
    reports = {s: run.evaluate(s) for s in ([split] if split is not None else tests)}
    if "valid" in reports:
        reports["valid"]["note"] = "the set that the weights were selected on"
    print(json.dumps(reports, indent=1) if as_json else scores_text(reports))
