"""Building a model, where memory may not do for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from heed.memory import check_memory, memory_explained

_CERTAIN = 2**27
"""Bytes of weights below which nobody asks whether there is memory for them."""
_SMALLER = "choose a smaller model.size, fewer layers or widths, or a smaller tokenizer.vocab_size"


def build_to_train(task: Any) -> Any:
    """A task's new model, for which there must be memory with gradients and the moments of its optimiser.

    Raises:
        OutOfMemoryError: There is not; the message says how many parameters there would be.
    """
    count = _parameters(task)
    when = "while building the model" if count is None else f"while building a model of {count:,} parameters"
    if count is not None and 4 * count >= _CERTAIN:
        moments = 8 if task.config.training.optimizer != "sgd" else 0
        check_memory((8 + moments) * count, when, _SMALLER)
    with memory_explained(when, _SMALLER):
        return task.build_model()


def build_to_load(task: Any, weights: Path) -> Any:
    """The model of a run folder, for whose weights there must be memory twice while they are read.

    Raises:
        OutOfMemoryError: There is not.
    """
    size = weights.stat().st_size if weights.is_file() else 0
    when, lower = f"while loading {weights.parent}", "end other programs, or use a machine with more memory"
    if size >= _CERTAIN:
        check_memory(2 * size, when, lower)
    with memory_explained(when, lower):
        return task.build_model()


class _WithoutNumbers(TorchFunctionMode):
    """Draws no initial numbers: on the device "meta" torch would import its compiler for them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def _parameters(task: Any) -> int | None:
    """Parameters of a task's model, counted without memory for them; None where it cannot be built so."""
    try:
        with torch.random.fork_rng([]), torch.device("meta"), _WithoutNumbers():
            sizes: list[int] = [p.numel() for p in task.build_model().parameters()]
            return sum(sizes)
    except (NotImplementedError, RuntimeError):
        return None
