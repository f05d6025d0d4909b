"""Batches on a device: every tensor of a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

B = TypeVar("B")


def to_device(batch: B, device: torch.device) -> B:
    """The batch on a device. The copy from pinned memory is asynchronous."""
    return _each(batch, lambda tensor: tensor.to(device, non_blocking=tensor.is_pinned()))


def pin(batch: B) -> B:
    """The batch in pinned memory, which a GPU reads by itself."""
    return _each(batch, Tensor.pin_memory)


def _each(batch: B, change: Callable[[Tensor], Tensor]) -> B:
    given: Any = batch
    tensors = {field.name: getattr(given, field.name) for field in fields(given)}
    new = {name: change(value) for name, value in tensors.items() if isinstance(value, Tensor)}
    same = all(value is tensors[name] for name, value in new.items())
    return batch if same else replace(given, **new)
