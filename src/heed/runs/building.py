"""Building a model after checking that memory suffices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from heed.memory import check_memory, memory_explained

_CERTAIN = 2**27
"""Bytes of weights below which memory is not checked."""
_SMALLER = "choose a smaller model.size, fewer layers or widths, or a smaller tokenizer.vocab_size"


def build_to_train(task: Any) -> Any:
    """A task's new model, after checking that memory suffices for it, its gradients and the optimiser's moments.

    Raises:
        OutOfMemoryError: It does not; the message has the number of parameters.
    """
    count = _parameters(task)
    when = "while building the model" if count is None else f"while building a model of {count:,} parameters"
    if count is not None and 4 * count >= _CERTAIN:
        moments = 8 if task.config.training.optimizer != "sgd" else 0
        check_memory((8 + moments) * count, when, _SMALLER)
    with memory_explained(when, _SMALLER):
        return task.build_model()


def build_to_load(task: Any, weights: Path) -> Any:
    """The model of a run folder, after checking that memory holds its weights twice, as reading them requires.

    Raises:
        OutOfMemoryError: It does not.
    """
    size = weights.stat().st_size if weights.is_file() else 0
    when, lower = f"while loading {weights.parent}", "close other programs, or use a machine with more memory"
    if size >= _CERTAIN:
        check_memory(2 * size, when, lower)
    with memory_explained(when, lower):
        return task.build_model()


class _WithoutNumbers(TorchFunctionMode):
    """Skips initialisation: on the device "meta" torch would import its compiler for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def _parameters(task: Any) -> int | None:
    """Number of parameters of a task's model, counted on the device "meta"; None if it cannot be built there."""
    try:
        with torch.random.fork_rng([]), torch.device("meta"), _WithoutNumbers():
            sizes: list[int] = [p.numel() for p in task.build_model().parameters()]
            return sum(sizes)
    except (NotImplementedError, RuntimeError):
        return None
