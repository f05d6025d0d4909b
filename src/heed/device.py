"""Moving batches to a device: every tensor of a dataclass, and of the tuples and dataclasses in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

B = TypeVar("B")


def to_device(batch: B, device: torch.device) -> B:
    """The batch on a device. The copy from pinned memory is asynchronous."""
    return _each(batch, lambda tensor: tensor.to(device, non_blocking=tensor.is_pinned()))


def pin(batch: B) -> B:
    """The batch in pinned memory, which a GPU can read directly."""
    return _each(batch, Tensor.pin_memory)


def _each(batch: B, change: Callable[[Tensor], Tensor]) -> B:
    given: Any = batch
    values = {field.name: getattr(given, field.name) for field in fields(given)}
    new = {name: _changed(value, change) for name, value in values.items()}
    changed = {name: value for name, value in new.items() if value is not values[name]}
    return replace(given, **changed) if changed else batch


def _changed(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A field's value with its tensors changed; the same object if none was."""
    if isinstance(value, Tensor):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _each(value, change)
    if isinstance(value, tuple) and any(isinstance(one, Tensor) for one in value):
        new = tuple(_changed(one, change) for one in value)
        return value if all(one is old for one, old in zip(new, value, strict=True)) else new
    return value
