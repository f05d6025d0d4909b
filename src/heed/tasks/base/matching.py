"""Matching of the tensors of two models: by name, by shape, and by the rows (tokens, labels) that both have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from heed.errors import ConfigError

if TYPE_CHECKING:
    from heed.tasks.base.transfer import Transfers


def axes_of(task: Transfers) -> dict[str, dict[int, str]]:
    """By tensor of a task's model, the kind of row that each axis runs over: an axis that grows with one more row.

    If a tensor is shared by two kinds, the last one counts.
    """
    shapes = shapes_of(task)
    axes: dict[str, dict[int, str]] = {name: {} for name in shapes}
    for kind in task.axes():
        try:
            grown = shapes_of(task.grown(kind))
        except ConfigError:  # kinds that share a table grow together
            grown = shapes_of(task.grown(*task.size_fields))
        for name, shape in shapes.items():
            axes[name] |= {axis: kind for axis, size in enumerate(shape) if grown[name][axis] != size}
    return axes


def shapes_of(task: Any) -> dict[str, torch.Size]:
    """The shapes of the tensors of a task's model."""
    with torch.device("meta"):  # shapes only
        return {name: tensor.shape for name, tensor in task.build_model().state_dict().items()}


def same_rows(own: Sequence[str], parent: Sequence[str]) -> list[tuple[int, int]]:
    """Places (own, parent's) of the rows whose names both models have."""
    known = {name: i for i, name in enumerate(parent)}
    return [(i, known[name]) for i, name in enumerate(own) if name in known]


def fits(own: Tensor, given: Tensor, kinds: Mapping[int, str]) -> bool:
    """True if two tensors have the same shape, except on axes that run over named rows."""
    sizes = enumerate(zip(own.shape, given.shape, strict=False))
    return own.dim() == given.dim() and all(axis in kinds or a == b for axis, (a, b) in sizes)


def places(tensor: Tensor, rows: Mapping[int, Sequence[int]]) -> tuple[Any, ...]:
    """Indices of the chosen `rows` of some axes and of everything on the other axes."""
    return np.ix_(*(rows.get(axis, range(size)) for axis, size in enumerate(tensor.shape)))


def prefix_of(model: nn.Module, body: nn.Module) -> str:
    """The prefix of the names of a body's tensors."""
    return next(f"{name}." if name else "" for name, module in model.named_modules() if module is body)


def unshared(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model, writable; tied ones once, under their first name."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        tensors.setdefault(tensor.data_ptr(), (name, tensor))
    return dict(tensors.values())


def unused(parent: nn.Module, taken: Iterable[str]) -> tuple[str, ...]:
    """Names of a parent's tensors that were not taken, tied ones once; `taken` names those that were."""
    state = parent.state_dict()
    used = {state[name].data_ptr() for name in taken}
    return tuple(name for name, tensor in unshared(parent).items() if tensor.data_ptr() not in used)
