"""Device, precision and compilation of training, and advice when memory runs out."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from heed.attention import watch
from heed.config import TrainingConfig
from heed.errors import ConfigError
from heed.memory import memory_explained
from heed.training.processes import Processes

LOWER_VALIDATION = (
    "lower training.batch_tokens (validation batches follow it too), leave out the longest validation examples, or "
    "choose a smaller model"
)
"""Advice for running out of memory in a validation."""


def choose_device(name: str) -> torch.device:
    """The device meant by "auto", "cpu", "cuda", "cuda:1" or "mps".

    Raises:
        ConfigError: This machine has no such device; the message lists its devices.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"training.device is '{name}'; valid: auto, cpu, cuda, cuda:N, mps") from None
    here = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    count = here.get(device.type, 0)
    if (device.index or 0) >= count:
        have = ", ".join(f"{kind} ({n})" for kind, n in here.items() if n)
        raise ConfigError(f"training.device is '{name}', but this machine has only {have}")
    return device


def device_of(config: TrainingConfig, processes: Processes) -> torch.device:
    """The device of this process.

    Raises:
        ConfigError: This machine has no such device.
    """
    if config.deterministic:
        # cuBLAS repeats its sums only with a workspace of fixed size; read when CUDA starts.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    return choose_device(config.device) if processes.count == 1 else processes.device


def choose_precision(name: str, device: torch.device) -> str:
    """Name the precision, bf16 or float32; auto is bf16 on a GPU that supports it."""
    if name != "auto":
        return name
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which the forward pass runs."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def step_explained(when: str, micro_batches: int) -> AbstractContextManager[None]:
    """Context manager that adds advice to the error if memory runs out in a training step.

    Raises:
        OutOfMemoryError: Memory ran out.
    """
    return memory_explained(when, lower_step(micro_batches))


def lower_step(micro_batches: int) -> str:
    """Advice on how to reduce the memory of a training step."""
    return (
        f"raise training.micro_batches (now {micro_batches}; the gradient stays the same), lower "
        "training.batch_tokens, or choose a smaller model"
    )


def peak_memory(device: torch.device | None = None) -> int:
    """Peak memory of this process in bytes; on a GPU, of its tensors."""
    if device is not None and device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


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
