"""Predicted against actual cost of runs: seconds per update, and memory.

    HEED_DATA=../shared/data python benchmarks/prediction.py [--threads 1 --processor-time] [--only wnut]

Recipes of `examples/`, each shortened and in a separate process, without a test set (after a few updates a model writes
outputs of `generation.max_length` tokens, unlike a trained one). `--widest` starts with the largest batches, so that a
few updates (`--updates 5`) need as much memory as a whole run; `--recipes` replaces the default five. On a machine with
other work, times vary from second to second: with one thread, `--processor-time` excludes the time of other processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from machine import print_machine

from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.training.progress import Quiet

ROOT = Path(__file__).parent.parent
RECIPES = ("multi30k-de-en-transformer", "multi30k-de-en", "wnut17", "sst2", "dates")


def shortened(recipe: str, updates: int, threads: int | None) -> dict[str, Any]:
    """A recipe's configuration, with its data in the folder HEED_DATA."""
    text = (ROOT / "examples" / f"{recipe}.yaml").read_text(encoding="utf-8")
    values: dict[str, Any] = yaml.safe_load(
        text.replace("data/", f"{os.environ.get('HEED_DATA', 'data').rstrip('/')}/")
    )
    values["data"].pop("test", None)
    training = {**values.get("training", {}), "steps": updates, "validate_every": updates, "average": 1}
    training.pop("minutes", None)
    return {**values, "training": {**training, "threads": threads}}


def measure(recipe: str, updates: int, threads: int | None, processor_time: bool, widest: bool) -> dict[str, Any]:
    """Train a recipe in this process; return the costs in its report."""
    if processor_time:
        time.perf_counter = time.process_time
    config = check_config(shortened(recipe, updates, threads), recipe)
    if widest:
        kind: Any = task_class(config.task)
        batches = kind.train_batches
        kind.train_batches = lambda task, epoch: sorted(batches(task, epoch), key=task.work, reverse=True)
    with tempfile.TemporaryDirectory() as folder:
        run, _ = train_config(config, f"{folder}/run", Quiet())
    assert run is not None
    training: dict[str, Any] = run.report["training"]
    return training


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, help="number of threads; by default the run chooses")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--only", help="only recipes whose name contains this text", default="")
    parser.add_argument("--processor-time", action="store_true", help="processor time instead of wall-clock time")
    parser.add_argument("--recipes", nargs="+", help="names of recipes in examples/", default=RECIPES)
    parser.add_argument("--widest", action="store_true", help="train on the largest batches first")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.updates, given.threads, given.processor_time, given.widest)))
        return
    print_machine()
    print(f"{given.updates} updates; predicted, actual, ratio")
    for recipe in (name for name in given.recipes if given.only in name):
        command = [sys.executable, __file__, "--measure", recipe, "--updates", str(given.updates)]
        command += ["--threads", str(given.threads)] if given.threads else []
        command += ["--processor-time"] if given.processor_time else []
        command += ["--widest"] if given.widest else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{recipe}: {done.stderr.strip().splitlines()[-1]}")
            continue
        took = json.loads(done.stdout.splitlines()[-1])
        rows = {
            "s per update": (took["predicted"]["seconds_per_update"], took["seconds_per_update"], ".4f"),
            "MiB": (took["predicted"]["memory_mib"], took["peak_memory_mib"], ",.0f"),
        }
        print(f"{recipe}, threads {took['threads']}, micro-batches {took['micro_batches']}")
        for name, (predicted, actual, form) in rows.items():
            print(f"  {name:22} {predicted:{form}}  {actual:{form}}  {predicted / actual:.2f}")


if __name__ == "__main__":
    main()
