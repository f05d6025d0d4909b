"""Estimated time of the final scoring, measured on some examples during training (`training/budget.py`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from heed.tasks.base.run import Run

_FEW = 8
"""Number of examples scored first."""


def scored_splits(run: Run[Any, Any]) -> list[str]:
    """The splits scored at the end of a run: all but the training and validation sets."""
    return [split for split in run.task.split_names if split not in ("train", "valid")]


def try_scoring(run: Run[Any, Any], may_take: float, expected: float) -> float | None:
    """Score some examples of each split to be scored; without such a split, compute the validation set's baselines.

    Args:
        run: The run with its present weights.
        may_take: Approximate seconds to spend.
        expected: Expected seconds for all examples.

    Returns:
        Estimated seconds for all examples; None if not even a few examples can be scored in that time.
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
        _scored(score, examples, 1)  # do the one-time work first (a baseline's table)
        spent = _scored(score, examples, _FEW)
        limit = may_take * len(examples) / sum(map(len, splits))
        # Intervals take about the same time for few examples as for many, so the difference of two tries is used.
        count = min(len(examples), max(4 * _FEW, int(_FEW * limit / max(1e-6, spent))))
        whole = _scored(score, examples, count)
        takes += whole + max(0.0, whole - spent) / (count - _FEW) * (len(examples) - count)
    return takes


def _scored(score: Callable[[Sequence[Any]], Any], examples: Sequence[Any], count: int) -> float:
    """Seconds for scoring `count` examples, chosen evenly from all of them."""
    start = time.perf_counter()
    score([examples[n * len(examples) // count] for n in range(count)])
    return time.perf_counter() - start
