"""Memory that has been used, to be used again: the first touch of fresh pages takes longer than filling them."""

from __future__ import annotations

import math
from collections import defaultdict

import torch
from torch import Tensor

_MOST = 2**28
"""Bytes that wait to be used again, at most."""
_STEPS = 8
"""Sizes between a power of two and the next: batches of about the same size find the same memory."""


class Pool:
    """Tensors in float32 on the CPU, kept by size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Tensor]] = defaultdict(list)
        self._bytes = 0

    def take(self, *shape: int) -> Tensor:
        """A contiguous tensor with any values in it."""
        count = math.prod(shape)
        size = _rounded(count)
        if free := self._free[size]:
            flat = free.pop()
            self._bytes -= flat.nbytes
        else:
            flat = torch.empty(size)
        return flat[:count].view(shape)

    def give(self, *tensors: Tensor) -> None:
        """Hand back what `take` returned; nothing may read it any more. Other memory is let go."""
        for tensor in tensors:
            size = tensor.untyped_storage().nbytes() // 4
            if size != _rounded(size):
                continue
            flat = tensor.detach().as_strided((size,), (1,), 0)
            if self._bytes + flat.nbytes > _MOST:
                self._free.clear()
                self._bytes = 0
            self._free[size].append(flat)
            self._bytes += flat.nbytes


def _rounded(count: int) -> int:
    """The count, or up to an eighth more."""
    step = max(64, (1 << max(0, count.bit_length() - 1)) // _STEPS)
    return -(-count // step) * step
