"""The switch between fast forms and torch's own operations, and private operations of torch.

Private operations may change between versions: each is tested once against a known result. Its function returns None if
it is missing, takes other arguments or computes something else; the caller then uses public operations.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_enabled = os.environ.get("HEED_PLAIN", "") in ("", "0")


def enabled() -> bool:
    """Whether fast forms may be used; HEED_PLAIN=1 in the environment, read at import, turns them off."""
    return _enabled


@contextmanager
def plain() -> Iterator[None]:
    """Context manager within which the whole process uses torch's public operations only."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


def trains_by_hand(x: Tensor, autocast: bool = False) -> bool:
    """Whether a hand-written gradient can be used: a float32 or float64 gradient is needed on a CPU.

    With `autocast`, also where products inside it are computed in another type.
    """
    return (
        torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and x.numel() > 0
        and (autocast or not torch.is_autocast_enabled("cpu"))
    )


Operation = Callable[..., Any]


@cache
def onednn_linear() -> Operation | None:
    """The linear layer of oneDNN where it is faster than that of MKL, which is torch's default.

    MKL runs AVX2 code on processors not made by Intel. On one with AVX-512 (Zen 5) it reaches 107 GFLOP/s per core, and
    oneDNN, which comes with torch, 233.
    """
    capable = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    if not (capable and torch.backends.mkl.is_available()) or _processor_is_intel():
        return None
    return find_onednn_linear()


def find_onednn_linear() -> Operation | None:
    """The linear layer of oneDNN on any processor that has it; limits the code caches of oneDNN and torch.

    By default the code generated for the last 1,024 shapes is kept, a megabyte each, so batches of varying shapes would
    fill gigabytes. A forward pass uses fewer than eight shapes in turn, and generating code takes a tenth of a
    millisecond. The environment variables are read at the first use in the process; existing values are kept.
    """
    if not torch.backends.mkldnn.is_available():
        return None
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, "8")
    x, weight, bias = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([5.0])
    return _checked("mkldnn._linear_pointwise", (x, weight, bias, "none", [], ""), [[[16.0]]])


def _processor_is_intel() -> bool:
    information = Path("/proc/cpuinfo")
    named = information.read_text(errors="replace") if information.is_file() else platform.processor()
    return "GenuineIntel" in named


def _operation(name: str) -> Operation | None:
    operation: Any = torch.ops
    try:
        for part in name.split("."):
            operation = getattr(operation, part)
    except (AttributeError, RuntimeError):
        return None
    return operation  # type: ignore[no-any-return]


@torch.no_grad()
def _gives(operation: Operation, inputs: Sequence[Any], expected: Sequence[Any]) -> bool:
    try:
        output = operation(*inputs)
        results = [output] if isinstance(output, Tensor) else list(output)
        return all(
            torch.allclose(result, torch.tensor(numbers), atol=1e-5)
            for result, numbers in zip(results, expected, strict=True)
        )
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return False


def _checked(name: str, inputs: Sequence[Any], expected: Sequence[Any]) -> Operation | None:
    operation = _operation(name)
    return operation if operation is not None and _gives(operation, inputs, expected) else None
