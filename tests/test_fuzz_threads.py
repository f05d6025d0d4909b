"""Threads that share runs: runs of every task predict, look and attribute at once, each answer as from one thread.

`make fuzz` makes 20,000 calls (40 for each of `HEED_FUZZ`); here there are a few.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import heed
from fuzzing import SEED
from heed.generation import SamplingOptions
from heed.tasks import tasks_with
from small_runs import SMALL

CALLS = 40 * int(os.environ.get("HEED_FUZZ", "5"))
TEXTS = ("one two", "three four five one", "two", "seven six one two three")


@pytest.fixture(scope="module")
def runs(small_run):
    return {name: heed.load(small_run(name)) for name in SMALL}


def inputs(name, folder):
    """A few inputs of a task."""
    if name == "pretraining":
        return [f"{text} [MASK]" for text in TEXTS]
    if name == "images":
        return [str(folder / "photos" / f"{'ab'[n % 2]}/{n}.png") for n in range(4)]
    if name == "table":
        return [{"width": 0.1 * n, "length": 0.2} for n in range(4)]
    if name == "series":
        return [np.random.default_rng(n).random((9, 2)).tolist() for n in range(4)]
    return list(TEXTS)


def asked(runs, data):
    """Functions of no argument, by task, method and input, that ask a run."""
    for name, run in runs.items():
        for place, item in enumerate(inputs(name, data)):
            options = {"length": 5, "sampling": SamplingOptions(seed=2)} if name == "language_modelling" else {}
            yield (name, "predict", place), lambda run=run, item=item, options=options: run.predict(item, **options)
            if SMALL[name].look:
                yield (name, "look", place), lambda run=run, item=item: run.look(item).text()
            if name in tasks_with("attribute"):
                yield (name, "attribute", place), lambda run=run, item=item: run.attribute(item, method="loo")


def test_threads_that_share_runs_answer_as_one_does(runs, data, as_installed):
    calls = dict(asked(runs, data))
    assert {name for name, _, _ in calls} == {*SMALL}
    alone = {what: repr(call()) for what, call in calls.items()}
    chosen = random.Random(SEED).choices(sorted(calls), k=CALLS)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda what: repr(calls[what]()), chosen))
    assert [what for what, found in zip(chosen, together, strict=True) if found != alone[what]] == []
