"""Memory for large tensors that are written and read repeatedly: a pool of reused buffers.

The first touch of fresh pages takes longer than filling them.
"""

from __future__ import annotations

import math
from collections import defaultdict

import torch
from torch import Tensor

_MOST = 2**28
"""Most bytes kept for reuse."""
_STEPS = 8
"""Sizes from a power of two to the next, so that batches of similar size use the same memory."""


class Pool:
    """Pool of float32 tensors on the CPU, by size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Tensor]] = defaultdict(list)
        self._bytes = 0

    def take(self, *shape: int) -> Tensor:
        """An uninitialised contiguous tensor."""
        count = math.prod(shape)
        size = _rounded(count)
        if free := self._free[size]:
            flat = free.pop()
            self._bytes -= flat.nbytes
        else:
            flat = torch.empty(size)
        return flat[:count].view(shape)

    def give(self, *tensors: Tensor) -> None:
        """Return tensors from `take`, which must not be read afterwards; memory of other sizes is ignored."""
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
    """The count, rounded up by at most an eighth."""
    step = max(64, (1 << max(0, count.bit_length() - 1)) // _STEPS)
    return -(-count // step) * step
