"""Losses and gradient norm of an update, read together: each separate read would wait for the GPU."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heed.training.processes import Processes


class Sums:
    """The losses of an update's batches, left on their device until all are read together."""

    def __init__(self) -> None:
        self._losses: list[Tensor] = []
        self._terms: dict[str, list[Tensor]] = {}

    def add(self, loss: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Add the loss of a batch, a single number, and its terms."""
        self._losses.append(loss.detach())
        for name, term in terms.items():
            self._terms.setdefault(name, []).append(term.detach())

    def read(self, norm: Tensor, processes: Processes) -> tuple[float, dict[str, float], float]:
        """The sum of the losses and of each term over all batches and processes, and the gradient's norm."""
        device = self._losses[0].device
        columns = [self._losses, *self._terms.values()]
        unread = [value.reshape(()).to(device) for column in columns for value in column]
        *values, norm_read = torch.stack([*unread, norm.reshape(()).to(device)]).tolist()
        numbers = iter(values)
        sums = [sum(next(numbers) for _ in column) for column in columns]
        total, *others = processes.total(*sums)
        return total, dict(zip(self._terms, others, strict=True)), norm_read
