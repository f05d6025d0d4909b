"""Which rows and tensors of two models belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn


def same_rows(own: Sequence[str], parent: Sequence[str]) -> list[tuple[int, int]]:
    """Places of the rows whose names both have, in one and in the other."""
    known = {name: i for i, name in enumerate(parent)}
    return [(i, known[name]) for i, name in enumerate(own) if name in known]


def fits(own: Tensor, given: Tensor, kinds: Mapping[int, str]) -> bool:
    """Whether two tensors have the same shape but for axes that run over rows with names."""
    sizes = enumerate(zip(own.shape, given.shape, strict=False))
    return own.dim() == given.dim() and all(axis in kinds or a == b for axis, (a, b) in sizes)


def places(tensor: Tensor, rows: Mapping[int, Sequence[int]]) -> tuple[Any, ...]:
    """Indices of the chosen rows of some axes, and of all of the others."""
    return np.ix_(*(rows.get(axis, range(size)) for axis, size in enumerate(tensor.shape)))


def prefix_of(model: nn.Module, body: nn.Module) -> str:
    """What the names of a body's tensors begin with."""
    return next(f"{name}." if name else "" for name, module in model.named_modules() if module is body)
