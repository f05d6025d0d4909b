"""A model's forward pass compiled by torch, only in training mode and while no trace or edit is active."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from heed.attention import watch
from heed.errors import ConfigError

_COMPILERS = ("g++", "clang++", "c++")


def check_compiler(device: torch.device) -> None:
    """Check that the compiler that torch needs is installed.

    Raises:
        ConfigError: It is not; the message says what is missing.
    """
    if device.type == "cuda":
        if importlib.util.find_spec("triton") is None:
            raise ConfigError(
                "training.compile is true, but the package triton is not installed; set training.compile to false"
            )
    elif not any(shutil.which(name) for name in (os.environ.get("CXX", ""), *_COMPILERS) if name):
        raise ConfigError(
            f"training.compile is true, but no C++ compiler was found ({', '.join(_COMPILERS)}, or the variable CXX); "
            "install one, or set training.compile to false"
        )


@contextmanager
def compiled(model: nn.Module) -> Iterator[None]:
    """Context manager that compiles the model for training mode; its weights keep their names.

    Lengths differ from batch to batch: shapes are dynamic, so that a new length does not cause a recompilation.
    """
    plain = model.forward
    model.forward = partial(_choose, model, plain, torch.compile(plain, dynamic=True))
    try:
        yield
    finally:
        del model.forward  # the instance's, not the class's


def _choose(model: nn.Module, plain: Callable[..., Any], fast: Callable[..., Any], *given: Any, **named: Any) -> Any:
    forward = fast if model.training and watch.slot is None else plain
    return forward(*given, **named)
