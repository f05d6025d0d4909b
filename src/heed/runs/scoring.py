"""What scoring a run in the end will take, tried on a part of it while the run still trains (`training/budget.py`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from heed.tasks.base.run import Run

_FEW = 8
"""Examples that are scored first."""


def scored_splits(run: Run[Any, Any]) -> list[str]:
    """The splits whose scores are in a run's report, without the one that chose the weights."""
    return [split for split in run.task.split_names if split not in ("train", "valid")]


def try_scoring(run: Run[Any, Any], may_take: float, expected: float) -> float | None:
    """Score some examples of each split that a report scores; without one, find the baselines of validation examples.

    Args:
        run: With the model as it stands.
        may_take: Seconds for it, about.
        expected: Seconds that all of it is thought to take.

    Returns:
        Seconds that scoring all of them takes; None where not even a few examples can be tried in that time.
    """
    splits, score = [run.examples(name) for name in scored_splits(run)], run.score
    if not splits:
        splits, score = [run.validated()], partial(run.beside, {})
    share = min(1.0, may_take / max(1e-6, expected))
    takes = 0.0
    for examples in splits:
        if len(examples) * share < 1:
            return None
        if len(examples) <= _FEW:
            takes += _scored(score, examples, len(examples))
            continue
        _scored(score, examples, 1)  # what is only made once (a baseline's table) is made by now
        spent = _scored(score, examples, _FEW)
        limit = may_take * len(examples) / sum(map(len, splits))
        # Intervals take about the same time for few examples as for many: what counts is the difference of two tries.
        count = min(len(examples), max(4 * _FEW, int(_FEW * limit / max(1e-6, spent))))
        whole = _scored(score, examples, count)
        takes += whole + max(0.0, whole - spent) / (count - _FEW) * (len(examples) - count)
    return takes


def _scored(score: Callable[[Sequence[Any]], Any], examples: Sequence[Any], count: int) -> float:
    """Seconds that scoring so many examples takes, taken evenly from all of them."""
    start = time.perf_counter()
    score([examples[n * len(examples) // count] for n in range(count)])
    return time.perf_counter() - start
